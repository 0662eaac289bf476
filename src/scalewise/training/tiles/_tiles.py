r"""Tensors of four samples on a tile: four lists of samples, one for each *label*, and arrays with an axis a label.

An entry of a tensor depends on the inputs of its own indices, and its recursion asks for entries of the layer below
with the same inputs, some of them twice: $F_{aacd}$, $Q_{0122}$. A value with labels $(x,y,\dots)$ is an array with
four axes, of length 1 where a label does not occur, so that entries with repeated inputs are small and
products broadcast. Labels that stand for the same samples are alike: what differs by exchanging them is transposed,
not computed again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence

import numpy as np
from jaxtyping import Float, Int

from scalewise.training.tiles._sites import Site

__all__ = ["Key", "Labels", "Tile", "Value", "Vertex"]

Value = Float[np.ndarray, "first second third fourth"]
Labels = tuple[int, ...]
Key = tuple[Hashable, Labels]
Orders = dict[int, tuple[int, ...]]
Vertex = tuple[int, int]  # label, order of the derivative
_PAIRINGS = ((0, 1, 2, 3), (0, 2, 1, 3), (0, 3, 1, 2))
_CHUNK = 6_000_000  # numbers of a factor of a matrix product in memory together


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

    def edge(self, matrix: Float[np.ndarray, "sample sample"], x: int, y: int) -> Value:
        """A matrix on two labels; its diagonal if they are one."""
        if x == y:
            return self._on(np.diagonal(matrix)[self.rows[x]], (x,))
        return self._on(matrix[np.ix_(self.rows[x], self.rows[y])], (x, y))

    def four(self, site: Site, *vertices: Vertex) -> Value:
        r"""$\langle\prod\sigma^{(p)}\rangle$ over four vertices $(x,p)$, at the nodes.

        What nodes have wrong of a pair of factors is known, and comes with the mean of the other two: contracted
        with matrices over many samples it would be most of the error.
        """
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
        """The mean over nodes of a product, less the slips of its pairs, which are known."""
        first, second = _halves(orders)
        size = [math.prod(len(self.rows[x]) for x in half) for half in (first, second)]
        out = np.zeros(size)
        step = max(16, _CHUNK // max(size))
        for start in range(0, site.nodes, step):
            nodes = slice(start, start + step)
            left, right = (self._product(site, half, orders, nodes) for half in (first, second))
            left /= site.nodes
            out += left.T @ right
        shape = tuple(len(self.rows[x]) for x in (*first, *second))
        found = self._on(out.reshape(shape), (*first, *second))
        for slip in self._slips(site, [(x, p) for x, own in orders.items() for p in own]):
            found -= slip
        return found

    def _slips(self, site: Site, vertices: list[Vertex]) -> Iterator[Value]:
        for one, two, three, four in _PAIRINGS:
            (a, p), (b, q), (c, r), (d, s) = (vertices[k] for k in (one, two, three, four))
            means = self.edge(site.M(p, q), a, b), self.edge(site.M(r, s), c, d)
            if np.any(means[1]):
                yield self.edge(site.slip(p, q), a, b) * means[1]
            if np.any(means[0]):
                yield means[0] * self.edge(site.slip(r, s), c, d)

    def _product(
        self, site: Site, labels: Labels, orders: Orders, nodes: slice
    ) -> Float[np.ndarray, "node entry"]:
        if not labels:
            return np.ones((len(site.z[nodes]), 1))
        factors = [self._factor(site, x, orders[x], nodes) for x in labels]
        if len(labels) == 1:
            return factors[0]
        return (factors[0][:, :, None] * factors[1][:, None]).reshape(len(factors[0]), -1)

    def _factor(self, site: Site, x: int, orders: tuple[int, ...], nodes: slice) -> np.ndarray:
        out = site.slope(orders[0])[nodes, self.rows[x]]
        for p in orders[1:]:
            out = out * site.slope(p)[nodes, self.rows[x]]
        return out


def _halves(orders: Orders) -> tuple[Labels, Labels]:
    """Labels in two groups, those that carry more in the smaller one."""
    labels = sorted(orders, key=lambda x: (-len(orders[x]), x))
    if len(labels) == 4:
        return (labels[0], labels[1]), (labels[2], labels[3])
    return tuple(labels[:1]), tuple(labels[1:])
