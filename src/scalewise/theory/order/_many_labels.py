r"""$V$, $D$, $A$, $B$, $F$ of networks of Gaussian preactivations for many labels, in reverse mode.

Each read-out is carried back once; a unit moves it by a form in its labels. With $\hat g$ its form in
preactivations, what is quadratic in these is covered exactly, and units that are drawn tell the rest,
$$n\,\mathrm{Cov}=\sum_p\frac n{n_p}\big(\langle\hat g',T+T^T\rangle+\ldots+\mathbb E[rr']\big).$$
No array with four labels exists; memory grows as their square, and with inputs as pairs of pairs of them do, each
once: what is returned of many inputs is read where it is asked for.

Source: derived; first order of von Mises' expansion, with the adjoints of a chain of Gaussian layers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from scalewise.gaussian import at_least_usual
from scalewise.networks import Network
from scalewise.theory.flow._units import Scrambled
from scalewise.theory.order._forms import Form
from scalewise.theory.order._layout import Layout, layout
from scalewise.theory.order._of_pairs import OfPairs
from scalewise.theory.order._reverse import Reading, Slope, readings
from scalewise.theory.order._second_chaos import Forms, ordered, pairs, symmetric
from scalewise.theory.order._strips import Kernels, kernels
from scalewise.theory.order._units import (
    SCRAMBLES,
    Rests,
    Units,
    add,
    each_scramble,
    take_off,
    units,
)

Several = np.ndarray | OfPairs
Found = dict[str, tuple[Several, Several]]
KNOWN = ("V", "D", "A", "B", "F")
_SIDES = {"V": (0, 0), "D": (0, 1), "A": (1, 1)}  # the metric, and the NTK
_WORK = 1 << 30  # labels of two inputs times units
_FEWEST, _MOST = 1 << 10, 1 << 14  # units
_ROUNDED = 1e-8  # of a tensor
_TOGETHER = 512  # read-outs, with all others
_SMALL = 1 << 23  # numbers of an array with four inputs, above which it is not made


@dataclass
class _Population:
    """What all read-outs of one layer make of one population."""

    units: Units
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
        layers: Which, counted from 1; each a random layer without what is added to it.
        progress: Called with (layers done, layers in all).
    """
    program = net.program
    ends = [program.layers[layer - 1] for layer in layers]
    own = layout(program, x, ends)
    ntk, tangents = bool({"A", "D"} & set(letters)), bool({"B", "F"} & set(letters))
    known = kernels(own, ntk=ntk or tangents)
    values, errors = (
        {letter: OfPairs(letter, len(layers), len(x), kind) for letter in letters}
        for kind in (np.float64, np.float32)
    )
    drawn = {
        root: units(
            known,
            root,
            each_scramble(own.inputs * own.size(root), _WORK, _FEWEST, _MOST),
            ntk=ntk,
            tangents=tangents,
        )
        for root in own.lifts
    }
    for place, (end, layer) in enumerate(zip(ends, layers, strict=True)):
        if end not in own.course.first:
            parts = _populations(known, end, drawn, ntk=ntk, tangents=tangents)
            rests = {root: part.rests for root, part in parts.items()}
            shares = {
                root: net.widths[layer - 1] / own.course.populations[root].n for root in rests
            }
            exact: dict[str, np.ndarray] = {}
            for (
                root,
                share,
            ) in shares.items():  # forms, which are large, go as soon as they are read
                for letter, part in _exact(letters, known, root, parts.pop(root)):
                    part *= share
                    exact[letter] = exact[letter] + part if letter in exact else part
            for letter in letters:
                stored = values[letter], errors[letter]
                _fill(letter, place, stored, exact.pop(letter), (shares, rests))
        if progress is not None:
            progress(place + 1, len(layers))
    return {letter: (_small(values[letter]), _small(errors[letter])) for letter in letters}


def _small(of: OfPairs) -> Several:
    """As an array, unless it is large."""
    if not np.isfinite(of.stored).all():
        raise FloatingPointError("A tensor of order 1/n is not finite; please report this network.")
    return np.asarray(of) if of.size <= _SMALL else of


def _populations(
    known: Kernels, end: int, drawn: dict[int, Units], *, ntk: bool, tangents: bool
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


def _nothing(own: Layout, root: int, units: Units, *, ntk: bool, tangents: bool) -> _Population:
    linear = not own.course.populations[root].sigma.parity
    some = {"thin": own.is_thin, "linear": linear}
    size, inputs = own.size(root), own.inputs
    return _Population(
        units,
        Rests.empty(len(units.z), inputs, ntk=ntk, tangents=tangents),
        Forms.empty(inputs, size, **some),
        Forms.empty(inputs, size, **some) if ntk else None,
    )


def _settle(own: Layout, at: _Population, root: int, some: list[Reading], a: int) -> None:
    """What is known exactly of the read-outs of an input, over all layers that read a population."""
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


def _fill(
    letter: str,
    place: int,
    stored: tuple[OfPairs, OfPairs],
    exact: np.ndarray,
    sampled: tuple[dict[int, float], dict[int, Rests]],
) -> None:
    """A tensor of one layer and its standard error: what is known exactly, and what units tell beyond."""
    shares, rests = sampled
    rows = {root: _rows(letter, rest) for root, rest in rests.items()}
    for start in range(0, len(exact), _TOGETHER):
        some, on, sums = slice(start, start + _TOGETHER), stored[0].first(start), Scrambled()
        for scramble in range(SCRAMBLES):
            total = 0.0
            for root, share in shares.items():
                total = total + share * _product(*rows[root], scramble, (some, slice(on, None)))
            sums.add(np.asarray(total))
        mean, spread = sums.result()
        value = exact[some, on:] + mean
        error = at_least_usual(value, np.hypot(spread, _ROUNDED * np.abs(value)))
        for target, block in zip(stored, (value, error), strict=True):
            target.put(place, start, block)


def _exact(
    letters: Collection[str], known: Kernels, root: int, part: _Population
) -> Iterator[tuple[str, np.ndarray]]:
    """Exact covariances of one population, by letter, (pair of inputs, pair of inputs)."""
    lifts = known.layout.lifts[root]
    K = known.whole(known.K, lifts)
    kinds = [part.metric, *([] if part.ntk is None else [part.ntk])]
    if _SIDES.keys() & set(letters):
        found = symmetric(kinds, K)
        yield from ((letter, found.pop(_SIDES[letter])) for letter in _SIDES if letter in letters)
    for letter in {"F", "B"} & set(letters):
        Theta = known.whole(known.Theta, lifts)
        left, own = (K, True) if letter == "F" else (Theta, False)
        yield letter, ordered(part.metric, left, Theta, own=own)


def _rows(letter: str, rests: Rests) -> tuple[np.ndarray, np.ndarray]:
    """(scramble, unit, read-out), centred and scaled."""
    if letter not in _SIDES:
        values = rests.mixed if letter == "F" else rests.tangents
        assert values is not None
        found = values.reshape(SCRAMBLES, len(values) // SCRAMBLES, -1)
        return found, found
    both = []
    for side in _SIDES[letter]:
        values = (rests.metric, rests.ntk)[side]
        assert values is not None
        values = values[:, *pairs(values.shape[1])]
        values = (values - values.mean(axis=0)) * np.sqrt(len(values) / (len(values) - 1))
        both.append(values.reshape(SCRAMBLES, len(values) // SCRAMBLES, -1))
    return both[0], both[1]


def _product(
    left: np.ndarray, right: np.ndarray, scramble: int, some: tuple[slice, slice]
) -> np.ndarray:
    """Of some read-outs with some others."""
    one, other = left[scramble][:, some[0]], right[scramble][:, some[1]]
    return one.T @ other / left.shape[1]
