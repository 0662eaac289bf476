r"""Nodes for expectations over many inputs at once: product rules and shared Sobol samples.

Four-point expectations $\langle\sigma_a\sigma_b\sigma_c\sigma_d\rangle_K$ over $N$ inputs are $N^4$ numbers.
With nodes $z^{(m)}\in\mathbb R^N$ of the joint Gaussian and pair features $\phi^{(m)}_{ab}=f_ag_b$ they are
one weighted matrix product. Up to four inputs of a smooth activation the nodes are a Gauss-Hermite
product rule; otherwise scrambled Sobol points, whose independent scrambles give the error bar.

An expectation over nodes is a smooth function of its inputs, and so is what is wrong with it: entries are wrong
*alike*. A contraction with inverse kernels takes differences of inputs that are close and magnifies them, so it
wants all entries wrong alike rather than some of them exact.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from jaxtyping import Float
from scipy import special

from scalewise._readable import readable

MAX_PRODUCT_INPUTS = 4
SCRAMBLES = 16
# What a kernel, and so every expectation, is known to; and how often a recursion is run again with
# every expectation moved by its error, up or down at random.
INHERITED, SHAKES = 1e-12, 2
_SHAKEN = 3.0  # two random signs may both happen to do little
# Two levels that differ by more have seen two different functions; samples then know more.
_UNRESOLVED = 1e-3
# What two levels leave open, in units of their worst change. A smooth function is seen by both, and the finer
# is far better; one that bends between the nodes may look alike to both. Measured on entries that are known.
_SHARE, _ALIKE, _BENDS = 0.3, 6.0, 1e-5
_ROUNDOFF = 1e-12
# Standard errors of a few scrambles are themselves uncertain, and an error bar is to hold for all entries;
# where no sample has met an event that is rare, they are 0: a share of the worst one is in all.
_STANDARD_ERRORS, _LUCK, _SUMMED = 4.0, 0.1, 4e-15
MOST_POINTS = 1 << 13
_PRODUCT_LEVELS = {1: (128, 192), 2: (128, 192), 3: (48, 64), 4: (20, 28)}
_ONE_INPUT = 1e6
_FEW_NUMBERS = 1 << 10
_SAMPLE_WORK = 1.5e11  # multiplications that one layer may spend on the N^4 products


@dataclass(frozen=True)
@readable
class JointRule:
    r"""A few independent or successive node sets for $z\sim N(0,K)$.

    Args:
        engine: ``"product"`` (two levels of one rule) or ``"samples"`` (independent scrambles).
        root: $R$ with $RR^T=K$: nodes are $Ru$ with $u$ standard normal.
        seed: Of the scrambles.
        points: Points of each scramble, or nodes per axis of the two product levels.
        spare: Points of each scramble to be used where a product rule does not resolve the integrand.
        alike: Whether all entries keep the errors of one rule, without a better value for some of them.
    """

    engine: str
    root: Float[np.ndarray, "input rank"]
    seed: int
    points: tuple[int, ...]
    spare: tuple[int, ...] = ()
    alike: bool = False

    @property
    def samples(self) -> JointRule:
        """The samples that stand in for a product rule."""
        if self.engine == "samples":
            return self
        return replace(self, engine="samples", points=self.spare, spare=())

    def of_size(self, points: int, scrambles: int) -> JointRule:
        """Samples of another size, in `points` and `scrambles`."""
        return replace(self, engine="samples", points=(points,) * scrambles, spare=())

    @property
    def estimates(self) -> int:
        """Number of estimates that `nodes` yields."""
        return len(self.points)

    def nodes(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Nodes for each estimate, by input and node, and their weights."""
        rank = self.root.shape[1]
        for k in range(self.estimates):
            if self.engine == "product":
                u, w = _product_rule(self.points[k], rank)
            else:
                u, w = _sobol(self.points[k], rank, self.seed + k)
            yield self.root @ u, w

    def combine(
        self, estimates: Float[np.ndarray, "_estimate *shape"]
    ) -> tuple[Float[np.ndarray, "*shape"], Float[np.ndarray, "*shape"]]:
        """The value and its error from the `estimates`, whatever was computed from each.

        Product rules: the finer level and its distance from the coarser. Samples: the mean over
        scrambles and its standard error.
        """
        if self.engine == "product":
            finer = np.asarray(estimates[-1])
            return finer, np.asarray(np.abs(finer - estimates[0]))
        return combined(estimates)

    def unseen(
        self,
        estimates: Float[np.ndarray, "_estimate *shape"],
        size: Float[np.ndarray, "*shape"],
    ) -> Float[np.ndarray, "*shape"]:
        """The error beyond the spread of samples, for estimates of some size: see the function of this name.

        0 if entries are to be wrong alike: errors that move them one by one would end that.

        Args:
            estimates: Of every scramble.
            size: In whose parts the error is told.
        """
        return np.zeros_like(size) if self.alike else unseen(estimates, size)


def at_least_usual(
    value: Float[np.ndarray, "*shape"], error: Float[np.ndarray, "*shape"]
) -> Float[np.ndarray, "*shape"]:
    """Errors of which none is small because a few scrambles happen to agree.

    Args:
        value: Numbers of one kind.
        error: Their errors.

    Returns:
        Errors not below the usual one, nor below the usual share of the number.
    """
    usual, size = (float(np.sqrt(np.mean(np.square(x)))) for x in (error, value))
    shares = np.maximum(1.0, np.abs(value) / size) if size else 1.0
    return np.asarray(np.hypot(error, usual * shares))


def shaken(
    value: Float[np.ndarray, "*shape"],
    error: Float[np.ndarray, "*shape"],
    key: tuple[int, ...],
    *,
    alike: int = 0,
) -> Float[np.ndarray, "*shape"]:
    """Numbers moved by about their errors, up or down at random.

    Args:
        value: The numbers.
        error: Their errors; what they inherit from the kernel is added.
        key: Seed of the random numbers.
        alike: How many axes there are, the first, along which all are moved alike.
    """
    shape = value.shape[alike:]
    moves = _kept_moves if math.prod(shape) <= _FEW_NUMBERS else _moves
    return np.asarray(value + moves(key, shape) * (error + INHERITED * np.abs(value)))


def _moves(key: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    """Up or down; never by little, nor all by the same: the errors of two factors would cancel."""
    by = np.random.default_rng(key).uniform(-1.0, 1.0, size=shape)
    return by + 0.5 * np.sign(by)


_kept_moves = lru_cache(maxsize=512)(_moves)  # through a thousand layers they are the same


def combined(
    estimates: Float[np.ndarray, "_estimate *shape"],
) -> tuple[Float[np.ndarray, "*shape"], Float[np.ndarray, "*shape"]]:
    """Mean of independent `estimates` and its standard error; one alone is its own value, and has none."""
    if len(estimates) == 1:
        return np.asarray(estimates[0]), np.zeros(estimates.shape[1:])
    spread = estimates.std(axis=0, ddof=1) / np.sqrt(len(estimates))
    return np.asarray(estimates.mean(axis=0)), np.asarray(spread)


def with_shakes(
    runs: list[Float[np.ndarray, "_estimate *shape"]],
) -> tuple[Float[np.ndarray, "*shape"], Float[np.ndarray, "*shape"]]:
    """Value and error of a recursion that was also run with all its expectations moved by their errors.

    Args:
        runs: The run itself, by estimate, then the others, of one estimate each.
    """
    value, error = combined(runs[0])
    moved = sum(np.abs(run[0] - value) for run in runs[1:])
    return value, np.asarray(_STANDARD_ERRORS * error + _SHAKEN * moved)


def resolved(
    levels: list[Float[np.ndarray, "*shape"]], size: Float[np.ndarray, "*shape"]
) -> Float[np.ndarray, "*shape"] | None:
    """Error of the finer of two levels of a product rule, as both tell it; ``None``: they tell nothing.

    Args:
        levels: The coarser result, and the finer.
        size: The natural size of each entry, of which errors are parts.

    Returns:
        An error that no entry has by luck: a share of the worst one, in units of its size, is in all.
    """
    change = np.abs(levels[1] - levels[0])
    worst = _worst(change, size)
    share = np.clip(_SHARE * worst / _BENDS, _SHARE, _ALIKE)
    if not worst <= _UNRESOLVED:
        return None
    return np.asarray(change + (_ROUNDOFF + share * worst) * size)


def unseen(
    estimates: Float[np.ndarray, "_estimate *shape"], size: Float[np.ndarray, "*shape"]
) -> Float[np.ndarray, "*shape"]:
    """Error by rounding and by what samples may have missed beside the spread of estimates, in parts of `size`."""
    return np.asarray((_SUMMED + _LUCK * _worst(combined(estimates)[1], size)) * size)


def _worst(error: np.ndarray, size: np.ndarray) -> float:
    relative = np.divide(error, size, out=np.zeros_like(error), where=size > 0)
    return float(np.max(relative, initial=0.0))


def joint_rule(
    K: Float[np.ndarray, "input input"],
    *,
    smooth: bool,
    seed: int = 0,
    points: int = MOST_POINTS,
    scrambles: int = SCRAMBLES,
    alike: bool = False,
) -> JointRule:
    r"""Nodes for expectations under $N(0,K)$.

    Args:
        K: Covariance, positive semidefinite; may be singular (coincident inputs).
        smooth: Whether the integrands are smooth; a product rule across a kink is quietly wrong.
        seed: Of the scrambles, if samples are used.
        points: The most that one scramble may have, a power of two; many inputs get fewer.
        scrambles: How many there are.
        alike: Whether all entries are to be wrong alike, see `JointRule`.

    Raises:
        ValueError: If `K` is not symmetric, finite and positive semidefinite.
    """
    if K.ndim != 2 or K.shape[0] != K.shape[1] or not np.all(np.isfinite(K)):
        raise ValueError(f"`K` must be a finite square matrix; got shape {K.shape}.")
    if not np.allclose(K, K.T, rtol=1e-10, atol=0):
        raise ValueError("`K` must be symmetric.")
    value, vector = np.linalg.eigh(K)
    if value[0] < -1e-9 * max(value[-1], np.finfo(float).tiny):
        raise ValueError(
            "`K` must be positive semidefinite; its smallest eigenvalue is "
            f"{value[0]:.3g} against a largest of {value[-1]:.3g}."
        )
    # Largest variance on the first coordinate: Sobol points are most uniform there.
    keep = value > 1e-15 * value[-1]
    root = (vector[:, keep] * np.sqrt(value[keep]))[:, ::-1]
    root[np.diagonal(K) == 0] = 0.0
    count = len(K)
    pairs = count * (count + 1) // 2
    budget = _SAMPLE_WORK / (scrambles * pairs * pairs)
    exponent = int(np.clip(np.floor(np.log2(budget)), 9, np.log2(points)))
    samples = (1 << exponent,) * scrambles
    if smooth and count <= MAX_PRODUCT_INPUTS:
        return JointRule(
            "product", root, seed, _PRODUCT_LEVELS[root.shape[1]], samples, alike=alike
        )
    return JointRule("samples", root, seed, samples, alike=alike)


def joint_work(count: int, *, smooth: bool) -> float:
    """About how many multiplications the expectations over all pairs of pairs of inputs take in a layer.

    That is with as many points as samples may have; `joint_rule` gives fewer to very many inputs.

    Args:
        count: How many inputs there are; one alone is read from a table.
        smooth: Whether the activation is smooth.
    """
    if count == 1:
        return float(_ONE_INPUT)
    if smooth and count <= MAX_PRODUCT_INPUTS:
        nodes = sum(level**count for level in _PRODUCT_LEVELS[count])
    else:
        nodes = SCRAMBLES * MOST_POINTS
    pairs = count * (count + 1) // 2
    # Measured: a feature of a pair takes as long as 100 multiplications of a matrix product, a value of
    # the activation as long as 500.
    return float(nodes) * (pairs * pairs + 100 * pairs + 500 * count)


@lru_cache(maxsize=4)
def _product_rule(points: int, rank: int) -> tuple[np.ndarray, np.ndarray]:
    x, w = np.polynomial.hermite_e.hermegauss(points)
    w = w / w.sum()
    nodes = np.array(list(itertools.product(x, repeat=rank))).reshape(-1, rank)
    weights = np.array(list(itertools.product(w, repeat=rank))).reshape(-1, rank).prod(axis=1)
    keep = weights > 1e-18 * weights.max()
    return np.ascontiguousarray(nodes[keep].T), weights[keep]


@lru_cache(maxsize=2 * SCRAMBLES)
def _sobol(points: int, rank: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    from scipy.stats import qmc  # here, because its import takes as long as many a prediction

    uniform = qmc.Sobol(rank, scramble=True, rng=np.random.default_rng(seed)).random(points)
    normal = special.ndtri(np.clip(uniform, 1e-16, 1 - 1e-16))
    return np.ascontiguousarray(normal.T), np.full(points, 1.0 / points)
