r"""Units of a population, drawn, and what read-outs make of them beyond what is known exactly.

A unit has preactivations $z$ at all labels, jointly Gaussian along the whole stream, and tangents $y^a$, $y^b$ with
covariance $\Theta$. What is quadratic or linear in them is taken off, so that draws tell the rest alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise.theory.flow._units import normals, rooted
from scalewise.theory.order._forms import Form, Own, on_second_labels
from scalewise.theory.order._layout import Hop, Spreading
from scalewise.theory.order._reverse import Reading, Slope
from scalewise.theory.order._strips import Kernels

SCRAMBLES = 16
Values = Float[np.ndarray, "_unit _label"]
_PIECE = 1 << 19  # numbers at a time
_SPREAD = 128  # labels
_FEW = 64  # columns of a root; as first layers of few features have
_DIGITS = 100  # units in the last place, below which nothing is left of a variance


@dataclass
class UnitValues:
    """Draws of the units of one population.

    Args:
        z: Preactivations at all labels.
        x: Activations.
        slopes: Their derivatives; none unless the NTK is wanted.
        y: Tangents of two letters; none unless they are wanted.
    """

    z: Values
    x: Values
    slopes: Values | None
    y: tuple[Values, ...]

    @cached_property
    def moved(self) -> tuple[Values, ...]:
        r"""$\sigma'(z)\,y$ of each letter."""
        return () if self.slopes is None else tuple(self.slopes * y for y in self.y)


def each_scramble(labels: int, work: int, fewest: int, most: int) -> int:
    """How many units a scramble has, a power of 2.

    Args:
        labels: At how many they are followed.
        work: Pairs of labels times units that all scrambles may take.
        fewest: Units of all scrambles, whatever it takes.
        most: Likewise, however little it takes.
    """
    count = min(max(work // labels**2, fewest), most) // SCRAMBLES
    return 1 << (count.bit_length() - 1)


def units(
    known: Kernels, root: int, count: int, *, ntk: bool, tangents: bool, dtype: type = np.float64
) -> UnitValues:
    """So many of them, a power of 2 for each scramble, one scramble after another.

    Args:
        known: The network at infinite width.
        root: The population.
        count: How many of each scramble.
        ntk: Whether derivatives are wanted.
        tangents: Whether tangents are.
        dtype: Of what is returned.
    """
    own = known.layout
    sigma, lifts = own.course.populations[root].sigma, own.lifts[root]
    both = not sigma.parity  # with the other sign, unless it would be the same again
    (z,) = _drawn(known.K, lifts, count, [(root, 0)], both=both)
    letters = [(root, 1 + k) for k in range(2 if tangents else 0)]
    y = _drawn(known.Theta, lifts, count, letters, both=False) if tangents else ()
    slopes = None
    if ntk or tangents:
        slopes = sigma.derivatives[1](z)
        if sigma.slopes is not None:  # as `PairTables` takes it where all draws are 0
            slopes[:, ~z.any(axis=0)] = sigma.slopes[0]
        slopes = slopes.astype(dtype, copy=False)
    x = sigma(z).astype(dtype, copy=False)
    return UnitValues(
        z.astype(dtype, copy=False), x, slopes, tuple(v.astype(dtype, copy=False) for v in y)
    )


def _drawn(
    of: dict[int, np.ndarray],
    lifts: dict[int, Spreading],
    count: int,
    seeds: Sequence[tuple[int, ...]],
    *,
    both: bool,
) -> tuple[Values, ...]:
    """Independent draws, one for each seed."""
    total: list[Any] = [0.0] * len(seeds)
    for j, lift in lifts.items():
        root = few_columns(of[j], _FEW)
        root = rooted(of[j]) if root is None else root
        for k, seed in enumerate(seeds):
            parts = [
                _normals(root.shape[1], count, (*seed, j, scramble), both=both)
                for scramble in range(SCRAMBLES)
            ]
            u = (root @ np.concatenate(parts, axis=1)).T
            total[k] = total[k] + lift.read(np.ascontiguousarray(u))[0]
    return tuple(map(np.asarray, total))


def few_columns(K: np.ndarray, most: int) -> np.ndarray | None:
    """A root of a covariance with few columns, by its largest pivots; ``None`` if it takes too many.

    Args:
        K: The covariance.
        most: Columns of the root.
    """
    left, rows, at = np.diagonal(K).astype(float), np.empty((most + 1, len(K))), []
    enough = _DIGITS * np.finfo(K.dtype).eps * left.max(initial=0.0)
    while len(at) <= most:
        pivot = int(left.argmax())
        if left[pivot] <= enough:
            return np.ascontiguousarray(rows[: len(at)].T)
        known = rows[: len(at)]
        row = (K[pivot] - known[:, pivot] @ known) / np.sqrt(left[pivot])
        rows[len(at)] = row
        left -= row * row
        at.append(pivot)
    return None


def _normals(labels: int, count: int, seed: tuple[int, ...], *, both: bool) -> Values:
    """(label, unit): spread evenly, where there are few labels."""
    half = count // 2 if both else count
    if labels > _SPREAD:  # there evenly spread points tell nothing more
        drawn = np.random.default_rng(seed).standard_normal((labels, half))
        return np.concatenate([drawn, -drawn], axis=1) if both else drawn
    return normals(labels, half, seed)[:, :count]


@dataclass
class Rests:
    """Read-outs of each unit as exact parts leave them, by kind.

    Args:
        metric: (unit, input, input), of pairs of inputs once.
        ntk: Likewise.
        mixed: Of a field at the first input and a tangent at the second; of each unit with both letters in turn.
        tangents: Of two of them.
    """

    metric: np.ndarray
    ntk: np.ndarray | None
    mixed: np.ndarray | None
    tangents: np.ndarray | None

    @staticmethod
    def empty(units: int, inputs: int, *, ntk: bool, tangents: bool, dtype: type) -> Rests:
        """Rests of no layers yet."""
        shape = (units, inputs, inputs)
        return Rests(
            np.zeros(shape, dtype),
            np.zeros(shape, dtype) if ntk else None,
            np.zeros((2 * units, *shape[1:]), dtype) if tangents else None,
            np.zeros(shape, dtype) if tangents else None,
        )

    def mixed_with(self, letter: int) -> np.ndarray:
        """Those of one letter."""
        assert self.mixed is not None
        return self.mixed[letter::2]


def add(rests: Rests, own: UnitValues, found: Reading, a: int, inputs: int) -> None:
    """Add the values of read-outs of an input and all later ones on activations that a layer reads."""
    hop, taps = found.hop, found.hop.taps
    made, read = taps.sizes
    early = len(taps.maps) * made**2 < read**2  # then what the taps see is multiplied
    metric, ntk = found.above if early else (found.metric, found.ntk)
    for tap in range(len(taps.maps)) if early else (None,):
        x, moved = _read(own, hop, inputs, tap)
        _add_form(rests, (x, moved), metric, a)
        if rests.ntk is not None and ntk is not None:
            rests.ntk[:, a, a:] += _values(x, ntk, x, a)
    if rests.ntk is not None and found.slopes is not None:
        assert own.slopes is not None
        slopes = _at(own.slopes, hop, inputs)
        rests.ntk[:, a, a:] += _across(slopes, found.slopes, (slopes,), a)[0]


def take_off(
    rests: Rests,
    own: UnitValues,
    below: tuple[Form, Form | None],
    linear: tuple[Slope | None, Slope | None],
    a: int,
) -> None:
    """Take off what is known exactly: what is quadratic or linear in preactivations and tangents."""
    metric, ntk = below
    _add_form(rests, (own.z, own.y), metric, a, sign=-1.0)
    if rests.ntk is not None and ntk is not None:
        rests.ntk[:, a, a:] -= _values(own.z, ntk, own.z, a)
    for target, slopes in zip((rests.metric, rests.ntk), linear, strict=True):
        if target is not None and slopes is not None:
            first, second = _linear(own.z, slopes, a)
            target[:, a, a:] -= first + second
    if linear[0] is None:
        return
    for letter, y in enumerate(own.y):
        first, second = _linear(y, linear[0], a)
        mixed = rests.mixed_with(letter)
        mixed[:, a, a:] -= second
        mixed[:, a + 1 :, a] -= first[:, 1:]


def _add_form(
    rests: Rests, of: tuple[Values, tuple[Values, ...]], form: Form, a: int, sign: float = 1.0
) -> None:
    """Add a form of the metric, and of averages with tangents, which have the same form."""
    x, y = of
    form = form.times(sign)
    if rests.mixed is None or rests.tangents is None:
        rests.metric[:, a, a:] += _values(x, form, x, a)
        return
    first, second = y
    of_x, *several = _across(x, form.across, (x, first, second), a)
    turned, tangents = _across(first, form.across, (x, second), a)
    turned_too, turned_tangents = _across(second, form.across, (x, first), a)
    rests.metric[:, a, a:] += of_x + _alone(x, form.own, x, a)
    size, twice = len(form.across), form.own.times(2.0)
    own, on = slice(a * size, (a + 1) * size), slice(a * size, None)
    for letter, (moved, mixed, over) in enumerate(
        zip(y, several, (turned, turned_too), strict=True)
    ):
        to = rests.mixed_with(letter)
        to[:, a, a:] += mixed + twice.on_second(x[:, on], moved[:, on])
        over += twice.on_first(x[:, own], moved[:, own])
        to[:, a + 1 :, a] += over[:, 1:]
    rests.tangents[:, a, a:] += tangents
    rests.tangents[:, a + 1 :, a] += turned_tangents[:, 1:]


def _values(x: Values, form: Form, other: Values, a: int) -> np.ndarray:
    """(unit, second input)."""
    return _across(x, form.across, (other,), a)[0] + _alone(x, form.own, other, a)


def _alone(x: Values, of: Own, other: Values, a: int) -> np.ndarray:
    size = of.first.shape[1]
    own, on = slice(a * size, (a + 1) * size), slice(a * size, None)
    return of.on_first(x[:, own], other[:, own]) + of.on_second(x[:, on], other[:, on])


def _across(x: Values, across: np.ndarray, others: Sequence[Values], a: int) -> list[np.ndarray]:
    """With each of some others."""
    size, columns = across.shape
    across = across.astype(x.dtype, copy=False)
    found = [np.empty((len(x), columns // size), x.dtype) for _ in others]
    for some in _pieces(len(x), columns):
        moved = x[some, a * size : (a + 1) * size] @ across
        for values, other in zip(found, others, strict=True):
            product = moved * other[some, a * size :]
            values[some] = product.reshape(len(moved), -1, size).sum(axis=2)
    return found


def _pieces(count: int, columns: int) -> Iterator[slice]:
    size = max(1, _PIECE // columns)
    return (slice(start, start + size) for start in range(0, count, size))


def _linear(z: Values, slopes: Slope, a: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = slopes
    size = first.shape[1]
    own = z[:, a * size : (a + 1) * size] @ first.T.astype(z.dtype, copy=False)
    others = z[:, a * size :].reshape(len(z), *second.shape)
    return own, on_second_labels(others, second)


def _read(
    own: UnitValues, hop: Hop, inputs: int, tap: int | None
) -> tuple[Values, tuple[Values, ...]]:
    """Activations and moved tangents at the labels that a layer reads, or as one of its taps sees them."""
    x = _at(own.x, hop, inputs)
    moved = tuple(_at(y, hop, inputs) for y in own.moved)
    if tap is None or hop.taps.is_plain:
        return x, moved
    one = hop.taps.maps[tap]
    x, *moved = (np.ascontiguousarray((one @ part.T).T) for part in (x, *moved))
    return x, tuple(moved)


def _at(values: Values, hop: Hop, inputs: int) -> Values:
    if values.shape[1] == inputs * len(hop.at):
        return values
    return values.reshape(len(values), inputs, -1)[:, :, hop.at].reshape(len(values), -1)
