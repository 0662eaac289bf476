"""Layers of graphs: each position gathers from others by a fixed matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from scalewise._arrays import not_finite, real_array
from scalewise._checked import Must, checked
from scalewise._readable import readable
from scalewise.networks._builder import Builder, Field, Layer
from scalewise.networks._sites import IDENTITY, Matrix

_MOST = 4096  # positions: pairs of them are paired again


def matrix_of(given: Any) -> Matrix:
    """A square matrix of finite numbers as a value."""
    if isinstance(given, Matrix):
        return given
    size = max(0, *(given.shape if hasattr(given, "shape") else (len(given),)))
    if size > _MOST:
        raise ValueError(
            f"`adjacency` has {size:,} positions, and every one of them is paired with every other; at most "
            f"{_MOST:,} can be. Use a smaller graph, or parts of this one."
        )
    array = real_array("`adjacency`", given).astype(float) + 0.0  # one zero, so that equal is equal
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not array.size:
        raise ValueError(
            "`adjacency` must be a square matrix, one row and one column for each position; "
            f"got shape {array.shape}."
        )
    if not np.isfinite(array).all():
        raise ValueError(not_finite("`adjacency`", array))
    return Matrix(len(array), array.tobytes())


@checked
@dataclass(frozen=True)
@readable
class Aggregate(Layer):
    r"""A fixed matrix along one axis of positions, the same for all samples: $y_i(p)=\sum_qA_{pq}x_i(q)$.

    With positions as nodes, ``input_shape=(nodes, features)``, it makes graph convolutions: `Aggregate`, `Dense`,
    an activation, and so on. The matrix is used as it is; normalise it before.

    Args:
        adjacency: $A$, as an array or a sparse matrix of any library; at most 4096 positions.
        axis: Which axis of positions, counted from 0; from the last one if negative.

    Source: Kipf and Welling, arXiv:1609.02907; its kernels, Du et al., arXiv:1905.13192.

    Example:
        >>> import numpy as np, scalewise as sw
        >>> ring = (np.roll(np.eye(5), 1, axis=1) + np.eye(5)) / 2
        >>> net = sw.Network(
        ...     sw.Aggregate(ring), sw.Dense(), "relu", sw.GlobalAvgPool(), sw.Dense(1),
        ...     input_shape=(5, 2), width=8,
        ... )
        >>> net.depth
        2
    """  # fmt: skip

    adjacency: Annotated[
        Any, Must("a square matrix of finite numbers, as an array or sparse", to=matrix_of)
    ]
    axis: int = 0

    def into(self, build: Builder, of: Field) -> Field:
        """One node."""
        axes, own = len(of.positions), self.adjacency
        if not -axes <= self.axis < axes:
            raise ValueError(
                f"{build.name} is for positions along axis {self.axis}, and there are {axes} axes of positions. "
                "Give the network an `input_shape` of positions and then channels, such as (34, 16)."
            )
        place = self.axis % axes
        if of.positions[place] != own.size and not of.flat:
            raise ValueError(
                f"{build.name} has a matrix of {own.size} positions, and there are {of.positions[place]} along its "
                "axis. Give it as many rows and columns as there are positions."
            )
        along = tuple(own if k == place else IDENTITY for k in range(axes))
        return build.spread(of, along, 1.0)
