r"""Sums over two of the three last samples of tensors, for everything that is asked in one pass over tiles.

Of four samples the two that stand first are given, whatever their labels are, so that an expectation of four
samples is found once: a tile has two blocks of training samples, and twice all samples from the second block on.
A tensor is read off it in every way that four labels can be put to these places.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from scalewise.sweeps.spi import Reporter
from scalewise.training.tiles._recursions import Tensors, exchanges, families
from scalewise.training.tiles._series import chunks
from scalewise.training.tiles._setting import Site
from scalewise.training.tiles._tiles import Kept, Labels, Tile

Sources = frozenset[int] | None
Weights = Float[np.ndarray, "column train train"]
Laid = Float[np.ndarray, "leg leg_1 column"]  # columns behind, as products take them
TILE = 700_000  # numbers of an array over a tile
_GIVEN = 50_000_000  # numbers of all arrays of samples given two others
_CANCELS = 512  # numbers that are summed in the precision of expectations
KEPT = 3 * 2**27  # numbers of what is known of every block
_TABLES = 60  # arrays of all samples twice and a block, of each layer
Placed = tuple[int, ...]  # by label, its place on a tile
# Labels that are not of a block stand in their order.
_PLACINGS = tuple(p for p in itertools.permutations(range(4)) if p.index(0) < p.index(1))
_EXCHANGED = {0: 1, 1: 0, 2: 2, 3: 3}


class _Sum(NamedTuple):
    """Over two labels, of which `every` says whether the other one has all samples."""

    letter: str
    labels: Labels
    over: tuple[int, int]
    every: bool


@dataclass
class Sums:
    """Wanted of the tensors of a network.

    Args:
        stack: The hidden layers.
        samples: How many there are.
        count: Of training samples, the first.
        sources: The layers whose width is finite; all if ``None``.
    """

    stack: Sequence[Site]
    samples: int
    count: int
    sources: Sources = None
    _wanted: dict[_Sum, list[Weights]] = field(default_factory=lambda: defaultdict(list))
    _places: list[tuple[_Sum, slice]] = field(default_factory=list)
    _found: dict[_Sum, np.ndarray] = field(default_factory=dict)

    def add(self, letter: str, labels: Labels, over: tuple[int, int], weights: Weights) -> int:
        """One sum, over training samples.

        Args:
            letter: Of the tensor.
            labels: In the order of its indices.
            over: Two of the labels 1, 2 and 3, in this order.
            weights: Of one and the other, each column a sum of its own.

        Returns:
            The place of what is found: all samples of label 0, training samples of the other label, columns.
        """
        return self._add(_Sum(letter, labels, over, every=False), weights)

    def add_pairs(self, letter: str, labels: Labels, weights: Weights) -> int:
        """The sum over labels 2 and 3, all samples of labels 0 and 1; otherwise as `add`."""
        return self._add(_Sum(letter, labels, (2, 3), every=True), weights)

    def __getitem__(self, place: int) -> Float[np.ndarray, "sample other column"]:
        one, columns = self._places[place]
        return self._found[one][..., columns]

    def one_pair(self, letter: str) -> Float[np.ndarray, "sample sample_1"]:
        """A tensor of two samples."""
        every, none = np.arange(self.samples), np.arange(0)
        tile = Tile((every, every, none, none))
        return Tensors(self.stack, tile, sources=self.sources).last(letter, 0, 1)

    def run(self) -> None:
        """All sums that were added."""
        parts = list(blocks(self.stack, self.samples, self.count))
        order = np.concatenate([*parts, np.arange(self.count, self.samples)])
        train, back = order[: self.count], np.argsort(order)
        weights = {
            one: np.ascontiguousarray(
                np.concatenate(own)[:, train[:, None], train].transpose(1, 2, 0)
            )
            for one, own in self._wanted.items()
        }
        others = {one: self.samples if one.every else self.count for one in weights}
        sums = {
            one: np.zeros((self.samples, others[one], own.shape[2])) for one, own in weights.items()
        }
        wide = frozenset(one.letter for one in weights if one.every)
        narrow = frozenset(one.letter for one in weights) - wide
        readings = self._readings(narrow)
        for tile, tensors in self._watched(parts, narrow):
            once = tile[0] == tile[1]
            for (letter, asked), read in readings.items():
                # Of two labels in one block the earlier one stands first.
                own = [way for way in read if not once or way[0].index(2) < way[0].index(3)]
                if own:
                    whole = tensors[letter in narrow].last(letter, *asked)
                    for placed, one, turned in own:
                        seen = whole.swapaxes(0, 1) if turned else whole
                        spans = self._spans(tile, placed, every=one.every)
                        _collect(sums[one], weights[one], seen, placed, spans, one.over)
        self._found = {
            one: found[back[:, None], back[: others[one]]] for one, found in sums.items()
        }

    @property
    def _dtype(self) -> type[np.floating]:
        return next((site.given.dtype for site in self.stack), np.float64)

    def _add(self, one: _Sum, weights: Weights) -> int:
        start = sum(map(len, self._wanted[one]))
        self._wanted[one].append(weights.astype(self._dtype))
        self._places.append((one, slice(start, start + len(weights))))
        return len(self._places) - 1

    def _watched(
        self, parts: Sequence[np.ndarray], narrow: frozenset[str]
    ) -> Iterator[tuple[tuple[slice, slice], tuple[Tensors, Tensors]]]:
        """With a bar on a terminal, if it takes long."""
        count = len(parts)
        with Reporter(None, count * (count + 1) // 2, "tiles of samples") as reporter:
            for found in self._tiles(parts, narrow):
                yield found
                reporter.add(1)

    def _readings(
        self, narrow: frozenset[str]
    ) -> dict[tuple[str, Labels], list[tuple[Placed, _Sum, bool]]]:
        """Which tensors at which places of a tile, and the sums that they are parts of, some of them transposed."""
        found = defaultdict[tuple[str, Labels], list[tuple[Placed, _Sum, bool]]](list)
        for one in self._wanted:
            for placed in _PLACINGS:
                labels = [placed[x] for x in one.labels]
                asked = [tuple(labels[k] for k in way) for way in exchanges(one.letter)]
                # Of all samples from a block on, twice, what differs by their exchange is transposed.
                turned = [tuple(_EXCHANGED[x] for x in own) for own in asked]
                first = min(asked if one.letter in narrow else asked + turned)
                found[one.letter, first].append((placed, one, first not in asked))
        return found

    def _tiles(
        self, parts: Sequence[np.ndarray], narrow: frozenset[str]
    ) -> Iterator[tuple[tuple[slice, slice], tuple[Tensors, Tensors]]]:
        """For every two blocks, which have these places in their order.

        With all samples from the second one on twice, and once with those of training.
        """
        ends = np.cumsum([0, *map(len, parts)]).tolist()
        places = [slice(*both) for both in itertools.pairwise(ends)]
        tests = np.arange(self.count, self.samples)
        stays = tables(len(self.stack), self.samples, self.count) <= KEPT
        shared: tuple[Kept, Kept] = ({}, {})
        asked = families(frozenset(one.letter for one in self._wanted))
        kept = [({}, {}) for _ in parts]
        for j, last in enumerate(parts):
            train = np.concatenate(parts[j:])
            every = np.concatenate([train, tests])
            for i in range(j + 1):
                rows = parts[i], last
                tiles = [
                    Tile(
                        (every, second, *rows),
                        (shared[k], kept[i][k], kept[j][k]),
                        self._dtype,
                        families=asked,
                    )
                    for k, second in enumerate((every, train))
                ]
                wide = Tensors(self.stack, tiles[0], sources=self.sources)
                own = Tensors(self.stack, tiles[1], sources=self.sources, wide=wide, own=narrow)
                yield (places[i], places[j]), (wide, own)
                if not stays and i < j:
                    kept[i] = ({}, {})
            if not stays:
                kept[j] = ({}, {})

    def _spans(
        self, tile: tuple[slice, slice], placed: Placed, *, every: bool
    ) -> list[tuple[slice, int]]:
        """Of each place, samples that belong to a sum, in the order of blocks, and how many it has before them.

        Of two samples of one block the one of the earlier label is the one that is given.
        """
        last = tile[1]
        label = [placed.index(place) for place in range(4)]
        found = [(own, 0) for own in tile]
        for place in (1, 0):
            before = 0 if label[place] > label[3] else last.stop - last.start
            end = self.samples if label[place] < 1 + every else self.count
            found.insert(0, (slice(last.start + before, end), before))
        return found


def _collect(
    out: Float[np.ndarray, "sample other column"],
    weights: Laid,
    whole: np.ndarray,
    placed: Placed,
    spans: Sequence[tuple[slice, int]],
    over: tuple[int, int],
) -> None:
    """A tile's part of a sum over two labels; a tensor lies in memory with blocks in front, and is not copied."""
    x, y = (placed[label] for label in over)
    own = weights[spans[x][0], spans[y][0]]
    if x > y:
        x, y, own = y, x, own.swapaxes(0, 1)
    first, second = (k for k in range(4) if k not in (x, y))
    parts = [slice(before, before + span.stop - span.start) for span, before in spans]
    found = _contracted(whole[parts[0], parts[1]].transpose(2, 3, 0, 1), own, x, y)
    if placed[0] == second:
        first, second, found = second, first, found.swapaxes(0, 1)
    out[spans[first][0], spans[second][0]] += found


def _contracted(
    laid: Float[np.ndarray, "third fourth first second"],
    weights: Laid,
    x: int,
    y: int,
) -> Float[np.ndarray, "left right column"]:
    """The sum over two places of a tile, in their order; the others in theirs."""
    count, (one, other, *behind) = weights.shape[2], laid.shape
    if x == 2:
        whole = laid.reshape(one * other, math.prod(behind)).T
        found = whole @ weights.reshape(one * other, count)
        return found.reshape(*behind, count)
    if y == 1:
        # A few samples after the other: single precision would lose what cancels over all of them.
        found = np.zeros((one * other, count))
        for part in chunks(behind[0], max(1, behind[1]), _CANCELS):
            own, seen = weights[part], laid[:, :, part]
            size = own.shape[0] * behind[1]
            found += seen.reshape(one * other, size) @ own.reshape(size, count)
        return found.reshape(one, other, count)
    # Over one of all, then one sample of the block after the other.
    laid = laid if y == 2 else laid.swapaxes(0, 1)
    laid = laid.swapaxes(2, 3) if x == 0 else laid
    found = np.zeros((*laid.shape[1:3], count))
    for part, own in zip(laid, weights.swapaxes(0, 1), strict=True):
        found += part @ own
    return found.swapaxes(0, 1)


def entries(samples: int, train: int) -> int:
    """About how many numbers of a tensor tiles have: given two of training, twice all behind them."""
    return (samples * train) ** 2 - 4 * samples * train**3 // 3 + train**4 // 2


def tables(layers: int, samples: int, train: int) -> int:
    """How many numbers are known of three samples, one of them of training."""
    return _TABLES * layers * (samples**3 - (samples - train) ** 3) // 3


def blocks(stack: Sequence[Site], samples: int, train: int) -> Iterator[np.ndarray]:
    """Training samples, a few at a time, so that two blocks and twice all samples behind fit into a cache.

    Those that tell most of others stand first, so that they are given.

    Args:
        stack: The hidden layers.
        samples: Of all kinds.
        train: Of training.
    """
    told = sum(np.square(site.given.rho[:train, :train]).sum(axis=1) for site in stack)
    order = np.argsort(-told, kind="stable")
    nodes, start = sum(sum(site.given.rule.nodes) for site in stack), 0
    while start < train:
        behind = samples - start
        step = max(1, int(min(np.sqrt(TILE) / behind, np.sqrt(_GIVEN / (nodes * behind)))))
        yield order[start : start + step]
        start += step
