"""Weights that are used more than once: layers repeated in depth or in branches, and recurrent layers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scalewise._checked import Count, NotNegative, Positive, checked
from scalewise._readable import readable
from scalewise.activations import activation
from scalewise.activations.spi import ActivationLike
from scalewise.networks._builder import Builder, Layer
from scalewise.networks._field import Field
from scalewise.networks._laws import LawLike
from scalewise.networks._masks import last_position
from scalewise.networks._sites import Matrix
from scalewise.networks.layers._dense import Dense, own_of
from scalewise.networks.layers._entrywise import LayerLike


@checked
@dataclass(frozen=True, init=False)
@readable
class Shared(Layer):
    """Layers that have the same weights wherever an equal `Shared` stands in a network.

    Several `times` one after the other, their weights are tied in depth; in two branches of a `Parallel` they make
    a Siamese network. Those of another `name` have weights of their own.

    Args:
        layers: Which, one after the other.
        times: How often they are repeated.
        name: Anything that tells them from equal layers with other weights.

    Raises:
        ValueError: If there are no layers; or if weights would have another shape where they stand again.

    Source: PDLT (2.5) with the weights of an earlier layer; the limit by conditioning, Yang, arXiv:1910.12478.

    Example:
        >>> import scalewise as sw
        >>> encoder = sw.Shared(sw.Dense(), "tanh", sw.Dense(), "tanh")
        >>> net = sw.Network(
        ...     sw.Parallel([sw.Take([0]), encoder], [sw.Take([1]), encoder], factors=(1, 1)),
        ...     sw.Dense(1), input_shape=(2, 5), width=16,
        ... )
        >>> net.parameters == (5 + 1) * 16 + 2 * (16 + 1) * 16 // 2 + 17
        True
    """

    layers: tuple[Layer, ...]
    times: int
    name: str

    def __init__(self, *layers: LayerLike, times: Count = 1, name: str = "") -> None:
        if not layers:
            raise ValueError("`Shared` needs layers, such as Shared('tanh', Dense(), times=5).")
        object.__setattr__(self, "layers", tuple(layers))
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "name", name)

    def at(self, C_b: float, C_W: float) -> Layer:
        """These weights with each layer at the critical point."""
        made = (layer.at(C_b, C_W) for layer in self.layers)
        return Shared(*made, times=self.times, name=self.name)

    def into(self, build: Builder, of: Field) -> Field:
        """Build its layers, as often as it says."""
        for _ in range(self.times):
            of = build.tied((self.layers, self.name), self.layers, of)
        return of


@checked
@dataclass(frozen=True)
@readable
class Recurrent(Layer):
    r"""A recurrent network along an axis of positions: $h_t=\sigma(Wh_{t-1}+Ux_t+b)$, $h_0=0$.

    Its kernel at one time is that of a network as deep as the sequence is long, whose layers are not tied; states
    at different times covary. Cells with gates are a `program`.

    Args:
        function: $\sigma$: a name, a function or an `Activation`.
        last: Whether only the last state that a sample has is given, and not that of every position.
        channels: Of the state; the network's `width` for ``None``.
        C_b: Bias variance; that of the network for ``None``, like the others.
        C_W: Rescaled variance of $W$.
        C_U: Rescaled variance of $U$.
        lambda_b: Learning-rate factor of the biases.
        lambda_W: Learning-rate factor of $W$ and $U$.
        law: Of the weights, by name or a `WeightLaw`.

    Source: Alemohammad et al., arXiv:2006.10246, and Yang, arXiv:1910.12478, in PDLT's parametrisation.

    Example:
        >>> import scalewise as sw
        >>> net = sw.Network(
        ...     sw.Recurrent("tanh"), sw.GlobalAvgPool(), sw.Dense(1), input_shape=(6, 3), width=16
        ... )
        >>> net.parameters == (3 * 16 + 16) + (16 * 16 + 16) + 17
        True
    """

    function: ActivationLike
    last: bool = False
    channels: Count | None = None
    C_b: NotNegative | None = None
    C_W: Positive | None = None
    C_U: Positive | None = None
    lambda_b: NotNegative | None = None
    lambda_W: NotNegative | None = None
    law: LawLike | None = None

    def into(self, build: Builder, of: Field) -> Field:
        """A random layer of all positions; then one state after the other."""
        if len(of.positions) != 1 or of.flat:
            raise ValueError(
                f"{build.name} goes along one axis of positions, and there are {len(of.positions)}. Give the "
                "network an `input_shape` of positions and then channels, such as (20, 3)."
            )
        own, sigma, times = own_of(self, build.usual), activation(self.function), of.positions[0]
        of_inputs = own if self.C_U is None else replace(own, C_W=self.C_U)
        driven = build.draw(of, self.channels, own=of_inputs)
        mask = driven.mask
        if mask is not None:
            driven = replace(build.weigh(driven, build.fields[mask]), mask=None)
        weights = (Dense(driven.channels, 0.0, own.C_W, 0.0, own.lambda_W, own.law),)
        states: list[Field] = []
        for t in range(times):
            z = (
                build.spread(driven, (Matrix.of(np.eye(times)[t : t + 1]),), 1.0)
                if times > 1
                else driven
            )
            if states:
                z = build.add((build.tied(self, weights, states[-1]), z), (1.0, 1.0))
            states.append(build.apply(z, sigma))
        if times == 1 or (self.last and mask is None):
            return states[-1]
        made = replace(build.stack(states), mask=mask)
        if mask is None or not self.last:
            return made
        last = build.read(build.fields[mask], last_position, times, (1,), said="last position")
        return build.mix(made, last)
