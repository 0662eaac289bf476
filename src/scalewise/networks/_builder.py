"""How layers become a program: the verbs that they call, and what is known of each field meanwhile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scalewise._readable import readable
from scalewise.activations import Activation
from scalewise.networks._field import (
    Field,
    apart,
    attended,
    beside,
    combined,
    moved,
    need_alike,
    need_channels,
    need_groups,
    need_positions,
    need_same_beside,
    need_same_weights,
    together,
)
from scalewise.networks._nodes import (
    Attend,
    Concat,
    Draw,
    Drop,
    Hyperparameters,
    InputNode,
    Max,
    Mix,
    Node,
    Normalise,
    Pointwise,
    PositionMap,
    Product,
    Read,
    Stack,
    Sum,
    Weigh,
)
from scalewise.networks._program import Program
from scalewise.networks._sites import IDENTITY, Matrix, Taps, Window
from scalewise.networks._there import seen_by, shown


class Layer(ABC):
    """Part of a network: it becomes nodes of a program, by the verbs of `Builder`."""

    notes: tuple[str, ...] = ()  # what it stands for otherwise than it is, in sentences

    @abstractmethod
    def into(self, build: Builder, of: Field) -> Field:
        """Continue the program behind a field.

        Args:
            build: The program as far as it goes.
            of: The field that enters the layer.

        Returns:
            The field that leaves it.
        """

    def at(self, C_b: float, C_W: float) -> Layer:
        """This layer at a critical point of the activation, so that it keeps the size of signals.

        Args:
            C_b: Of its random layers.
            C_W: Likewise.

        Raises:
            ValueError: If there is none, a sentence why.
        """
        return self


@dataclass
@readable
class Builder:
    """A program as far as it goes.

    Args:
        width: Channels of layers that do not say how many.
        usual: Hyperparameters of layers that do not say theirs.
        path: Where the layer that is being built stands: its number, and its number in that one.
        name: What messages call it.
        nodes: What is built.
        fields: What is known of each node.
        layers: By random layer the node that is its preactivation.
        estimated: Nodes whose averages have no formula.
        named: Random layers that were built under a name, in order: who builds under it again has their weights.
        inputs: What the network is given, but for a mask.
        again: For each name that is being built once more, the random layers to come.
        modules: Of nodes that a model was read to, the module that computes them.
    """

    width: int
    usual: Hyperparameters
    path: tuple[int, ...] = ()
    name: str = "The network"
    nodes: list[Node] = field(default_factory=list)
    fields: list[Field] = field(default_factory=list)
    layers: dict[int, int] = field(default_factory=dict)
    estimated: set[int] = field(default_factory=set)
    named: dict[Hashable, list[int]] = field(default_factory=dict)
    again: list[Iterator[int]] = field(default_factory=list)
    modules: dict[int, str] = field(default_factory=dict)
    inputs: Field = field(init=False)

    def source(self, shape: tuple[int, ...]) -> Field:
        """The inputs.

        Args:
            shape: Positions along each axis, then features.
        """
        self.inputs = self.put(InputNode(), Field(0, shape[:-1], shape[-1]))
        return self.inputs

    def draw(
        self,
        of: Field,
        channels: int | None = None,
        windows: tuple[Taps, ...] | None = None,
        own: Hyperparameters | None = None,
        *,
        groups: int = 1,
        shared: bool = True,
    ) -> Field:
        """A random layer.

        Args:
            of: What it reads.
            channels: How many outputs; the network's `width` for ``None``.
            windows: One for each axis of positions; each position alone for ``None``.
            own: Its hyperparameters; those of the network for ``None``.
            groups: Into how many the channels of both sides fall.
            shared: Whether all places have the same weights.
        """
        if of.flat:
            if windows is not None:
                need_positions(self.name, of)
            windows = tuple(Window(taps=size) for size in of.positions)
        elif windows is None:
            windows = (IDENTITY,) * len(of.positions)
        positions = moved(self.name, of, windows)
        of, seen, mask = seen_by(self.put, self.name, of, windows)
        node = len(self.nodes)
        made = Field(node, positions, channels or self.width, frozenset({node}), True, mask=mask)
        self.layers[node] = node
        need_groups(self.name, of, made, groups)
        new = Draw((of.node,), seen, own or self.usual, groups, shared)
        told = [next(names) for names in self.again]
        if not told:
            return self.put(new, made)
        first = told[-1]
        before = self.nodes[first]
        assert isinstance(before, Draw)
        known = before, self.fields[before.of[0]], self.fields[first]
        need_same_weights(self.name, known, (new, of, made))
        return self.put(replace(new, again=first), replace(made, draws=frozenset({first})))

    def tied(self, name: Hashable, layers: Sequence[Layer], of: Field) -> Field:
        """Layers that have the same weights whenever they are built under this name.

        Args:
            name: Anything that can be compared.
            layers: Which.
            of: What enters the first.

        Returns:
            What leaves the last.
        """
        if name not in self.named:
            start = len(self.nodes)
            made = self.run(layers, of)
            drawn = ((k, self.nodes[k]) for k in range(start, len(self.nodes)))
            self.named[name] = [
                k if node.again is None else node.again
                for k, node in drawn
                if isinstance(node, Draw)
            ]
            return made
        self.again.append(iter(self.named[name]))
        made = self.run(layers, of)
        self.again.pop()
        return made

    def apply(self, of: Field, sigma: Activation) -> Field:
        """An activation.

        Args:
            of: What it acts on.
            sigma: The activation.
        """
        if of.parts:
            return self.join([self.apply(part, sigma) for part in of.parts])
        need_alike(self.name, of)
        made = self.put(Pointwise((of.node,), sigma), replace(of, gaussian=False))
        return self._sampled(made) if of.draws and not of.gaussian else made

    def add(self, fields: Sequence[Field], factors: Sequence[float]) -> Field:
        """A sum of fields.

        Args:
            fields: Of the same channels and positions.
            factors: One for each.
        """
        made = together(self.name, fields, "adds", "to")
        node = len(self.nodes)
        # The newest random layer is a preactivation only with all that is added to it.
        newest = max(self.layers, default=None)
        if newest is not None and any(f.node == self.layers[newest] for f in fields):
            self.layers[newest] = node
        known = self._covary(fields)
        made = replace(made, gaussian=made.gaussian and known)
        made = self.put(Sum(tuple(f.node for f in fields), tuple(factors)), made)
        return made if known else self._sampled(made)

    def stack(self, fields: Sequence[Field], axis: int = 0) -> Field:
        """The positions of fields after one another.

        Args:
            fields: Of the same channels, and of the same positions along other axes.
            axis: Which axis of positions becomes longer.
        """
        need_same_beside(self.name, fields, axis)
        first = fields[0]
        made = combined(self.name, fields, "stacks", "on")
        length = sum(f.positions[axis] for f in fields)
        positions = (*first.positions[:axis], length, *first.positions[axis + 1 :])
        known = self._covary(fields)
        made = replace(made, positions=positions, gaussian=made.gaussian and known)
        made = self.put(Stack(tuple(f.node for f in fields), axis), made)
        return made if known else self._sampled(made)

    def multiply(self, fields: Sequence[Field]) -> Field:
        """A product of fields, channel by channel.

        Args:
            fields: Of the same channels and positions.
        """
        made = replace(together(self.name, fields, "multiplies", "by"), gaussian=False)
        made = self.put(Product(tuple(f.node for f in fields)), made)
        return self._sampled(made) if not apart(fields) else made

    def join(self, fields: Sequence[Field]) -> Field:
        """The channels of fields beside each other.

        Args:
            fields: Of the same positions.
        """
        made = beside(self.name, fields)
        shares = tuple(f.channels / made.channels for f in fields)
        return self.put(Concat(tuple(f.node for f in fields), shares), made)

    def largest(self, of: Field, windows: tuple[Window, ...]) -> Field:
        """The largest number that a window sees.

        Args:
            of: What it sees.
            windows: One for each axis of positions.
        """
        need_positions(self.name, of)
        need_alike(self.name, of)
        positions = moved(self.name, of, windows)
        seen, windows, mask = seen_by(self.put, self.name, of, windows)
        read = (seen.node,)
        if of.mask is not None and any(own.padding == "zero" for own in windows):
            read = (of.node, of.mask)  # zeros would count
        made = replace(of, positions=positions, gaussian=False, parts=(), mask=mask)
        made = self.put(Max(read, windows), made)
        return self._sampled(made) if of.draws else made

    def spread(self, of: Field, along: tuple[Window | Matrix, ...], factor: float) -> Field:
        """A fixed linear map of positions.

        Args:
            of: What it moves.
            along: A window, whose taps are added up, or a matrix for each axis.
            factor: Of the result.
        """
        need_positions(self.name, of)
        positions = moved(self.name, of, along)
        of, along, mask = seen_by(self.put, self.name, of, along)
        made = replace(of, positions=positions, parts=(), mask=mask)
        return self.put(PositionMap((of.node,), along, factor), made)

    def attend(
        self,
        fields: tuple[Field, Field, Field],
        size: int,
        power: float,
        sigma: Activation | None,
        *,
        grows: bool,
        causal: bool,
        norm: Normalise | None = None,
        turns: tuple[Matrix, Matrix] | None = None,
        group: int = 1,
        bias: tuple[Matrix, ...] = (),
    ) -> Field:
        """Averages of values over positions, by queries and keys, which random layers have just made.

        Args:
            fields: Queries, keys and values.
            size: Channels of a head.
            power: Of the size, by which logits are divided.
            sigma: What acts on each logit; softmax for ``None``.
            grows: Whether heads grow with the width, and not their number.
            causal: Whether a position sees none behind it.
            norm: Of queries and keys in each head, whose numbers do not grow.
            turns: For queries and keys the matrices of positions by which heads are multiplied, row by row.
            group: How many heads after one another have the same key and value.
            bias: What is added to logits, (position, other): of all heads, or several of heads in turn.
        """
        made = attended(self.name, fields, size, group, len(bias), causal=causal)
        mask = fields[1].mask
        node = Attend(
            of=(*(f.node for f in fields), *(() if mask is None else (mask,))),
            size=size,
            grows=grows,
            power=power,
            causal=causal,
            sigma=sigma,
            norm=norm,
            turns=turns,
            group=group,
            bias=bias,
        )
        made = self.put(node, made)
        if not grows:
            self.estimated.add(made.node)
        return replace(made, alike=grows)

    def read(
        self,
        of: Field,
        make: Callable[..., Any],
        features: int,
        positions: tuple[int, ...] | None = None,
        *,
        given: tuple[Any, ...] = (),
        said: str = "function of inputs",
    ) -> Field:
        """Any function of the inputs.

        Args:
            of: The inputs, or what was read off them.
            make: The function, of a module: ``(sample, *positions, feature)`` from ``(x, xp, *given)``, with `xp`
                NumPy or JAX's.
            features: How many it gives.
            positions: Along each axis; those of the inputs for ``None``.
            given: Further arguments of the function.
            said: What a table of the network calls it.
        """
        if of.draws or of.flat:
            raise ValueError(f"{self.name} reads the inputs. Put it before the first random layer.")
        own = of.positions if positions is None else positions
        made = replace(of, channels=features, positions=own)
        return self.put(Read((of.node,), make, given, said), made)

    def mix(self, of: Field, rows: Field) -> Field:
        """Positions mixed by a matrix of each input.

        Args:
            of: What is mixed.
            rows: The matrices: a field without weights, of as many features as there are positions, at the
                positions of what is made.
        """
        need_positions(self.name, of)
        of = shown(self.put, of)
        mask = of.mask if rows.positions == of.positions else None
        made = replace(of, parts=(), positions=rows.positions, mask=mask)
        return self.put(Mix((of.node, rows.node)), made)

    def weigh(self, of: Field, weights: Field) -> Field:
        """A number for each position of each input.

        Args:
            of: What it multiplies.
            weights: The numbers: a field without weights, of one feature.
        """
        return self.put(Weigh((of.node, weights.node)), replace(of, parts=()))

    def drop(self, of: Field, keep: float) -> Field:
        """Numbers that are 0 by chance.

        Args:
            of: What they are.
            keep: The share that stays.
        """
        if not of.draws:
            raise ValueError(
                f"{self.name} stands behind random layers; of the inputs there are not as many channels as the "
                "network is wide. Put it behind the first one."
            )
        return self.put(Drop((of.node,), keep), replace(of, gaussian=False, parts=()))

    def norm(
        self, of: Field, eps: float, *, centred: bool, joint: bool = False, groups: int = 1
    ) -> Field:
        """Division by the root mean square over channels.

        Args:
            of: What is divided.
            eps: Added to the mean square.
            centred: Whether the mean is subtracted first.
            joint: Whether averages are over all positions, too.
            groups: Into how many the channels fall, each with its own.
        """
        need_channels(self.name, of, groups)
        read = (of.node,) if of.mask is None or not joint else (of.node, of.mask)
        return self.put(Normalise(read, eps, centred, joint, groups), replace(of, parts=()))

    def run(self, layers: Sequence[Layer], of: Field) -> Field:
        """Build layers, one after the other.

        Args:
            layers: Which.
            of: What enters the first.

        Returns:
            What leaves the last.
        """
        outside, said = (self.path, self.name), dict[int, str]()
        for number, layer in enumerate(layers, 1):
            self.path = (*outside[0], number)
            if id(layer) not in said:  # in a deep network the same layer stands many times
                said[id(layer)] = repr(layer)
            self.name = f"Layer {'.'.join(map(str, self.path))}, {said[id(layer)]},"
            of = layer.into(self, of)
        self.path, self.name = outside
        return of

    def program(self) -> Program:
        """The program of all nodes."""
        named = range(len(self.nodes)) if self.modules else ()
        return Program(
            nodes=tuple(self.nodes),
            positions=tuple(f.positions for f in self.fields),
            channels=tuple(f.channels for f in self.fields),
            layers=tuple(self.layers.values()),
            draws=tuple(self.layers),
            estimated=frozenset(self.estimated),
            modules=tuple(self.modules.get(k, "") for k in named),
        )

    def _covary(self, fields: Sequence[Field]) -> bool:
        """True if covariances between fields have formulas."""
        if apart(fields):
            return True
        program, nodes = self.program(), [f.node for f in fields]
        different = len(set(nodes)) == len(nodes)
        return different and not program.closure(program.bound(nodes))[1]

    def _sampled(self, made: Field) -> Field:
        """Note that the averages of a field have no formula."""
        need_alike(self.name, made)
        self.estimated.add(made.node)
        return made

    def put(self, node: Node, made: Field, *, once: bool = False) -> Field:
        """A node as the next one.

        Args:
            node: Which.
            made: What is known of its field, but for its number.
            once: Whether an equal node that is there already serves as well.
        """
        if once and node in self.nodes:
            return self.fields[self.nodes.index(node)]
        made = replace(made, node=len(self.nodes))
        self.nodes.append(node)
        self.fields.append(made)
        return made
