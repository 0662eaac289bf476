"""A network of any layers: a value that becomes a program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

from scalewise._checked import Count, Must, NotNegative, Positive, checked
from scalewise._readable import Rows, readable
from scalewise.activations import Activation, activation
from scalewise.critical import Criticality, criticality, equivalent_rates, rates_along
from scalewise.networks._builder import Builder, Layer
from scalewise.networks._demands import (
    critical_point,
    need_activations_between,
    need_criticality,
    need_heard,
    need_readout,
)
from scalewise.networks._laws import LawLike, law_of
from scalewise.networks._layers import ByLayer, Widths, per_layer
from scalewise.networks._nodes import HYPERPARAMETERS, Hyperparameters
from scalewise.networks._program import Program
from scalewise.networks._written import matrices, shaped, table, written
from scalewise.networks.layers._entrywise import LayerLike
from scalewise.networks.layers._stack import stacked

Shape = Annotated[
    Count | Sequence[Count],
    Must("a number of features, or positions along each axis and then channels, such as (8, 8, 3)"),
]


@checked
@dataclass(frozen=True, init=False)
@readable
class Network:
    r"""A network at initialisation, made of layers.

    The last layer is `Dense`, the read-out, and says how many outputs it has. Weights of a random layer of $n$
    channels and $k$ taps below it have variance $C_W/kn$ and are normal unless `law` says otherwise, their learning
    rates are $\lambda_W/kn$.

    A network is a value, equal to any other of the same layers and numbers.

    Args:
        layers: Layers, or activations: names, functions or `Activation`.
        input_shape: Features of an input; with positions their number along each axis, then the channels.
        width: Channels of every random layer that does not say how many.
        C_b: Bias variance of every layer that does not say its own; at least 0.
        C_W: Rescaled weight variance; positive.
        lambda_b: Learning-rate factor of the biases; at least 0.
        lambda_W: Learning-rate factor of the weights; at least 0.
        law: Of the weights of every layer that does not say its own: ``"normal"``, ``"uniform"`` as PyTorch draws
            them, ``"truncated normal"`` (at two standard deviations) as JAX's libraries do, ``"rademacher"`` for
            signs, or a `scalewise.networks.WeightLaw`. All have the same infinitely wide limit and the same
            fluctuations; means shift at order $1/n$. Biases are normal.

    Raises:
        ValueError: If a layer does not fit what the layers before it give; the message says which, and what they
            give. Or if the last layer is not a read-out of some outputs at one site.

    Source: PDLT (2.5), (2.19)-(2.20), (8.6), with site matrices.

    Example:
        >>> import numpy as np, scalewise as sw
        >>> net = sw.Network(
        ...     sw.Conv(3), "relu", sw.Conv(3), "relu", sw.GlobalAvgPool(), sw.Dense(1),
        ...     input_shape=(4, 4, 1), width=64, C_W=2.0,
        ... )
        >>> sw.predict(net, np.ones((1, 4, 4, 1))).kernel.values.round(3).ravel()
        array([0.701])
    """

    layers: tuple[Layer, ...]
    input_shape: tuple[int, ...]
    width: int
    usual: Hyperparameters

    def __init__(
        self,
        *layers: LayerLike,
        input_shape: Shape,
        width: Count,
        C_b: NotNegative = 0.0,
        C_W: Positive = 1.0,
        lambda_b: NotNegative = 1.0,
        lambda_W: NotNegative = 1.0,
        law: LawLike = "normal",
    ) -> None:
        shape = (input_shape,) if isinstance(input_shape, int) else tuple(input_shape)
        usual = Hyperparameters(*map(float, (C_b, C_W, lambda_b, lambda_W)), law=law_of(law))
        self._set(layers=layers, input_shape=shape, width=width, usual=usual)
        if not layers:
            raise ValueError(
                "`Network` needs layers, such as Network(Dense(), 'tanh', Dense(1), ...)."
            )
        need_readout(layers, self.program)

    def _set(self, **fields: Any) -> None:
        for key, value in fields.items():
            object.__setattr__(self, key, value)

    @classmethod
    def known(
        cls, layers: tuple[Layer, ...], width: int, usual: Hyperparameters, by_layer: ByLayer
    ) -> Network:
        """Fully connected layers that have been checked; their program is made when something asks for it.

        Args:
            layers: Its layers.
            width: Channels of layers that do not say how many.
            usual: Hyperparameters of layers that do not say theirs.
            by_layer: What would be read off its program.
        """
        net = object.__new__(cls)
        net._set(layers=layers, input_shape=by_layer.widths[:1], width=width, usual=usual)
        net.__dict__["by_layer"] = by_layer
        return net

    @cached_property
    def program(self) -> Program:
        """The nodes that it computes."""
        build = Builder(self.width, self.usual)
        build.run(self.layers, build.source(self.input_shape))
        program = build.program()
        program.check_sampled()
        return program

    @cached_property
    def by_layer(self) -> ByLayer:
        """Numbers of the random layers."""
        return ByLayer.of(self.program)

    @property
    def depth(self) -> int:
        """$L$, random layers."""
        return len(self.by_layer.C_W)

    @property
    def widths(self) -> tuple[int, ...]:
        r"""Channels of the inputs and of every random layer, $(n_0,n_1,\dots,n_L)$."""
        return self.by_layer.widths

    @property
    def hidden_widths(self) -> tuple[int, ...]:
        r"""$(n_1,\dots,n_{L-1})$."""
        return self.widths[1:-1]

    @property
    def input_dim(self) -> int:
        """$n_0$, features of an input, at each position."""
        return self.input_shape[-1]

    @property
    def output_dim(self) -> int:
        """$n_L$."""
        return self.widths[-1]

    @property
    def C_b(self) -> tuple[float, ...]:
        """Bias variance of every random layer."""
        return self.by_layer.C_b

    @property
    def C_W(self) -> tuple[float, ...]:
        """Rescaled weight variance of every random layer."""
        return self.by_layer.C_W

    @property
    def lambda_b(self) -> tuple[float, ...]:
        """Learning-rate factor of the biases of every random layer."""
        return self.by_layer.lambda_b

    @property
    def lambda_W(self) -> tuple[float, ...]:
        """Learning-rate factor of the weights of every random layer."""
        return self.by_layer.lambda_W

    def own(self, layer: int) -> Hyperparameters:
        """The hyperparameters of a random layer.

        Args:
            layer: Which, counted from 1.
        """
        return self.by_layer.own(layer) if self.is_perceptron else self.program.own(layer)

    @property
    def skips(self) -> tuple[float, ...]:
        """Factors by which fully connected layers of one activation add the layer below to themselves.

        Empty for any other network.
        """
        return self.by_layer.skips

    @property
    def is_perceptron(self) -> bool:
        """True if all layers are fully connected, one on another, of one activation, however it was written."""
        return bool(self.skips)

    @property
    def is_plain(self) -> bool:
        """True for a perceptron without skip connections."""
        return self.is_perceptron and not any(self.skips)

    @property
    def activations(self) -> tuple[Activation, ...]:
        """Different activations, in the order of the layers."""
        return self.by_layer.activations

    @property
    def activation(self) -> Activation:
        """The only activation; the identity of a network that has none.

        Raises:
            ValueError: If there are several.
        """
        if len(self.activations) > 1:
            names = ", ".join(repr(sigma.name) for sigma in self.activations)
            raise ValueError(f"This network has several activations, {names}. Read `activations`.")
        return self.activations[0] if self.activations else activation("linear")

    @property
    def layers_of_one_site(self) -> tuple[int, ...]:
        """The layers, counted from 1, that have no positions: what `predict` and `measure` tell of unasked."""
        layers = range(1, self.depth + 1)
        if self.is_perceptron or not any(self.program.positions):
            return tuple(layers)
        return tuple(k for k in layers if self.program.has_one_site(k))

    @property
    def exact_layers(self) -> int:
        """Up to which layer means are exact at order 1/n: the second averages over independent neurons."""
        apart = self.depth > 1 and not self.program.norms(self.program.layers[1])
        return 2 if apart or self.depth == 1 else 1

    @property
    def parameters(self) -> int:
        """Number of weights and biases."""
        return self.program.parameters

    @property
    def aspect_ratio(self) -> float:
        r"""$r=L/n$ with $1/n$ the mean of $1/n_\ell$ over the hidden layers; 0 for depth 1."""
        hidden = self.hidden_widths
        return self.depth * sum(1 / n for n in hidden) / len(hidden) if hidden else 0.0

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on parts of a model that were read as something else; empty for other networks."""
        return tuple(note for layer in self.layers for note in layer.notes)

    def replace(self, **changes: Any) -> Network:
        """A copy of the network with some arguments changed.

        Args:
            changes: New values by name; `layers` is a sequence of all layers.

        Example:
            >>> import scalewise as sw
            >>> net = sw.Network(sw.Dense(), "tanh", sw.Dense(1), input_shape=3, width=8)
            >>> net.replace(C_W=1.5).C_W
            (1.5, 1.5)
        """
        given = {"input_shape": self.input_shape, "width": self.width, **vars(self.usual)}
        unknown = changes.keys() - given.keys() - {"layers"}
        if unknown:
            raise TypeError(
                f"`Network.replace` changes {', '.join(('layers', *given))}; got {', '.join(sorted(unknown))}. "
                "Make a network of another depth as this one was made."
            )
        layers = changes.pop("layers", self.layers)
        made = Network(*layers, **(given | changes))
        for name in changes:
            if name in HYPERPARAMETERS and getattr(made, name) == getattr(self, name):
                need_heard(name, getattr(made.usual, name), getattr(made, name))
        return made

    def at_width(self, width: Widths) -> Network:
        """A copy of the network with `width` channels in every layer that does not say how many.

        Of what `MLP` and `ResidualMLP` make it is the width of all hidden layers. Fully connected layers take a
        list of their widths, too.

        Args:
            width: How many.
        """
        if self.is_stacked or (self.is_perceptron and isinstance(width, Sequence)):
            hidden = per_layer("width", width, self.depth - 1, what="hidden layers")
            return self.numbered(widths=(self.input_dim, *hidden, self.output_dim))
        if isinstance(width, Sequence):
            raise ValueError(
                f"`width` must be one number for a network whose layers are not all fully connected; got {width}. "
                "Give channels in `layers`."
            )
        return self.replace(width=width)

    @property
    def criticality(self) -> Criticality | None:
        """The record of the critical point that all layers are at; ``None`` if they are not."""
        try:
            critical = self.at_criticality()
        except ValueError:
            return None
        there = (critical.C_b, critical.C_W) == (self.C_b, self.C_W)
        return criticality(self.activation) if there else None

    def at_criticality(self) -> Network:
        r"""A copy of the network with the critical $C_b,C_W$ of its activation in every random layer.

        A branch of a sum has them times what the trunk leaves of the variance, $1-\gamma^2$. Signals then keep
        their size through any number of layers, away from the zeros that a convolution sees beyond the ends and but
        for pools, which average over positions that differ.

        Returns:
            A copy whose `criticality` is the record that the numbers come from.

        Raises:
            ValueError: If there are several activations, or none, or theirs has no critical point; or a layer has
                none, as norms, which set the size of signals by themselves.

        Source: PDLT (5.67)-(5.70), (B.19)-(B.21); for convolutions Xiao et al., arXiv:1806.05393.

        Example:
            >>> import scalewise as sw
            >>> layers = (sw.Conv(3), "relu", sw.Skip(sw.Conv(3), "relu", sw.Conv(3), factor=0.6), "relu")
            >>> net = sw.Network(*layers, sw.Flatten(), sw.Dense(1), input_shape=(8, 1), width=64)
            >>> round(net.at_criticality().layers[2].branch[2].C_W, 2)
            1.28
        """
        linear = (activation("linear"),) if self.is_perceptron else ()
        C_b, C_W = critical_point(self.activations or linear)
        layers = tuple(layer.at(C_b, C_W) for layer in self.layers)
        if self.is_plain:
            usual = replace(self.usual, C_b=C_b, C_W=C_W)
            alike = {"C_b": (C_b,) * self.depth, "C_W": (C_W,) * self.depth}
            return Network.known(layers, self.width, usual, replace(self.by_layer, **alike))
        need_activations_between(self.program)
        return self.replace(layers=layers, C_b=C_b, C_W=C_W)

    @checked
    def with_equivalent_learning_rates(
        self,
        lambda_b: NotNegative = 1.0,
        lambda_W: NotNegative = 1.0,
        *,
        kernel: Positive | None = None,
    ) -> Network:
        r"""A multilayer perceptron with rates that let every layer contribute equally to the NTK.

        $$\lambda_b^{(\ell)}=\tilde\lambda_b/L,\qquad\lambda_W^{(\ell)}=\tilde\lambda_W/L$$
        for a scale-invariant activation (and, at $K=K^\star$, a half-stable one);
        $$\lambda_b^{(\ell)}=\tilde\lambda_b\,\ell^{-p_\perp}L^{p_\perp-1},\qquad
          \lambda_W^{(\ell)}=\tilde\lambda_W(L/\ell)^{p_\perp-1}$$
        for the class $K^\star=0$, where contributions are equal asymptotically in $\ell$. The NTK
        of the output is then independent of the depth. With `kernel` the rates are computed layer
        by layer from the products of $\chi_\perp$ instead: for an input of that kernel all
        contributions are exactly equal, at any hyperparameters and for any activation.

        Args:
            lambda_b: $\tilde\lambda_b$, at least 0.
            lambda_W: $\tilde\lambda_W$, at least 0.
            kernel: $K^{(1)}=C_b+C_W|x|^2/n_0$ of a typical input; ``None`` to use the rule of the
                activation's class, at its critical hyperparameters.

        Returns:
            A copy; $\lambda_W^{(\ell)}$ is divided by $n_{\ell-1}$ by the network itself.

        Raises:
            ValueError: If the network is not a multilayer perceptron, or a rate is negative or not finite; without
                `kernel`, if the activation has no class or $C_b,C_W$ are not critical behind the first layer; with
                `kernel`, if the signal explodes or vanishes.

        Source: PDLT (9.94)-(9.96), (9.28). The rule with `kernel`, and those of half-stable points
        and of a kink at 0, follow from the same demand; they are not printed.

        Example:
            >>> import scalewise as sw
            >>> net = sw.MLP(4, 128, "tanh", input_dim=64, output_dim=10).at_criticality()
            >>> net.with_equivalent_learning_rates(lambda_b=12.0).lambda_b
            (12.0, 6.0, 4.0, 3.0)
        """
        if not self.is_plain:
            raise ValueError(
                "Equal contributions of layers are known of a multilayer perceptron without skip connections, such "
                "as scalewise.MLP. Give the layers of this network their lambda_b and lambda_W yourself."
            )
        if kernel is not None:
            known = self.activation, kernel, self.C_b, self.C_W
            bias, weight = rates_along(*known, lambda_b, lambda_W)
        else:
            record = criticality(self.activation)
            bias, weight = equivalent_rates(record, self.depth, lambda_b, lambda_W)
            need_criticality(record, zip(self.C_b[1:], self.C_W[1:], strict=True))
        return self.numbered(lambda_b=bias, lambda_W=weight)

    def numbered(self, **numbers: Sequence[float] | Sequence[int]) -> Network:
        """A copy of these fully connected layers with other numbers.

        Args:
            numbers: By name one number for each layer: `C_b`, `C_W`, `lambda_b`, `lambda_W`, `skips`; or `widths`,
                of inputs and of every layer.
        """
        by_layer = replace(self.by_layer, **{k: tuple(v) for k, v in numbers.items()})
        return Network.known(*stacked(by_layer), by_layer=by_layer)

    def attributes(self) -> dict[str, object]:
        """Attributes from which a result can be computed again: plain numbers, text and lists."""
        found: dict[str, object] = {
            "depth": self.depth,
            "hidden_widths": list(self.hidden_widths),
            "activation": " ".join(sigma.name for sigma in self.activations),
            "activation_digest": " ".join(sigma.digest() for sigma in self.activations),
            "input_dim": self.input_dim,
            "output_dim": self.output_dim,
            **{name: list(getattr(self, name)) for name in HYPERPARAMETERS},
        }
        if not self.is_perceptron:
            told = {"layers": [written(layer) for layer in self.layers], "width": self.width}
            if given := list(dict.fromkeys(matrices(self.layers))):
                told["matrices"] = [matrix.written for matrix in given]
            if not self.program.is_normal:
                told["law"] = [law.name for law in self.program.laws]
            return found | told | {"input_shape": list(self.input_shape)}
        return found | ({"gamma": list(self.skips)} if any(self.skips) else {})

    @property
    def is_stacked(self) -> bool:
        """True if a call of `MLP` or `ResidualMLP` gives this network."""
        made = (self.layers, self.width, self.usual)
        return self.is_perceptron and stacked(self.by_layer) == made

    def _given(self) -> dict[str, Any]:
        """Rows that a notebook lists, where there are no nodes to tell."""
        return dict(self.by_layer.arguments)

    def _told(self) -> Iterator[str | Rows]:
        """The call that makes fully connected layers; of others one row for each node of the program."""
        if self.is_stacked:
            yield self.by_layer.said
            return
        yield (
            f"Network of depth {self.depth}: {shaped(self.input_shape)} to {self.output_dim} "
            f"output{'s' if self.output_dim > 1 else ''}, {self.parameters:,} parameters"
        )
        yield table(self.program)
        yield from self.notes


AnyNetwork = Annotated[Network, Must("a network such as scalewise.MLP or scalewise.Network")]
