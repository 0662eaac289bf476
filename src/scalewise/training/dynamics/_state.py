r"""The state of one network in training: outputs, NTK, dNTK and both ddNTKs on a set of points.

A point is an output of the network at a sample, $(i,\delta)$: neural and sample indices always move together, so
the two are one index here and formulas have half as many. Points of the training samples come first, output by
output within each sample, as ``targets.reshape(-1)`` has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from scalewise._checked import checked
from scalewise._readable import readable

Rank3 = Float[np.ndarray, "point point point"]
Rank4 = Float[np.ndarray, "point point point point"]
Targets = Annotated[Any, Float[np.ndarray, " train"]]


@checked
@dataclass(frozen=True, eq=False)
@readable
class NetworkState:
    r"""One network on points $I=(i,\delta)$, the training points first.

    Args:
        outputs: $z_I$.
        ntk: $\widehat H_{IJ}$.
        dntk: $\widehat{dH}_{IJK}$, symmetric in its last two points.
        dd_first: $\widehat{dd_IH}_{IJKL}$, symmetric in its last three points.
        dd_second: $\widehat{dd_{II}H}_{IJKL}$, unchanged under $(I,K)\leftrightarrow(J,L)$.

    Raises:
        ValueError: If the shapes disagree.

    Source: PDLT (∞.54)-(∞.56), (ε.10).
    """

    outputs: Annotated[Any, Float[np.ndarray, " point"]]
    ntk: Annotated[Any, Float[np.ndarray, "point point"]]
    dntk: Annotated[Any, Rank3]
    dd_first: Annotated[Any, Rank4]
    dd_second: Annotated[Any, Rank4]

    def __post_init__(self) -> None:
        count = len(self.outputs)
        parts = (self.ntk, self.dntk, self.dd_first, self.dd_second)
        for rank, part in zip((2, 3, 4, 4), parts, strict=True):
            if part.shape != (count,) * rank:
                raise ValueError(
                    f"Every axis of a NetworkState must have the {count} points of its outputs; got shape "
                    f"{part.shape}."
                )


def error_of(state: NetworkState, targets: np.ndarray) -> Float[np.ndarray, " train"]:
    r"""$e=z-y$ on the training points.

    Raises:
        ValueError: If there are more targets than points, or none.
    """
    count = len(targets)
    if not 0 < count <= len(state.outputs):
        raise ValueError(
            f"`targets` must hold one number for each training point, 1 to {len(state.outputs)} here; got {count}."
        )
    return state.outputs[:count] - targets
