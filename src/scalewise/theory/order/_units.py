r"""Units of a population, drawn, and what read-outs make of them beyond what is known exactly.

A unit has preactivations $z$ at all labels, jointly Gaussian along the whole stream, and tangents $y^a$, $y^b$ with
covariance $\Theta$. What is quadratic or linear in them is taken off, so that draws tell the rest alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from scalewise.theory.flow._units import normals, rooted
from scalewise.theory.order._forms import Form
from scalewise.theory.order._layout import Hop, Spreading
from scalewise.theory.order._reverse import Reading, Slope
from scalewise.theory.order._strips import Kernels

SCRAMBLES = 16
Values = Float[np.ndarray, "_unit _label"]
_PIECE = 1 << 19  # numbers at a time
_SPREAD = 128  # labels


@dataclass
class Units:
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


def units(known: Kernels, root: int, count: int, *, ntk: bool, tangents: bool) -> Units:
    """So many of them, a power of 2 for each scramble, one scramble after another.

    Args:
        known: The network at infinite width.
        root: The population.
        count: How many of each scramble.
        ntk: Whether derivatives are wanted.
        tangents: Whether tangents are.
    """
    own = known.layout
    sigma, lifts = own.course.populations[root].sigma, own.lifts[root]
    both = not sigma.parity  # with the other sign, unless it would be the same again
    z = _drawn(known.K, lifts, count, (root, 0), both=both)
    y = tuple(
        _drawn(known.Theta, lifts, count, (root, 1 + k), both=False)
        for k in range(2 if tangents else 0)
    )
    slopes = None
    if ntk or tangents:
        slopes = sigma.derivatives[1](z)
        if sigma.slopes is not None:  # as `PairTables` takes it where all draws are 0
            slopes[:, ~z.any(axis=0)] = sigma.slopes[0]
    return Units(z, sigma(z), slopes, y)


def _drawn(
    of: dict[int, np.ndarray], lifts: dict[int, Spreading], count: int, seed: tuple[int, ...], *, both: bool
) -> Values:  # fmt: skip
    total = 0.0
    for j, lift in lifts.items():
        labels, parts = len(of[j]), []
        for scramble in range(SCRAMBLES):
            parts.append(_normals(labels, count, (*seed, j, scramble), both=both))
        u = (rooted(of[j]) @ np.concatenate(parts, axis=1)).T
        total = total + lift.read(np.ascontiguousarray(u))[0]
    return np.asarray(total)


def _normals(labels: int, count: int, seed: tuple[int, ...], *, both: bool) -> Values:
    """(label, unit): spread evenly, where there are few labels."""
    half = count // 2 if both else count
    if labels > _SPREAD:  # there evenly spread points tell nothing more
        drawn = np.random.default_rng(seed).standard_normal((labels, half))
        return np.concatenate([drawn, -drawn], axis=1) if both else drawn
    return normals(labels, half, seed)[:, :count]


@dataclass
class Rests:
    """What is left of the read-outs of each unit, by kind.

    Args:
        metric: (unit, input, input), of pairs of inputs once.
        ntk: Likewise.
        mixed: Of a field at the first input and a tangent at the second.
        tangents: Of two of them.
    """

    metric: np.ndarray
    ntk: np.ndarray | None
    mixed: np.ndarray | None
    tangents: np.ndarray | None

    @staticmethod
    def empty(units: int, inputs: int, *, ntk: bool, tangents: bool) -> Rests:
        """Of no layers yet."""
        shape = (units, inputs, inputs)
        return Rests(
            np.zeros(shape),
            np.zeros(shape) if ntk else None,
            np.zeros(shape) if tangents else None,
            np.zeros(shape) if tangents else None,
        )


def add(rests: Rests, own: Units, found: Reading, a: int, inputs: int) -> None:
    """What read-outs of an input with itself and all later ones make of activations that a layer reads."""
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
        rests.ntk[:, a, a:] += _across(slopes, found.slopes, slopes, a)


def take_off(
    rests: Rests,
    own: Units,
    below: tuple[Form, Form | None],
    linear: tuple[Slope | None, Slope | None],
    a: int,
) -> None:
    """What is known exactly: what is quadratic or linear in preactivations and tangents."""
    metric, ntk = below
    _add_form(rests, (own.z, own.y), metric, a, sign=-1.0)
    if rests.ntk is not None and ntk is not None:
        rests.ntk[:, a, a:] -= _values(own.z, ntk, own.z, a)
    for target, slopes in zip((rests.metric, rests.ntk), linear, strict=True):
        if target is not None and slopes is not None:
            first, second = _linear(own.z, slopes, a)
            target[:, a, a:] -= first + second
    if rests.mixed is not None and linear[0] is not None:
        first, second = _linear(own.y[0], linear[0], a)
        rests.mixed[:, a, a:] -= second
        rests.mixed[:, a + 1 :, a] -= first[:, 1:]


def _add_form(
    rests: Rests, of: tuple[Values, tuple[Values, ...]], form: Form, a: int, sign: float = 1.0
) -> None:
    """Of the metric, and of averages with tangents, which have the same form."""
    x, y = of
    rests.metric[:, a, a:] += sign * _values(x, form, x, a)
    if rests.mixed is None or rests.tangents is None:
        return
    size = len(form.across)
    own, on = slice(a * size, (a + 1) * size), slice(a * size, None)
    across = sign * form.across
    twice = form.own.times(2 * sign)
    rests.mixed[:, a, a:] += _across(x, across, y[0], a) + twice.on_second(x[:, on], y[0][:, on])
    turned = _across(y[0], across, x, a) + twice.on_first(x[:, own], y[0][:, own])
    rests.mixed[:, a + 1 :, a] += turned[:, 1:]
    rests.tangents[:, a, a:] += _across(y[0], across, y[1], a)
    rests.tangents[:, a + 1 :, a] += _across(y[1], across, y[0], a)[:, 1:]


def _values(x: Values, form: Form, other: Values, a: int) -> np.ndarray:
    """(unit, second input)."""
    size = len(form.across)
    own, on = slice(a * size, (a + 1) * size), slice(a * size, None)
    alone = form.own.on_first(x[:, own], other[:, own]) + form.own.on_second(x[:, on], other[:, on])
    return _across(x, form.across, other, a) + alone


def _across(x: Values, across: np.ndarray, other: Values, a: int) -> np.ndarray:
    size, columns = across.shape
    found = np.empty((len(x), columns // size))
    for some in _pieces(len(x), columns):
        moved = x[some, a * size : (a + 1) * size] @ across
        moved *= other[some, a * size :]
        found[some] = moved.reshape(len(moved), -1, size).sum(axis=2)
    return found


def _pieces(count: int, columns: int) -> Iterator[slice]:
    size = max(1, _PIECE // columns)
    return (slice(start, start + size) for start in range(0, count, size))


def _linear(z: Values, slopes: Slope, a: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = slopes
    size = first.shape[1]
    own = z[:, a * size : (a + 1) * size] @ first.T
    others = z[:, a * size :].reshape(len(z), *second.shape)
    return own, np.einsum("mbp,bp->mb", others, second)


def _read(own: Units, hop: Hop, inputs: int, tap: int | None) -> tuple[Values, tuple[Values, ...]]:
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
