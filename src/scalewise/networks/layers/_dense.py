"""Random layers: independent weights, at each position alone or for the positions of a window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from scalewise._checked import Count, Must, NotNegative, Positive, checked
from scalewise._readable import readable
from scalewise.networks._builder import Builder, Layer
from scalewise.networks._field import Field
from scalewise.networks._laws import LawLike, law_of
from scalewise.networks._nodes import HYPERPARAMETERS, Hyperparameters
from scalewise.networks._sites import Padding, Transposed, Window

Sizes = Annotated[
    Count | Sequence[Count],
    Must("a whole number of at least 1, or one for each axis of positions"),
]


class Random(Layer):
    """A layer with weights and biases of its own."""

    def at(self, C_b: float, C_W: float, share: float = 1.0) -> Layer:
        """This layer with a share of these variances, which are those of the network."""
        own = {"C_b": share * C_b, "C_W": share * C_W}
        own = {
            k: None if v == all_of else v
            for (k, v), all_of in zip(own.items(), (C_b, C_W), strict=True)
        }
        return replace(self, **own)  # pyright: ignore[reportArgumentType, reportCallIssue]


@checked
@dataclass(frozen=True)
@readable
class Dense(Random):
    r"""A fully connected layer, at each position alone; behind `Flatten` of all positions at once.

    $$z_i(s)=b_i+\sum_jW_{ij}x_j(s),\qquad b_i\sim N(0,C_b),\qquad W_{ij}\sim N(0,C_W/n).$$

    Args:
        channels: How many outputs; the network's `width` for ``None``.
        C_b: Bias variance; that of the network for ``None``, like the others.
        C_W: Rescaled weight variance.
        lambda_b: Learning-rate factor of the biases.
        lambda_W: Learning-rate factor of the weights.
        law: Of the weights, by name or a `WeightLaw`.

    Source: PDLT (2.5), (2.19)-(2.20), (8.6).

    Example:
        >>> import scalewise as sw
        >>> sw.Network(sw.Dense(), "relu", sw.Dense(1), input_shape=3, width=8).output_dim
        1
    """

    channels: Count | None = None
    C_b: NotNegative | None = None
    C_W: Positive | None = None
    lambda_b: NotNegative | None = None
    lambda_W: NotNegative | None = None
    law: LawLike | None = None

    def into(self, build: Builder, of: Field) -> Field:
        """Add one node."""
        return build.draw(of, self.channels, own=own_of(self, build.usual))


@checked
@dataclass(frozen=True)
@readable
class Conv(Random):
    r"""A convolution over any number of axes of positions, with $k$ taps in all.

    $$z_i(p)=b_i+\sum_{\tau}\sum_jW^\tau_{ij}x_j(p\cdot\text{stride}+\tau),\qquad W^\tau_{ij}\sim N(0,C_W/kn).$$

    Args:
        taps: Positions that a window sees along every axis, one number or one for each axis.
        channels: How many outputs; the network's `width` for ``None``.
        stride: By how much the window moves.
        dilation: How far apart the taps are.
        padding: Beyond the ends: ``"zero"``, ``"circular"``, or ``"valid"`` for nothing. The first two centre
            the window on every `stride`-th position, as PyTorch does with ``padding=taps // 2``.
        groups: Into how many the channels of both sides fall, those of one read by those of the same. At infinite
            width every group is infinite, and nothing depends on it.
        C_b: Bias variance; that of the network for ``None``, like the others.
        C_W: Rescaled weight variance; the weights of one tap have $C_W/kn$, at the edges too.
        lambda_b: Learning-rate factor of the biases, which all positions share.
        lambda_W: Learning-rate factor of the weights.
        law: Of the weights, by name or a `WeightLaw`.

    Source: Novak et al., ICLR 2019, arXiv:1810.05148, in PDLT's parametrisation.

    Example:
        >>> import scalewise as sw
        >>> net = sw.Network(sw.Conv(3), "relu", sw.GlobalAvgPool(), sw.Dense(1), input_shape=(8, 8, 3), width=8)
        >>> net.depth
        2
    """

    taps: Sizes
    channels: Count | None = None
    stride: Sizes = 1
    dilation: Sizes = 1
    padding: Padding = "zero"
    groups: Count = 1
    C_b: NotNegative | None = None
    C_W: Positive | None = None
    lambda_b: NotNegative | None = None
    lambda_W: NotNegative | None = None
    law: LawLike | None = None

    def into(self, build: Builder, of: Field) -> Field:
        """Add one node."""
        windows, own = _windows(self, build, of), own_of(self, build.usual)
        return build.draw(of, self.channels, windows, own, groups=self.groups)


@checked
@dataclass(frozen=True)
@readable
class Local(Random):
    r"""A convolution whose weights and biases are not shared: every place has its own.

    Args:
        taps: Positions that a window sees along every axis, one number or one for each axis.
        channels: How many outputs; the network's `width` for ``None``.
        stride: By how much the window moves.
        dilation: How far apart the taps are.
        padding: As of `Conv`.
        C_b: Bias variance; that of the network for ``None``, like the others.
        C_W: Rescaled weight variance; the weights of one tap have $C_W/kn$.
        lambda_b: Learning-rate factor of the biases.
        lambda_W: Learning-rate factor of the weights.
        law: Of the weights, by name or a `WeightLaw`.

    Source: Novak et al., ICLR 2019, arXiv:1810.05148, in PDLT's parametrisation.

    Example:
        >>> import scalewise as sw
        >>> net = sw.Network(sw.Local(3), "relu", sw.Flatten(), sw.Dense(1), input_shape=(4, 1), width=8)
        >>> net.parameters
        161
    """

    taps: Sizes
    channels: Count | None = None
    stride: Sizes = 1
    dilation: Sizes = 1
    padding: Padding = "zero"
    C_b: NotNegative | None = None
    C_W: Positive | None = None
    lambda_b: NotNegative | None = None
    lambda_W: NotNegative | None = None
    law: LawLike | None = None

    def into(self, build: Builder, of: Field) -> Field:
        """Add one node."""
        windows, own = _windows(self, build, of), own_of(self, build.usual)
        return build.draw(of, self.channels, windows, own, shared=False)


@checked
@dataclass(frozen=True)
@readable
class ConvTranspose(Random):
    r"""A transposed convolution: to `stride` times as many positions, from which a `Conv` would come back.

    $$z_i(p)=b_i+\sum_\tau\sum_q\sum_jW^\tau_{ij}x_j(q),\quad q\cdot\text{stride}+\tau=p,
      \qquad W^\tau_{ij}\sim N(0,C_W/kn).$$

    Args:
        taps: Positions to which each position is written along every axis, one number or one for each axis.
        channels: How many outputs; the network's `width` for ``None``.
        stride: How far apart the positions are written.
        dilation: How far apart the taps are.
        padding: As of the `Conv` that comes back; with ``"valid"`` nothing is cut off.
        C_b: Bias variance; that of the network for ``None``, like the others.
        C_W: Rescaled weight variance; the weights of one of $k$ taps have $C_W/kn$, however many of them meet.
        lambda_b: Learning-rate factor of the biases, which all positions share.
        lambda_W: Learning-rate factor of the weights.
        law: Of the weights, by name or a `WeightLaw`.

    Source: Dumoulin and Visin, arXiv:1603.07285; its kernel and NTK derived.

    Example:
        >>> import scalewise as sw
        >>> net = sw.Network(
        ...     sw.Conv(3, stride=2), "relu", sw.ConvTranspose(4, stride=2), "relu", sw.GlobalAvgPool(),
        ...     sw.Dense(1), input_shape=(8, 2), width=8,
        ... )
        >>> net.program.positions[3]
        (8,)
    """

    taps: Sizes
    channels: Count | None = None
    stride: Sizes = 1
    dilation: Sizes = 1
    padding: Padding = "zero"
    C_b: NotNegative | None = None
    C_W: Positive | None = None
    lambda_b: NotNegative | None = None
    lambda_W: NotNegative | None = None
    law: LawLike | None = None

    def into(self, build: Builder, of: Field) -> Field:
        """Add one node."""
        windows = tuple(Transposed(window) for window in _windows(self, build, of))
        return build.draw(of, self.channels, windows, own_of(self, build.usual))


@checked
@dataclass(frozen=True)
@readable
class Flatten(Layer):
    """Make channels of all positions: the next random layer has weights of its own for each of them.

    Example:
        >>> import scalewise as sw
        >>> net = sw.Network(sw.Conv(3), "relu", sw.Flatten(), sw.Dense(1), input_shape=(8, 8, 3), width=8)
        >>> net.parameters
        737
    """

    def into(self, build: Builder, of: Field) -> Field:
        """No node is added: the windows of the next random layer see all positions."""
        return replace(of, flat=True)


def own_of(layer: Any, usual: Hyperparameters) -> Hyperparameters:
    """The hyperparameters of a random layer: what it does not say is as usual."""
    said = {name: getattr(layer, name) for name in HYPERPARAMETERS}
    own = {name: float(value) for name, value in said.items() if value is not None}
    law = usual.law if layer.law is None else law_of(layer.law)
    return replace(usual, **own, law=law)


def _windows(layer: Conv | ConvTranspose | Local, build: Builder, of: Field) -> tuple[Window, ...]:
    numbers = [per_axis(build, of, v) for v in (layer.taps, layer.stride, layer.dilation)]
    return tuple(
        Window(taps, stride, dilation, layer.padding)
        for taps, stride, dilation in zip(*numbers, strict=True)
    )


def per_axis(build: Builder, of: Field, given: int | Sequence[int]) -> tuple[int, ...]:
    """Numbers, one for each axis of positions."""
    axes = len(of.positions)
    if not axes:
        raise ValueError(
            f"{build.name} moves along positions, and there are none. Give the network an `input_shape` of "
            "positions and then channels, such as (8, 8, 3)."
        )
    if not isinstance(given, Sequence):
        return (given,) * axes
    if len(given) != axes:
        raise ValueError(
            f"{build.name} has numbers for {len(given)} axes of positions, and there are {axes}. Give one number "
            "for all, or one for each."
        )
    return tuple(given)
