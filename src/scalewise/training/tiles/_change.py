r"""How training changes the mean NTK at order 1/n, on training and test samples.

Source: PDLT (∞.117) at the end of training, averaged by Wick's theorem.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from scalewise.training.tiles._covariance import (
    contracted,
    crossed,
    own,
    same_for_all,
    tiles_of_pairs,
    turned,
)
from scalewise.training.tiles._mean import Sources
from scalewise.training.tiles._recursions import Tensors
from scalewise.training.tiles._setting import Setting
from scalewise.training.tiles._sites import Site

__all__ = ["ntk_change"]

Full = Float[np.ndarray, "output output_1 sample sample_1"]


def ntk_change(setting: Setting, stack: Sequence[Site], sources: Sources = None) -> Full:
    r"""The coefficient of $\mathbb E[\widehat H(T)-\widehat H(0)]$.

    Args:
        setting: What is trained.
        stack: Its hidden layers.
        sources: The layers whose width is finite; all if ``None``.
    """
    halves = [_half(setting, tensors) for tensors in tiles_of_pairs(setting, stack, sources)]
    half = np.concatenate(halves, axis=2)
    return half + half.transpose(1, 0, 3, 2)


def _half(setting: Setting, tensors: Tensors) -> Full:
    """Before the two ends of the NTK are exchanged, the first sample in the tile."""
    n, g = setting.outputs, setting.gain
    A, B = setting.weighted(setting.weights.A), setting.weighted(setting.weights.B)
    same = -(
        contracted(tensors, "P", (0, 1, 2, 3), g)
        + n * contracted(tensors, "Q", (0, 1, 2, 3), g)
        + contracted(tensors, "Q", (0, 2, 1, 3), g)
    )
    inner = own(B)
    same += contracted(tensors, "R", (0, 1, 2, 3), inner)
    same += contracted(tensors, "S", (0, 1, 2, 3), inner)
    same += contracted(tensors, "T", (0, 1, 3, 2), own(A))
    found = crossed(tensors, "R", (0, 2, 3, 1), B) + crossed(tensors, "R", (0, 3, 1, 2), turned(B))
    found += crossed(tensors, "T", (0, 2, 3, 1), B) + crossed(tensors, "U", (0, 3, 1, 2), turned(B))
    found += crossed(tensors, "S", (0, 2, 1, 3), A) + crossed(tensors, "U", (0, 3, 2, 1), turned(A))
    return found + same_for_all(n, same)
