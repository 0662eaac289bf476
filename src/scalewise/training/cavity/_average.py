r"""Averages over neurons: last weights exactly, preactivations and initial outputs by scrambled Sobol points.

$n$ neurons with couplings $n^{-1/2}$ instead of infinitely many change any trained quantity by

$$E\,F_n=F_\infty+\frac1nE\big[F_4-\tfrac12F_{22}\big]+O(1/n^2),$$

coefficients of $\kappa^4$ for one neuron and of $\kappa^2\kappa'^2$ for two: replace the neurons one by one by
infinitely many smaller ones of the same covariance, which agree up to $\kappa^3$. $F_4$ is an even polynomial of
degree 4 in the last weights of its neuron and $F_{22}$ one of degree 2 in those of each, whose Gaussian averages
few points give.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from scalewise.training.cavity._rest import FlowPieces, Neuron, Rest, trained
from scalewise.training.cavity._series import Series

CHUNK = 512  # draws at a time: the arrays of one step stay in the cache
Point = tuple[float, np.ndarray]
Kernel = Float[np.ndarray, "sample sample"]
Means = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def moments_of_scrambles(
    rest: Rest,
    course: FlowPieces,
    kernels: tuple[Kernel, Kernel],
    C_W: float,
    *,
    draws: int,
    scrambles: int,
    seed: int,
) -> Iterator[Means]:
    r"""Means over draws of trained outputs, one after the other from independent scrambles.

    $E[F_0]$ and $E[F_4-\frac12F_{22}]$, (sample, output), then $E[F_0F_0]$ and $E[(FF)_4-\frac12(FF)_{22}]$,
    (sample, output, sample, output).

    Args:
        rest: The infinitely wide network.
        course: How it is trained.
        kernels: $K^{(L-1)}$ and $K^{(L)}$ on all samples, of neurons and of outputs at the start.
        C_W: Variance of a last weight times the width.
        draws: In each scramble; a power of two.
        scrambles: How many.
        seed: Of the scrambles.
    """
    roots, size = (_root(kernels[0]), _root(kernels[1])), rest.task.targets.shape[1]
    for stream in np.random.default_rng(seed).spawn(scrambles):
        z, other, outputs = _drawn(roots, size, draws, stream)
        total, weight = None, 0
        for start in range(0, draws, CHUNK):
            here = slice(start, min(start + CHUNK, draws))
            part = _moments(rest, course, C_W, (z[here], other[here]), outputs[here])
            share = here.stop - here.start
            parts = [share * p for p in part]
            total = parts if total is None else [t + p for t, p in zip(total, parts, strict=True)]
            weight += share
        assert total is not None
        first, first_nlo, second, second_nlo = (t / weight for t in total)
        yield first, first_nlo, second, second_nlo


def _drawn(
    roots: tuple[np.ndarray, np.ndarray], size: int, draws: int, stream: np.random.Generator
) -> tuple[np.ndarray, ...]:
    """Preactivations of two neurons and outputs of the rest; the largest directions by the first points."""
    from scipy.stats import qmc  # here, because its import takes as long as many a prediction

    own, top = roots
    counts = np.cumsum([own.shape[1], own.shape[1], top.shape[1] * size])
    sobol = qmc.Sobol(int(counts[-1]), scramble=True, rng=stream)
    uniform = np.clip(sobol.random(draws), 1e-15, 1 - 1e-15)
    one, two, rest = np.split(ndtri(uniform), counts[:-1], axis=1)
    outputs = rest.reshape(draws, top.shape[1], size)
    return one @ own.T, two @ own.T, np.einsum("sk,mko->mso", top, outputs)


def _root(K: np.ndarray) -> np.ndarray:
    """A factor of a covariance, its largest directions first and those left out that rounding makes."""
    h, U = np.linalg.eigh(K)
    kept = h > len(h) * np.finfo(float).eps * h[-1]
    return (U[:, kept] * np.sqrt(h[kept]))[:, ::-1]


def _moments(
    rest: Rest,
    course: FlowPieces,
    C_W: float,
    z: tuple[np.ndarray, np.ndarray],
    outputs: np.ndarray,
) -> Means:
    size, first, second, count = np.sqrt(C_W), 0.0, 0.0, outputs.shape[2]
    one: list[np.ndarray] = []
    for weight, a in _of_degree_5(count):
        F = trained(rest, course, outputs, (Neuron(z[0], size * a),), (4, 0))
        one = [_mean(F, (0, 0)), _square(F, (0, 0))]
        first = first + weight * _mean(F, (4, 0))
        second = second + weight * _square(F, (4, 0))
    for (weight, a), (weight_1, a_1) in product(_of_degree_3(count), repeat=2):
        pair = Neuron(z[0], size * a), Neuron(z[1], size * a_1)
        F = trained(rest, course, outputs, pair, (2, 2))
        first = first - weight * weight_1 / 2 * _mean(F, (2, 2))
        second = second - weight * weight_1 / 2 * _square(F, (2, 2))
    return one[0], np.asarray(first), one[1], np.asarray(second)


def _mean(F: Series, at: tuple[int, int]) -> np.ndarray:
    return F[at].mean(axis=0)


def _square(F: Series, at: tuple[int, int]) -> np.ndarray:
    """Mean of one coefficient of the product of outputs with outputs."""
    p, q = at
    flat = F.reshape(*F.shape[:3], -1)
    terms = [flat[i, j].T @ flat[p - i, q - j] for i in range(p + 1) for j in range(q + 1)]
    samples, outputs = F.shape[3:]
    return (sum(terms) / flat.shape[2]).reshape(samples, outputs, samples, outputs)


def _of_degree_5(count: int) -> list[Point]:
    """Points for even polynomials of degree 4 of standard normal numbers, one of each pair a and -a."""
    eye, r = np.eye(count), np.sqrt(3.0)
    points = [(1 + (count**2 - 7 * count) / 18, np.zeros(count))]
    points += [((4 - count) / 9, r * e) for e in eye]
    points += [
        (1 / 18, r * (one + sign * other))
        for one, other in combinations(eye, 2)
        for sign in (1, -1)
    ]
    return [(weight, point) for weight, point in points if weight]


def _of_degree_3(count: int) -> list[Point]:
    """Points for even polynomials of degree 2, likewise."""
    return [(1 / count, np.sqrt(float(count)) * e) for e in np.eye(count)]
