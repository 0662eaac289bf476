r"""Tensors of four samples on a tile: four lists of samples, one for each *label*, and arrays with an axis a label.

An entry of a tensor depends on the inputs of its own indices, and its recursion asks for entries of the layer below
with the same inputs, some of them twice: $F_{aacd}$, $Q_{0122}$. A value with labels $(x,y,\dots)$ is an array with
four axes, of length 1 where a label does not occur, so that entries with repeated inputs are small and
products broadcast. Labels that stand for the same samples are alike: what differs by exchanging them is transposed,
not computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
from jaxtyping import Float, Int

from scalewise.training.tiles._conditioned import product
from scalewise.training.tiles._sites import Site

__all__ = ["Key", "Labels", "Tile", "Value", "Vertex"]

Value = Float[np.ndarray, "first second third fourth"]
Labels = tuple[int, ...]
Key = tuple[Hashable, Labels]
Orders = dict[int, tuple[int, ...]]
Vertex = tuple[int, int]  # label, order of the derivative


class Tile:
    """Four lists of samples.

    Args:
        rows: The samples of each label, places in the arrays of a `Site`. Labels with the same list are alike.
        kept: What does not have the first label, shared by tiles that differ in it.
    """

    def __init__(
        self, rows: Sequence[Int[np.ndarray, " _"]], kept: dict[Key, Value | None] | None = None
    ) -> None:
        self.rows = tuple(rows)
        self._kind = tuple(
            next(k for k, other in enumerate(self.rows) if other is row) for row in self.rows
        )
        self._kept = {} if kept is None else kept
        self._own: dict[Key, Value | None] = {}
        self._given: dict[Hashable, list[np.ndarray]] = {}
        self._correlations: dict[int, np.ndarray] = {}

    def edge(self, matrix: Float[np.ndarray, "sample sample"], x: int, y: int) -> Value:
        """A matrix on two labels; its diagonal if they are one."""
        if x == y:
            return self._on(np.diagonal(matrix)[self.rows[x]], (x,))
        return self._on(matrix[np.ix_(self.rows[x], self.rows[y])], (x, y))

    def four(self, site: Site, *vertices: Vertex) -> Value:
        r"""$\langle\prod\sigma^{(p)}\rangle$ over four vertices $(x,p)$."""
        orders: dict[int, tuple[int, ...]] = {}
        for x, p in sorted(vertices):
            orders[x] = (*orders.get(x, ()), p)
        labels = sorted(orders, key=lambda x: (self._kind[x], orders[x], x))
        shape = tuple(orders[x] for x in labels)

        def make(*names: int) -> Value:
            return self._expected(site, dict(zip(names, shape, strict=True)))

        found = self.known((site.layer, shape), tuple(labels), make)
        assert found is not None
        return found

    def known(
        self, key: Hashable, labels: Labels, make: Callable[..., Value | None]
    ) -> Value | None:
        """What `make` makes of labels; made once for all labels that are alike.

        Args:
            key: What it is.
            labels: Of its arguments, not all different if a label stands twice.
            make: Called with labels that are alike to these.
        """
        alike: dict[int, int] = {}
        for x in labels:
            if x not in alike:
                used = set(alike.values())
                alike[x] = next(
                    k
                    for k, kind in enumerate(self._kind)
                    if kind == self._kind[x] and k not in used
                )
        first = tuple(alike[x] for x in labels)
        store = self._own if 0 in first else self._kept
        if (key, first) not in store:
            store[key, first] = make(*first)
        rest = iter(k for k in range(4) if k not in alike.values())
        axes = [alike[x] if x in alike else next(rest) for x in range(4)]
        found = store[key, first]
        return None if found is None else found.transpose(axes)

    def _on(self, array: np.ndarray, labels: Labels) -> Value:
        """An array with an axis for each label, put in their places."""
        order = np.argsort(labels)
        shape = [1, 1, 1, 1]
        for x, size in zip(labels, array.shape, strict=True):
            shape[x] = size
        return array.transpose(order).reshape(shape)

    def _expected(self, site: Site, orders: Orders) -> Value:
        """Given two of the labels, those that carry more."""
        labels = sorted(orders, key=lambda x: (x != 0, -len(orders[x]), x))
        if len(labels) == 1:
            (x,) = labels
            return self._on(site.given.alone(self.rows[x], orders[x]), (x,))
        a, b = self._pairs(labels[0], labels[1])
        one, two = site.given.ends(a, b)
        weight = site.given.rule.w * product(site.sigma, orders[labels[0]], one)
        weight *= product(site.sigma, orders[labels[1]], two)
        shape = tuple(len(self.rows[x]) for x in labels)
        if len(labels) == 2:
            found = weight.sum(axis=1)
        elif len(labels) == 3:
            seen = self._seen(site, labels, *orders[labels[2]])[:, 0]
            found = np.matmul(weight[:, None], seen)
        else:
            found = self._series(site, labels, orders, weight)
        return self._on(found.reshape(shape), tuple(labels))

    def _series(
        self, site: Site, labels: list[int], orders: Orders, weight: Float[np.ndarray, "pair node"]
    ) -> Float[np.ndarray, "pair first second"]:
        """Over correlations of the last two labels, with its remainder where they are the same sample."""
        a, b, c, d = labels
        first, second = (self._seen(site, (a, b, x), *orders[x], series=True) for x in (c, d))
        left = self._left(site)
        power, out = np.ones_like(left), np.zeros_like(left)
        for k in range(first.shape[1]):
            factor = (first[:, k] * weight[:, :, None]).swapaxes(1, 2)
            out += (factor @ second[:, k]) * power
            power = power * left
        if self._kind[c] == self._kind[d]:
            same = self.four(site, *self._vertices(orders, {d: c}))
            rest = same.reshape(len(out), -1) - np.einsum("pcc->pc", out)
            power *= 0.5 * (rest[:, :, None] + rest[:, None])
            out += power
        return out

    def _vertices(self, orders: Orders, moved: dict[int, int]) -> list[Vertex]:
        return [(moved.get(x, x), p) for x, own in orders.items() for p in own]

    def _pairs(self, a: int, b: int) -> tuple[np.ndarray, np.ndarray]:
        """All pairs of samples of two labels."""
        first, second = self.rows[a], self.rows[b]
        return np.repeat(first, len(second)), np.tile(second, len(first))

    def _seen(
        self, site: Site, labels: Sequence[int], order: int, *, series: bool = False
    ) -> Float[np.ndarray, "pair term node sample"]:
        """The last label given the others; all terms of the series of what four labels ask for."""
        kinds = tuple(self._kind[x] for x in labels)
        series = series or kinds == self._kind[:3]
        key = site.layer, kinds, series
        if key not in self._given:
            a, b, c = labels
            terms = site.given.rule.terms if series else 1
            found = site.given.coefficients(*self._pairs(a, b), self.rows[c], terms=terms)
            self._given[key] = found
        return self._given[key][order]

    def _left(self, site: Site) -> Float[np.ndarray, "pair third fourth"]:
        """Correlations of the last two labels given the first two."""
        if site.layer not in self._correlations:
            found = site.given.left(*self._pairs(0, 1), self.rows[2], self.rows[3])
            self._correlations[site.layer] = found
        return self._correlations[site.layer]
