"""The networks of one verification: how far each is trained, and what is told of all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from scalewise.plan._adapter import Adapter, Bench, Scene
from scalewise.plan._errors import PlanError
from scalewise.plan._growth import growth_over
from scalewise.plan._measurement import Measurement, Quantity
from scalewise.plan._names import bare, pattern
from scalewise.plan._roles import Kind, Role
from scalewise.plan._sizes import MeasuredNetwork, ModulePlaces, Sizes, measure_network
from scalewise.plan._small_rate import Bracket

# Features change by one percent: far above rounding, and far below where the response bends.
_RESPONSE, _FIRST_LR, _TRIALS = 1e-2, 1e-3, 12
# Of what is chosen one changes at the least rate that was seen to move features too much; others would soon.
_BELOW_JUMPS = 30
_OF_MODULE = (Quantity.OUTPUT, Quantity.CHANGE)
_OF_FEATURES = (Quantity.FEATURES, Quantity.FEATURES_CHANGE)


@dataclass(frozen=True)
class Run:
    """The networks of one measurement, and their common settings.

    Args:
        bench: Builds them.
        plans: For each width the plan with that target.
        widths: Ascending.
        scene: Where tensors act, the same at every width.
        steps: Optimiser steps.
        lr: Learning rate at the base; ``None`` where the user's own setup chose it.
        known: By width and seed the sizes of networks that were trained at that rate while it was looked for.
    """

    bench: Bench
    plans: Sequence[Adapter]
    widths: tuple[int, ...]
    scene: Scene
    steps: int
    lr: float | None = None
    known: Mapping[tuple[int, int], Sizes] = field(default_factory=dict)

    def network(self, index: int, seed: int) -> MeasuredNetwork:
        """A new network of one of the widths."""
        drawn = self.draw(seed, index)
        return self.bench.network(self.plans[index], self.scene, drawn, self.lr or 0.0)

    def draw(self, seed: int, index: int = 0) -> int:
        """Seed of a network: independent for each width and seed."""
        return _draw(seed, self.widths[index])

    def measure(self, index: int, seed: int) -> Sizes:
        """The sizes of one network; of the first of each width also how linear its response is."""
        if (index, seed) in self.known:
            return self.known[index, seed]
        return self._sizes(self.network(index, seed), index, linearity=seed == 0)

    def _sizes(self, network: MeasuredNetwork, index: int, *, linearity: bool) -> Sizes:
        table = self.plans[index].table
        return measure_network(
            network,
            self.steps,
            linearity=linearity,
            spectral={n: table[n].blocks[1] for n in self.scene.names if table[n].spectral},
            fixed=[n for n in self.scene.names if table[n].role is Role.FIXED],
            beside={n: table[n].fixed for n in {*self.scene.names, *self.scene.readouts}},
            read_by={self.scene.places.module.get(n, n): n for n in self.scene.readouts},
        )

    def with_rate(self, lr: float | None) -> Run:
        """This run at a given learning rate, or at one that is small, unless the user's setup has one."""
        if not self.bench.searches:
            return self
        return self._with_small_lr() if lr is None else replace(self, lr=lr)

    def _with_small_lr(self) -> Run:
        """A learning rate at which no features, at the least and the largest width, move by more than 1 %.

        Raises:
            PlanError: If none is found.
        """
        lr, finite, tried = _FIRST_LR, False, Bracket()
        ends = (0, len(self.widths) - 1)
        networks = [replace(self, lr=lr).network(i, 0) for i in ends]
        starts = [one.weights() for one in networks]
        for _ in range(_TRIALS):
            sizes = [self._sizes(n, i, linearity=True) for n, i in zip(networks, ends, strict=True)]
            found = max(_response(s, self.scene.places) for s in sizes)
            finite = finite or math.isfinite(found)
            if found == 0 or not math.isfinite(found):
                lr *= 1e-2 if found else 10.0
            elif _RESPONSE / 4 <= found <= 2 * _RESPONSE:
                return replace(
                    self, lr=lr, known={(i, 0): s for i, s in zip(ends, sizes, strict=True)}
                )
            else:
                tried = tried.with_tried(lr, too_much=found > _RESPONSE)
                if tried.jumps:
                    return replace(self, lr=tried.low / _BELOW_JUMPS)
                lr = tried.within(lr * (_RESPONSE / found) ** (1 / self.steps))
            for network, weights in zip(networks, starts, strict=True):
                network.put(weights)
                network.restart(lr)
        if tried.both:
            return replace(self, lr=tried.low / _BELOW_JUMPS)
        if not finite:
            raise PlanError(
                f"After one step with any learning rate from {_FIRST_LR:g} down to {lr:.0e} what the network "
                "returns is not finite, so its gradients are not finite at initialisation: check the loss at "
                f"{self.plans[0].table.width_name} = {self.widths[0]} and {self.widths[-1]}."
            )
        raise PlanError(
            "No learning rate was found at which features move by about one percent; give one as `lr`, "
            "and check that the loss is finite and depends on the features."
        )

    def collect(self, found: list[list[Sizes]]) -> Measurement:
        """Sizes as arrays: one row for a tensor, with what its module does in that of its leader."""
        places, readouts = self.scene.places, self.scene.readouts
        ranks = {m: i for i, m in enumerate(places.order)}
        rows = dict.fromkeys((*self.scene.names, *readouts))
        modules = {n: places.module.get(n, "") for n in rows}
        tensors = tuple(sorted(rows, key=lambda n: ranks.get(modules[n], -1)))
        shape = (len(tensors), len(self.widths), len(found[0]))
        sizes = {q: np.full(shape, np.nan) for q in Quantity}
        leaders = {m: self._leader(m) for m in places.order}
        _refuse_one_draw(found, self.scene.names)
        # A copy of a readout of which neither the pass nor the loss makes use, as adapters keep one.
        felt = {
            n
            for w in found
            for one in w
            for (n, q), size in one.tensor.items()
            if q is Quantity.GRADIENT and size > 0
        }
        spare = {t.name for t in self.plans[0].table.tensors if t.unused} - felt
        for i, of_width in enumerate(found):
            for j, one in enumerate(of_width):
                for (name, quantity), size in one.tensor.items():
                    sizes[quantity][tensors.index(name), i, j] = size
                for (module, quantity), size in one.module.items():
                    sizes[quantity][tensors.index(leaders[module]), i, j] = size
        return Measurement(
            widths=np.array(self.widths, dtype=float),
            tensors=tensors,
            modules=tuple(modules[n] for n in tensors),
            readouts=tuple(n for n in tensors if n in readouts and n not in spare),
            sizes=sizes,
            steps=self.steps,
            zero_readout=self.scene.zero_readout,
            lr=self.lr,
            precision=self.scene.precision,
            nonlinearity=np.array([of_width[0].nonlinearity for of_width in found]),
            constant=frozenset.intersection(*(frozenset(s.constant) for w in found for s in w)),
            growth={n: growth_over([p.table for p in self.plans], n) for n in tensors},
            attention=_attention(found, places.attends),
            returned=np.array([[s.returned for s in of_width] for of_width in found]),
            returned_first=np.array([[s.returned_first for s in of_width] for of_width in found]),
            multiplied=() if readouts else self._multiplied(),
            whole=self.scene.whole,
        )

    def _multiplied(self) -> tuple[str, ...]:
        """The tensors whose outputs the model multiplies with each other in place of a readout."""
        table = self.plans[0].table
        grown = [n for n in self.scene.names if table[n].role is not Role.FIXED]
        shown = self.scene.places.module
        last = [n for n in grown if table[n].ends or table[n].kind is Kind.LOOKUP]
        last = [n for n in last if n in shown]
        # Where rows are picked by the code alone, nothing is last.
        return tuple(last or grown)

    def _leader(self, module: str) -> str:
        """The tensor that stands for a module: the readout, or what sums or looks up, or the first."""
        mine = self.scene.places.tensors(module)
        table = self.plans[0].table
        leading = [n for n in mine if n in self.scene.readouts]
        leading += [n for n in mine if table[n].kind in (Kind.MATRIX, Kind.LOOKUP)]
        return (leading or mine)[0]


def prepared(
    bench: Bench, plans: Sequence[Adapter], widths: tuple[int, ...], steps: int | None
) -> Run:
    """A run with all that can be learnt from one network, but for the learning rate.

    Raises:
        PlanError: If the loss is not finite, or the readout starts at zero and one step is asked for.
    """
    scene = bench.scene(plans[0], _draw(0, widths[0]))
    if scene.zero_readout and steps == 1:
        raise PlanError(
            f"The readout `{scene.readouts[0]}` starts at zero, so the first step moves it alone and shows "
            "nothing of the features. Take steps=2, or leave `steps` out."
        )
    return Run(bench, plans, widths, scene, steps or (2 if scene.zero_readout else 1))


def _draw(seed: int, width: int) -> int:
    """An independent draw for each width and seed."""
    return int(np.random.SeedSequence([seed, width]).generate_state(1)[0])


def _refuse_one_draw(found: list[list[Sizes]], names: Sequence[str]) -> None:
    """Networks of one width that start alike are one network, and their scatter tells no error.

    Raises:
        PlanError: If every tensor that is drawn at all has one spread in all networks of one width.
    """
    for of_width in found:
        drawn = [n for n in names if all(n not in s.constant for s in of_width)]
        spreads = [{s.tensor[n, Quantity.WEIGHT] for s in of_width} for n in drawn]
        if spreads and all(len(sizes) == 1 for sizes in spreads):
            raise PlanError(
                "The factory draws the same weights for every seed, so how surely a power is known cannot be "
                "told. Let it draw from the random numbers that it is given, and fix no seed inside."
            )


def _attention(
    found: list[list[Sizes]], attends: Sequence[str]
) -> dict[tuple[str, Quantity], np.ndarray]:
    """Attention logits and their change, over all layers of a kind; NaN of those that were not seen."""
    out: dict[tuple[str, Quantity], np.ndarray] = {}
    for i, of_width in enumerate(found):
        for j, one in enumerate(of_width):
            kinds: dict[tuple[str, Quantity], list[float]] = {}
            for place, sizes in one.attention.items():
                for quantity, size in sizes.items():
                    kinds.setdefault((pattern(place), quantity), []).append(size)
            for key, parts in kinds.items():
                array = out.setdefault(key, np.full((len(found), len(of_width)), np.nan))
                array[i, j] = math.sqrt(math.fsum(s * s for s in parts) / len(parts))
    seen = {place for place, _ in out}
    for place in {pattern(bare(p, ())) for p in attends if pattern(p) not in seen} - seen:
        for quantity in (Quantity.LOGITS, Quantity.LOGITS_CHANGE, Quantity.LOGITS_STEP):
            out[place, quantity] = np.full((len(found), len(found[0])), np.nan)
    return out


def _response(sizes: Sizes, places: ModulePlaces) -> float:
    """The largest relative change of what any module returns, readouts apart, or of what these read.

    Where that is nothing, of any tensor's entries.
    """
    largest = 0.0
    pairs = [(_OF_MODULE, m) for m in places.order if m not in places.reads]
    pairs += [(_OF_FEATURES, m) for m in places.reads]
    for (size, change), module in pairs:
        was, moved = sizes.module.get((module, size)), sizes.module.get((module, change))
        if was and moved is not None:
            largest = max(largest, moved / was if math.isfinite(was) else math.inf)
    if largest:
        return largest
    # Where no module shows features, or nothing moves them: the weights themselves.
    weights = {n: size for (n, q), size in sizes.tensor.items() if q is Quantity.WEIGHT and size}
    updates = [sizes.tensor[n, Quantity.UPDATE] / size for n, size in weights.items()]
    return max(updates, default=0.0)
