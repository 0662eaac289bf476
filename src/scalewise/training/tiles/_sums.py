r"""Sums over two of the three last samples of tensors, for everything that is asked in one pass over tiles.

Tiles have all samples twice and two blocks of training samples, which are exchanged, so that expectations given two
training samples are found once for all sums. Of the second label some sums want training samples alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from scalewise.sweeps.spi import Reporter
from scalewise.training.tiles._recursions import Tensors, families
from scalewise.training.tiles._setting import Site
from scalewise.training.tiles._tiles import Kept, Labels, Tile

Sources = frozenset[int] | None
Weights = Float[np.ndarray, "column train train"]
TILE = 500_000  # numbers of an array over a tile
_GIVEN = 50_000_000  # numbers of all arrays of samples given two others
KEPT = 3 * 2**27  # numbers of what is known of every block
_TABLES = 60  # arrays of all samples twice and a block, of each layer
_TURNED = {0: 0, 1: 1, 2: 3, 3: 2}


@dataclass(frozen=True)
class _Sum:
    """Over two labels, of which `every` says whether the other one has all samples."""

    letter: str
    labels: Labels
    over: tuple[int, int]
    weights: Weights
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
    _wanted: list[_Sum] = field(default_factory=list)
    _found: list[np.ndarray] = field(default_factory=list)

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
        return self._add(_Sum(letter, labels, over, weights, every=False))

    def add_pairs(self, letter: str, labels: Labels, weights: Weights) -> int:
        """The sum over labels 2 and 3, all samples of labels 0 and 1; otherwise as `add`."""
        return self._add(_Sum(letter, labels, (2, 3), weights, every=True))

    def __getitem__(self, place: int) -> Float[np.ndarray, "sample other column"]:
        return self._found[place]

    def one_pair(self, letter: str) -> Float[np.ndarray, "sample sample_1"]:
        """A tensor of two samples."""
        every, none = np.arange(self.samples), np.arange(0)
        tile = Tile((every, every, none, none))
        return Tensors(self.stack, tile, sources=self.sources).last(letter, 0, 1)

    def run(self) -> None:
        """All sums that were added."""
        self._found = [
            np.zeros((self.samples, self.samples if one.every else self.count, len(one.weights)))
            for one in self._wanted
        ]
        groups: dict[tuple[str, Labels], list[int]] = defaultdict(list)
        for place, one in enumerate(self._wanted):
            groups[one.letter, one.labels].append(place)
        wide = frozenset(one.letter for one in self._wanted if one.every)
        narrow = frozenset(one.letter for one in self._wanted) - wide
        for tensors in self._watched(narrow):
            first, second = tensors[0].tile.rows[2:]
            for turned in (False, True)[: 1 + (first is not second)]:
                rows = (second, first) if turned else (first, second)
                for (letter, labels), places in groups.items():
                    asked = tuple(_TURNED[x] for x in labels) if turned else labels
                    whole = tensors[letter in narrow].last(letter, *asked)
                    whole = whole.swapaxes(2, 3) if turned else whole
                    for place in places:
                        self._collect(place, whole, rows)

    def _add(self, one: _Sum) -> int:
        self._wanted.append(one)
        return len(self._wanted) - 1

    def _watched(self, narrow: frozenset[str]) -> Iterator[tuple[Tensors, Tensors]]:
        """With a bar on a terminal, if it takes long."""
        count = len(list(blocks(self.stack, self.samples, self.count)))
        with Reporter(None, count * (count + 1) // 2, "tiles of samples") as reporter:
            for tensors in self._tiles(narrow):
                yield tensors
                reporter.add(1)

    def _tiles(self, narrow: frozenset[str]) -> Iterator[tuple[Tensors, Tensors]]:
        """With all samples of the second label and with those of training, for every two blocks."""
        every, train = np.arange(self.samples), np.arange(self.count)
        parts = list(blocks(self.stack, self.samples, self.count))
        stays = tables(len(self.stack), self.samples, self.count) <= KEPT
        dtype = next((site.given.dtype for site in self.stack), np.float64)
        shared: tuple[Kept, Kept] = ({}, {})
        asked = families(frozenset(one.letter for one in self._wanted))
        kept = [({}, {}) for _ in parts]
        for j, last in enumerate(parts):
            for i in range(j + 1):
                rows = parts[i], last
                tiles = [
                    Tile(
                        (every, second, *rows),
                        (shared[k], kept[i][k], kept[j][k]),
                        dtype,
                        families=asked,
                    )
                    for k, second in enumerate((every, train))
                ]
                wide = Tensors(self.stack, tiles[0], sources=self.sources)
                yield (
                    wide,
                    Tensors(self.stack, tiles[1], sources=self.sources, wide=wide, own=narrow),
                )
                if not stays and i < j:
                    kept[i] = ({}, {})
            if not stays:
                kept[j] = ({}, {})

    def _collect(self, place: int, whole: np.ndarray, rows: tuple[np.ndarray, np.ndarray]) -> None:
        """A tile's part of a sum, from a tensor as it lies in memory, blocks in front: nothing is copied."""
        one, out = self._wanted[place], self._found[place]
        laid = whole.transpose(2, 3, 0, 1)[..., : self.samples if one.every else self.count]
        at = {1: np.arange(self.count), 2: rows[0], 3: rows[1]}
        x, y = one.over
        weights = one.weights[:, at[x][:, None], at[y]].astype(whole.dtype, copy=False)
        if x == 2:
            size, shape = laid.shape[0] * laid.shape[1], laid.shape[2:]
            sums = weights.reshape(len(weights), size) @ laid.reshape(size, shape[0] * shape[1])
            out += sums.reshape(len(weights), *shape).transpose(1, 2, 0)
            return
        # Over label 1, then one sample of the block after the other.
        of_block = np.ascontiguousarray(weights.transpose(2, 1, 0))
        for part, own in zip(laid if y == 2 else laid.swapaxes(0, 1), of_block, strict=True):
            out[:, at[5 - y]] += (part @ own).swapaxes(0, 1)


def tables(layers: int, samples: int, train: int) -> int:
    """How many numbers are known of three samples, one of them of training."""
    return _TABLES * layers * samples**2 * train


def blocks(stack: Sequence[Site], samples: int, train: int) -> Iterator[np.ndarray]:
    """Training samples, a few at a time, so that two of these and all samples twice fit into a cache.

    Args:
        stack: The hidden layers.
        samples: Of all kinds.
        train: Of training.
    """
    given = samples * sum(sum(site.given.rule.nodes) for site in stack)
    step = max(1, int(np.sqrt(min(TILE // samples**2, _GIVEN // given))))
    yield from np.array_split(np.arange(train), -(-train // step))
