"""Layers that choose or make positions: resizing, taking some, and embeddings of tokens and places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np

from scalewise._checked import Count, Must, NotNegative, Positive, checked
from scalewise._readable import readable
from scalewise.networks._builder import Builder, Layer
from scalewise.networks._field import Field
from scalewise.networks._masks import resized, stretched
from scalewise.networks._sites import IDENTITY, Matrix
from scalewise.networks.layers._dense import Sizes, own_of, per_axis


@checked
@dataclass(frozen=True)
@readable
class Resize(Layer):
    """Images of another size: the nearest position, or what lies linearly between two, along every axis.

    Samples of different length all have this size afterwards.

    Args:
        shape: Positions afterwards, one number or one for each axis.
        method: ``"nearest"``, or ``"linear"``, which averages over as much as it shrinks.

    Example:
        >>> import scalewise as sw
        >>> sw.Resize(4)
        Resize(shape=4)
    """

    shape: Sizes
    method: Literal["nearest", "linear"] = "nearest"

    def into(self, build: Builder, of: Field) -> Field:
        """Add one node."""
        shape = per_axis(build, of, self.shape)
        if of.mask is not None:
            rows = build.read(
                build.fields[of.mask],
                stretched,
                math.prod(of.positions),
                shape,
                given=(shape, of.positions, self.method),
                said="resized",
            )
            return replace(build.mix(of, rows), mask=None)
        along = [
            IDENTITY
            if size == wanted
            else Matrix.of(resized(np.arange(size), size, wanted, self.method))
            for size, wanted in zip(of.positions, shape, strict=True)
        ]
        return build.spread(of, tuple(along), 1.0)


@checked
@dataclass(frozen=True)
@readable
class Take(Layer):
    """Some positions along one axis, in any order: one token, a corner of an image.

    Args:
        index: Which, counted from 0, from the end if negative; one number or several.
        axis: Of which axis of positions, counted from 0; from the last one if negative.

    Example:
        >>> import scalewise as sw
        >>> net = sw.Network(
        ...     sw.Dense(), sw.Attention(size=4), sw.Take(0), sw.Flatten(), sw.Dense(1),
        ...     input_shape=(6, 3), width=8,
        ... )
        >>> net.program.positions[-1]
        (1,)
    """

    index: Annotated[int | Sequence[int], Must("a whole number or several, such as 0 or (0, -1)")]
    axis: int = 0

    def into(self, build: Builder, of: Field) -> Field:
        """Add one node."""
        axes = len(of.positions)
        if not -axes <= self.axis < axes:
            raise ValueError(
                f"{build.name} takes positions along axis {self.axis}, and there are {axes} axes of positions. "
                "Give the network an `input_shape` of positions and then channels, such as (34, 16)."
            )
        place = self.axis % axes
        size = of.positions[place]
        wanted = [self.index] if isinstance(self.index, int) else list(self.index)
        if not wanted or any(not -size <= k < size for k in wanted):
            raise ValueError(
                f"{build.name} takes positions {wanted} along an axis of {size}. Choose among 0 to {size - 1}."
            )
        own = Matrix.of(np.eye(size)[wanted])
        return build.spread(of, tuple(own if k == place else IDENTITY for k in range(axes)), 1.0)


def one_hot(x: Any, xp: Any, count: int) -> Any:
    """Tokens as features: the square root of their number at the place of each."""
    if xp is np and (np.any(x != np.round(x)) or np.any((x < 0) | (x >= count))):
        raise ValueError(
            f"`x` must be tokens, whole numbers from 0 to {count - 1}; they reach from {x.min():g} to "
            f"{x.max():g}. Embedding says how many there are."
        )
    return (x == np.arange(count)) * float(count) ** 0.5


@checked
@dataclass(frozen=True)
@readable
class Embedding(Layer):
    r"""Tokens, whole numbers as inputs of one channel, become vectors of their own: $z_i(p)=W_{i,x(p)}$.

    Args:
        tokens: How many there are.
        channels: How many outputs; the network's `width` for ``None``.
        C_W: Variance of the entries, normal in any case; that of the network for ``None``, like the other.
        lambda_W: Learning-rate factor.

    Source: PDLT (2.5) with one-hot inputs of as many units as tokens.

    Example:
        >>> import numpy as np, scalewise as sw
        >>> net = sw.Network(
        ...     sw.Embedding(5), "tanh", sw.GlobalAvgPool(), sw.Dense(1), input_shape=(3, 1), width=8
        ... )
        >>> sw.predict(net, np.array([[[0.0], [4.0], [4.0]]])).kernel.shape
        (1, 1, 1)
    """

    tokens: Count
    channels: Count | None = None
    C_W: Positive | None = None
    lambda_W: NotNegative | None = None

    C_b = 0.0
    lambda_b = 0.0
    law = "normal"

    def into(self, build: Builder, of: Field) -> Field:
        """A random layer of the tokens, which become features first."""
        if of.channels != 1:
            raise ValueError(
                f"{build.name} reads tokens, one channel at each position, and there are {of.channels}. Give the "
                "network an `input_shape` such as (16, 1)."
            )
        seen = build.read(of, one_hot, self.tokens, given=(self.tokens,), said="tokens")
        return build.draw(seen, self.channels, own=own_of(self, build.usual))


def placed(x: Any, xp: Any, root: Matrix) -> Any:
    """Features of positions whose products are a covariance, the same for all inputs."""
    own = root.array.reshape(1, *x.shape[1:-1], -1)
    return xp.asarray(np.broadcast_to(own, (len(x), *own.shape[1:])), dtype=x.dtype)


@checked
@dataclass(frozen=True)
@readable
class Positions(Layer):
    r"""Learned embeddings of positions, added to a field: $x_i(p)+E_i(p)$, $E_i\sim N(0,C_W R)$.

    Args:
        C_W: Their variance, normal in any case; that of the network for ``None``, like the other.
        lambda_W: Their learning-rate factor.
        length: Over how many positions they decay, $R_{pp'}=e^{-(p-p')^2/2\ell^2}$ along every axis; independent
            for ``None``.

    Source: Hron et al., arXiv:2006.10540, section 4, in PDLT's parametrisation.

    Example:
        >>> import scalewise as sw
        >>> net = sw.Network(
        ...     sw.Embedding(5), sw.Positions(), sw.Attention(size=4), sw.GlobalAvgPool(), sw.Dense(1),
        ...     input_shape=(3, 1), width=8,
        ... )
        >>> net.depth
        7
    """

    C_W: Positive | None = None
    lambda_W: NotNegative | None = None
    length: Positive | None = None

    C_b = 0.0
    lambda_b = 0.0
    law = "normal"

    def into(self, build: Builder, of: Field) -> Field:
        """Features of positions, a random layer, and a sum."""
        per_axis(build, of, 1)
        root = np.ones((1, 1))
        for size in of.positions:
            own = np.eye(size) if self.length is None else _root(size, float(self.length))
            root = np.kron(root, own)
        inputs = build.inputs
        if of.positions != inputs.positions:
            raise ValueError(
                f"{build.name} embeds the positions of the inputs, and here there are others. Put it before "
                "pooling and strides."
            )
        given = (Matrix.of(root * len(root) ** 0.5),)
        seen = build.read(inputs, placed, len(root), given=given, said="places")
        return build.add(
            (of, build.draw(seen, of.channels, own=own_of(self, build.usual))), (1.0, 1.0)
        )


def _root(size: int, length: float) -> np.ndarray:
    apart = np.subtract.outer(np.arange(size), np.arange(size)) / length
    values, vectors = np.linalg.eigh(np.exp(-(apart**2) / 2))
    return vectors * np.sqrt(np.maximum(values, 0.0))
