r"""Averages that have no formula: some thousand channels of an infinitely wide network, drawn at all labels.

At infinite width the channels of a random layer are independent draws of $N(0,K)$ over labels. What activations,
maxima, sums and products make of them, channel by channel, is computed as in a network; then $C=\langle yy'\rangle$
over the draws. Tangents are linear in those of the random layers, which are independent of everything,
$y'_s=\sum_kJ^k_{s\sigma}z'^k_\sigma$, so
$$T_{st}=\sum_k\sum_{\sigma\tau}\langle J^k_{s\sigma}J^k_{t\tau}\rangle T^k_{\sigma\tau}.$$
Draws are scrambled Sobol points with both signs and the covariance that they should have; independent scrambles of
the whole network give the error.

Source: derived.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import special

from scalewise.networks.spi import (
    Draw,
    Drop,
    Matrix,
    Max,
    Mix,
    Normalise,
    Pointwise,
    PositionMap,
    Product,
    Program,
    Stack,
    Sum,
    Taps,
    Weigh,
    among,
    forward,
    mean_of,
)
from scalewise.theory.flow._room import Pair

SCRAMBLES = 8
_NUMBERS = 1 << 23  # of one field: its labels times its draws
_FEWEST, _MOST = 1 << 9, 1 << 14  # draws
_MOST_DIMENSIONS = 21201  # of Sobol points
_TOGETHER = (
    128  # dimensions: beyond them each random layer has points of its own, in an order of its own
)
_SINGULAR = 1e-11  # of a variance: what is added to it

Sites = tuple[
    int, ...
]  # for each place the position of a random layer that is seen there; -1 for none
Slopes = dict[tuple[int, Sites], np.ndarray]


@dataclass
class DrawnUnits:
    """Single channels of some fields.

    Args:
        program: The network.
        inputs: How many.
        scramble: Which of the independent draws.
        fixed: Fields without weights.
    """

    program: Program
    inputs: int
    scramble: int
    fixed: dict[int, np.ndarray]
    values: dict[int, np.ndarray] = field(default_factory=dict)
    slopes: dict[int, Slopes] = field(default_factory=dict)
    tangents: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)
    drawn: dict[int, _Tied] = field(default_factory=dict)

    def together(self, here: int) -> list[int]:
        """The random layers that have been drawn and have the weights of a new one."""
        own = self.drawn.get(self.program.weights_of(here))
        return list(own.labels) if own else []

    def draw(self, here: int, whole: Pair, others: dict[int, Pair]) -> None:
        """A random layer of which single channels are needed.

        Args:
            here: Its node.
            whole: Its covariances over all labels.
            others: Likewise with those of the same weights that have been drawn; empty where they are 0.
        """
        positions, labels = self.program.positions[here], len(whole.C)
        tied = self.drawn.setdefault(self.program.weights_of(here), _Tied())
        z = tied.add(here, whole.C, {k: pair.C for k, pair in others.items()}, self._normals[here])
        self.values[here] = z.reshape(self.inputs, *positions, -1)
        own = tuple(range(labels // self.inputs))
        self.slopes[here] = {(here, own): np.ones((self.inputs, *positions, 1))}
        for k, (_, T) in {**others, here: whole}.items():
            if T is not None:  # its array is used again
                self.tangents[here, k], self.tangents[k, here] = T.copy(), T.T.copy()

    def add(self, here: int) -> None:
        """Any other node of which single channels are needed."""
        node = self.program.nodes[here]
        below = [self.values[k] if k in self.values else self.fixed[k] for k in node.of]
        sizes = self.program.positions[node.of[0]]
        if isinstance(node, Normalise):  # every group has all channels of its law
            node = replace(node, groups=1)
        if isinstance(node, Drop):
            rng = np.random.default_rng((self.scramble, here))
            mask = (rng.random(below[0].shape) < node.keep) / node.keep
            self.values[here] = mask * below[0]
            self.slopes[here] = _summed([(mask, self.slopes[node.of[0]])])
            return
        self.values[here] = forward(node, below, sizes)
        if not self.tangents:
            self.slopes[here] = {}
        else:
            slopes = [self.slopes.get(k, {}) for k in node.of]
            self.slopes[here] = _chained(node, below, self.values[here], slopes, sizes)

    @cached_property
    def _normals(self) -> dict[int, Float[np.ndarray, "label draw"]]:
        """For every random layer whose channels are drawn."""
        program, nodes = self.program, self.program.nodes
        labels = {
            k: self.inputs * math.prod(program.positions[k])
            for k in sorted(program.sampled)
            if isinstance(nodes[k], Draw)
        }
        count = int(np.clip(_NUMBERS // max(labels.values()), _FEWEST, _MOST)) // 2
        count = 1 << (count.bit_length() - 1)
        if sum(labels.values()) <= _TOGETHER:
            whole = normals(sum(labels.values()), count, (self.scramble,))
            parts = np.split(whole, np.cumsum(list(labels.values()))[:-1])
            return dict(zip(labels, parts, strict=True))
        return {k: normals(own, count, (self.scramble, k)) for k, own in labels.items()}

    def forget(self, node: int) -> None:
        """A field that nobody reads any more."""
        self.values.pop(node, None)
        self.slopes.pop(node, None)

    def averages(self, one: int, other: int, *, ntk: bool) -> tuple[np.ndarray, np.ndarray | None]:
        """C and T of two fields over all labels."""
        rows, columns = (self.values[k].reshape(-1, self.values[k].shape[-1]) for k in (one, other))
        count = rows.shape[1]
        C, T = rows @ columns.T / count, None
        if ntk:
            T = np.zeros_like(C)
            first, second = self._spread(one), self._spread(other)
            for (k, sites), (m, its) in itertools.product(first, second):
                below = self.tangents.get((k, m))
                if below is not None:
                    J, its_own = (
                        np.broadcast_to(slopes, values.shape)
                        for slopes, values in ((first[k, sites], rows), (second[m, its], columns))
                    )
                    T += J @ its_own.T / count * self._seen(below, sites, its)
        return C, T

    def _spread(self, here: int) -> Slopes:
        """The slopes of a node, label by label."""
        shape, labels = self.values[here].shape[:-1], math.prod(self.values[here].shape[:-1])
        return {
            key: np.broadcast_to(J, shape + J.shape[-1:]).reshape(labels, -1)
            for key, J in self.slopes[here].items()
        }

    def mean(self, here: int) -> Float[np.ndarray, " label"]:
        """Over channels."""
        return self.values[here].mean(axis=-1).ravel()

    def _seen(self, T: np.ndarray, sites: Sites, its: Sites) -> np.ndarray:
        """Fields of a random layer that are seen at the places of a node."""
        at = [self._labels(of, size) for of, size in zip((sites, its), T.shape, strict=True)]
        return T[np.ix_(*(np.maximum(a, 0) for a in at))]

    def _labels(self, sites: Sites, labels: int) -> np.ndarray:
        size = labels // self.inputs
        own = np.asarray(sites)
        return (np.arange(self.inputs)[:, None] * size + own).ravel()


@dataclass
class Scrambled:
    """Sums over independent scrambles."""

    count: int = 0
    mean: Any = 0.0
    square: Any = 0.0

    def add(self, values: np.ndarray) -> None:
        """One more of them."""
        self.count += 1
        change = values - self.mean
        self.mean = self.mean + change / self.count
        self.square = self.square + change * (values - self.mean)

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        """Their mean, and its standard error."""
        return self.mean, np.sqrt(self.square / (self.count - 1) / self.count)


@dataclass
class _Tied:
    """Random layers of the same weights, drawn one after the other.

    Args:
        labels: How many labels each has.
        C: Their covariance, all labels of one after those of another.
        z: (label, draw) of all of them.
    """

    labels: dict[int, int] = field(default_factory=dict)
    C: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    z: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))

    def add(
        self, here: int, C: np.ndarray, others: dict[int, np.ndarray], normals: np.ndarray
    ) -> np.ndarray:
        """One more of them, given the others."""
        if not self.labels:
            self.labels[here], self.C, self.z = len(C), C.copy(), rooted(C) @ normals
            return self.z
        blocks = [
            others[k] if others[k].size else np.zeros((len(C), size))
            for k, size in self.labels.items()
        ]
        between = np.concatenate(blocks, axis=1)
        sd = np.sqrt(np.maximum(np.diagonal(self.C), 0.0))
        scale = np.where(sd > 0, sd, 1.0)
        rho = self.C / np.multiply.outer(scale, scale) + _SINGULAR * np.eye(len(sd))
        given = np.linalg.solve(rho, (between / scale).T).T / scale
        z = given @ self.z + rooted(C - given @ between.T) @ normals
        self.C = np.block([[self.C, between.T], [between, C]])
        self.labels[here], self.z = len(C), np.concatenate([self.z, z])
        return z


def rooted(K: Float[np.ndarray, "label label"]) -> Float[np.ndarray, "label label"]:
    """A root of a covariance that may be singular."""
    sd = np.sqrt(np.maximum(np.diagonal(K), 0.0))
    scale = np.where(sd > 0, sd, 1.0)
    rho = K / np.multiply.outer(scale, scale)
    np.fill_diagonal(rho, 1.0)
    for added in _SINGULAR * 100.0 ** np.arange(4):
        try:
            root = np.linalg.cholesky(rho + added * np.eye(len(K)))
        except np.linalg.LinAlgError:
            continue
        return sd[:, None] * root
    values, vectors = np.linalg.eigh(rho)
    return sd[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))


def normals(labels: int, count: int, seed: Sequence[int]) -> Float[np.ndarray, "label draw"]:
    """Standard normal draws, and the same with the other sign."""
    rng = np.random.default_rng(seed)
    if labels > _MOST_DIMENSIONS:
        half = rng.standard_normal((labels, count))
    else:
        from scipy.stats import qmc  # here, because its import takes as long as many a prediction

        uniform = qmc.Sobol(labels, scramble=True, rng=rng).random(count)
        half = special.ndtri(np.clip(rng.permutation(uniform).T, 1e-16, 1 - 1e-16))
    if count > 2 * labels:
        half = np.linalg.solve(np.linalg.cholesky(half @ half.T / count), half)
    return np.concatenate([half, -half], axis=1)


def _chained(
    node: object,
    below: list[np.ndarray],
    value: np.ndarray,
    slopes: list[Slopes],
    sizes: Sequence[int],
) -> Slopes:
    """How the channels of a node follow those of random layers, by the channel of the same number."""
    if isinstance(node, Pointwise):
        return _summed([(node.sigma.derivatives[1](below[0]), slopes[0])])
    if isinstance(node, Normalise):
        x = below[0][..., None, :]  # all channels are one group
        mean = mean_of(node, x.ndim, *below[1:])
        x = x - (mean(x) if node.centred else 0.0)
        factor = 1 / np.sqrt(mean(x * x) + node.eps)
        return _summed([(factor[..., 0, :], slopes[0])])
    if isinstance(node, Sum):
        return _summed([(f, own) for f, own in zip(node.factors, slopes, strict=True)])
    if isinstance(node, Weigh):
        return _summed([(below[1], slopes[0])])
    if isinstance(node, Mix):
        return _mixed(below[1], slopes[0], sizes)
    if isinstance(node, Stack):
        return _stacked(node, below, value.shape, slopes)
    if isinstance(node, Product):
        parts = []
        for k, own in enumerate(slopes):
            others = np.prod([v for j, v in enumerate(below) if j != k], axis=0)
            parts.append((others, own))
        return _summed(parts)
    if isinstance(node, Max):
        seen, there = among(node, below, sizes, np)
        largest = np.where(there, seen, -np.inf).argmax(axis=-2)
        return _moved(slopes[0], node.windows, sizes, lambda tap: largest == tap)
    assert isinstance(node, PositionMap)
    return _moved(slopes[0], node.along, sizes, lambda tap: np.full(1, node.factor))


def _mixed(rows: np.ndarray, slopes: Slopes, sizes: Sequence[int]) -> Slopes:
    """Slopes behind a matrix of each input: those of every position that it mixes, one after the other."""
    parts = []
    for (k, sites), J in slopes.items():
        whole = np.broadcast_to(J, (len(J), *sizes, J.shape[-1])).reshape(len(J), len(sites), -1)
        for position, site in enumerate(sites):
            share = rows[..., position, None]
            own = whole[:, position].reshape(len(J), *(1,) * (rows.ndim - 2), -1)
            parts.append((1.0, {(k, (site,) * math.prod(rows.shape[1:-1])): share * own}))
    return _summed(parts)


def _stacked(
    node: Stack, below: list[np.ndarray], shape: tuple[int, ...], slopes: list[Slopes]
) -> Slopes:
    """Each part in its places, and nothing elsewhere."""
    found, start, axis = [], 0, 1 + node.axis
    for x, own in zip(below, slopes, strict=True):
        size = x.shape[axis]
        place = (slice(None),) * axis + (slice(start, start + size),)
        for (k, sites), J in own.items():
            moved = np.zeros((*shape[:-1], J.shape[-1]))
            moved[place] = J
            there = np.full(shape[1:-1], -1)
            there[place[1:]] = np.reshape(sites, x.shape[1:-1])
            found.append((1.0, {(k, tuple(there.ravel().tolist())): moved}))
        start += size
    return _summed(found)


def _summed(parts: Sequence[tuple[np.ndarray | float, Slopes]]) -> Slopes:
    found: Slopes = {}
    for factor, own in parts:
        for key, J in own.items():
            found[key] = found[key] + factor * J if key in found else factor * J
    return found


def _moved(
    slopes: Slopes,
    along: Sequence[Taps | Matrix],
    sizes: Sequence[int],
    share: Callable[[int], np.ndarray],
) -> Slopes:
    """The share of each tap in what it sees."""
    positions, weights = seen_by_taps(along, sizes)
    places = [own.length(size) for own, size in zip(along, sizes, strict=True)]
    parts = []
    for (k, sites), J in slopes.items():
        whole = np.broadcast_to(J, (len(J), *sizes, J.shape[-1])).reshape(len(J), -1, J.shape[-1])
        for tap, (seen, factor) in enumerate(zip(positions.T, weights.T, strict=True)):
            now = np.where(seen < 0, -1, np.asarray(sites)[np.maximum(seen, 0)])
            moved = whole[:, np.maximum(seen, 0)] * (factor * (now >= 0))[:, None]
            moved = moved.reshape(len(J), *places, -1) * share(tap)
            parts.append((1.0, {(k, tuple(now.tolist())): moved}))
    return _summed(parts)


def seen_by_taps(
    along: Sequence[Taps | Matrix], sizes: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """(place, tap): which position is seen through windows along all axes, -1 for none, and its factor."""
    positions, weights = np.zeros((1, 1), dtype=int), np.ones((1, 1))
    for own, size in zip(along, sizes, strict=True):
        index, factors = _taps(own, size)
        flat = positions[:, None, :, None] * size + index[None, :, None]
        flat[(positions[:, None, :, None] < 0) | (index[None, :, None] < 0)] = -1
        weights = weights[:, None, :, None] * factors[None, :, None]
        positions, weights = (a.reshape(len(positions) * len(index), -1) for a in (flat, weights))
    return positions, weights


def _taps(own: Taps | Matrix, size: int) -> tuple[np.ndarray, np.ndarray]:
    """(place, tap): which of `size` positions is seen, -1 for none, and its factor."""
    if isinstance(own, Matrix):
        most = max(1, int((own.array != 0).sum(axis=1).max()))
        index = np.argsort(own.array == 0, axis=1, kind="stable")[:, :most]
        factors = np.take_along_axis(own.array, index, axis=1)
        return np.where(factors != 0, index, -1), factors
    index = np.full((own.length(size), own.taps), -1)
    for tap, pieces in enumerate(own.pieces(size)):
        for piece in pieces:
            index[piece.to, tap] = np.arange(size)[piece.of]
    return index, np.ones(index.shape)
