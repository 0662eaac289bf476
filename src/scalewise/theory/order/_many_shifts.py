r"""$G^{\{1\}}$ and $H^{\{1\}}$ of networks of Gaussian preactivations for many labels.

What a layer answers with at second order stands on pairs of labels; slopes of read-outs carry it to the end,
$$G^{\{1\}}_{ab}=n\sum_p\frac1{n_p}\sum_t\langle\bar g_t,S_t[p]\rangle,$$
and of the NTK likewise, with slopes in averages of activations and in those of tangents. Nothing is random but the
units over which products of changes are averaged.

Source: derived.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from scalewise.gaussian.spi import at_least_usual
from scalewise.networks import Network
from scalewise.theory.flow._units import Scrambled
from scalewise.theory.order._exact_products import ExactProducts
from scalewise.theory.order._layout import Layout, layout
from scalewise.theory.order._reverse import Reading, readings
from scalewise.theory.order._second_order import BEYOND, OF_NTK, Products, ProductSums
from scalewise.theory.order._strips import Kernels, kernels
from scalewise.theory.order._unit_responses import OF_NTK as OF_SLOPES
from scalewise.theory.order._unit_responses import (
    Alone,
    FreshUnits,
    UnitScene,
    makers,
    moved_by,
    responses,
)
from scalewise.theory.order._units import SCRAMBLES, each_scramble, units

Found = dict[str, tuple[np.ndarray, np.ndarray]]
SHIFTS = ("G1", "H1")
_WORK = 1 << 31  # pairs of labels times units
_FEWEST, _MOST = 1 << 10, 1 << 15
_PIECE, _TOGETHER = 1 << 16, 16  # numbers of a change at a time, and units


def many_shifts(
    net: Network,
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
        layers: Which, counted from 1; each of Gaussian preactivations.
        progress: Called with (inputs done, inputs in all).
    """
    program = net.program
    ends = [program.layers[layer - 1] for layer in layers]
    own, ntk = layout(program, x, ends), "H1" in letters
    known = kernels(own, ntk=ntk)
    _check(known)
    populations = [MovedUnits.of(known, root, ntk=ntk) for root in own.lifts if _moves(own, root)]
    shape = (SCRAMBLES, len(ends), len(x), len(x))
    found = {letter: np.zeros(shape) for letter in letters}
    for a in range(len(x)):
        sums = [some.strip(a) for some in populations]
        for place, end in enumerate(ends):
            if not own.moving(end):
                continue
            for reading in readings(known, end, a, ntk=ntk):
                for some, parts in zip(populations, sums, strict=True):
                    weight = net.widths[layers[place] - 1] / some.n
                    for scramble, part in enumerate(parts):
                        for letter in letters:
                            values = _contracted(letter, reading, part, some.alone[scramble], a)
                            found[letter][scramble, place, a, a:] += weight * values
        if progress is not None:
            progress(a + 1, len(x))
    return {letter: _combined(values) for letter, values in found.items()}


def _check(known: Kernels) -> None:
    """Refuse activations of which higher derivatives are not known where preactivations are."""
    for hop in known.layout.hops:
        if not known.is_series(hop):
            name = known.layout.course.populations[hop.root].sigma.name
            raise ValueError(
                f"Mean shifts of many labels take fifth derivatives of {name!r}, which varies too fast for them at "
                "these preactivations. Make C_b, C_W or the inputs smaller, give fewer inputs, or leave "
                "'metric_nlo' and 'ntk_nlo' out of `observables`."
            )


def _combined(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    sums = Scrambled()
    for part in values:
        upper = np.triu(part)
        sums.add(upper + np.triu(part, 1).swapaxes(-1, -2))
    mean, error = sums.result()
    return mean, np.array([at_least_usual(*pair) for pair in zip(mean, error, strict=True)])


def _moves(own: Layout, root: int) -> bool:
    """True if units of a population move a layer that is read."""
    read = set[int]().union(*(hop.lifts for hop in own.hops))
    return any(hop.root == root and hop.draw in read for hop in own.hops)


@dataclass
class MovedUnits:
    """Units of one population, and what they move.

    Args:
        known: The network at infinite width.
        root: The population.
        drawn: The units.
        orders: Of moments.
        exact: By layer, the one that moves it alone.
        moved: By layer and whether it is the rest alone, changes of all labels with themselves.
        alone: By scramble and input, what layers answer on its labels.
    """

    known: Kernels
    root: int
    drawn: FreshUnits
    orders: tuple[tuple[int, int], ...]
    exact: dict[int, ExactProducts] = field(default_factory=dict)
    moved: dict[bool, dict[int, Alone]] = field(default_factory=dict)
    alone: list[list[ProductSums]] = field(default_factory=list)

    @staticmethod
    def of(known: Kernels, root: int, *, ntk: bool) -> MovedUnits:
        """Drawn, and each input met with itself."""
        orders = (*BEYOND, *((*OF_SLOPES, *OF_NTK) if ntk else ()))
        made = MovedUnits(known, root, _fresh(known, root, ntk=ntk), tuple(dict.fromkeys(orders)))
        scenes = [made._scene(b, b).part(b, b) for b in range(known.layout.inputs)]
        for draw, maker in makers(known, root).items():
            found = ExactProducts.of(known, maker, scenes, ntk=ntk)
            if found is not None:
                made.exact[draw] = found
        made.moved = {rest: made._with_themselves(scenes, rest=rest) for rest in made._passes}
        by_input = [made._summed(at) for at in scenes]
        made.alone = [[sums[scramble] for sums in by_input] for scramble in range(SCRAMBLES)]
        return made

    @property
    def n(self) -> int:
        """How many a network has."""
        return self.known.layout.course.populations[self.root].n

    @property
    def _passes(self) -> tuple[bool, ...]:
        """Passes over what exact products leave, and over all."""
        own, every = self.known.layout, moved_by(self.known, self.root)
        past = any(hop.root == self.root for hop in own.hops if hop.draw in every)
        rest, whole = bool(self.exact), past or bool(every - self.exact.keys())
        return (*((True,) if rest else ()), *((False,) if whole else ()))

    def _scene(self, a: int, last: int) -> UnitScene:
        return UnitScene.of(self.known, a, last, self.orders, ntk=self.drawn.y is not None)

    def strip(self, a: int) -> list[ProductSums]:
        """Averages over units for an input and all later ones, of each scramble."""
        last = self.known.layout.inputs - 1
        whole = self._scene(a, last)
        labels = max(len(hop.at) for hop in self.known.layout.hops)
        step = max(1, _PIECE // (_TOGETHER * labels**2))
        parts = []
        for first in range(a, last + 1, step):
            some = min(first + step - 1, last)
            mine = first == some == a
            parts.append(
                [own[a] for own in self.alone] if mine else self._summed(whole.part(first, some))
            )
        return [ProductSums.beside(some) for some in zip(*parts, strict=True)]

    def _with_themselves(self, scenes: list[UnitScene], *, rest: bool) -> dict[int, Alone]:
        """Changes of all labels with themselves, by layer."""
        parts: dict[int, list[Alone]] = {}
        count, ntk = self.drawn.z.shape[1], self.drawn.y is not None
        for at in scenes:
            found: dict[int, Alone] = {}
            for _, part in _pieces(at, count):
                some = _some(self.drawn, part)
                for hop, _, first, _ in responses(at, self.root, some, None, rest=rest):
                    if hop.draw not in found:
                        shape = (len(hop.at), count)
                        found[hop.draw] = Alone(np.empty(shape), np.empty(shape) if ntk else None)
                    now = found[hop.draw]
                    now.K[:, part] = first.K
                    if now.X is not None and first.X is not None:
                        now.X[:, part] = first.X
            for draw, now in found.items():
                parts.setdefault(draw, []).append(now)
        return {draw: _joined(some) for draw, some in parts.items()}

    def _summed(self, at: UnitScene) -> list[ProductSums]:
        """Sums of each scramble."""
        found, count = [ProductSums() for _ in range(SCRAMBLES)], self.drawn.z.shape[1]
        share = SCRAMBLES / count
        hops = {hop.draw: hop for hop in self.known.layout.hops}
        for draw, exact in self.exact.items():
            products = exact.products(at)
            for sums in found:
                sums.add(at, hops[draw], products, 1.0)
        for rest, alone in self.moved.items():
            for scramble, part in _pieces(at, count):
                some, sums = _some(self.drawn, part), found[scramble]
                now = {draw: own.some(part) for draw, own in alone.items()}
                for hop, change, *both in responses(at, self.root, some, now, rest=rest):
                    if rest == (hop.draw in self.exact):
                        sums.add(at, hop, Products.of(change, *both), share)
                    if hop.root == self.root and not rest:
                        sums.remember(at, hop, change, (both[0], both[1]), some, share)
        return found


def _fresh(known: Kernels, root: int, *, ntk: bool) -> FreshUnits:
    own = known.layout
    labels = own.inputs * own.size(root)
    count = each_scramble(labels, _WORK, _FEWEST, _MOST)
    some = units(known, root, count, ntk=ntk, tangents=ntk)
    sigma, z = own.course.populations[root].sigma, np.ascontiguousarray(some.z.T)
    y = np.ascontiguousarray(some.y[0].T) if ntk else None
    return FreshUnits(z, tuple(sigma.derivatives[p](z) for p in range(4 if ntk else 3)), y)


def _pieces(at: UnitScene, count: int) -> Iterator[tuple[int, slice]]:
    """Scrambles, and units of each."""
    each = count // SCRAMBLES
    labels = max(len(hop.at) for hop in at.known.layout.hops)
    size = max(_TOGETHER, _PIECE // (labels * labels * at.inputs))
    for scramble in range(SCRAMBLES):
        for start in range(scramble * each, (scramble + 1) * each, size):
            yield scramble, slice(start, min(start + size, (scramble + 1) * each))


def _some(drawn: FreshUnits, units: slice) -> FreshUnits:
    y = None if drawn.y is None else np.ascontiguousarray(drawn.y[:, units])
    s = tuple(np.ascontiguousarray(s[:, units]) for s in drawn.s)
    return FreshUnits(np.ascontiguousarray(drawn.z[:, units]), s, y)


def _joined(parts: list[Alone]) -> Alone:
    X = [part.X for part in parts if part.X is not None]
    return Alone(np.concatenate([part.K for part in parts]), np.concatenate(X) if X else None)


def _contracted(
    letter: str, reading: Reading, part: ProductSums, alone: list[ProductSums], a: int
) -> np.ndarray:
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
