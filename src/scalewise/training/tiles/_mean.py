r"""Every part of the mean of trained outputs at order 1/n.

Source: PDLT (∞.160)-(∞.165) with three misprints put right.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from scalewise.training.tiles._contractions import FIRST, SECOND, Part, Share
from scalewise.training.tiles._setting import Setting
from scalewise.training.tiles._sums import Sums

PARTS = ("ntk_nlo", "ntk_fluctuation", *FIRST, *SECOND)


class Mean:
    """Asked of the tensors.

    Args:
        setting: What is trained.
        sums: What is asked is added to them.
    """

    def __init__(self, setting: Setting, sums: Sums) -> None:
        self._setting, self._sums = setting, sums
        self._parts = {"ntk_fluctuation": _through(setting, sums)}
        for name, (weights, legs) in FIRST.items():
            self._parts[name] = Part(setting, sums).first(weights, legs)
        for name, (weights, legs) in SECOND.items():
            self._parts[name] = Part(setting, sums).second(weights, legs)

    def parts(self) -> dict[str, Share]:
        """By name, 0 on training samples; after the sums."""
        H1 = self._sums.one_pair("H1")[:, self._setting.train]
        found = {name: part.share() for name, part in self._parts.items()}
        found["ntk_nlo"] = Share(self._setting.left(H1 @ self._setting.gain))
        return {name: found[name] for name in PARTS}


def mean_of(setting: Setting, share: Share) -> Float[np.ndarray, "output sample"]:
    """The part of the mean."""
    return setting.y @ share.along.T


def slope_of(setting: Setting, share: Share) -> Float[np.ndarray, "output output_1 sample train"]:
    """Its derivative by the targets, the output first."""
    out = np.zeros((setting.outputs, setting.outputs, *share.along.shape))
    for i in range(setting.outputs):
        out[i, i] = share.along
    return out if share.across is None else out + np.moveaxis(share.across, 0, 2)


def _through(setting: Setting, sums: Sums) -> Part:
    r"""$-\mathbb E[\widehat{\Delta H}_{\delta1}\,g\,\widehat{\Delta H}_{23}]\,g$."""
    return Part(setting, sums).through(
        (
            # A_(d 1 2 3), B_(d 2 1 3) and, summed over the neurons of the inner legs, B_(d 3 1 2).
            ("A", (0, 1, 2, 3), (1, 2), -1.0),
            ("B", (0, 1, 2, 3), (1, 2), -1.0),
            ("B", (0, 1, 2, 3), (2, 3), -float(setting.outputs)),
        )
    )
