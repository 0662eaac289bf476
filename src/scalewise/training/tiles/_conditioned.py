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

import math
from functools import cached_property

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.training.tiles._rules import (
    CLOSE,
    DERIVATIVES,
    FAR,
    STEPS,
    Accuracy,
    NodeRule,
    Nodes,
    Orders,
    inner_nodes,
    line_for,
    product,
    projection,
    rule_for,
)
from scalewise.training.tiles._series import Given, Rest, chunks, falling, summed
from scalewise.training.tiles._telling import telling

Matrix = Float[np.ndarray, "sample sample"]
_KNOWN = 1e-5  # standard deviations that are left of a sample that others know
# Of the scale of the activation, below which coefficients are those of derivatives; by bytes of a number.
_LITTLE = {8: 0.05, 4: 0.15}
_PASSED = 0.1  # of what nodes may leave out: by those that are passed over
_CORRELATIONS = 6  # of two inputs, by which it is seen which ones these are
_INNER, _ORDERS = 12, 8  # nodes of so little, and coefficients of the last derivative


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
        self.dtype, self._size = dtype, np.dtype(dtype).itemsize
        self.sigma, self.sd = sigma, np.sqrt(np.maximum(np.diagonal(K), 0.0))
        scale = np.where(self.sd > 0, self.sd, 1.0)
        self.rho = np.clip(K / np.multiply.outer(scale, scale), -1.0, 1.0)
        self._accuracy = accuracy
        self._two: dict[tuple[Orders, Orders], Matrix] = {}
        self._telling: dict[tuple[Orders, Orders], list[Nodes]] = {}
        self._open: dict[tuple[Orders, int, int], Rest] = {}

    @cached_property
    def rule(self) -> NodeRule:
        """Nodes for two inputs."""
        return rule_for(self.sigma, self.rho, float(self.sd.max()), self._accuracy)

    @cached_property
    def line(self) -> NodeRule:
        """Nodes for one input."""
        return line_for(self.sigma, self.rho, float(self.sd.max()), self._accuracy)

    @cached_property
    def given_one(self) -> Given:
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
            for pairs in chunks(a.size, self.rule.w.size):
                one, other = self.ends(self.rule, a[pairs], b[pairs])
                values = product(self.sigma, first, one) * product(self.sigma, second, other)
                found[pairs] = values @ self.rule.w
            self._two[first, second] = found.reshape(count, count)
            self._two[second, first] = self._two[first, second].T
        return self._two[first, second]

    def telling(self, first: Orders, second: Orders) -> list[Nodes]:
        """For each term of the series, nodes that tell of it, given two inputs with these derivatives."""
        if (first, second) not in self._telling:
            between = self.rho[~np.eye(len(self.rho), dtype=bool)]
            rho = np.linspace(between.min(initial=1.0), between.max(initial=-1.0), _CORRELATIONS)
            sd, accuracy = np.unique([self.sd.min(), self.sd.max()]), _PASSED * self._accuracy.nodes
            found = telling(self.sigma, self.rule, (first, second), sd, rho, accuracy)
            self._telling[first, second] = found
        return self._telling[first, second]

    def open(self, given: Orders, p: int, q: int) -> Rest:
        """The rest of the series of two inputs that are one, given another.

        Args:
            given: Orders of what is given.
            p: Of one input.
            q: Of the other.
        """
        if (given, p, q) not in self._open:
            every = np.arange(len(self.sd))
            one, _ = self.ends(self.line, every, every)
            weight = self.line.w * product(self.sigma, given, one)
            both = self.given_one, self.given_one
            lasts: list[np.ndarray] = []
            (series,) = summed(weight, self.line, [(p, q)], both, None, lasts)
            found = self.two(given, (min(p, q), max(p, q))) - series
            self._open[given, p, q] = self._open[given, q, p] = found, lasts[0]
        return self._open[given, p, q]

    def alone(self, samples: np.ndarray, orders: Orders) -> Float[np.ndarray, " sample"]:
        """The expectation of a product that is of one input.

        Args:
            samples: Which inputs.
            orders: Of the derivatives.
        """
        u = STEPS[-1] * np.arange(-round(FAR / STEPS[-1]), round(FAR / STEPS[-1]) + 1)
        w = np.exp(-(u**2) / 2)
        return product(self.sigma, orders, self.sd[samples][:, None] * u) @ (w / w.sum())

    def ends(self, rule: NodeRule, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The two inputs of each pair at the nodes, (pair, node).

        Args:
            rule: Nodes.
            a: First samples of pairs.
            b: Second samples.
        """
        return rule.ends(self.rho[a, b], self.sd[a], self.sd[b])

    def along(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, ...]:
        """Regression of all samples on a pair, (pair, sample): on either axis, and the deviation that is left."""
        axes = (np.sqrt((1 + sign * self.rho[a, b]) / 2) for sign in (1, -1))
        s, t = (np.where(x > CLOSE, x, np.inf)[:, None] for x in axes)
        first, second = self.rho[np.ix_(a, c)], self.rho[np.ix_(b, c)]
        one, two = (first + second) / (2 * s), (first - second) / (2 * t)
        return one, two, np.sqrt(np.maximum(1 - one**2 - two**2, 0.0))

    def left(
        self, a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray
    ) -> Float[np.ndarray, "pair first second"]:
        """Correlations of others, given pairs; none with what is known."""
        one, two, rest = self.along(a, b, c)
        other_one, other_two, other_rest = self.along(a, b, d)
        found = self.rho[np.ix_(c, d)] - one[:, :, None] * other_one[:, None]
        found -= two[:, :, None] * other_two[:, None]
        size, other_size = (np.where(x < _KNOWN, np.inf, x) for x in (rest, other_rest))
        return np.clip(found / (size[:, :, None] * other_size[:, None]), -1.0, 1.0)

    def coefficients(self, rule: NodeRule, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Given:
        """Coefficients of others, given pairs.

        Args:
            rule: Nodes.
            a: First samples of pairs.
            b: Second samples.
            c: The others.
        """
        one, two, rest = self.along(a, b, c)
        known, v = (rest < _KNOWN) | (self.sd[c] == 0), rest * self.sd[c]
        little = ~known & (v < _LITTLE[self._size] * self.sigma.scale)
        unit = np.where(known, 1.0, v)
        count, most = len(c), rule.terms + DERIVATIVES
        reach = [rule.nodes[max(k - DERIVATIVES, 0)] for k in range(most)]
        found = [np.empty((len(a), nodes, count), self.dtype) for nodes in reach]
        for part, terms in rule.parts():
            g, project = projection(terms, inner_nodes(most, terms))
            project = project.astype(self.dtype)
            u1, u2 = rule.u[:, part, None]
            for pairs in chunks(len(a), u1.size * count * g.size):
                mean = (self.sd[c] * (one[pairs, None] * u1 + two[pairs, None] * u2)).astype(
                    self.dtype
                )
                if np.all((little | known)[pairs]):
                    whole = np.empty((len(mean), terms, *mean.shape[1:]), self.dtype)
                else:
                    z = mean[:, None] + (v[pairs, None, None] * g[:, None, None]).astype(self.dtype)
                    flat = product(self.sigma, (0,), z).reshape(len(mean), g.size, -1)
                    whole = (project @ flat).reshape(len(mean), -1, *mean.shape[1:])
                where, sample = np.nonzero(little[pairs])
                for some in chunks(len(where), u1.size * _INNER):
                    place, which = where[some], sample[some]
                    m, own = mean[place, :, which], (pairs.start + place, which)
                    whole[place, :, :, which] = self._of_little(m, v[own], unit[own], terms)
                where, sample = np.nonzero(known[pairs])
                m = mean[where, :, sample]
                whole[where, :, :, sample] = self._of_nothing(m, terms)
                for k in range(terms):
                    found[k][pairs, part] = whole[:, k]
        return Given(found, unit.astype(self.dtype), known)

    def _of_nothing(self, m: Float[np.ndarray, "one node"], terms: int) -> np.ndarray:
        """Coefficients of inputs whose variance is all known, in powers of 1."""
        found = np.zeros((len(m), terms, m.shape[1]), m.dtype)
        for p in range(min(DERIVATIVES + 1, terms)):
            found[:, p] = product(self.sigma, (p,), m) / math.sqrt(math.factorial(p))
        return found

    def _of_little(
        self, m: Float[np.ndarray, "one node"], v: np.ndarray, unit: np.ndarray, terms: int
    ) -> Float[np.ndarray, "one term node"]:
        """Coefficients of inputs with little variance left, by means and deviations, in powers of a unit."""
        g, project = projection(_ORDERS, _INNER)
        z = m + (v[:, None] * g[:, None, None]).astype(m.dtype)
        found = np.zeros((len(m), terms, m.shape[1]), m.dtype)
        for p in range(DERIVATIVES + 1):
            values = product(self.sigma, (p,), z)
            for k in range(p, min(p + (_ORDERS if p == DERIVATIVES else 1), terms)):
                own = np.tensordot(project[k - p].astype(m.dtype), values, 1) / np.sqrt(
                    falling(k - p, p)
                )
                found[:, k] = unit[:, None] ** p * own
        return found
