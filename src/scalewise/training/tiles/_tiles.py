r"""Tensors of four samples on a tile: four lists of samples, one for each *label*, and arrays with an axis a label.

An entry of a tensor depends on the inputs of its own indices, and its recursion asks for entries of the layer below
with the same inputs, some of them twice: $F_{aacd}$, $Q_{0122}$. A value with labels $(x,y,\dots)$ is an array with
four axes, of length 1 where a label does not occur, so that entries with repeated inputs are small and
products broadcast. Labels that stand for the same samples are alike: what differs by exchanging them is transposed,
not computed again. The last two labels are blocks, a few samples that others are conditioned on; what has one of
them or none is shared by the tiles that have it too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cache

import numpy as np
from jaxtyping import Float, Int

from scalewise.training.tiles._rules import DERIVATIVES, product
from scalewise.training.tiles._series import Given, Rest, summed, with_rest
from scalewise.training.tiles._setting import Site

Value = Float[np.ndarray, "_ _ _ _"]  # an axis for each label, of length 1 where it does not occur
Labels = tuple[int, ...]
Key = tuple[Hashable, Labels]
Orders = dict[int, tuple[int, ...]]
Vertex = tuple[int, int]  # label, order of the derivative
Kept = dict[Key, Value | None]
Families = frozenset[tuple[int, ...]]
# Of all samples, and where both others are one, with the last two terms.
Series = tuple[np.ndarray, list[Rest]]
_BLOCKS = (2, 3)
_LAID = (2, 3, 0, 1)  # labels as they lie in memory, blocks in front; its own inverse


def multiplied(first: Value, second: Value) -> Value:
    """The product on all labels of both, blocks in front in memory."""
    shape = np.broadcast_shapes(first.shape, second.shape)
    out = np.empty([shape[x] for x in _LAID], np.result_type(first, second)).transpose(_LAID)
    return np.multiply(first, second, out=out)


@cache
def _first(kind: Labels, labels: Labels, ways: tuple[Labels, ...]) -> tuple[Labels, Labels]:
    """The first labels that are alike to some in any of these orders, and where axes are from there.

    Args:
        kind: By label, the first one with the same list.
        labels: Some.
        ways: Orders in which they mean the same; as they are if there are none.
    """
    found = []
    for way in ways or (tuple(range(len(labels))),):
        alike: dict[int, int] = {}
        for x in (labels[k] for k in way):
            if x not in alike:
                fits = (
                    k for k, own in enumerate(kind) if own == kind[x] and k not in alike.values()
                )
                alike[x] = next(fits)
        rest = iter(k for k in range(4) if k not in alike.values())
        back = tuple(alike[x] if x in alike else next(rest) for x in range(4))
        found.append((tuple(alike[labels[k]] for k in way), back))
    return min(found)


class Tile:
    """Four lists of samples.

    Args:
        rows: The samples of each label, places in the arrays of a `Site`. Labels with the same list are alike.
        kept: What has neither block, what has the third label alone, and the fourth: one dictionary each, the last
            two the same if they are the same block. Tiles that share them have first lists that end alike, each no
            longer than the one before.
        dtype: Of all values.
        families: Orders of four labels that will be asked for, in any places: what shares sums is made at once.
    """

    def __init__(
        self,
        rows: Sequence[Int[np.ndarray, " _"]],
        kept: tuple[Kept, Kept, Kept] | None = None,
        dtype: type[np.floating] = np.float64,
        *,
        families: Families = frozenset(),
    ) -> None:
        self.rows, self.dtype = tuple(rows), dtype
        self._kind = tuple(
            next(k for k, other in enumerate(self.rows) if other is row) for row in self.rows
        )
        self._kept = ({}, {}, {}) if kept is None else kept
        self._own: Kept = {}
        self._edges: dict[tuple[int, int, int], tuple[np.ndarray, Value]] = {}
        self._given: dict[Hashable, Given] = {}
        self._correlations: dict[Hashable, np.ndarray] = {}
        self._families = families
        self._series: dict[Hashable, Series] = {}

    def edge(self, matrix: Float[np.ndarray, "sample sample"], x: int, y: int) -> Value:
        """A matrix on two labels; its diagonal if they are one."""
        key = id(matrix), x, y
        if key not in self._edges:
            if x == y:
                found = self._on(np.diagonal(matrix)[self.rows[x]], (x,))
            else:
                found = self._on(matrix[self.rows[x][:, None], self.rows[y]], (x, y))
            self._edges[key] = matrix, found  # while the matrix is kept, no other one has its `id`
        return self._edges[key][1]

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
        self,
        key: Hashable,
        labels: Labels,
        make: Callable[..., Value | None],
        ways: tuple[Labels, ...] = (),
    ) -> Value | None:
        """A value that `make` makes of labels, once for all labels that are alike.

        Args:
            key: What it is.
            labels: Of its arguments, not all different if a label stands twice.
            make: Called with labels that are alike to these.
            ways: Orders of arguments in which it is the same.
        """
        first, back = _first(self._kind, labels, ways)
        blocks = [x for x in _BLOCKS if x in first]
        store = self._own if len(blocks) == 2 else self._kept[blocks[0] - 1 if blocks else 0]
        last = blocks == [3]  # kept as if the block were that of the third label
        place = key, tuple(2 if last and x == 3 else x for x in first)
        if place not in store:
            made = make(*first)
            store[place] = made.swapaxes(2, 3) if last and made is not None else made
        found = store[place]
        if found is None:
            return None
        found = self._of_own(found.swapaxes(2, 3) if last else found)
        return found.transpose(back)

    def _of_own(self, kept: Value) -> Value:
        """Of a value that another tile has made, whose lists end with those of this one."""
        starts = [
            max(0, size - len(row)) for size, row in zip(kept.shape[:2], self.rows, strict=False)
        ]
        return kept[starts[0] :, starts[1] :]

    def _on(self, array: np.ndarray, labels: Labels) -> Value:
        """An array with an axis for each label, put in their places."""
        order = np.argsort(labels)
        shape = [1, 1, 1, 1]
        for x, size in zip(labels, array.shape, strict=True):
            shape[x] = size
        found = array.transpose(order).reshape(shape).transpose(_LAID)
        return np.ascontiguousarray(found, self.dtype).transpose(_LAID)

    def _expected(self, site: Site, orders: Orders) -> Value:
        """Given the blocks, or the label that carries more than the others."""
        labels = sorted(orders, key=lambda x: (-len(orders[x]), x))
        if len(labels) == 1:
            (x,) = labels
            return self._on(site.given.alone(self.rows[x], orders[x]), (x,))
        if len(labels) == 2:
            x, y = labels
            return self.edge(site.given.two(orders[x], orders[y]), x, y)
        if len(labels) == 3:
            x, y, z = labels
            found = self._given_one(site, labels, orders)
            return self._on(found.reshape([len(self.rows[x]) for x in labels]), (x, y, z))
        found = self._given_two(site, orders)
        # As it lies in memory, blocks in front.
        return found.reshape([len(self.rows[x]) for x in (2, 3, 0, 1)]).transpose(2, 3, 0, 1)

    def _given_one(
        self, site: Site, labels: Sequence[int], orders: Orders
    ) -> Float[np.ndarray, "given first second"]:
        """The first of three labels is given."""
        given, (x, y, z) = site.given, labels
        at, which = self.rows[x], (orders[y][0], orders[z][0])
        one, _ = given.ends(given.line, at, at)
        weight = given.line.w * product(site.sigma, orders[x], one)
        key = site.layer, self._kind[x], self._kind[y], self._kind[z]
        if key not in self._correlations:
            self._correlations[key] = self._left(site, (at, at), (y, z))
        seen = self._one(site, x, y), self._one(site, x, z)
        end, last = given.open(orders[x], which[0], which[1])
        places = [np.ix_(at, self.rows[label]) for label in (y, z)]
        ends = [(end[own], last[own]) for own in places]
        left = self._correlations[key]
        terms = given.line.needed[which[0], which[1]]
        (found,) = summed(weight, given.line, [which], seen, left)
        return with_rest(found, ends, left, terms)

    def _one(self, site: Site, x: int, label: int) -> Given:
        """Coefficients of a label, given one."""
        key = site.layer, self._kind[x], self._kind[label]
        if key not in self._given:
            found = site.given.given_one.some(self.rows[x], self.rows[label])
            self._given[key] = found
        return self._given[key]

    def _given_two(self, site: Site, orders: Orders) -> Float[np.ndarray, "given first second"]:
        """Both blocks are given."""
        which = orders[0][0], orders[1][0]
        key = site.layer, orders[2], orders[3]
        if (*key, which) not in self._series:
            for pair, found in self._summed(site, orders).items():
                self._series[*key, pair] = found
        out, series = self._series.pop((*key, which))
        ends = []
        for (label, other), (own, last) in zip(((0, 1), (1, 0)), series, strict=False):
            vertices = [(label if x == other else x, p) for x, at in orders.items() for p in at]
            same = np.moveaxis(self.four(site, *vertices), (2, 3, label), (0, 1, 2))
            ends.append((same.reshape(len(out), -1) - own, last))
        terms = site.given.rule.needed[which]
        out = with_rest(out, (ends[0], ends[-1]), self._correlations[site.layer], terms)
        one, other = np.nonzero(self.rows[2][:, None] == self.rows[3])
        if one.size:
            # Of two samples that are one the other two may differ more than the series is summed for.
            names = {x: (2 if x == 3 else x) for x in orders}
            known = self.four(site, *((names[x], p) for x, own in orders.items() for p in own))
            whole = np.broadcast_to(known, (*known.shape[:3], 1))[..., 0]
            out[one * len(self.rows[3]) + other] = np.moveaxis(whole, 2, 0)[one]
        return out

    def _summed(self, site: Site, orders: Orders) -> dict[tuple[int, int], Series]:
        """Series of what is asked and of all that will be and shares their sums, by the orders of both others."""
        given, (a, b) = site.given, self._pairs()
        p, q = orders[0][0], orders[1][0]
        more = [(p + k, q + k) for k in range(-min(p, q), DERIVATIVES + 1 - max(p, q))]
        families = [
            pair
            for pair in more
            if pair == (p, q) or tuple(sorted((*pair, *orders[2], *orders[3]))) in self._families
        ]
        one, two = given.ends(given.rule, a, b)
        nodes = given.telling(orders[2], orders[3])
        weight = given.rule.w * product(site.sigma, orders[2], one)
        weight *= product(site.sigma, orders[3], two)
        if (site.layer, 0) not in self._given:
            for label in (0, 1)[: 1 + (self._kind[1] != 0)]:
                found = given.coefficients(given.rule, a, b, self.rows[label])
                self._given[site.layer, label] = found
            self._given[site.layer, 1] = self._given[site.layer, self._kind[1]]
            self._correlations[site.layer] = self._left(site, (a, b), (0, 1))
        seen = self._given[site.layer, 0], self._given[site.layer, 1]
        left, lasts = self._correlations[site.layer], list[np.ndarray]()
        if self._kind[1] == 0:
            values = summed(weight, given.rule, families, seen, left, lasts, nodes)
            own = [np.einsum("pcc->pc", out).copy() for out in values]
            ends = [[both] for both in zip(own, lasts, strict=True)]
        else:
            values = summed(weight, given.rule, families, seen, left, None, nodes)
            sides = []
            for x in seen:
                own = summed(weight, given.rule, families, (x, x), None, lasts := [], nodes)
                sides.append(list(zip(own, lasts, strict=True)))
            ends = [list(both) for both in zip(*sides, strict=True)]
        return dict(zip(families, zip(values, ends, strict=True), strict=True))

    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """All pairs of samples of the blocks."""
        first, second = self.rows[2], self.rows[3]
        return np.repeat(first, len(second)), np.tile(second, len(first))

    def _left(
        self, site: Site, pairs: tuple[np.ndarray, np.ndarray], labels: tuple[int, int]
    ) -> Float[np.ndarray, "pair first second"]:
        """Correlations of two labels, given pairs."""
        first, second = (self.rows[label] for label in labels)
        return site.given.left(*pairs, first, second).astype(self.dtype, copy=False)
