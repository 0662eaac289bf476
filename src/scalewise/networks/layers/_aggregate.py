"""Layers of graphs: each position gathers from others by a fixed matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from scalewise._arrays import not_finite, real_array
from scalewise._checked import Count, Must, checked
from scalewise._readable import readable
from scalewise.networks._builder import Builder, Layer
from scalewise.networks._field import Field
from scalewise.networks._masks import there
from scalewise.networks._sites import IDENTITY, Matrix

_MOST = 4096  # positions: pairs of them are paired again


def matrix_of(given: Any) -> Matrix:
    """A square matrix of finite numbers as a value."""
    if isinstance(given, Matrix):
        return given
    if isinstance(given, str) and given.startswith("{"):
        return Matrix.read(given)
    shape = getattr(given, "shape", None)
    size = max(0, *((len(given),) if shape is None else shape))
    if size > _MOST:
        raise ValueError(
            f"`adjacency` has {size:,} positions, and every one of them is paired with every other; at most "
            f"{_MOST:,} can be. Use a smaller graph, or parts of this one."
        )
    array = real_array("`adjacency`", given).astype(float)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not array.size:
        raise ValueError(
            "`adjacency` must be a square matrix, one row and one column for each position; "
            f"got shape {array.shape}."
        )
    if not np.isfinite(array).all():
        raise ValueError(not_finite("`adjacency`", array))
    return Matrix.of(array)


@checked
@dataclass(frozen=True)
@readable
class Aggregate(Layer):
    r"""A matrix along one axis of positions, $y_i(p)=\sum_qA_{pq}x_i(q)$, the same for all samples or not.

    With positions as nodes, ``input_shape=(nodes, features)``, it makes graph convolutions: `Aggregate`, `Dense`,
    an activation, and so on. The matrix is used as it is; normalise it before.

    A graph for each sample is part of the inputs: without `adjacency` the last features of every node, as many as
    there are nodes, are its row of $A$, ``np.concatenate([features, A], axis=-1)``. `Features` takes the others.

    Args:
        adjacency: $A$, as an array or a sparse matrix of any library; at most 4096 positions. ``None`` for that of
            each sample. Results have it as text in ``attrs["matrices"]``, up to 10,000 entries that are not 0,
            which is read here; of more they have its fingerprint alone.
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
    """

    adjacency: (
        Annotated[
            Any, Must("a square matrix of finite numbers, as an array or sparse", to=matrix_of)
        ]
        | None
    ) = None
    axis: int = 0

    def into(self, build: Builder, of: Field) -> Field:
        """Add one node."""
        if self.adjacency is None:
            return self._of_inputs(build, of)
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

    def _of_inputs(self, build: Builder, of: Field) -> Field:
        """Field whose positions are gathered by the rows that inputs have as their last features."""
        inputs = build.inputs
        nodes = math.prod(inputs.positions)
        if (
            len(inputs.positions) != 1
            or inputs.channels < nodes
            or of.positions != inputs.positions
        ):
            raise ValueError(
                f"{build.name} reads the graph of each sample from its inputs: the last features of every node, "
                f"as many as there are nodes. Give the network an `input_shape` such as ({nodes}, {nodes} + "
                "features), or Aggregate a matrix."
            )
        rows = _some(build, inputs, inputs.channels - nodes, inputs.channels)
        return build.mix(of, rows)


def _some(build: Builder, of: Field, start: int, stop: int) -> Field:
    """The features of inputs from one to before another."""
    said = f"features {start} to {stop - 1}"
    return build.read(of, columns, stop - start, given=(start, stop), said=said)


def columns(x: Any, xp: Any, start: int, stop: int) -> Any:
    """Some features of inputs."""
    return x[..., start:stop]


@checked
@dataclass(frozen=True)
@readable
class Mask(Layer):
    """Samples of different length: the last feature of every position is 1 where a sample has it, else 0.

    Stands first, and takes that feature away. A sample is then known as if it stood alone: windows see zeros beyond
    its end, or its other end if they are circular; pools, norms over positions and attention only the positions
    that it has; `Resize` gives all samples one length. Positions that are not there may hold anything.

    Example:
        >>> import numpy as np, scalewise as sw
        >>> net = sw.Network(
        ...     sw.Mask(), sw.Conv(3), "relu", sw.GlobalAvgPool(), sw.Dense(1), input_shape=(6, 3 + 1), width=8
        ... )
        >>> x = np.ones((2, 6, 4))
        >>> x[1, 4:, -1] = 0
        >>> sw.predict(net, x).kernel.shape
        (1, 2, 2)
    """

    def into(self, build: Builder, of: Field) -> Field:
        """The other features, with the last one as the mask."""
        if of.node != 0 or not of.positions or of.channels < 2:
            raise ValueError(
                f"{build.name} reads the last feature of every position. Put it first, and give the network an "
                "`input_shape` of positions and then features, one of them the mask, such as (20, 3 + 1)."
            )
        mask = build.read(of, there, 1, said="mask")
        own = _some(build, of, 0, of.channels - 1)
        build.inputs = replace(own, mask=mask.node)
        return build.inputs


@checked
@dataclass(frozen=True)
@readable
class Features(Layer):
    """The first features of the inputs alone: what is left are graphs or masks, which other layers read.

    Args:
        count: How many.

    Example:
        >>> import scalewise as sw
        >>> convolution = (sw.Aggregate(), sw.Dense(), "relu")
        >>> net = sw.Network(
        ...     sw.Features(3), *convolution, *convolution, sw.GlobalAvgPool(), sw.Dense(1),
        ...     input_shape=(5, 3 + 5), width=8,
        ... )
        >>> net.depth
        3
    """

    count: Count

    def into(self, build: Builder, of: Field) -> Field:
        """Add one node."""
        if self.count > of.channels:
            raise ValueError(
                f"{build.name} takes {self.count} features, and there are {of.channels}. Give it fewer."
            )
        return _some(build, of, 0, self.count)
