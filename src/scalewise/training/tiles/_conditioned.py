r"""Gaussian expectations over up to four inputs, given one or two of them.

Two inputs are $z_a/\sqrt{K_{aa}}=su_1+tu_2$ and $z_b/\sqrt{K_{bb}}=su_1-tu_2$ with $s^2,t^2=(1\pm\rho_{ab})/2$ and
independent $u$. Given $u$, others are Gaussian with means $m(u)$ that are linear in it, variances $v^2$ that are
not functions of it, and a correlation $R_{cd}$, so that by Mehler's formula

$$\langle\phi_a\phi_b\phi_c\phi_d\rangle=\int du\,\phi_a\phi_b\sum_k\frac{R_{cd}^k}{k!}h^k_c(u)\,h^k_d(u),\qquad
  h^k_c(u)=\mathbb E\big[\phi_c(m_c+v_cg)\,\mathrm{He}_k(g)\big].$$

All entries with the same $a,b$ are matrix products. The trapezoid rule over $u$ converges exponentially for
analytic activations, and so does the series, of which the remainder is known where $c=d$. Of three inputs one is
given, $a=b$: nodes lie on a line, and two others are left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy.polynomial import hermite_e

from scalewise.activations import Activation

Matrix = Float[np.ndarray, "sample sample"]
Orders = tuple[int, ...]
# Products of four factors that expectations are taken of, the sharpest among them.
_PRODUCTS: tuple[Orders, ...] = ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 1, 1), (3, 1, 1, 1))
_STEPS = 1.2 * 0.88 ** np.arange(22)  # of the trapezoid rule, in standard deviations
_TERMS = 32  # of the series, at most
_STEP, _COARSE = 5, 0.1  # of accuracies of the series, and the coarsest of them
_FINER = 0.1  # for three inputs, of which there are few
_FAR = 9.0  # standard deviations beyond which nothing is
_CLOSE = 1e-7  # of s or t: two inputs that are one
_DERIVATIVES = 3  # of an activation, at most
_FACTORS = 4  # derivatives of two factors, together, at most
_KNOWN = 1e-3  # standard deviations that are left of a sample that others know
_SEEN = 24  # samples of which residual variances are looked at


@dataclass(frozen=True)
class Accuracy:
    """What is left out, relative to a product of four factors.

    Args:
        nodes: By the trapezoid rule along the sum of two inputs.
        across: Along their difference, in which all four factors never move together.
        series: By the series where two inputs are one, where its remainder is put in.
    """

    nodes: float
    across: float
    series: float


@dataclass(frozen=True)
class Rule:
    """Nodes for two inputs, and for what is left of a third.

    Args:
        u: Of the two.
        w: Their weights.
        g: Of the third.
        project: From values at `g` to coefficients of the series.
        needed: How many terms of the series are summed, by the orders of both derivatives.
    """

    u: Float[np.ndarray, "2 node"]
    w: Float[np.ndarray, " node"]
    g: Float[np.ndarray, " inner"]
    project: Float[np.ndarray, "term inner"]
    needed: dict[tuple[int, int], int]

    @property
    def terms(self) -> int:
        """The most."""
        return max(self.needed.values())


def product(sigma: Activation, orders: Orders, z: np.ndarray) -> np.ndarray:
    r"""$\prod_p\sigma^{(p)}$."""
    out = sigma.derivative(z, orders[0]) if orders[0] else sigma(z)
    for p in orders[1:]:
        out = out * (sigma.derivative(z, p) if p else sigma(z))
    return out


class Conditioned:
    """Inputs of one layer.

    Args:
        sigma: The activation.
        K: The kernel of all samples.
        accuracy: Of expectations.
        dtype: Of what is multiplied.
    """

    def __init__(
        self,
        sigma: Activation,
        K: Matrix,
        accuracy: Accuracy,
        dtype: type[np.floating] = np.float64,
    ) -> None:
        self.dtype = dtype
        self.sigma, self.sd = sigma, np.sqrt(np.maximum(np.diagonal(K), 0.0))
        scale = np.where(self.sd > 0, self.sd, 1.0)
        self.rho = np.clip(K / np.multiply.outer(scale, scale), -1.0, 1.0)
        self._accuracy = accuracy
        self._two: dict[tuple[Orders, Orders], Matrix] = {}
        self._open: dict[tuple[Orders, int, int], Matrix] = {}

    @cached_property
    def rule(self) -> Rule:
        """Nodes for two inputs."""
        return rule_for(self.sigma, self.rho, float(self.sd.max()), self._accuracy)

    @cached_property
    def line(self) -> Rule:
        """Nodes for one input."""
        return line_for(self.sigma, self.rho, float(self.sd.max()), self._accuracy)

    @cached_property
    def given_one(self) -> list[Float[np.ndarray, "given term node sample"]]:
        """`coefficients` of all inputs, given any one."""
        every = np.arange(len(self.sd))
        return self.coefficients(self.line, every, every, every)

    def two(self, first: Orders, second: Orders) -> Matrix:
        """Expectations of products that are of two inputs, of all inputs.

        Args:
            first: Orders of the derivatives, of one.
            second: Of the other.
        """
        if (first, second) not in self._two:
            count = len(self.sd)
            a, b = np.repeat(np.arange(count), count), np.tile(np.arange(count), count)
            found = np.empty(a.size)
            for pairs in _chunks(a.size, self.rule.w.size):
                one, other = self.ends(self.rule, a[pairs], b[pairs])
                values = product(self.sigma, first, one) * product(self.sigma, second, other)
                found[pairs] = values @ self.rule.w
            self._two[first, second] = found.reshape(count, count)
            self._two[second, first] = self._two[first, second].T
        return self._two[first, second]

    def open(self, given: Orders, p: int, q: int) -> Matrix:
        """What the series leaves out of two inputs that are one, given another.

        Args:
            given: Orders of what is given.
            p: Of one input.
            q: Of the other.
        """
        if (given, p, q) not in self._open:
            every = np.arange(len(self.sd))
            one, _ = self.ends(self.line, every, every)
            weight = self.line.w * product(self.sigma, given, one)
            found = self.two(given, (min(p, q), max(p, q))).copy()
            for k in range(self.line.needed[p, q]):
                both = self.given_one[p][:, k] * self.given_one[q][:, k]
                found -= np.matmul(weight[:, None], both)[:, 0]
            self._open[given, p, q] = self._open[given, q, p] = found
        return self._open[given, p, q]

    def alone(self, samples: np.ndarray, orders: Orders) -> Float[np.ndarray, " sample"]:
        """The expectation of a product that is of one input.

        Args:
            samples: Which inputs.
            orders: Of the derivatives.
        """
        u = _STEPS[-1] * np.arange(-round(_FAR / _STEPS[-1]), round(_FAR / _STEPS[-1]) + 1)
        w = np.exp(-(u**2) / 2)
        return product(self.sigma, orders, self.sd[samples][:, None] * u) @ (w / w.sum())

    def ends(self, rule: Rule, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The two inputs of each pair at the nodes, (pair, node).

        Args:
            rule: Nodes.
            a: First samples of pairs.
            b: Second samples.
        """
        (s, t), (u1, u2) = self._axes(a, b), rule.u
        both, apart = s[:, None] * u1, t[:, None] * u2
        return self.sd[a][:, None] * (both + apart), self.sd[b][:, None] * (both - apart)

    def along(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, ...]:
        """How others go with a pair, (pair, sample): with either axis, and what is left."""
        s, t = (np.where(x > _CLOSE, x, np.inf)[:, None] for x in self._axes(a, b))
        first, second = self.rho[np.ix_(a, c)], self.rho[np.ix_(b, c)]
        one, two = (first + second) / (2 * s), (first - second) / (2 * t)
        return one, two, np.sqrt(np.maximum(1 - one**2 - two**2, 0.0))

    def left(
        self, a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray
    ) -> Float[np.ndarray, "pair first second"]:
        """Correlations of others, given pairs."""
        one, two, rest = self.along(a, b, c)
        other_one, other_two, other_rest = self.along(a, b, d)
        found = self.rho[np.ix_(c, d)] - one[:, :, None] * other_one[:, None]
        found -= two[:, :, None] * other_two[:, None]
        size = rest[:, :, None] * other_rest[:, None]
        return np.clip(found / np.where(size > _CLOSE**2, size, np.inf), -1.0, 1.0)

    def coefficients(
        self, rule: Rule, a: np.ndarray, b: np.ndarray, c: np.ndarray
    ) -> list[Float[np.ndarray, "pair term node sample"]]:
        r"""$h^k/\sqrt{k!}$ of others, given pairs: of every derivative, from the activation alone.

        $\mathbb E[\sigma^{(p)}(m+vg)\mathrm{He}_k]=v^{-p}\,\mathbb E[\sigma(m+vg)\mathrm{He}_{k+p}]$, but where
        nothing is left of a sample it is $\sigma^{(p)}(m)$.

        Args:
            rule: Nodes.
            a: First samples of pairs.
            b: Second samples.
            c: The others.
        """
        one, two, rest = self.along(a, b, c)
        (u1, u2), terms = rule.u[:, :, None], rule.terms
        known = (rest < _KNOWN) | (self.sd[c] == 0)
        by = np.where(known, np.inf, rest * self.sd[c])
        shape = len(a), terms, u1.size, len(c)
        found = [np.empty(shape, self.dtype) for _ in range(_DERIVATIVES + 1)]
        scales = [np.sqrt(_falling(terms, p))[:, None, None] for p in range(_DERIVATIVES + 1)]
        for pairs in _chunks(len(a), u1.size * len(c) * rule.g.size):
            mean = one[pairs, None] * u1 + two[pairs, None] * u2
            z = mean[:, None] + rest[pairs, None, None] * rule.g[:, None, None]
            z *= self.sd[c]
            flat = self.sigma(z).reshape(len(mean), rule.g.size, -1)
            whole = (rule.project @ flat).reshape(len(mean), -1, *mean.shape[1:])
            where, sample = np.nonzero(known[pairs])
            at = self.sd[c[sample], None] * mean[where, :, sample]
            for p, out in enumerate(found):
                factor = scales[p] / by[pairs, None, None] ** p
                np.multiply(whole[:, p : p + terms], factor, out=out[pairs], casting="same_kind")
                if sample.size:
                    own = out[pairs]
                    own[where, :, :, sample] = 0.0
                    own[where, 0, :, sample] = product(self.sigma, (p,), at)
        return found

    def _axes(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r = self.rho[a, b]
        return np.sqrt((1 + r) / 2), np.sqrt((1 - r) / 2)


def rule_for(sigma: Activation, rho: Matrix, sd: float, accuracy: Accuracy) -> Rule:
    """Nodes that are as accurate as that.

    Args:
        sigma: The activation.
        rho: Correlations of all samples.
        sd: The largest standard deviation.
        accuracy: Wanted.
    """
    alike, apart = np.sqrt((1 + rho.max()) / 2), np.sqrt((1 - rho.min()) / 2)
    steps = _step(sigma, sd * alike, accuracy.nodes), _step(sigma, sd * apart, accuracy.across)
    radius = _radius(sigma, sd * alike, accuracy.nodes)
    lines = [np.arange(-np.floor(radius / h), np.floor(radius / h) + 1) for h in steps]
    return _rule(sigma, lines, steps, radius, _terms_for(sigma, sd * _residual(rho), accuracy))


def line_for(sigma: Activation, rho: Matrix, sd: float, accuracy: Accuracy) -> Rule:
    """Nodes of one input; nothing is saved where samples are few.

    Args:
        sigma: The activation.
        rho: Correlations of all samples.
        sd: The largest standard deviation.
        accuracy: Of expectations of four inputs.
    """
    nodes, series = accuracy.nodes * _FINER, accuracy.series * _FINER
    step, radius = _step(sigma, sd, nodes), _radius(sigma, sd, nodes)
    line = np.arange(-np.floor(radius / step), np.floor(radius / step) + 1)
    residual = np.sqrt(np.clip(1 - np.square(rho).min(), 0.0, 1.0))
    finer = Accuracy(nodes, nodes, series)
    needed = _terms_for(sigma, sd * residual, finer)
    return _rule(sigma, [line, np.zeros(1)], (step, step), radius, needed)


def _rule(
    sigma: Activation,
    lines: list[np.ndarray],
    steps: tuple[float, float],
    radius: float,
    needed: dict[tuple[int, int], int],
) -> Rule:
    """Nodes within a radius, half of them where that is enough."""
    places = np.stack(np.meshgrid(*lines, indexing="ij")).reshape(2, -1)
    if sigma.parity:  # four factors have as many odd ones as not: half of the nodes tell all
        places = places[:, (places[0] > 0) | ((places[0] == 0) & (places[1] >= 0))]
    u = places * np.array(steps)[:, None]
    near = np.sum(u**2, axis=0) <= radius**2
    u, places = u[:, near], places[:, near]
    w = np.exp(-np.sum(u**2, axis=0) / 2)
    if sigma.parity:
        w[np.any(places != 0, axis=0)] *= 2
    terms = max(needed.values())
    most = terms + _DERIVATIVES
    g, gw = _gauss(terms + 8)
    size = np.sqrt(_factorials(most))
    project = hermite_e.hermevander(g, most - 1).T * gw / size[:, None]
    return Rule(u, w / w.sum(), g, project, needed)


def _factorials(count: int) -> Float[np.ndarray, " term"]:
    return np.cumprod(np.maximum(np.arange(count), 1.0))


def _falling(terms: int, p: int) -> Float[np.ndarray, " term"]:
    """$(k+p)!/k!$."""
    k = np.arange(terms)
    return np.prod([k + i for i in range(1, p + 1)], axis=0) * np.ones(terms)


def _step(sigma: Activation, scale: float, accuracy: float) -> float:
    """The largest at which four factors that are one input are found."""
    for step in _STEPS:
        for orders in _PRODUCTS:
            found, _ = _on_line(sigma, orders, scale, step)
            known, size = _on_line(sigma, orders, scale, step / 2)
            if abs(found - known) > accuracy * size:
                break
        else:
            return float(step)
    return float(_STEPS[-1])


def _radius(sigma: Activation, scale: float, accuracy: float) -> float:
    """Within which four factors that are one input are found."""
    r = np.linspace(0.0, _FAR, 541)
    within = 0.0
    for orders in _PRODUCTS:
        size = sum(np.abs(product(sigma, orders, sign * scale * r)) for sign in (1, -1))
        beyond = np.cumsum((r * np.exp(-(r**2) / 2) * size)[::-1])[::-1]
        within = max(within, float(r[np.argmax(beyond <= accuracy * beyond[0])]))
    return within


def _on_line(sigma: Activation, orders: Orders, scale: float, step: float) -> tuple[float, float]:
    u = step * np.arange(-np.floor(_FAR / step), np.floor(_FAR / step) + 1)
    w = np.exp(-(u**2) / 2)
    w /= w.sum()
    values = product(sigma, orders, scale * u)
    return float(w @ values), float(w @ np.abs(values))


def _residual(rho: Matrix) -> float:
    """The largest standard deviation of a sample given two others, relative to its own; of some samples."""
    some = np.unique(np.linspace(0, len(rho) - 1, _SEEN).round().astype(int))
    K = rho[np.ix_(some, some)]
    first, second = np.triu_indices(len(some), 1)
    if len(first) == 0:
        return 0.0
    r = K[first, second][:, None]
    a, b = K[first], K[second]
    known = (a**2 + b**2 - 2 * r * a * b) / np.maximum(1 - r**2, _CLOSE)
    return float(np.sqrt(np.clip(1 - known, 0.0, 1.0).max()))


def _terms_for(sigma: Activation, scale: float, accuracy: Accuracy) -> dict[tuple[int, int], int]:
    """How many of the series tell a product of two derivatives of one input, relative to their sizes.

    Where others are 0 every second term is, too: an accuracy that is finer by `_STEP` has two terms more at least.
    """
    g, w = _gauss(2 * _TERMS)
    He = hermite_e.hermevander(g, _TERMS - 1)
    norms, left = _factorials(_TERMS), []
    for p in range(_DERIVATIVES + 1):
        values = product(sigma, (p,), scale * g)
        shares = (He.T @ (w * values)) ** 2 / norms / max(float(w @ values**2), 1e-300)
        left.append(np.sqrt(np.clip(1 - np.cumsum(shares), 0.0, 1.0)))
    coarser = max(0, round(np.log(_COARSE / accuracy.series) / np.log(_STEP)))
    levels = accuracy.series * float(_STEP) ** np.arange(coarser, -1, -1)
    found = {}
    for p, q in np.ndindex(_DERIVATIVES + 1, _DERIVATIVES + 1):
        if p + q > _FACTORS:
            continue
        both, terms = np.append(left[p] * left[q], 0.0), 0
        for level in levels:
            terms = min(max(terms + 2, 1 + int(np.argmax(both < level))), _TERMS)
        found[p, q] = terms
    return found


def _gauss(count: int) -> tuple[np.ndarray, np.ndarray]:
    g, w = hermite_e.hermegauss(count)
    return g, w / w.sum()


def _chunks(count: int, size: int, most: int = 400_000) -> Iterator[slice]:
    step = max(1, most // size)
    for start in range(0, count, step):
        yield slice(start, start + step)
