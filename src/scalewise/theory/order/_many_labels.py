r"""$V$, $D$, $A$, $B$, $F$ of networks of Gaussian preactivations for many labels, in reverse mode.

Each read-out is carried back once; a unit moves it by a form in its labels. With $\hat g$ its form in
preactivations, what is quadratic in these is covered exactly, and units that are drawn tell the rest,
$$n\,\mathrm{Cov}=\sum_p\frac n{n_p}\big(\langle\hat g',T+T^T\rangle+\ldots+\mathbb E[rr']\big).$$
No array with four labels exists; memory grows as their square, and with four inputs as what is asked for does.

Source: derived; first order of von Mises' expansion, with the adjoints of a chain of Gaussian layers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from scalewise.gaussian import at_least_usual
from scalewise.networks import Network
from scalewise.theory.flow._units import Scrambled
from scalewise.theory.order._forms import Form
from scalewise.theory.order._layout import Layout, layout
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

Found = dict[str, tuple[np.ndarray, np.ndarray]]
KNOWN = ("V", "D", "A", "B", "F")
_SIDES = {"V": (0, 0), "D": (0, 1), "A": (1, 1)}  # the metric, and the NTK
_WORK = 1 << 30  # labels of two inputs times units
_FEWEST, _MOST = 1 << 10, 1 << 14  # units
_ROUNDED = 1e-8  # of a tensor
_TOGETHER = 512  # read-outs, with all others


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
    shape = (len(layers), *(len(x),) * 4)
    found: Found = {letter: (np.zeros(shape), np.zeros(shape)) for letter in letters}
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
            # Forms, which are large, go as soon as they are read.
            exact = {root: _exact(letters, known, root, parts.pop(root)) for root in rests}
            for letter in letters:
                value, error = _tensor(letter, own, rests, exact, net.widths[layer - 1])
                found[letter][0][place], found[letter][1][place] = value, error
        if progress is not None:
            progress(place + 1, len(layers))
    return found


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


def _tensor(
    letter: str,
    own: Layout,
    rests: dict[int, Rests],
    exact: dict[int, dict[str, np.ndarray]],
    n: int,
) -> tuple[np.ndarray, np.ndarray]:
    """(input, input, input, input) and its standard error."""
    inputs, rows = own.inputs, {root: _rows(letter, rest) for root, rest in rests.items()}
    weights = {root: n / own.course.populations[root].n for root in rests}
    value = np.asarray(sum(weights[root] * exact[root].pop(letter) for root in rests))
    error = np.empty_like(value)
    for start in range(0, len(value), _TOGETHER):
        some, sums = slice(start, start + _TOGETHER), Scrambled()
        for scramble in range(SCRAMBLES):
            total = np.zeros_like(value[some])
            for root, weight in weights.items():
                total += weight * _product(*rows[root], scramble, some)
            sums.add(total)
        mean, spread = sums.result()
        value[some] += mean
        error[some] = np.hypot(spread, _ROUNDED * np.abs(value[some]))
    error = at_least_usual(value, error)
    if letter in _SIDES:
        index = np.empty((inputs, inputs), dtype=int)
        first, second = pairs(inputs)
        index[first, second] = index[second, first] = np.arange(len(first))
        flat = index.ravel()
        value, error = (values[flat[:, None], flat] for values in (value, error))
    shape = (inputs,) * 4
    return value.reshape(shape), error.reshape(shape)


def _exact(
    letters: Collection[str], known: Kernels, root: int, part: _Population
) -> dict[str, np.ndarray]:
    """What is known of the covariances of one population, by letter."""
    lifts = known.layout.lifts[root]
    K = known.whole(known.K, lifts)
    kinds = [part.metric, *([] if part.ntk is None else [part.ntk])]
    found = symmetric(kinds, K) if _SIDES.keys() & set(letters) else {}
    result = {letter: found[sides] for letter, sides in _SIDES.items() if sides in found}
    for letter in {"F", "B"} & set(letters):
        Theta = known.whole(known.Theta, lifts)
        left, own = (K, True) if letter == "F" else (Theta, False)
        values = ordered(part.metric, left, Theta, own=own)
        result[letter] = values.reshape(part.metric.inputs**2, -1)
    return result


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


def _product(left: np.ndarray, right: np.ndarray, scramble: int, some: slice) -> np.ndarray:
    """Of some read-outs with all."""
    return left[scramble][:, some].T @ right[scramble] / left.shape[1]
