r"""How training changes the mean NTK at order 1/n, on training and test samples.

Source: PDLT (∞.117) at the end of training, averaged by Wick's theorem.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from scalewise.training.tiles._covariance import Pairs, own, transposed, turned
from scalewise.training.tiles._setting import Setting
from scalewise.training.tiles._sums import Sums

Full = Float[np.ndarray, "output output_1 sample sample_1"]


class Change:
    r"""The coefficient of $\mathbb E[\widehat H(T)-\widehat H(0)]$, asked of the tensors.

    Args:
        setting: What is trained.
        sums: What is asked is added to them.
    """

    def __init__(self, setting: Setting, sums: Sums) -> None:
        n, g = setting.outputs, setting.gain
        A, B = setting.weighted(setting.pairs("A")), setting.weighted(setting.pairs("B"))
        self._half = half = Pairs(setting, sums)
        half.same("P", (0, 1, 2, 3), g, -1.0)
        half.same("Q", (0, 1, 2, 3), g, -float(n))
        half.same("Q", (0, 2, 1, 3), g, -1.0)
        half.same("R", (0, 1, 2, 3), own(B))
        half.same("S", (0, 1, 2, 3), own(B))
        half.same("T", (0, 1, 3, 2), own(A))
        half.crossed("R", (0, 2, 3, 1), B)
        half.crossed("R", (0, 2, 1, 3), transposed(turned(B)))
        half.crossed("T", (0, 2, 3, 1), B)
        half.crossed("U", (0, 2, 1, 3), transposed(turned(B)))
        half.crossed("S", (0, 2, 1, 3), A)
        half.crossed("U", (0, 2, 3, 1), transposed(turned(A)))

    def found(self) -> Full:
        """After the sums, the two ends of the NTK exchanged and added."""
        half = self._half.found()
        return half + half.transpose(1, 0, 3, 2)
