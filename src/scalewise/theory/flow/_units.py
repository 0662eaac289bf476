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

import numpy as np
from jaxtyping import Float
from scipy import special

from scalewise.networks._forward import forward, gathered
from scalewise.networks._program import (
    Draw,
    Dropout,
    Max,
    Norm,
    Pointwise,
    Product,
    Program,
    Spread,
    Sum,
)
from scalewise.networks._sites import Taps

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
class Units:
    """Single channels of some fields.

    Args:
        program: The network.
        inputs: How many.
        scramble: Which of the independent draws.
    """

    program: Program
    inputs: int
    scramble: int
    values: dict[int, np.ndarray] = field(default_factory=dict)
    slopes: dict[int, Slopes] = field(default_factory=dict)
    tangents: dict[int, np.ndarray | None] = field(default_factory=dict)

    def add(self, here: int, C: np.ndarray, T: np.ndarray | None) -> None:
        """A node of which single channels are needed, from matrices over all labels where it is a random layer."""
        node, positions = self.program.nodes[here], self.program.positions[here]
        if isinstance(node, Draw):
            z = rooted(C) @ self._normals[here]
            self.values[here] = z.reshape(self.inputs, *positions, -1)
            own = tuple(range(len(C) // self.inputs))
            self.slopes[here] = {(here, own): np.ones((self.inputs, *positions, 1))}
            self.tangents[here] = None if T is None else T.copy()  # its array is used again
            return
        below = [self.values[k] for k in node.of]
        sizes = self.program.positions[node.of[0]]
        if isinstance(node, Norm):  # every group has all channels of its law
            node = replace(node, groups=1)
        if isinstance(node, Dropout):
            rng = np.random.default_rng((self.scramble, here))
            mask = (rng.random(below[0].shape) < node.keep) / node.keep
            self.values[here] = mask * below[0]
            self.slopes[here] = _summed([(mask, self.slopes[node.of[0]])])
            return
        self.values[here] = forward(node, below, sizes)
        if all(T is None for T in self.tangents.values()):
            self.slopes[here] = {}
        else:
            slopes = [self.slopes[k] for k in node.of]
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

    def averages(self, here: int, *, ntk: bool) -> tuple[np.ndarray, np.ndarray | None]:
        """C and T over all labels."""
        values = self.values[here]
        count = values.shape[-1]
        rows = values.reshape(-1, count)
        C, T = rows @ rows.T / count, None
        if ntk:
            T = np.zeros_like(C)
            spread = {
                key: np.broadcast_to(J, values.shape[:-1] + J.shape[-1:]).reshape(len(rows), -1)
                for key, J in self.slopes[here].items()
            }
            for (k, sites), (other, its) in itertools.product(spread, repeat=2):
                below = self.tangents[k]
                if k == other and below is not None:
                    J, its_own = (np.broadcast_to(spread[k, at], rows.shape) for at in (sites, its))
                    T += J @ its_own.T / count * self._seen(below, sites, its)
        return C, T

    def mean(self, here: int) -> Float[np.ndarray, " label"]:
        """Over channels."""
        return self.values[here].mean(axis=-1).ravel()

    def _seen(self, T: np.ndarray, sites: Sites, its: Sites) -> np.ndarray:
        """Of a random layer what is seen at the places of a node."""
        at = [self._labels(of, len(T)) for of in (sites, its)]
        return T[np.ix_(*(np.maximum(a, 0) for a in at))]

    def _labels(self, sites: Sites, labels: int) -> np.ndarray:
        size = labels // self.inputs
        own = np.asarray(sites)
        return (np.arange(self.inputs)[:, None] * size + own).ravel()


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
    if isinstance(node, Norm):
        axes = tuple(range(1, below[0].ndim)) if node.joint else -1
        x = below[0] - (below[0].mean(axis=axes, keepdims=True) if node.centred else 0.0)
        factor = 1 / np.sqrt((x * x).mean(axis=axes, keepdims=True) + node.eps)
        return _summed([(factor, slopes[0])])
    if isinstance(node, Sum):
        return _summed([(f, own) for f, own in zip(node.factors, slopes, strict=True)])
    if isinstance(node, Product):
        parts = []
        for k, own in enumerate(slopes):
            others = np.prod([v for j, v in enumerate(below) if j != k], axis=0)
            parts.append((others, own))
        return _summed(parts)
    assert isinstance(node, Max | Spread)
    windows: tuple[Taps, ...] = node.windows if isinstance(node, Max) else node.along  # pyright: ignore
    share: Callable[[int], np.ndarray | float]
    if isinstance(node, Max):
        seen, there = gathered(below[0], windows, sizes, np)
        largest = np.where(there[..., None], seen, -np.inf).argmax(axis=-2)
        share = lambda tap: largest == tap  # noqa: E731
    else:
        share = lambda tap: node.factor  # noqa: E731
    return _moved(slopes[0], windows, sizes, share)


def _summed(parts: Sequence[tuple[np.ndarray | float, Slopes]]) -> Slopes:
    found: Slopes = {}
    for factor, own in parts:
        for key, J in own.items():
            found[key] = found[key] + factor * J if key in found else factor * J
    return found


def _moved(
    slopes: Slopes,
    windows: Sequence[Taps],
    sizes: Sequence[int],
    share: Callable[[int], np.ndarray | float],
) -> Slopes:
    """Of what each tap sees its share."""
    parts = []
    for (k, sites), J in slopes.items():
        at, there = gathered(np.asarray(sites, float).reshape(1, *sizes, 1), windows, sizes, np)
        seen, _ = gathered(np.broadcast_to(J, (len(J), *sizes, J.shape[-1])), windows, sizes, np)
        for tap in range(there.shape[-1]):
            here = there[..., tap]
            places = np.where(here, at[0, ..., tap, 0], -1).astype(int)
            own = seen[..., tap, :] * (here & (places >= 0))[..., None]
            parts.append((1.0, {(k, tuple(places.ravel().tolist())): own * share(tap)}))
    return _summed(parts)
