r"""K and Theta of all random layers between all labels, and the moments of activations on strips of them.

Everything that is kept has two labels, so memory grows as their square. Moments are made anew for each strip.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from jaxtyping import Float

from scalewise.gaussian.spi import PairTables
from scalewise.theory.order._layout import (
    Hop,
    Layout,
    Spreading,
    Strip,
    first_fields,
    first_strip,
)

Square = Float[np.ndarray, "_label _label2"]
Moments = dict[tuple[int, int], Strip]


@dataclass
class Kernels:
    """K and Theta of a network at infinite width, on all labels.

    Args:
        layout: Its maps.
        K: Of each random layer.
        Theta: Likewise; empty unless it is wanted.
        tables: Of each population.
    """

    layout: Layout
    K: dict[int, Square] = field(default_factory=dict)
    Theta: dict[int, Square] = field(default_factory=dict)
    tables: dict[int, PairTables] = field(default_factory=dict)
    _at_equal: dict[tuple[int, int, int], np.ndarray] = field(default_factory=dict)
    _own: dict[tuple[int, int], Moments] = field(default_factory=dict)

    def strip(self, of: Mapping[int, Square], lifts: Mapping[int, Spreading], a: int) -> Strip:
        """Covariances of sums of random layers, of an input with its own labels and those of all later ones."""
        parts = []
        for j, lift in lifts.items():
            size = lift.sizes[1]
            parts.append(lift.around(of[j][a * size : (a + 1) * size, a * size :], a))
        return sum(parts[1:], parts[0])

    def whole(self, of: Mapping[int, Square], lifts: Mapping[int, Spreading]) -> Square:
        """Covariances of sums of random layers, of all labels."""
        if len(lifts) == 1:
            ((j, lift),) = lifts.items()
            if lift.is_plain:
                return of[j]
        inputs, size = self.layout.inputs, next(iter(lifts.values())).sizes[0]
        found = np.empty((inputs * size, inputs * size))
        for a in range(inputs):
            _set(found, a, size, self.strip(of, lifts, a))
        return found

    def beside(self, of: Mapping[int, Square], root: int, end: int) -> np.ndarray:
        """Covariances of all labels of a population with a layer of one site, (input, label, other input)."""
        own = self.layout
        parts = [
            lift.maps[0] @ (own.ends[end][j].maps[0] @ of[j]).T
            for j, lift in own.lifts[root].items()
            if j in own.ends[end]
        ]
        return np.asarray(sum(parts)).reshape(own.inputs, -1, own.inputs)

    def moments(
        self, hop: Hop, a: int, orders: Sequence[tuple[int, int]], last: int | None = None
    ) -> Moments:
        """On the labels that a layer reads, of an input with itself and later ones, up to the `last` of these."""
        tables, size = self._tables(hop), len(hop.at)
        end = (self.layout.inputs if last is None else last + 1) * size
        C = self.strip(self.K, hop.lifts, a)[:, : end - a * size]
        return tables.moments(slice(a * size, (a + 1) * size), slice(a * size, end), C, orders)

    def _tables(self, hop: Hop) -> PairTables:
        """By the labels that a layer reads."""
        if hop.draw not in self.tables:
            sigma = self.layout.course.populations[hop.root].sigma
            own = [self._own_diagonal(hop, a) for a in range(self.layout.inputs)]
            self.tables[hop.draw] = PairTables(sigma, np.concatenate(own))
        return self.tables[hop.draw]

    def _own_diagonal(self, hop: Hop, a: int) -> np.ndarray:
        """K of each label of an input with itself."""
        total = 0.0
        for j, lift in hop.lifts.items():
            size = lift.sizes[1]
            own = self.K[j][a * size : (a + 1) * size, a * size : (a + 1) * size]
            if lift.is_plain:
                total = total + np.diagonal(own)
            else:
                one = lift.of_input(lift.maps[0], a)
                total = total + np.asarray((one @ own * one.toarray()).sum(axis=1)).ravel()
        return np.asarray(total)

    def at_equal(self, hop: Hop, p: int, q: int) -> Float[np.ndarray, " label"]:
        r"""$M_{pq}$ of each label that a layer reads with itself."""
        key = hop.draw, p, q
        if key not in self._at_equal:
            self._at_equal[key] = self._tables(hop).at_equal(p, q)
        return self._at_equal[key]

    def own_moments(self, hop: Hop, b: int) -> Moments:
        """Between the labels of one input that a layer reads."""
        key = hop.draw, b
        if key not in self._own:
            odd = ((1, 0),) if self.is_series(hop) else ()
            self._own[key] = self.moments(hop, b, ((1, 1), (2, 0), *odd), last=b)
        return self._own[key]

    def variances(self, hop: Hop) -> Float[np.ndarray, " _label"]:
        """Variances of the labels that a layer reads."""
        return self._tables(hop).K

    def is_series(self, hop: Hop) -> bool:
        """True if odd moments are known, too."""
        return self._tables(hop).is_series


def kernels(own: Layout, *, ntk: bool, tangents: type = np.float64) -> Kernels:
    """All of them, layer by layer.

    Args:
        own: The network.
        ntk: Whether Theta is wanted.
        tangents: Type of the numbers of Theta that are kept.
    """
    found, fields = Kernels(own), first_fields(own, ntk=ntk)
    for draw in sorted(own.course.first):
        _fill(found, draw, partial(first_strip, own, fields, draw), tangents)
    for hop in own.hops:
        _fill(found, hop.draw, partial(_next, found, hop, ntk=ntk), tangents)
    return found


def _next(found: Kernels, hop: Hop, a: int, *, ntk: bool) -> tuple[Strip, Strip | None]:
    r"""$C_b+C_W\sum_\tau B_\tau\langle\sigma\sigma\rangle B_\tau^T$, and the same of Theta."""
    orders = ((0, 0), (1, 1)) if ntk else ((0, 0),)
    M, rates = found.moments(hop, a, orders), hop.node.own
    carried = hop.taps.around(M[0, 0], a)
    K, Theta = rates.C_b + rates.C_W * carried, None
    if ntk:
        inner = M[1, 1] * found.strip(found.Theta, hop.lifts, a)
        Theta = rates.lambda_b + rates.lambda_W * carried + rates.C_W * hop.taps.around(inner, a)
    return K, Theta


def _fill(
    found: Kernels,
    draw: int,
    strips: Callable[[int], tuple[Strip, Strip | None]],
    tangents: type,
) -> None:
    inputs, size = found.layout.inputs, found.layout.draw_size(draw)
    for a in range(inputs):
        targets = (found.K, np.float64), (found.Theta, tangents)
        for (target, dtype), strip in zip(targets, strips(a), strict=True):
            if strip is not None:
                if draw not in target:
                    target[draw] = np.empty((inputs * size,) * 2, dtype)
                _set(target[draw], a, size, strip)


def _set(whole: Square, a: int, size: int, strip: Strip) -> None:
    """A strip of a symmetric matrix, and the same turned over."""
    own, on = slice(a * size, (a + 1) * size), slice(a * size, None)
    whole[own, on] = strip
    whole[on, own] = strip.T
