"""Inputs through a network at infinite width: each with itself first, then pairs, tile by tile or a few rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from scalewise.gaussian.spi import Places
from scalewise.networks import Network
from scalewise.networks.spi import (
    Attend,
    Normalise,
    Pointwise,
    check_kernels,
    refuse_laws_at_inputs,
)
from scalewise.theory.flow._fields import Fields, Inputs
from scalewise.theory.flow._pair_sets import room_for, strips
from scalewise.theory.flow._positions import crossings
from scalewise.theory.flow._room import Pair
from scalewise.theory.flow._shifts import Shifts
from scalewise.theory.flow._units import SCRAMBLES, Scrambled

_MOST_LABELS = 4096  # where channels are drawn: inputs times positions
_AT_ONCE = 1 << 22  # pairs of labels of inputs with themselves
_SMALL = 1 << 10  # pairs of labels that cost less than a second walk through the nodes


@dataclass(frozen=True)
class Passing:
    """A network whose activations and norms have their maps.

    Args:
        fields: Its program on the inputs.
        sites: Positions of the layers that are wanted, of the first inputs and of the second; none if there is one.
        own: By layer of one site, K of every input with itself.
        shifts: What goes shift by shift.
        known: By layer K and Theta of all inputs, where these are few or averages of the network are estimated.
        open: Errors of these, where averages are estimated.
    """

    fields: Fields
    sites: tuple[int, ...]
    own: dict[int, np.ndarray]
    shifts: Shifts = field(default_factory=Shifts)
    known: dict[int, Pair] = field(default_factory=dict)
    open: dict[int, Pair] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        net: Network,
        x: np.ndarray,
        kept: tuple[int, ...],
        *,
        ntk: bool,
        drawn: Callable[[float], object] = lambda share: None,
    ) -> Passing:
        """Take each input with itself through the network; `drawn` is told what share of the draws is done."""
        program = net.program
        refuse_laws_at_inputs(program)
        wanted = [program.layers[layer - 1] for layer in kept]
        shifts = Shifts.of(program, wanted)
        crossed = crossings(program, wanted, len(shifts.sizes))
        fields = Fields(program, x, ntk, crossed)
        if program.estimated:
            known, errors, own = _estimated(net, fields, kept, drawn)
            return cls(fields, _sites_of(net, kept), own, known=known, open=errors)
        labels = fields.labels_of_pair
        if labels * len(x) ** 2 <= _SMALL:
            known: dict[int, Pair] = {}
            own = _with_themselves(net, fields, shifts, known)
            return cls(fields, _sites_of(net, kept), own, shifts, known)
        size = room_for(labels) if shifts.sizes else max(1, _AT_ONCE // labels)
        parts = [
            Fields(program, x[start : start + size], ntk, crossed)
            for start in range(0, len(x), size)
        ]
        own = [_with_themselves(net, part, shifts) for part in parts]
        if len(parts) == 1:
            fields = parts[0]
        else:
            for here, node in enumerate(program.nodes):
                if isinstance(node, Pointwise | Normalise | Attend) and here in parts[0].maps:
                    K = np.concatenate([part.maps[here].K for part in parts])
                    fields.maps[here] = fields.map_at(here, K)
        joined = {layer: np.concatenate([part[layer] for part in own]) for layer in own[0]}
        return cls(fields, _sites_of(net, kept), joined, shifts)

    def layers(self, rows: Inputs, columns: Inputs, last: int) -> Iterator[tuple[int, Pair]]:
        """K and Theta of a tile at each layer up to `last`: pairs of inputs, then the positions of both."""
        program = self.fields.program
        numbers = {node: layer for layer, node in enumerate(program.layers, 1)}
        if self.known:
            for layer, pair in self.known.items():
                if layer <= last:
                    yield layer, pair.each(partial(_cut_out, rows=rows, columns=columns))
            return
        for here, pair in self.shifts.through(self.fields, rows, columns, program.layers[last - 1]):
            if here in numbers:
                at = self.fields.places(here, rows, columns)
                yield numbers[here], pair.each(partial(_at_one_site, at=at))

    def errors(self, kept: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        """Errors of K, and of Theta if it is there, at some layers; none where nothing is estimated."""
        found = [self.open[layer] for layer in kept] if self.open else []
        return tuple(np.array(of) for of in zip(*found, strict=True) if of[0] is not None)

    def diagonal(self) -> np.ndarray:
        """K of each input with itself at every layer, where all of these have one site."""
        known = [self.own.get(k) for k in range(1, self.fields.program.depth + 1)]
        if any(K is None for K in known):
            return np.zeros((0, len(self.fields.x)))
        return np.array(known)


def kernel_strips(
    net: Network, x: np.ndarray, *, ntk: bool
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Kernel and NTK of the last layer a few rows at a time, for who has no room for all of them.

    Rows, and K and Theta of these with all samples from the first of them on; without `ntk` the latter is K again.
    """
    passing = Passing.of(net, x, (net.depth,), ntk=ntk)
    room = room_for(passing.fields.labels_of_pair)
    both: np.ndarray = np.empty((0, 0, 0))
    for tile in strips(len(x), room):
        first = tile.rows.start
        if tile.columns.start == first:
            both = np.empty((1 + ntk, tile.rows.stop - first, len(x) - first))
        moved = slice(tile.columns.start - first, tile.columns.stop - first)
        for layer, found in passing.layers(tile.rows, tile.columns, net.depth):
            if layer == net.depth:
                for target, values in zip(both, found, strict=False):
                    target[:, moved] = values
        if tile.columns.stop == len(x):
            yield tile.rows, both[0], both[-1]


def _with_themselves(
    net: Network, fields: Fields, shifts: Shifts, known: dict[int, Pair] | None = None
) -> dict[int, np.ndarray]:
    """Make the maps of all activations and norms; K of the layers that have one site.

    Where it is given, `known` is filled with all pairs of inputs.
    """
    program, count, found = fields.program, len(fields.x), {}
    every = np.arange(count) if known is None else slice(0, count)
    numbers = {node: layer for layer, node in enumerate(program.layers, 1)}
    for here, pair in shifts.through(fields, every, every, len(program.nodes) - 1):
        if here in numbers:
            at = fields.places(here, every, every)
            assert at.known is not None
            K = pair.C[at.known.at].reshape(count, -1)
            _check(net, numbers[here], K)
            if K.shape[1] == 1:
                found[numbers[here]] = K[:, 0]
            if known is not None:
                known[numbers[here]] = pair.each(lambda tile, at=at: _at_one_site(tile, at).copy())
    return found


def _estimated(
    net: Network,
    fields: Fields,
    kept: tuple[int, ...],
    told: Callable[[float], object],
) -> tuple[dict[int, Pair], dict[int, Pair], dict[int, np.ndarray]]:
    """K and Theta of all inputs at once, of networks some of whose averages are estimated; their errors; own K.

    The mean of independent draws, and its standard error, of layers that are kept or have one site.
    """
    program, count = fields.program, len(fields.x)
    most = max(math.prod(positions) for positions in program.positions) * count
    if most > _MOST_LABELS:
        raise ValueError(
            f"{count} inputs have {most:,} positions in all, and averages without a formula (a maximum, or an "
            f"activation of what is not Gaussian) are made for at most {_MOST_LABELS} at once. Give fewer inputs, "
            "or pool earlier."
        )
    numbers = {node: layer for layer, node in enumerate(program.layers, 1)}
    every = slice(0, count)
    sums: dict[int, list[Scrambled]] = {}
    for scramble in range(SCRAMBLES):
        drawn = replace(fields, maps={}, means={}, scramble=scramble)
        for here, pair in drawn.along(every, every, len(program.nodes) - 1):
            layer = numbers.get(here)
            if layer is None:
                continue
            at = drawn.places(here, every, every)
            assert at.known is not None
            _check(net, layer, pair.C[at.known.at].reshape(count, -1))
            if layer in kept or program.has_one_site(layer):
                tiles = [_at_one_site(tile, at) for tile in pair if tile is not None]
                for own, tile in zip(
                    sums.setdefault(layer, [Scrambled() for _ in tiles]), tiles, strict=True
                ):
                    own.add(tile)
        told((scramble + 1) / SCRAMBLES)
    known, errors = {}, {}
    for layer, found in sums.items():
        pairs = zip(*(own.result() for own in found), strict=True)
        known[layer], errors[layer] = (Pair(C, *(T or (None,))) for C, *T in pairs)
    diagonals = {
        layer: np.diagonal(pair.C).copy()
        for layer, pair in known.items()
        if program.has_one_site(layer)
    }
    return known, errors, diagonals


def _cut_out(values: np.ndarray, rows: Inputs, columns: Inputs) -> np.ndarray:
    """A tile of the square of all inputs."""
    return values[rows][:, columns] if isinstance(rows, slice) else values[rows, columns]


def _check(net: Network, layer: int, K: np.ndarray) -> None:
    """Refuse kernels that leave the range of float64; 0 is allowed at some positions, and of weights that are 0."""
    own = net.own(layer)
    some = (K.shape[1] > 1 and (K > 0).any()) or own.C_b == own.C_W == 0
    if layer > 1:  # the first is seen with the inputs
        check_kernels(net, layer, K[K > 0] if some else K, power=1)


def _sites_of(net: Network, kept: tuple[int, ...]) -> tuple[int, ...]:
    """Positions of the layers that are wanted, twice."""
    positions = [net.program.positions[net.program.layers[layer - 1]] for layer in kept]
    different = {p if math.prod(p) > 1 else () for p in positions}
    if len(different) > 1:
        raise ValueError(
            f"`layers` must have the same positions; got {', '.join(map(str, positions))}. Ask for them one by one."
        )
    return 2 * different.pop()


def _at_one_site(values: np.ndarray, at: Places) -> np.ndarray:
    """Without axes of positions where there is one."""
    inputs = values.shape[: 1 + at.by_rows]
    return values.reshape(inputs) if math.prod(at.positions) == 1 else values
