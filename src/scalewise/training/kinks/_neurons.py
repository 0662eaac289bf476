r"""Coefficients of $n^{-1/2}$ after training, of one hidden layer with kinks.

With $\kappa=n^{-1/2}$, outputs are $z_{i;x}=\kappa\sum_kA_{ik}\sigma(h_{k;x})$ and neurons learn by

$$\dot h_{k;x}=-\kappa\sum_s\Lambda_{xs}\,\sigma'(h_{k;s})\,A_k\cdot\varepsilon_s,\qquad
  \Lambda_{xs}=\lambda_b^{(1)}+\lambda_W^{(1)}\frac{x\cdot s}{n_0}.$$

Every neuron moves by $\kappa$, so a share $\kappa$ of them meets the kink $c$ of a training sample $s$. In the NTK,
$\frac1n\sum_kA_{ik}A_{jk}\sigma'_{k;x}\sigma'_{k;s}\Lambda_{xs}$, those that change sides would cancel, as many to
the right as to the left, if the sign of $A$ alone decided the way. But $\sigma'(h_{k;s})$ is part of the speed:
neurons come to the kink with one speed and leave it with another, or stick. What is even in $A$ survives,

$$\delta\Theta_{ij;xs}=\kappa\,p_s(c)\,\Lambda_{xs}\,\mathbb E\big[A_iA_j\,\sigma'_x\,[\sigma']_cf\big],
  \qquad x\ne s,$$

and on the diagonal with $\sigma_+'^2-\sigma_-'^2$ in place of $\sigma'_x[\sigma']_c$; $p_s(c)$ is the density of
$h_s$. Outputs are displaced by

$$P_{i;x}=\kappa\,p_s(c)\,\mathbb E[A_i\,\sigma'_x\Lambda_{xs}X],\quad x\ne s,\qquad
  P_{i;s}=\kappa\,p_s(c)\,\mathbb E[A_iY],$$

beside the linear network, and what they are on the training samples is unlearned, $\delta z=\Theta\,\delta a+P$.
All is given the initial outputs, whose course at infinite width drives the neurons, so that

$$\delta m=\mathbb E[\delta z],\qquad
  \delta{\rm Cov}[z_{i;x},z_{j;y}]=\mathbb E[\delta z_{i;x}\zeta_{j;y}]+\mathbb E[\zeta_{i;x}\delta z_{j;y}],$$

$\zeta=z_0-R\,z_{0;\mathcal A}$. Kinks at tests change no speed, and add nothing at this order; fluctuations of the
NTK and smooth curvature begin at $\kappa^2$. $f$, $X$ and $Y$ are homogeneous in $A$ of degree 1, 2, 2, with the
scale of $u_0$: $A$ is a direction times a length whose third moment is exact, and directions come in pairs $\pm$.

Expectations are averages over scrambled Sobol points, of initial outputs and of the other samples' sides of their
kinks together: $2^{N-1}$ patterns for $N$ samples are never listed. Sides at tests are averaged exactly.

Source: derived; held against 8 million trained networks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln, ndtr, ndtri

from scalewise.activations import Activation
from scalewise.training._spectrum import Spectrum
from scalewise.training.kinks._course import KinkCourse
from scalewise.training.kinks._crossing import GRID, SampleKink, crossed

_CHUNK = 512  # draws at a time
_FLAT = 1e-12  # share of a variance that is rounding
_PINV = 1e-11  # likewise, of an inverse


class Coefficients(NamedTuple):
    """Coefficients of $n^{-1/2}$, a time axis in front; samples are training samples, then tests.

    Args:
        mean: Of outputs.
        covariance: Of tests, or empty.
        variance: Of all samples.
        ntk_change: Of the NTK.
    """

    mean: Float[np.ndarray, "time output sample"]
    covariance: Float[np.ndarray, "time output output test test"]
    variance: Float[np.ndarray, "time output sample"]
    ntk_change: Float[np.ndarray, "time output output sample sample"]


@dataclass(frozen=True, eq=False)
class Hidden:
    r"""The hidden layer on different inputs, training inputs first.

    Args:
        K: Covariance of its preactivations.
        Lambda: $\Lambda$.
        count: Training inputs.
        sigma: Piecewise linear.
    """

    K: Float[np.ndarray, "input input"]
    Lambda: Float[np.ndarray, "input input"]
    count: int
    sigma: Activation

    @cached_property
    def kinks(self) -> Float[np.ndarray, " kink"]:
        """Where slopes jump."""
        return np.array([kink.location for kink in self.sigma.kinks if kink.slope_jump])

    @cached_property
    def slopes(self) -> Float[np.ndarray, " piece"]:
        """Between the kinks."""
        at = self.kinks
        inner = (at[1:] + at[:-1]) / 2
        return self.sigma.derivative(np.concatenate([at[:1] - 1.0, inner, at[-1:] + 1.0]))

    @cached_property
    def known(self) -> Float[np.ndarray, "train test"]:
        """Regression of preactivations of tests on those of training inputs."""
        n = self.count
        return np.linalg.pinv(self.K[:n, :n], rcond=_PINV, hermitian=True) @ self.K[:n, n:]

    @cached_property
    def unknown(self) -> Float[np.ndarray, " test"]:
        """The standard deviation of what they do not tell."""
        n, own = self.count, np.diag(self.K)[self.count :]
        left = own - np.einsum("it,it->t", self.K[:n, n:], self.known)
        return np.sqrt(np.maximum(left, _FLAT * own))


@dataclass(frozen=True, eq=False)
class Kinked:
    """Neurons at one kink of one training input.

    Args:
        hidden: The hidden layer.
        s: The input.
        place: Of the kink among all kinks.
    """

    hidden: Hidden
    s: int
    place: int

    @cached_property
    def kink(self) -> SampleKink:
        """The kink."""
        left, right = self.hidden.slopes[self.place : self.place + 2].tolist()
        return SampleKink(left, right, float(self.hidden.Lambda[self.s, self.s]))

    @cached_property
    def density(self) -> float:
        """$p_s(c)$."""
        variance, c = float(self.hidden.K[self.s, self.s]), float(self.hidden.kinks[self.place])
        return math.exp(-(c**2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)

    @cached_property
    def _law(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean preactivations at training inputs, and a root of their covariance."""
        n, K, s = self.hidden.count, self.hidden.K, self.s
        own = K[:n, s] / K[s, s]
        return own * self.hidden.kinks[self.place], root_of(
            K[:n, :n] - np.outer(own, K[s, :n]), float(K[s, s])
        )

    def slopes(self, normal: Float[np.ndarray, "draw train"]) -> Float[np.ndarray, "draw input"]:
        """Slopes of neurons at all inputs; at tests their mean, given those at training inputs."""
        hidden, (mean, root) = self.hidden, self._law
        h = mean + normal[:, : root.shape[1]] @ root.T
        at, slopes = hidden.kinks, hidden.slopes
        beyond = ndtr((h @ hidden.known - at[:, None, None]) / hidden.unknown)
        tests = slopes[0] + np.tensordot(np.diff(slopes), beyond, 1)
        return np.concatenate([slopes[np.searchsorted(at, h)], tests], axis=1)


@dataclass(frozen=True, eq=False)
class KinkSetting:
    r"""The training at infinite width, about which order n^(-1/2) is found.

    Args:
        hidden: The hidden layer.
        places: Where each sample is among the different inputs, training samples first.
        y: Targets, (output, train).
        K: Kernel of the outputs, of all samples.
        Theta: Their NTK.
        trained: Its spectrum on the training samples.
        course: The training.
        C_W: Of the last layer.
        joint: Whether covariances between tests are wanted.
    """

    hidden: Hidden
    places: Int[np.ndarray, " sample"]
    y: Float[np.ndarray, "output train"]
    K: Float[np.ndarray, "sample sample"]
    Theta: Float[np.ndarray, "sample sample"]
    trained: Spectrum
    course: KinkCourse
    C_W: float
    joint: bool

    @property
    def U(self) -> Float[np.ndarray, "train direction"]:
        """Directions that learn."""
        return self.trained.U[:, self.trained.h > 0]

    def unlearned(self, k: int) -> Float[np.ndarray, "sample train"]:
        """$R$ at a node: how outputs follow those on the training samples."""
        return self.Theta[:, : len(self.U)] @ (self.U * self.course.gain[k]) @ self.U.T

    def third(self) -> float:
        """The third moment of the length of $A$, over the outputs of one neuron."""
        n = len(self.y)
        return (2 * self.C_W) ** 1.5 * math.exp(gammaln((n + 3) / 2) - gammaln(n / 2))


def coefficients(
    setting: KinkSetting, *, draws: int, scrambles: int, seed: int
) -> list[Coefficients]:
    """Estimates that differ by their random numbers alone.

    Args:
        setting: The network and its training.
        draws: For each kink of each training input, a power of two.
        scrambles: How many estimates.
        seed: Of the scrambles.
    """
    streams = np.random.default_rng(seed).spawn(scrambles)
    totals: list[list[np.ndarray]] = [[] for _ in streams]
    hidden = setting.hidden
    for s in range(hidden.count):
        for place in range(len(hidden.kinks)):
            kinked = Kinked(hidden, s, place)
            for total, stream in zip(totals, streams, strict=True):
                _add(total, _of_kink(setting, kinked, draws, stream))
    return [Coefficients(*total) for total in totals]


def _add(total: list[np.ndarray], part: list[np.ndarray], share: float = 1.0) -> None:
    """Add a share of each to the sums, in place."""
    if not total:
        total.extend(np.zeros_like(p) for p in part)
    for sum_, p in zip(total, part, strict=True):
        sum_ += share * p


def root_of(C: Float[np.ndarray, "a a"], unit: float) -> Float[np.ndarray, "a b"]:
    """A matrix whose square is `C`, the largest directions first, without those that rounding makes."""
    value, vector = np.linalg.eigh(C)
    kept = value > _FLAT * max(unit, float(value.max(initial=0.0)))
    return (vector[:, kept] * np.sqrt(value[kept]))[:, ::-1]


def _of_kink(
    setting: KinkSetting, kinked: Kinked, draws: int, stream: np.random.Generator
) -> list[np.ndarray]:
    """The coefficients that neurons at one kink of one training input add."""
    from scipy.stats import qmc  # here, because its import takes as long as many a prediction

    outputs, count = setting.y.shape
    root = root_of(setting.K[:count, :count], float(np.trace(setting.K)) / len(setting.K))
    sizes = np.cumsum([root.shape[1] * outputs, setting.hidden.count, 1])
    size = int(sizes[-1]) + (outputs if outputs > 1 else 0)
    sobol = qmc.Sobol(size, scramble=True, rng=stream)
    total: list[np.ndarray] = []
    for start in range(0, draws, _CHUNK):
        many = min(_CHUNK, draws - start)
        uniform = np.clip(sobol.random(many), 1e-15, 1 - 1e-15)
        first, second, shift, way = np.split(uniform, sizes, axis=1)
        z = ndtri(first).reshape(many, outputs, -1) @ root.T
        d = ndtri(way) if outputs > 1 else np.ones((many, 1))
        d = d / np.linalg.norm(d, axis=1, keepdims=True)
        _add(total, _of_draws(setting, kinked, (z, ndtri(second), shift, d)), many / draws)
    return total


def _of_draws(
    setting: KinkSetting, kinked: Kinked, drawn: tuple[np.ndarray, ...]
) -> list[np.ndarray]:
    """Coefficients of given initial outputs, other samples' sides, offsets of places and last weights."""
    (z, normal, shift, d), kink, s = drawn, kinked.kink, kinked.s
    course, U, count = setting.course, setting.U, setting.y.shape[1]
    seen = setting.hidden.Lambda[s] * kinked.slopes(normal)
    seen[:, s] = 0.0
    own = setting.places[:count] == s
    error = np.einsum("mit,mi->mt", z - setting.y, d) @ U
    others = np.where(own, 0.0, seen[:, setting.places[:count]])
    paths = [-course.gain @ (error * v).T for v in (others @ U, own.astype(float) @ U)]
    low, high = kink.reach(*paths)
    even = (np.arange(GRID) + shift) / GRID
    start = -(low + (high - low) * even.T).T
    wanted = np.zeros(course.steps + 1, dtype=bool)
    wanted[list(course.marks)] = True
    wanted |= not all(course.over)
    ways = [
        crossed(course, kink, (sign * paths[0], sign * paths[1]), sign * start, wanted)
        for sign in (1.0, -1.0)
    ]
    scale = setting.third() * kinked.density * (high - low)
    even_f = scale * (ways[0][0] + ways[1][0]) / 2
    X, Y = (scale * (one - other) / 2 for one, other in zip(ways[0][1:], ways[1][1:], strict=True))
    itself = (setting.places == s).astype(float)
    beside = seen[:, setting.places]
    P = X[:, :, None] * (beside[:, :count] @ U) + Y[:, :, None] * (itself[:count] @ U)
    answers = course.answered(P)
    reaches = setting.Theta[:, :count] @ U
    parts = []
    for k, answer in zip(course.marks, answers, strict=True):
        r = X[k][:, None] * beside + Y[k][:, None] * itself + answer @ reaches.T
        parts.append(
            [*_moments(setting, k, (z, d, r)), _ntk_change(kink, (even_f[k], d), beside, itself)]
        )
    return [np.stack(part) for part in zip(*parts, strict=True)]


def _moments(setting: KinkSetting, k: int, drawn: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """Mean, covariance of tests and variance of all samples, from displacements along the last weights."""
    z, d, r = drawn
    count, draws = setting.y.shape[1], len(z)
    mean = d.T @ r / draws
    K = setting.K
    known = K[:, :count] @ np.linalg.pinv(K[:count, :count], rcond=_PINV, hermitian=True)
    zeta = z @ (known - setting.unlearned(k)).T
    away = d[:, :, None] * r[:, None, :] - mean
    variance = 2 * np.einsum("mix,mix->ix", away, zeta) / draws
    if not setting.joint:
        return [mean, np.zeros(0), variance]
    half = np.einsum("mix,mjy->ijxy", away[:, :, count:], zeta[:, :, count:], optimize=True) / draws
    return [mean, half + half.transpose(1, 0, 3, 2), variance]


def _ntk_change(
    kink: SampleKink,
    crossing: tuple[np.ndarray, np.ndarray],
    beside: np.ndarray,
    itself: np.ndarray,
) -> np.ndarray:
    """Rows and columns of one training input."""
    f, d = crossing
    pairs = d[:, :, None] * d[:, None, :] * f[:, None, None] / len(d)
    row = kink.jump * np.einsum("mij,mx->ijx", pairs, beside)
    squares = (kink.right**2 - kink.left**2) * kink.Lambda
    own = squares * pairs.sum(axis=0)
    rows = row[..., :, None] * itself
    return rows + np.swapaxes(rows, -1, -2) + own[:, :, None, None] * np.outer(itself, itself)
