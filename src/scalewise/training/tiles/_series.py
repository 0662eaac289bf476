r"""Expectations over two others, given what is known: a series in powers of the correlation that is left of them.

Term $k$ of two derivatives is a sum over nodes of coefficients $h^k$, times $R^k$. What the terms leave out is
known where both others are one, and put in for two that are not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from scalewise.training.tiles._rules import NodeRule, Nodes

# Where two others are one: what a series leaves out, and its last two terms.
Rest = tuple[Float[np.ndarray, "pair _"], Float[np.ndarray, "pair _"]]
_SLOWEST = 0.95  # of what is left out to that with the last two terms
_STAY = 30_000  # numbers of an array that stays in a cache


@dataclass(frozen=True)
class Given:
    r"""Coefficients of the activation, and so of its derivatives, of others given pairs.

    $\mathbb E[\sigma^{(p)}(m+vg)\mathrm{He}_k]=v^{-p}\,\mathbb E[\sigma(m+vg)\mathrm{He}_{k+p}]$, in which numbers
    cancel where $v$ is small: there the right is found from the left. Where nothing is left of a sample
    the left is $\sigma^{(p)}(m)$, and $v$ is put at 1.

    Args:
        of: $\mathbb E[\sigma\,\mathrm{He}_k]/\sqrt{k!}$ by $k$, each at the nodes that it is needed for.
        v: Standard deviations that are left.
        known: Of which nothing is left, so that of the series there is the first term alone.
    """

    of: list[Float[np.ndarray, "pair _node sample"]]
    v: Float[np.ndarray, "pair sample"]
    known: Bool[np.ndarray, "pair sample"]

    def some(self, pairs: np.ndarray, samples: np.ndarray) -> Given:
        """Some pairs and some samples.

        Args:
            pairs: In their order.
            samples: Places among those behind.
        """
        of = [x[pairs][..., samples] for x in self.of]
        places = np.ix_(pairs, samples)
        return Given(of, self.v[places], self.known[places])

    def one_by_one(self, pairs: np.ndarray, samples: np.ndarray) -> Given:
        """One sample for each of some pairs.

        Args:
            pairs: In their order.
            samples: As many.
        """
        of = [x[pairs, :, samples][:, :, None] for x in self.of]
        return Given(of, self.v[pairs, samples][:, None], self.known[pairs, samples][:, None])


def summed(
    weight: Float[np.ndarray, "pair node"],
    rule: NodeRule,
    families: Sequence[tuple[int, int]],
    seen: tuple[Given, Given],
    left: Float[np.ndarray, "pair first second"] | None,
    lasts: list[np.ndarray] | None = None,
    nodes: Sequence[Nodes] | None = None,
) -> list[np.ndarray]:
    r"""The series over powers of correlations of two others, the highest first, of some families at once.

    Term $k$ of the derivatives $p,q$ and term $k+1$ of $p-1,q-1$ are one sum over nodes, so that families with
    one difference of orders share all matrix products.

    Args:
        weight: Of nodes, with what is given.
        rule: Nodes.
        families: Orders of the derivatives of the others, all with the same difference.
        seen: Both.
        left: Their correlations; ``None`` if they are the same samples, of which only themselves are wanted.
        lasts: Of each family the last two terms where both others are one are put behind these; none if ``None``.
        nodes: For each term, those that tell of it; all that are for it if ``None``.
    """
    first, second = seen
    dtype = first.v.dtype
    w, terms = weight[:, :, None].astype(dtype, copy=False), list(_shared(rule, families, nodes))
    found = [np.zeros(first.v.shape if left is None else left.shape, dtype) for _ in families]
    if lasts is not None:
        lasts.extend(np.zeros(first.v.shape, dtype) for _ in families)
    # Pairs whose results stay in a cache from term to term.
    for pairs in chunks(len(w), found[0][0].size, _STAY):
        part = np.empty_like(found[0][pairs])
        added = [0] * len(families)
        for (k, other_k), at, sizes in terms:
            factor = _at(first.of[k][pairs], at) * (_at(w[pairs], at) * dtype.type(sizes[0][1]))
            other = _at(second.of[other_k][pairs], at)
            if left is None:
                np.einsum("pns,pns->ps", factor, other, out=part)
            else:
                np.matmul(factor.swapaxes(1, 2), other, out=part)
            before = sizes[0][1]
            for place, size in sizes:
                out = found[place][pairs]
                if size != before:
                    part *= dtype.type(size / before)
                    before = size
                if left is not None:
                    out *= left[pairs]
                    out += part
                else:
                    out += (
                        np.where(first.known[pairs], 0.0, part) if k > families[place][0] else part
                    )
                added[place] += 1
                if lasts is not None and added[place] == 2:
                    lasts[place][pairs] = out if left is None else np.einsum("pcc->pc", out)
    for out, (p, q) in zip(found, families, strict=True):
        one, other = first.v**-p, second.v**-q
        out *= one * other if left is None else one[:, :, None]
        if left is not None:
            out *= other[:, None]
    for last, (p, q) in zip(lasts or (), families, strict=False):
        last *= first.v**-p * second.v**-q
    return found


def _shared(
    rule: NodeRule, families: Sequence[tuple[int, int]], nodes: Sequence[Nodes] | None
) -> Iterator[tuple[tuple[int, int], Nodes, list[tuple[int, float]]]]:
    """Coefficients, nodes, and families with their factors of each sum over nodes, the last sum first."""
    nodes = [slice(count) for count in rule.nodes] if nodes is None else nodes
    steps = [min(pair) for pair in families]
    (p, q), low = families[0], steps[0]
    most = max(rule.needed[pair] + step for pair, step in zip(families, steps, strict=True))
    for n in reversed(range(min(steps), most)):
        own = [
            (place, n - step)
            for place, step in enumerate(steps)
            if 0 <= n - step < rule.needed[families[place]]
        ]
        first = min(k for _, k in own)
        factors = [
            (place, math.sqrt(math.prod(falling(k, order) for order in families[place])))
            for place, k in own
        ]
        share = rule.shares[first]
        sizes = [(place, factor / share) for place, factor in factors]
        yield (n + p - low, n + q - low), nodes[first], sizes


def _at(values: Float[np.ndarray, "pair node _"], nodes: Nodes) -> np.ndarray:
    return values[:, nodes] if isinstance(nodes, slice) else values.take(nodes, axis=1)


def with_rest(
    out: Float[np.ndarray, "pair first second"],
    ends: Sequence[Rest],
    left: Float[np.ndarray, "pair first second"],
    terms: int,
) -> Float[np.ndarray, "pair first second"]:
    r"""A series with its rest: terms that fall as they do where both others are one.

    Of two that are one the rest $e$ is known, and beside the last two terms, $l$, so that terms fall by
    $\rho=\sqrt{e/(e+l)}$ and the rest at a correlation is $eR^k(1-\rho)/(1-\rho R)$. Both numbers of two others
    are geometric means: of one that is almost known, nothing is left out.

    Args:
        out: The series, and then with it.
        ends: What it leaves out where both are the first, and where both are the second.
        left: Correlations of both.
        terms: Of the series.
    """
    (one, falls), (other, other_falls) = (_roots(*rest, out.dtype) for rest in ends)
    alike = bool((one >= 0).all() and (other >= 0).all())
    for pairs in chunks(len(out), out[0].size, _STAY):
        R, e, f = left[pairs], one[pairs, :, None], other[pairs, None]
        ratio = falls[pairs, :, None] * other_falls[pairs, None]
        rest = 1 - ratio
        ratio *= R
        rest /= np.subtract(1, ratio, out=ratio)
        rest *= e * f if alike else (e * np.abs(f) + np.abs(e) * f) / 2
        rest *= _power(R, terms)
        out[pairs] += rest
    return out


def _roots(end: np.ndarray, last: np.ndarray, dtype: np.dtype) -> list[np.ndarray]:
    """The root of a rest with its sign, and of a term relative to the one before; 0 where signs change."""
    both = np.where(end * last > 0, end + last, np.inf)
    found = np.copysign(np.sqrt(np.abs(end)), end), np.clip(end / both, 0.0, _SLOWEST) ** 0.25
    return [part.astype(dtype, copy=False) for part in found]


def _power(values: np.ndarray, exponent: int) -> np.ndarray:
    """An integer power, above 0; a new array."""
    out, square = None, values
    while True:
        if exponent & 1:
            out = square.copy() if out is None else np.multiply(out, square, out=out)
        exponent >>= 1
        if not exponent:
            assert out is not None
            return out
        square = square * square if square is values else np.multiply(square, square, out=square)


def falling(k: int, p: int) -> float:
    """$(k+p)!/k!$."""
    return float(math.prod(range(k + 1, k + p + 1)))


def chunks(count: int, size: int, most: int = 400_000) -> Iterator[slice]:
    """Parts of an axis, so that arrays do not become too large.

    Args:
        count: How long the axis is.
        size: Numbers for each place.
        most: Numbers of a part.
    """
    step = max(1, most // size)
    for start in range(0, count, step):
        yield slice(start, start + step)
