"""Squeeze and excitation: gates of channels, made of what the channels are on average over positions."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scalewise._checked import Count, checked
from scalewise._readable import readable
from scalewise.activations import activation
from scalewise.activations.spi import ActivationLike
from scalewise.networks._builder import Builder, Layer
from scalewise.networks._field import Field
from scalewise.networks._sites import Matrix
from scalewise.networks.layers._dense import Dense
from scalewise.networks.layers._pool import GlobalAvgPool


@checked
@dataclass(frozen=True)
@readable
class Excite(Layer):
    r"""Squeeze and excitation: each channel times a gate, the same at all positions that a sample has.

    $$y_i(p)=x_i(p)\,g(e_i),\qquad e=\text{Dense}(\sigma(\text{Dense}(\langle x\rangle_p)))$$
    The layer between has a share of the channels, so that it grows with the width.

    Args:
        reduction: Channels of $x$ for each channel of the layer between.
        sigma: $\sigma$, behind the layer between: name, callable or `Activation`.
        gate: $g$, which acts on $e$.

    Source: Hu et al., arXiv:1709.01507; its kernel and NTK derived.

    Example:
        >>> import scalewise as sw
        >>> from scalewise.networks.layers import Excite
        >>> net = sw.Network(
        ...     sw.Conv(3), "relu", Excite(4), sw.GlobalAvgPool(), sw.Dense(1), input_shape=(6, 2), width=16
        ... )
        >>> net.widths
        (2, 16, 4, 16, 1)
    """

    reduction: Count = 16
    sigma: ActivationLike = field(default_factory=lambda: activation("relu"))
    gate: ActivationLike = field(default_factory=lambda: activation("sigmoid"))

    def at(self, C_b: float, C_W: float) -> Layer:
        """Refused: a gate makes signals smaller by what it is on average."""
        raise ValueError(
            "A network with Excite has no critical initialisation that is known: gates make signals smaller. "
            "Choose C_b and C_W yourself."
        )

    def into(self, build: Builder, of: Field) -> Field:
        """A pool, two random layers, and their gates at all positions."""
        if of.channels % self.reduction or not of.draws:
            raise ValueError(
                f"{build.name} makes one channel of every {self.reduction} of random layers, and there are "
                f"{of.channels if of.draws else 'only inputs'}. Choose a `reduction` that divides the width, and "
                "put it behind the first random layer."
            )
        between = Dense(of.channels // self.reduction)
        seen = GlobalAvgPool().into(build, of)
        for layer in (between, self.sigma, Dense(of.channels), self.gate):
            seen = layer.into(build, seen) if isinstance(layer, Layer) else build.apply(seen, layer)
        everywhere = tuple(Matrix.of(np.ones((size, 1))) for size in of.positions)
        return build.multiply((of, build.spread(seen, everywhere, 1.0)))
