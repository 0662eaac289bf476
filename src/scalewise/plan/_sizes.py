"""Sizes in one real network before and after a few steps, whatever framework it is of.

The framework's part is a `MeasuredNetwork`: it hands out weights, takes a step, and watches one pass. What is
compared with what, and what each size is a root mean square of, stands here.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from scalewise.plan._measurement import Quantity
from scalewise.plan._parts import Stretch, grown, grown_inputs

# With two distances between numbers in a change, rounding is a sixth of it, and a hundredth of its square.
GRAINS = 2.0
_NONE: Mapping[str, int] = {}


@dataclass(frozen=True)
class ModulePlaces:
    """Places where the tensors of a model act.

    Args:
        module: For each tensor the module that shows what it does; tensors without one are missing.
        order: Those modules as they are first called.
        reads: Those of them that read out.
        attends: The modules in whose code attention logits are made.
        bare: Tensors that read out though no module shows it; each is a place of its own, after the others.
    """

    module: Mapping[str, str]
    order: tuple[str, ...]
    reads: tuple[str, ...]
    attends: tuple[str, ...] = ()
    bare: tuple[str, ...] = ()

    def local(self, name: str) -> str:
        """The name of a tensor inside its module."""
        return name.removeprefix(self.module[name] + ".")

    def tensors(self, module: str) -> list[str]:
        """The tensors that a module shows."""
        return [n for n, m in self.module.items() if m == module]


@dataclass(frozen=True)
class Logits:
    """Attention logits as they enter a softmax.

    Args:
        place: The module in whose code they were made.
        values: They themselves, without masks and biases.
        factors: What they are products of; none where the products were made entry by entry.
    """

    place: str
    values: Any
    factors: tuple[Any, ...] = ()


@dataclass
class Record:
    """Arrays seen in one pass; one for each call, each a copy.

    Args:
        outputs: By module what it returns.
        inputs: By module that reads out what it is given.
        own: By tensor the change of its module's output that its own step makes, on these inputs.
        kept: By module that reads out what it would return on these inputs with its earlier tensors.
        logits: By module the attention logits that its code makes.
        moved: By module and call the logits with the earlier tensors that made them, and with the present ones.
        returned: What the model as a whole returns.
    """

    outputs: dict[str, list[Any]] = field(default_factory=dict)
    inputs: dict[str, list[Any]] = field(default_factory=dict)
    own: dict[str, list[Any]] = field(default_factory=dict)
    kept: dict[str, list[Any]] = field(default_factory=dict)
    logits: dict[str, list[Any]] = field(default_factory=dict)
    moved: dict[str, list[tuple[Logits, Logits]]] = field(default_factory=dict)
    returned: list[Any] = field(default_factory=list)


@runtime_checkable
class MeasuredNetwork(Protocol):
    """A model at initialisation, ready to train, with what it trains on; arrays can be added and subtracted."""

    def weights(self) -> dict[str, Any]:
        """The trainable tensors as they are now; no later step changes what is returned."""
        ...

    def put(self, weights: Mapping[str, Any]) -> None:
        """Write tensors."""
        ...

    def restart(self, lr: float) -> None:
        """Before the first step again, with another learning rate; the tensors stay as they are."""
        ...

    def step(self, t: int, *, watched: bool) -> tuple[Mapping[str, Any], Record | None]:
        """Take step number `t`: the gradients of those tensors that have one, and what was seen on the way."""
        ...

    def watch(self, old: Mapping[str, Any]) -> Record:
        """A pass as the first was, with the present weights; `old` are earlier ones to compare with."""
        ...

    def rms(self, parts: Sequence[Any]) -> float:
        """Root mean square over all entries as real numbers, in float64; infinite if one is not finite."""
        ...

    def spectral(self, array: Any) -> float:
        """Largest singular value, in float64; of more than two axes as one row for each of the first."""
        ...

    def spacing(self, array: Any) -> float:
        """Root mean square of the distance from each entry to the next number of its precision."""
        ...

    def spread(self, array: Any) -> tuple[float, bool]:
        """Size of the entries about their mean, or of the mean itself if all are equal, and whether they are."""
        ...


@dataclass
class Sizes:
    """Sizes measured on one network.

    Args:
        tensor: (name, quantity) to a size, for what belongs to a tensor.
        module: The same by module.
        nonlinearity: How far the change of features is from linear in the change of the parameters.
        constant: Tensors of equal entries.
        attention: By module what there is of the attention logits that its code makes.
        returned: Change of what the model as a whole returns, without what tensors of fixed size make.
        returned_first: What it returns at initialisation.
    """

    tensor: dict[tuple[str, Quantity], float] = field(default_factory=dict)
    module: dict[tuple[str, Quantity], float] = field(default_factory=dict)
    nonlinearity: float = math.nan
    constant: set[str] = field(default_factory=set)
    attention: dict[str, dict[Quantity, float]] = field(default_factory=dict)
    returned: float = math.nan
    returned_first: float = math.nan


def measure_network(
    network: MeasuredNetwork,
    steps: int,
    *,
    linearity: bool = False,
    spectral: Mapping[str, int] = _NONE,
    fixed: Collection[str] = (),
    beside: Mapping[str, Sequence[Stretch]] = MappingProxyType({}),
    read_by: Mapping[str, str] | None = None,
) -> Sizes:
    """Take the steps and measure.

    Args:
        network: The model at initialisation, with its optimiser.
        steps: How many steps to take.
        linearity: Whether to measure also what half of the change of the parameters does.
        spectral: Tensors whose step is measured by its largest singular value, with the number of blocks of rows
            that are measured apart.
        fixed: Tensors of fixed size, whose part in what is returned says nothing of the width.
        beside: By tensor what of it does not go with the width.
        read_by: By module that reads out the tensor that does.
    """
    sizes, old, before = Sizes(), network.weights(), Record()
    reads = {m: beside[n] for m, n in (read_by or {}).items() if beside.get(n)}
    for n, p in old.items():
        sizes.tensor[n, Quantity.WEIGHT], constant = network.spread(grown(p, beside.get(n, ())))
        if constant:
            sizes.constant.add(n)
    now = old
    for t in range(steps):
        was = now
        gradients, seen = network.step(t, watched=t == 0)
        before, now = seen or before, network.weights()
        for n in (n for n in old if not sizes.tensor.get((n, Quantity.GRADIENT))):
            gradient = gradients.get(n)
            size = 0.0 if gradient is None else network.rms([gradient])
            sizes.tensor[n, Quantity.GRADIENT] = size
            moved = _moved(network, now[n], was[n])
            if moved and n in spectral:
                moved = _singular(network, now[n] - was[n], spectral[n])
            sizes.tensor[n, Quantity.STEP] = moved
    for n, p in now.items():
        sizes.tensor[n, Quantity.UPDATE] = _moved(network, p, old[n])
    after = network.watch(old)
    for record in (before, after):
        record.inputs |= {
            m: [grown_inputs(x, reads[m]) for x in record.inputs[m]]
            for m in reads
            if m in record.inputs
        }
    _compare(network, sizes, before, after)
    moved = after
    if after.returned and fixed:
        network.put({n: old[n] for n in fixed})
        moved = network.watch({})
    sizes.returned = _change(network, before.returned, moved.returned)
    sizes.returned_first = network.rms(before.returned) if before.returned else math.nan
    for module in before.inputs:
        change = _change(network, before.outputs[module], moved.outputs.get(module, []))
        sizes.module[module, Quantity.GROWN_CHANGE] = change
    for n in old:
        if sizes.tensor[n, Quantity.UPDATE] == 0 and (n, Quantity.OWN_CHANGE) in sizes.tensor:
            sizes.tensor[n, Quantity.OWN_CHANGE] = 0.0
    if linearity and before.inputs:
        network.put({n: old[n] + (p - old[n]) / 2 for n, p in now.items()})
        half = network.watch({})
        half.inputs |= {m: [grown_inputs(x, reads[m]) for x in half.inputs[m]] for m in reads}
        sizes.nonlinearity = _bend(network, before, half, after)
    return sizes


def _singular(network: MeasuredNetwork, step: Any, blocks: int) -> float:
    """The largest singular value of a step; of blocks of rows its root mean square over them."""
    rows = len(step) // blocks
    found = [network.spectral(step[i * rows : (i + 1) * rows]) for i in range(blocks)]
    return math.sqrt(math.fsum(s * s for s in found) / blocks)


def _moved(network: MeasuredNetwork, new: Any, old: Any) -> float:
    """Size of a change; zero where it is lost in the rounding of the entries that it is added to.

    A rounded entry is off by up to half the distance to the next number. A change of less than that
    distance, on the whole, is not what the optimizer asked for, and no power of the width.
    """
    size = network.rms([new - old])
    return 0.0 if size < GRAINS * network.spacing(old) else size


def _compare(network: MeasuredNetwork, sizes: Sizes, before: Record, after: Record) -> None:
    rms = network.rms
    for n, parts in after.own.items():
        sizes.tensor[n, Quantity.OWN_CHANGE] = rms(parts)
    for name, pairs in after.moved.items():
        moved = [b.values - a.values for a, b in pairs]
        steps = [_of_factors(network, a, b) for a, b in pairs]
        sizes.attention[name] = {
            Quantity.LOGITS: rms(before.logits.get(name, [])),
            Quantity.LOGITS_CHANGE: rms(moved),
            Quantity.LOGITS_STEP: math.sqrt(math.fsum(s * s for s in steps) / len(steps)),
        }
    pairs = (
        (before.outputs, after.outputs, Quantity.OUTPUT, Quantity.CHANGE),
        (before.inputs, after.inputs, Quantity.FEATURES, Quantity.FEATURES_CHANGE),
        (before.outputs, after.kept, None, Quantity.PASSED),
    )
    for one, two, size, change in pairs:
        for module, parts in one.items():
            if parts and size is not None:
                sizes.module[module, size] = rms(parts)
            moved = _change(network, parts, two.get(module, []))
            if not math.isnan(moved):
                sizes.module[module, change] = moved


def _change(network: MeasuredNetwork, parts: list[Any], later: list[Any]) -> float:
    """Size of a change; NaN where there is none, as of an expert that is given other rows than before."""
    if not parts or [p.shape for p in parts] != [p.shape for p in later]:
        return math.nan
    return network.rms([b - a for a, b in zip(parts, later, strict=True)])


def _bend(network: MeasuredNetwork, before: Record, half: Record, after: Record) -> float:
    """Distance of the change of what is read out from twice that of half the step."""
    worst = 0.0
    for module, parts in before.inputs.items():
        triples = list(zip(parts, half.inputs[module], after.inputs[module], strict=False))
        if any(len({x.shape for x in triple}) > 1 for triple in triples):
            return math.nan
        whole = network.rms([c - a for a, _, c in triples])
        if whole > 0:
            bent = network.rms([(c - b) - (b - a) for a, b, c in triples])
            worst = max(worst, bent / whole)
    return worst


def _of_factors(network: MeasuredNetwork, was: Logits, new: Logits) -> float:
    """Movement of queries and keys, as a change of their product."""
    sizes = [network.rms([t]) for t in was.factors]
    steps = [network.rms([b - a]) for a, b in zip(was.factors, new.factors, strict=True)]
    return steps[0] * sizes[1] + sizes[0] * steps[1] if steps else math.nan
