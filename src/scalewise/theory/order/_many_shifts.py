r"""$G^{\{1\}}$ and $H^{\{1\}}$ of networks of Gaussian preactivations for many labels.

What a layer answers with at second order stands on pairs of labels; slopes of read-outs carry it to the end,
$$G^{\{1\}}_{ab}=n\sum_p\frac1{n_p}\sum_t\langle\bar g_t,S_t[p]\rangle,$$
and of the NTK likewise, with slopes in averages of activations and in those of tangents. Nothing is random but the
units over which products of changes are averaged.

Source: derived.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from scalewise.gaussian import at_least_usual
from scalewise.networks._architecture import Architecture
from scalewise.theory.flow._units import Scrambled
from scalewise.theory.order._layout import Layout, layout
from scalewise.theory.order._reverse import Reading, readings
from scalewise.theory.order._second_order import BEYOND, OF_NTK, Sums
from scalewise.theory.order._strips import Kernels, kernels
from scalewise.theory.order._unit_responses import Alone, Fresh, Scene, responses, scene
from scalewise.theory.order._units import SCRAMBLES, units

Found = dict[str, tuple[np.ndarray, np.ndarray]]
SHIFTS = ("G1", "H1")
_WORK = 1 << 30  # pairs of labels times units
_FEWEST, _MOST = 1 << 10, 1 << 15
_PIECE = 1 << 18  # numbers of a change at a time


def many_shifts(
    net: Architecture,
    x: np.ndarray,
    letters: Collection[str],
    layers: Sequence[int],
    progress: Callable[[int, int], object] | None = None,
) -> Found:
    """Mean shifts at some layers of one site, each with its standard error, by letter.

    Args:
        net: A network of Gaussian preactivations, smooth ones.
        x: Checked inputs.
        letters: Of `SHIFTS`.
        layers: Which, counted from 1; each a random layer without what is added to it.
        progress: Called with (inputs done, inputs in all).
    """
    program = net.program
    ends = [program.layers[layer - 1] for layer in layers]
    own, ntk = layout(program, x, ends), "H1" in letters
    known = kernels(own, ntk=ntk)
    drawn = {root: _fresh(known, root, ntk=ntk) for root in own.lifts if _moves(own, root)}
    alone = {root: _by_input(known, root, drawn[root], ntk=ntk) for root in drawn}
    shape = (SCRAMBLES, len(ends), len(x), len(x))
    found = {letter: np.zeros(shape) for letter in letters}
    for a in range(len(x)):
        sums = {
            root: list(_strip(known, root, drawn[root], a, alone[root][0], ntk=ntk))
            for root in drawn
        }
        for place, end in enumerate(ends):
            if end in own.course.first:
                continue
            for reading in readings(known, end, a, ntk=ntk):
                for root, parts in sums.items():
                    weight = net.widths[layers[place] - 1] / own.course.populations[root].n
                    for scramble, part in enumerate(parts):
                        own_sums = alone[root][1][scramble]
                        for letter in letters:
                            values = _contracted(letter, reading, part, own_sums, a)
                            found[letter][scramble, place, a, a:] += weight * values
        if progress is not None:
            progress(a + 1, len(x))
    return {letter: _combined(values) for letter, values in found.items()}


def _combined(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    sums = Scrambled()
    for part in values:
        upper = np.triu(part)
        sums.add(upper + np.triu(part, 1).swapaxes(-1, -2))
    mean, error = sums.result()
    return mean, np.array([at_least_usual(*pair) for pair in zip(mean, error, strict=True)])


def _moves(own: Layout, root: int) -> bool:
    """Whether units of a population move a layer that is read."""
    read = set[int]().union(*(hop.lifts for hop in own.hops))
    return any(hop.root == root and hop.draw in read for hop in own.hops)


def _fresh(known: Kernels, root: int, *, ntk: bool) -> Fresh:
    own = known.layout
    labels = own.inputs * own.size(root)
    count = min(max(2 * _WORK // labels**2, _FEWEST), _MOST) // SCRAMBLES
    some = units(known, root, 1 << (count.bit_length() - 1), ntk=ntk, tangents=ntk)
    sigma, z = own.course.populations[root].sigma, np.ascontiguousarray(some.z.T)
    orders = range(4 if ntk else 3)
    y = np.ascontiguousarray(some.y[0].T) if ntk else None
    return Fresh(z, tuple(sigma.derivatives[p](z) for p in orders), y)


def _pieces(at: Scene, drawn: Fresh) -> Iterator[tuple[int, slice]]:
    """Scrambles, and units of each."""
    each = drawn.z.shape[1] // SCRAMBLES
    labels = max(len(hop.at) for hop in at.known.layout.hops)
    size = max(1, _PIECE // (labels * labels * at.inputs))
    for scramble in range(SCRAMBLES):
        for start in range(scramble * each, (scramble + 1) * each, size):
            yield scramble, slice(start, min(start + size, (scramble + 1) * each))


def _some(drawn: Fresh, units: slice) -> Fresh:
    y = None if drawn.y is None else np.ascontiguousarray(drawn.y[:, units])
    s = tuple(np.ascontiguousarray(s[:, units]) for s in drawn.s)
    return Fresh(np.ascontiguousarray(drawn.z[:, units]), s, y)


def _orders(*, ntk: bool) -> tuple[tuple[int, int], ...]:
    return (*BEYOND, *(OF_NTK if ntk else ()))


def _strip(
    known: Kernels, root: int, drawn: Fresh, a: int, alone: dict[int, Alone], *, ntk: bool
) -> Iterator[Sums]:
    """Of each scramble, averages over units for an input and all later ones."""
    at = scene(known, a, known.layout.inputs - 1, _orders(ntk=ntk), ntk=ntk)
    yield from _summed(at, root, drawn, alone)


def _summed(at: Scene, root: int, drawn: Fresh, alone: dict[int, Alone]) -> list[Sums]:
    found = [Sums() for _ in range(SCRAMBLES)]
    each = drawn.z.shape[1] // SCRAMBLES
    for scramble, part in _pieces(at, drawn):
        some, sums = _some(drawn, part), found[scramble]
        now = {
            draw: Alone(own.K[:, part], None if own.X is None else own.X[:, part])
            for draw, own in alone.items()
        }
        for hop, change, first, second in responses(at, root, some, now):
            sums.add(at, hop, change, first, second)
            if hop.root == root:
                sums.remember(at, hop, change, (first, second), some)
    for sums in found:
        for values in (sums.K, sums.Theta):
            for draw in values:
                values[draw] = values[draw] / each
    return found


def _by_input(
    known: Kernels, root: int, drawn: Fresh, *, ntk: bool
) -> tuple[dict[int, Alone], list[list[Sums]]]:
    """Changes of all labels with themselves, by layer; and of each scramble and input what it answers alone."""
    own, count = known.layout, drawn.z.shape[1]
    parts: dict[int, list[Alone]] = {}
    sums: list[list[Sums]] = [[] for _ in range(SCRAMBLES)]
    for b in range(own.inputs):
        at = scene(known, b, b, _orders(ntk=ntk), ntk=ntk)
        found: dict[int, Alone] = {}
        for _, part in _pieces(at, drawn):
            for hop, _, first, _ in responses(at, root, _some(drawn, part), None):
                if hop.draw not in found:
                    shape = (len(hop.at), count)
                    found[hop.draw] = Alone(np.empty(shape), np.empty(shape) if ntk else None)
                now = found[hop.draw]
                now.K[:, part] = first.K
                if now.X is not None and first.X is not None:
                    now.X[:, part] = first.X
        for draw, now in found.items():
            parts.setdefault(draw, []).append(now)
    alone = {draw: _joined(some) for draw, some in parts.items()}
    for b in range(own.inputs):
        at = scene(known, b, b, _orders(ntk=ntk), ntk=ntk)
        for scramble, some in enumerate(_summed(at, root, drawn, alone)):
            sums[scramble].append(some)
    return alone, sums


def _joined(parts: list[Alone]) -> Alone:
    X = [part.X for part in parts if part.X is not None]
    return Alone(np.concatenate([part.K for part in parts]), np.concatenate(X) if X else None)


def _contracted(letter: str, reading: Reading, part: Sums, alone: list[Sums], a: int) -> np.ndarray:
    """Read-outs of an input with itself and all later ones."""
    draw = reading.hop.draw
    form = reading.metric if letter == "G1" else reading.ntk
    assert form is not None
    size, columns = form.across.shape
    if draw not in part.K:
        return np.zeros(columns // size)
    total = form.across * part.K[draw]
    if letter == "H1":
        total = total + reading.metric.across * part.Theta[draw]
    found = total.reshape(size, -1, size).sum(axis=(0, 2))
    for place, b in enumerate(range(a, a + len(found))):
        found[place] += _on_own(form.own.first[place], alone[a].K[draw])
        found[place] += _on_own(form.own.second[place], alone[b].K[draw])
    return found


def _on_own(own: np.ndarray, values: np.ndarray) -> float:
    return float((own * (np.diagonal(values) if own.ndim == 1 else values)).sum())
