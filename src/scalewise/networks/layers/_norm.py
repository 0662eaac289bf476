"""Norms: what leaves a field with the same size at every site."""

from __future__ import annotations

from dataclasses import dataclass

from scalewise._checked import Count, NotNegative, checked
from scalewise._readable import readable
from scalewise.networks._builder import Builder, Layer
from scalewise.networks._field import Field


class Normalisation(Layer):
    """A layer that sets the size of signals by itself."""

    def at(self, C_b: float, C_W: float) -> Layer:
        """Refused: a network with a norm has nothing left to choose."""
        raise ValueError(
            f"A network with {type(self).__name__} sets the size of its signals by itself, whatever C_b and C_W "
            "are. Choose them yourself, C_b=0 and C_W=1 for instance."
        )


@checked
@dataclass(frozen=True)
@readable
class LayerNorm(Normalisation):
    r"""Channels less their mean, over their standard deviation, at each site.

    $$y_i(s)=\frac{x_i(s)-\langle x(s)\rangle}{\sqrt{\langle x(s)^2\rangle-\langle x(s)\rangle^2+\epsilon}}$$
    with averages over channels.

    Args:
        eps: $\epsilon$, in the units of $x^2$; with 0, inputs that leave a site without a signal are refused.
        positions: Whether averages are over all positions, too, and not at each site.

    Source: Ba, Kiros and Hinton, arXiv:1607.06450, without gains and biases; its kernel and NTK derived.

    Example:
        >>> import numpy as np, scalewise as sw
        >>> net = sw.Network(
        ...     sw.Dense(), sw.LayerNorm(), "relu", sw.Dense(1), input_shape=2, width=8, C_W=2
        ... )
        >>> sw.predict(net, np.array([[30.0, 40.0]]), layers=2).kernel.values.round(3).ravel()
        array([1.])
    """

    eps: NotNegative = 1e-5
    positions: bool = False

    def into(self, build: Builder, of: Field) -> Field:
        """Add one node."""
        return build.norm(of, float(self.eps), centred=True, joint=self.positions)


@checked
@dataclass(frozen=True)
@readable
class GroupNorm(Normalisation):
    r"""Channels of each group less their mean, over their standard deviation, over all positions of a sample.

    At infinite width every group is infinite, and nothing depends on their number.

    Args:
        groups: How many.
        eps: $\epsilon$, in the units of $x^2$; with 0, inputs without a signal are refused.

    Source: Wu and He, arXiv:1803.08494, without gains and biases; its kernel and NTK derived.

    Example:
        >>> import scalewise as sw
        >>> layers = (sw.Conv(3), sw.GroupNorm(2), "relu", sw.GlobalAvgPool(), sw.Dense(1))
        >>> sw.Network(*layers, input_shape=(4, 1), width=8).depth
        2
    """

    groups: Count
    eps: NotNegative = 1e-5

    def into(self, build: Builder, of: Field) -> Field:
        """Add one node."""
        return build.norm(of, float(self.eps), centred=True, joint=True, groups=self.groups)


@checked
@dataclass(frozen=True)
@readable
class RMSNorm(Normalisation):
    r"""Channels over their root mean square at each site, $x_i(s)/\sqrt{\langle x(s)^2\rangle+\epsilon}$.

    Args:
        eps: $\epsilon$, in the units of $x^2$; with 0, inputs that leave a site without a signal are refused.

    Source: Zhang and Sennrich, arXiv:1910.07467, without gains; its kernel and NTK derived.

    Example:
        >>> import scalewise as sw
        >>> net = sw.Network(sw.Dense(), "relu", sw.RMSNorm(), sw.Dense(1), input_shape=3, width=8)
        >>> net.parameters
        41
    """

    eps: NotNegative = 1e-5

    def into(self, build: Builder, of: Field) -> Field:
        """Add one node."""
        return build.norm(of, float(self.eps), centred=False)
