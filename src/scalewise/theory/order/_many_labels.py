r"""$V$, $D$, $A$, $B$, $F$ of networks of Gaussian preactivations for many labels, in reverse mode.

Each read-out is carried back once; a unit moves it by a form in its labels. With $\hat g$ its form in
preactivations, what is quadratic in these is covered exactly, and units that are drawn tell the rest,
$$n\,\mathrm{Cov}=\sum_p\frac n{n_p}\big(\langle\hat g',T+T^T\rangle+\ldots+\mathbb E[rr']\big).$$
No array with four labels exists; memory grows as their square, and with inputs as pairs of pairs of them do, each
once: what is returned of many inputs is read where it is asked for.

Source: derived; first order of von Mises' expansion, with the adjoints of a chain of Gaussian layers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import polygamma

from scalewise.networks import Network
from scalewise.theory.order._forms import Form
from scalewise.theory.order._layout import Layout, layout
from scalewise.theory.order._of_pairs import OfPairs
from scalewise.theory.order._own_products import add_own
from scalewise.theory.order._reverse import Reading, Slope, readings
from scalewise.theory.order._second_chaos import Chaos, Forms, by_input
from scalewise.theory.order._strips import Kernels, kernels
from scalewise.theory.order._units import (
    SCRAMBLES,
    Rests,
    UnitValues,
    add,
    each_scramble,
    few_columns,
    take_off,
    units,
)

Several = np.ndarray | OfPairs
Found = dict[str, tuple[Several, Several]]
KNOWN = ("V", "D", "A", "B", "F")
_SIDES = {"V": (0, 0), "D": (0, 1), "A": (1, 1)}  # the metric, and the NTK
_WORK = 1 << 30  # labels of two inputs times units
_FEWEST, _MOST = 1 << 10, 1 << 14  # units
_DOUBLE = (
    1 << 11
)  # labels, above which numbers are single: half the memory and time, and draws tell fewer digits
_ROUNDED, _ROUNDED_SINGLE = 1e-8, 1e-6  # of a tensor
_TOGETHER = 1 << 8  # pairs of inputs, with those of one later input
_PIECE = 1 << 20  # numbers of a tensor
_MOST_ALIKE = (
    4.0  # times its own scrambles that what is usual of a variance counts for; once at least
)
_SMALL = 1 << 23  # numbers of an array with four inputs, above which it is not made


@dataclass
class _Population:
    """Forms of all read-outs of one layer in one population, and what is left of them."""

    units: UnitValues
    rests: Rests
    metric: Forms
    ntk: Forms | None


def many_labels(
    net: Network,
    x: np.ndarray,
    letters: Collection[str],
    layers: Sequence[int],
    progress: Callable[[int, int], object] | None = None,
) -> Found:
    """Tensors at some layers of one site, each with its standard error, by letter.

    Args:
        net: A network of Gaussian preactivations.
        x: Checked inputs.
        letters: Of `KNOWN`.
        layers: Which, counted from 1.
        progress: Called with (layers done, layers in all).
    """
    program = net.program
    ends = [program.layers[layer - 1] for layer in layers]
    own = layout(program, x, ends)
    ntk, tangents = bool({"A", "D"} & set(letters)), bool({"B", "F"} & set(letters))
    labels = own.inputs * max(map(own.size, own.lifts), default=0)
    dtype = np.float32 if labels > _DOUBLE else np.float64
    known = kernels(own, ntk=ntk or tangents, tangents=dtype)
    values, errors = (
        {letter: OfPairs(letter, len(layers), len(x), kind) for letter in letters}
        for kind in (dtype, np.float32)
    )
    drawn = {
        root: units(
            known,
            root,
            each_scramble(own.inputs * own.size(root), _WORK, _FEWEST, _MOST),
            ntk=ntk,
            tangents=tangents,
            dtype=dtype,
        )
        for root in own.lifts
    }
    for place, (end, layer) in enumerate(zip(ends, layers, strict=True)):
        if own.moving(end):
            parts = _populations(known, end, drawn, ntk=ntk, tangents=tangents)
            if end == ends[-1]:
                drawn = {}
            rests: dict[int, tuple[float, Rests]] = {}
            for root in tuple(parts):  # forms, which are large, go as soon as they are read
                part = parts.pop(root)
                share = net.widths[layer - 1] / own.course.populations[root].n
                rests[root] = share, part.rests
                _chaos(known, root, part, share, theta=tangents).add_to(values, place)
                if _remembers(own, end, root):
                    wholes = (known.K, known.Theta) if tangents else (known.K,)
                    beside = [known.beside(of, root, end) for of in wholes]
                    kinds = (part.metric, part.ntk)
                    for letter in letters:
                        add_own(values[letter], place, kinds, beside, share)
            for letter in letters:
                _fill(letter, place, (values[letter], errors[letter]), list(rests.values()))
        if progress is not None:
            progress(place + 1, len(layers))
    return {letter: (_small(values[letter]), _small(errors[letter])) for letter in letters}


def _remembers(own: Layout, end: int, root: int) -> bool:
    """True if a neuron of a layer is more than one random layer, some of which a population has."""
    remembers = not own.program.averages_out(((end, 1.0),))
    return remembers and own.course.population(next(iter(own.ends[end]))) == root


def _small(of: OfPairs) -> Several:
    """As an array, unless it is large."""
    if not np.isfinite(of.stored).all():
        raise FloatingPointError("A tensor of order 1/n is not finite; please report this network.")
    return np.asarray(of) if of.size <= _SMALL else of


def _populations(
    known: Kernels, end: int, drawn: dict[int, UnitValues], *, ntk: bool, tangents: bool
) -> dict[int, _Population]:
    own, found = known.layout, dict[int, _Population]()
    for a in range(own.inputs):
        below: dict[int, list[Reading]] = {}
        for reading in readings(known, end, a, ntk=ntk):
            root = reading.hop.root
            if root not in found:
                found[root] = _nothing(own, root, drawn[root], ntk=ntk, tangents=tangents)
            add(found[root].rests, drawn[root], reading, a, own.inputs)
            below.setdefault(root, []).append(reading)
        for root, some in below.items():
            _settle(own, found[root], root, some, a)
    return found


def _nothing(
    own: Layout, root: int, units: UnitValues, *, ntk: bool, tangents: bool
) -> _Population:
    linear = not own.course.populations[root].sigma.parity
    some = {"thin": own.is_thin, "linear": linear}
    size, inputs, dtype = own.size(root), own.inputs, units.z.dtype.type
    return _Population(
        units,
        Rests.empty(len(units.z), inputs, ntk=ntk, tangents=tangents, dtype=dtype),
        Forms.empty(inputs, size, dtype=dtype, **some),
        Forms.empty(inputs, size, dtype=dtype, **some) if ntk else None,
    )


def _settle(own: Layout, at: _Population, root: int, some: list[Reading], a: int) -> None:
    """Take what is known exactly of the read-outs of an input, over all layers that read a population."""
    size = own.size(root)
    metric = _sum([r.metric_below.placed(r.hop.at, size) for r in some])
    ntk = None
    if at.ntk is not None:
        ntk = _sum([r.ntk_below.placed(r.hop.at, size) for r in some if r.ntk_below is not None])
    linear = (
        _sum_linear([(r.hop.at, r.linear[0]) for r in some], size),
        _sum_linear([(r.hop.at, r.linear[1]) for r in some], size),
    )
    take_off(at.rests, at.units, (metric, ntk), linear, a)
    at.metric.set(a, metric, linear[0])
    if at.ntk is not None and ntk is not None:
        at.ntk.set(a, ntk, linear[1])


def _sum(forms: list[Form]) -> Form:
    total = forms[0]
    for form in forms[1:]:
        total = total.plus(form)
    return total


def _sum_linear(parts: list[tuple[np.ndarray, Slope | None]], size: int) -> Slope | None:
    known = [(at, slope) for at, slope in parts if slope is not None]
    if len(known) < len(parts):
        return None
    first, second = (np.zeros((len(side), size)) for side in known[0][1])
    for at, slope in known:
        first[:, at] += slope[0]
        second[:, at] += slope[1]
    return first, second


def _chaos(known: Kernels, root: int, part: _Population, share: float, *, theta: bool) -> Chaos:
    """Exact covariances of one population."""
    lifts, kinds = known.layout.lifts[root], [part.metric]
    if part.ntk is not None:
        kinds.append(part.ntk)
    inputs, dtype = part.metric.inputs, part.metric.across.dtype.type
    covariances = (known.K, known.Theta) if theta else (known.K,)
    wholes = [known.whole(of, lifts) for of in covariances]
    columns = [by_input(whole, inputs, dtype) for whole in wholes]
    few = [few_columns(whole, part.metric.size - 1) for whole in wholes]
    roots = tuple(root.astype(dtype) for root in few if root is not None)
    return Chaos(tuple(kinds), tuple(columns), share, roots if len(roots) == len(few) else ())


def _fill(
    letter: str, place: int, stored: tuple[OfPairs, OfPairs], rests: list[tuple[float, Rests]]
) -> None:
    """Add to a tensor of one layer, known exactly so far, what units tell beyond, and find its standard error."""
    values, errors = stored
    for kind in range(2 if letter in "DF" else 1):
        over = values.ordered and kind == 1
        sides = [_sides(letter, kind, share, rest, values) for share, rest in rests]
        for b in range(values.shape[1]):
            first, until = values.until(b - 1), values.until(b)
            rows = slice(first + b + 1, until) if over else slice(first, first + b + 1)
            value, error = (of.rows(place, b, kind) for of in stored)
            for start in range(0, until, _TOGETHER):
                some = slice(start, min(start + _TOGETHER, until))
                several = sum(
                    (left[:, rows] @ right[:, :, some] for left, right in sides[1:]),
                    sides[0][0][:, rows] @ sides[0][1][:, :, some],
                )
                mean = several.mean(axis=0)
                several -= mean
                value[:, some] += mean
                error[:, some] = np.einsum("sij,sij->ij", several, several)
    _settle_errors(values, errors, place)


def _sides(
    letter: str, kind: int, share: float, rests: Rests, of: OfPairs
) -> tuple[np.ndarray, np.ndarray]:
    """Rests of pairs that are rows, (scramble, pair, unit), and of all pairs, (scramble, unit, pair)."""
    several = {"F": rests.mixed, "B": rests.tangents}
    found = [several[letter]] * 2 if letter in several else []
    for side in _SIDES.get(letter, ())[:: -1 if kind else 1]:
        found.append((rests.metric, rests.ntk)[side])
    one, other = (_by_scramble(values, of, centred=letter in _SIDES) for values in found)
    return one.swapaxes(1, 2) * one.dtype.type(share / one.shape[1]), other


def _by_scramble(values: np.ndarray | None, of: OfPairs, *, centred: bool) -> np.ndarray:
    assert values is not None
    found = values[:, of.first, of.second]
    if centred:
        found -= found.mean(axis=0)
        found *= np.sqrt(len(found) / (len(found) - 1))
    return found.reshape(SCRAMBLES, len(found) // SCRAMBLES, -1)


def _settle_errors(values: OfPairs, errors: OfPairs, place: int) -> None:
    """Standard errors from sums of squares: between what scrambles say of a number and what is usual.

    A few scrambles happen to agree here and there, or not to, and of many inputs most numbers are small beside a
    few: usual is the mean, or the share of large numbers. It counts for as many scrambles as the spread of
    logarithms of variances beyond that of their estimates says.

    Source: Smyth, Stat. Appl. Genet. Mol. Biol. 3 (2004) 3, (3) and section 6.2; the limits are ours.
    """
    value, error = values.stored[place], errors.stored[place]
    error /= SCRAMBLES * (SCRAMBLES - 1)
    rounded = _ROUNDED if value.dtype == np.float64 else _ROUNDED_SINGLE
    pieces = [slice(start, start + _PIECE) for start in range(0, len(value), _PIECE)]
    seen, square, fourth = 0.0, 0.0, 0.0
    for some in pieces:  # these are large
        squares = np.square(value[some], dtype=np.float64)
        seen += float(squares @ error[some])
        square += float(squares.sum())
        fourth += float(squares @ squares)
    share = seen / fourth if fourth else 0.0
    usual, freedom = float(error.mean(dtype=np.float64)), SCRAMBLES - 1
    few = slice(None, None, max(1, len(value) // _PIECE))
    told, expected = error[few], np.maximum(usual, share * np.square(value[few]))
    there = told > 0
    spread = np.var(np.log(told[there] / expected[there])) if there.any() else 0.0
    beyond = float(spread - polygamma(1, freedom / 2))
    alike = freedom * min(max((1 + 2 / max(beyond, 1e-9)) / freedom, 1.0), _MOST_ALIKE)
    least = rounded**2 * square / len(value)
    for some in pieces:
        squares = np.square(value[some])
        known = freedom * error[some] + alike * np.maximum(usual, share * squares)
        error[some] = np.sqrt(known / (freedom + alike) + np.maximum(least, rounded**2 * squares))
