r"""Hidden units as particles $(\hat a,\hat w)$: drawn, moved, and summed over, block by block.

A step changes $\hat w_r$ by a combination of inputs, so preactivations $h_r(x)=\hat w_r\cdot x$ follow from the
Gram matrix $G$ of the inputs alone, $\Delta h_r=G\,D_r$: for full batches of $P$ samples with $n_0$ features $P^2$
multiplications for each unit in place of $2Pn_0$, and the same outputs. `GramLayer` keeps $h$ and, for inputs that
are only looked at, the coefficients $\sum_kD_r^{(k)}$; `WeightLayer` keeps $\hat w$ itself.

A block of units stays in cache through a whole step: what it adds to the next outputs is summed at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.special import ndtri

from scalewise.activations import Activation
from scalewise.tasks import Task

_BLOCK = 1 << 18  # numbers of one block of preactivations
_ROOT_3 = 3**0.5
_MANY_FEATURES = 64  # beyond, Sobol points are not more even than random ones
_TINY = 2.0**-60


@runtime_checkable
class FirstLayer(Protocol):
    """First weights of one block of units, in whatever form."""

    def at(self, rows: np.ndarray | slice) -> np.ndarray:
        """Preactivations of samples, shape (row, seed, unit)."""
        ...

    def tests(self) -> np.ndarray:
        """Preactivations of the test inputs, shape (test, seed, unit)."""
        ...

    def move(self, rows: np.ndarray | slice, D: np.ndarray) -> None:
        r"""$\hat w\to\hat w+\sum_iD_ix_i$ over the samples of `rows`."""
        ...


class WeightLayer:
    """First weights as they are."""

    def __init__(self, inputs: np.ndarray, tests: np.ndarray, w: np.ndarray) -> None:
        self._inputs, self._tests, self._w = inputs, tests, w

    def at(self, rows: np.ndarray | slice) -> np.ndarray:
        return np.tensordot(self._inputs[rows], self._w, 1)

    def tests(self) -> np.ndarray:
        return np.tensordot(self._tests, self._w, 1)

    def move(self, rows: np.ndarray | slice, D: np.ndarray) -> None:
        self._w += np.tensordot(self._inputs[rows].T, D, 1)


class GramLayer:
    """First weights by what they give: preactivations, and coefficients in the span of the samples."""

    def __init__(self, gram: np.ndarray, h: np.ndarray) -> None:
        samples = gram.shape[1]
        self._gram = gram
        self._h, self._start = h[:samples], h[samples:]
        self._coefficients = np.zeros_like(self._h) if len(self._start) else None

    def at(self, rows: np.ndarray | slice) -> np.ndarray:
        return self._h[rows]

    def tests(self) -> np.ndarray:
        if self._coefficients is None:
            return self._start
        return self._start + np.tensordot(self._gram[len(self._h) :], self._coefficients, 1)

    def move(self, rows: np.ndarray | slice, D: np.ndarray) -> None:
        columns = self._gram[: len(self._h), rows]
        flat = self._h.reshape(len(self._h), -1)
        flat += columns @ D.reshape(len(D), -1)
        if self._coefficients is not None:
            self._coefficients[rows] += D


@dataclass(frozen=True)
class ParticleDraw:
    """Number of units, and their law."""

    units: int  # of one network
    # One network each. A narrower network is the beginning of a wider one with the same seed.
    seeds: tuple[int, ...]
    law: str = "normal"  # ``"normal"`` or ``"uniform"``, variance 1
    # Whether units fill the law evenly, as the points of a rule for integrals over it: pairs with
    # the same first weights and opposite output weights, so that every odd moment of these vanishes
    # exactly, and for few features scrambled Sobol points, independent for each seed.
    even: bool = False
    silent: bool = False  # whether output weights start at 0
    # $\varepsilon$, the unit of first weights: they start at $\varepsilon$ times a draw of the law,
    # and $\phi$ is seen as $\varepsilon\phi(h/\varepsilon)$.
    unit: float = 1.0
    dtype: Any = np.float64


def draw_weights(draw: ParticleDraw, features: int, blocks: Sequence[int]) -> Any:
    """Weights block by block: output weights (seed, unit) and first weights (feature, seed, unit)."""
    if draw.even and features < _MANY_FEATURES:
        yield from _sobol_weights(draw, features, blocks)
        return
    streams = [
        [np.random.Generator(np.random.Philox(part)) for part in np.random.SeedSequence(s).spawn(2)]
        for s in draw.seeds
    ]
    for units in blocks:
        drawn = units // 2 if draw.even else units
        a = np.stack([_sample(of_a, draw.law, (drawn,)) for of_a, _ in streams])
        w = np.stack([_sample(of_w, draw.law, (drawn, features)).T for _, of_w in streams], axis=1)
        if draw.even:
            a, w = np.concatenate([a, -a], axis=-1), np.concatenate([w, w], axis=-1)
        yield _started(draw, a, w)


def _started(draw: ParticleDraw, a: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights of a block as they start."""
    if draw.silent:
        a = np.zeros_like(a)
    if draw.unit != 1.0:
        w = draw.unit * w
    return a.astype(draw.dtype), np.ascontiguousarray(w, dtype=draw.dtype)


def _sobol_weights(draw: ParticleDraw, features: int, blocks: Sequence[int]) -> Any:
    from scipy.stats import qmc  # here, because its import takes as long as many a run

    tables = []
    for seed in draw.seeds:
        points = qmc.Sobol(features + 1, scramble=True, rng=np.random.default_rng(seed))
        exponent = max(draw.units // 2 - 1, 0).bit_length()
        u = points.random_base2(exponent)[: draw.units // 2]
        table = _ROOT_3 * (2 * u - 1) if draw.law == "uniform" else ndtri(np.clip(u, _TINY, None))
        tables.append(table)
    whole = np.stack(tables, axis=1)  # (pair, seed, 1 + feature)
    begin = 0
    for units in blocks:
        part = whole[begin : begin + units // 2]
        begin += units // 2
        a, w = part[:, :, 0].T, part[:, :, 1:].T
        a, w = np.concatenate([a, -a], axis=-1), np.concatenate([w, w], axis=-1)
        yield _started(draw, a, w)


def _sample(rng: np.random.Generator, law: str, shape: tuple[int, ...]) -> np.ndarray:
    if law == "uniform":
        return rng.uniform(-_ROOT_3, _ROOT_3, shape)
    return rng.standard_normal(shape)


class UnitParticles:
    """Units of many networks at once.

    `gram` keeps first weights in the span of the samples; ``None`` chooses the cheaper.
    """

    def __init__(
        self, task: Task, phi: Activation, draw: ParticleDraw, *, gram: bool | None = None
    ) -> None:
        inputs = np.ascontiguousarray(task.inputs, dtype=draw.dtype)
        everything = np.ascontiguousarray(task.all_inputs, dtype=draw.dtype)
        samples, features = inputs.shape
        if gram is None:
            gram = samples <= 2 * features
        size = max(2, _BLOCK // (len(draw.seeds) * samples) // 2 * 2)
        blocks = [min(size, draw.units - i) for i in range(0, draw.units, size)]
        self._phi, self._unit = phi, draw.unit
        self._seeds, self._dtype = len(draw.seeds), draw.dtype
        self._samples, self._tests = samples, len(everything) - samples
        self._layers: list[FirstLayer] = []
        self._a: list[np.ndarray] = []
        table = everything @ inputs.T if gram else None
        for a, w in draw_weights(draw, features, blocks):
            self._a.append(a)
            if table is None:
                self._layers.append(WeightLayer(inputs, everything[samples:], w))
            else:
                self._layers.append(GramLayer(table, np.tensordot(everything, w, 1)))

    def outputs(self, rows: np.ndarray | slice) -> np.ndarray:
        r"""$\sum_r\hat a_r\phi(h_r)$ of samples, shape (row, seed)."""
        return self._total(_weighted(self._value(layer.at(rows)), a) for a, layer in self._pairs())

    def test_outputs(self) -> np.ndarray:
        """Outputs of the test inputs, shape (test, seed)."""
        if not self._tests:
            return np.zeros((0, self._seeds))
        return self._total(_weighted(self._value(layer.tests()), a) for a, layer in self._pairs())

    def kernels(self) -> tuple[np.ndarray, np.ndarray]:
        r"""$\sum_r\phi(h_r)^2$ and $\sum_r\hat a_r^2\phi'(h_r)^2$ of all inputs, shape (input, seed)."""
        parts: list[list[np.ndarray]] = [[], []]
        for a, layer in self._pairs():
            found = layer.at(slice(None))
            h = np.concatenate([found, layer.tests()]) if self._tests else found
            one = np.ones_like(a)
            parts[0].append(_weighted(self._value(h) ** 2, one))
            parts[1].append(_weighted(self._slope(h) ** 2, a * a))
        return self._total(parts[0]), self._total(parts[1])

    def step(
        self, a: tuple[np.ndarray, np.ndarray], w: tuple[np.ndarray, np.ndarray], then: np.ndarray
    ) -> np.ndarray:
        r"""One step of both weights from the same state, and sums of the samples `then` after it.

        By rows $i$ with $c$, and $j$ with $e$, of shape (row, seed):

        $$\Delta\hat a_r=\sum_ic_i\phi(h_r(x_i)),\qquad\Delta\hat w_r=\hat a_r\sum_je_j\phi'(h_r(x_j))\,x_j$$
        """
        (rows_a, c), (rows_w, e) = a, w
        same = rows_a is rows_w
        c, e = c.astype(self._dtype), e.astype(self._dtype)
        from_a, from_w, asked = (self._all_or(rows) for rows in (rows_a, rows_w, then))
        parts = []
        for block, layer in self._pairs():
            h = layer.at(from_w)
            D = self._slope(h) * e[:, :, None]
            D *= block
            phi = self._value(h if same else layer.at(from_a))
            block += np.matmul(c.T[:, None, :], phi.transpose(1, 0, 2))[:, 0]
            layer.move(from_w, D)
            parts.append(_weighted(self._value(layer.at(asked)), block))
        return self._total(parts)

    def _all_or(self, rows: np.ndarray) -> np.ndarray | slice:
        """Every sample in order as a slice, which copies nothing."""
        whole = rows.size == self._samples and np.array_equal(rows, np.arange(rows.size))
        return slice(None) if whole else rows

    def _pairs(self) -> Any:
        return zip(self._a, self._layers, strict=True)

    def _total(self, parts: Any) -> np.ndarray:
        """Blocks summed in float64."""
        return np.asarray(sum(part.astype(np.float64) for part in parts))

    def _value(self, h: np.ndarray) -> np.ndarray:
        slopes = self._phi.slopes
        if slopes is not None:
            minus, plus = slopes
            if plus == 1.0 and minus <= 1.0:
                return np.maximum(h, np.asarray(minus, h.dtype) * h)
            return h * self._slope(h)
        if self._unit != 1.0:
            far = self._phi.derivatives[0](h / self._unit)
            return (self._unit * far).astype(h.dtype, copy=False)
        return self._phi.derivatives[0](h).astype(h.dtype, copy=False)

    def _slope(self, h: np.ndarray) -> np.ndarray:
        slopes = self._phi.slopes
        if slopes is not None:
            minus, plus = (np.asarray(value, h.dtype) for value in slopes)
            return np.where(h >= 0, plus, minus)
        there = h if self._unit == 1.0 else h / self._unit
        return self._phi.derivatives[1](there).astype(h.dtype, copy=False)


def _weighted(values: np.ndarray, a: np.ndarray) -> np.ndarray:
    r"""$\sum_ra_rv_r$ over the units of a block, shape (row, seed)."""
    return np.matmul(values.transpose(1, 0, 2), a[:, :, None])[:, :, 0].T
