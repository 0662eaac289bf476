"""Sizes in one real network before and after a few steps, by hooks that stay only as long as they count.

Every measured pass starts from the same state of the random number generator and the same buffers, in the mode
(training or evaluation) that the factory left the model in: dropout drops the same units before and after,
and normalisation by batch does what it does in training. Root mean squares are summed in float64 whatever the
model computes in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from scalewise.plan import PlanError
from scalewise.plan._measurement import Quantity
from scalewise.plan._names import bare
from scalewise.torch._logits import LogitRecorder, same_random_numbers
from scalewise.torch._trace import Logits, watching

__all__ = [
    "Loss",
    "Network",
    "Places",
    "Sizes",
    "called_modules",
    "find_places",
    "measure_network",
]

# With two distances between numbers in a change, rounding is a sixth of it, and a hundredth of its square.
_GRAINS = 2.0

Loss = Callable[[nn.Module, Any], Tensor]


@dataclass(frozen=True)
class Network:
    """A model at initialisation, ready to train, and what it trains on."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    loss: Loss
    batch: Any
    seed: int


@dataclass(frozen=True)
class Places:
    """Where the tensors of a model act.

    Args:
        module: For each tensor the module that shows what it does; tensors without one are missing.
        order: Those modules as they are first called.
        reads: Those of them that read out.
        attends: The modules in whose code attention logits are made.
    """

    module: dict[str, str]
    order: tuple[str, ...]
    reads: tuple[str, ...]
    attends: tuple[str, ...] = ()

    def local(self, name: str) -> str:
        """The name of a tensor inside its module."""
        return name.removeprefix(self.module[name] + ".")

    def tensors(self, module: str) -> list[str]:
        """The tensors that a module shows."""
        return [n for n, m in self.module.items() if m == module]


@dataclass
class Sizes:
    """What one network gave.

    Args:
        tensor: (name, quantity) to a size, for what belongs to a tensor.
        module: The same by module.
        nonlinearity: How far the change of features is from linear in the change of the parameters.
        constant: Tensors of equal entries.
        attention: By module what there is of the attention logits that its code makes.
    """

    tensor: dict[tuple[str, Quantity], float] = field(default_factory=dict)
    module: dict[tuple[str, Quantity], float] = field(default_factory=dict)
    nonlinearity: float = math.nan
    constant: set[str] = field(default_factory=set)
    attention: dict[str, dict[Quantity, float]] = field(default_factory=dict)


def find_places(
    network: Network, names: Sequence[str], readouts: Sequence[str], inside: Sequence[str] = ()
) -> Places:
    """The module for each tensor: its owner, or the nearest module around it that is called.

    A module that holds further called modules with tensors of their own mixes what all of them do, and
    stands for none; nor does one that holds a readout and tensors inside the network, since what it is given
    is not what the readout reads.

    Args:
        network: Any network of the kind; it is run once.
        names: The tensors, tied ones by the name they have where they act.
        readouts: Those of them that read out.
        inside: Those of them that stand inside the network.
    """
    model = network.model
    with watching(model) as trace:
        ranks = called_modules(network)
    owners = {n.rpartition(".")[0] for n, _ in model.named_parameters(remove_duplicate=False)}
    mixed = {m for m in ranks for o in owners & ranks.keys() if o != m and _inside(o, m)}
    found = {n: _nearest(n.rpartition(".")[0], ranks) for n in names}
    mixed |= {m for n in readouts for o in inside if (m := found[n]) is not None and m == found[o]}
    module = {n: m for n, m in found.items() if m is not None and m not in mixed}
    order = tuple(sorted(set(module.values()), key=ranks.__getitem__))
    reads = {module[n] for n in readouts if n in module}
    made = {found.place for found in trace.attentions()}
    attends = tuple(n for n, _ in model.named_modules() if bare(n, ()) in made)
    return Places(module, order, tuple(m for m in order if m in reads), attends)


def called_modules(network: Network) -> dict[str, int]:
    """The modules that one pass calls, by the order in which it first does."""
    model, ranks = network.model, {}

    def note(name: str) -> Callable[..., None]:
        def hook(*_: object) -> None:
            ranks.setdefault(name, len(ranks))

        return hook

    hooks = [m.register_forward_pre_hook(note(n)) for n, m in model.named_modules()]
    try:
        torch.manual_seed(network.seed)
        value = float(_loss(network).detach())
    finally:
        for hook in hooks:
            hook.remove()
    if not math.isfinite(value):
        raise PlanError(
            f"The loss is {value} at initialisation, before any step, so nothing can be measured. Look for "
            "NaN or infinity in the batch, and for a division or a logarithm of zero in the loss."
        )
    return ranks


def _nearest(name: str, called: Mapping[str, int]) -> str | None:
    while name not in called:
        if not name:
            return None
        name = name.rpartition(".")[0]
    return name


def _inside(name: str, around: str) -> bool:
    return name.startswith(around + ".") if around else bool(name)


def measure_network(
    network: Network, places: Places, names: Sequence[str], steps: int, *, linearity: bool = False
) -> Sizes:
    """Take the steps and measure.

    Args:
        network: The model at initialisation, with its optimiser.
        places: Where its tensors act.
        names: The trainable tensors.
        steps: How many steps to take.
        linearity: Whether to measure also what half of the change of the parameters does.

    Raises:
        PlanError: If the loss is not a scalar that depends on the parameters.
    """
    model, sizes = network.model, Sizes()
    every = dict(model.named_parameters(remove_duplicate=False))
    parameters = {n: every[n] for n in names}
    buffers = {n: b.detach().clone() for n, b in model.named_buffers()}
    old = {n: p.detach().clone() for n, p in parameters.items()}
    for n, p in old.items():
        sizes.tensor[n, Quantity.WEIGHT], constant = _spread(p)
        if constant:
            sizes.constant.add(n)
    before, after = _Recorder(places), _Recorder(places, old)
    for t in range(steps):
        torch.manual_seed(network.seed + t)
        _step(network, parameters, sizes, before if t == 0 else None)
    for n, p in parameters.items():
        sizes.tensor[n, Quantity.UPDATE] = _moved(p, old[n])
    _pass(network, buffers, after)
    _compare(sizes, before, after)
    for n in parameters:
        if sizes.tensor[n, Quantity.UPDATE] == 0 and (n, Quantity.OWN_CHANGE) in sizes.tensor:
            sizes.tensor[n, Quantity.OWN_CHANGE] = 0.0
    if linearity and places.reads:
        half = _Recorder(places)
        with torch.no_grad():
            for n, p in parameters.items():
                p.copy_(old[n] + (p - old[n]) / 2)
        _pass(network, buffers, half)
        sizes.nonlinearity = _bend(before, half, after)
    return sizes


def _loss(network: Network) -> Tensor:
    try:
        value = network.loss(network.model, network.batch)
    except Exception as error:
        error.add_note(
            "`loss` was called as loss(model, batch), with the module and the batch given to `verify`: "
            "lambda model, batch: cross_entropy(model(batch[0]), batch[1])."
        )
        raise
    if not isinstance(value, Tensor) or value.numel() != 1 or not value.requires_grad:
        got = (
            f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
        )
        if isinstance(value, Tensor) and value.numel() == 1:
            got = "one that does not depend on the parameters"
        raise PlanError(
            "`loss` must take the model and the batch and return a scalar tensor that can be "
            f"differentiated; it returned {got}."
        )
    return value


def _step(
    network: Network, parameters: dict[str, nn.Parameter], sizes: Sizes, record: _Recorder | None
) -> None:
    network.optimizer.zero_grad()
    with record.listening(network.model) if record else _silence():
        value = _loss(network)
    value.backward()
    waiting = [n for n in parameters if not sizes.tensor.get((n, Quantity.GRADIENT))]
    old = {n: parameters[n].detach().clone() for n in waiting}
    for n in waiting:
        grad = parameters[n].grad
        sizes.tensor[n, Quantity.GRADIENT] = 0.0 if grad is None else _rms([grad])
    network.optimizer.step()
    for n in waiting:
        sizes.tensor[n, Quantity.STEP] = _moved(parameters[n], old[n])


def _pass(network: Network, buffers: dict[str, Tensor], record: _Recorder) -> None:
    with torch.no_grad():
        for n, b in network.model.named_buffers():
            b.copy_(buffers[n])
    torch.manual_seed(network.seed)
    # Gradients stay on: without them some modules take other ways on which nothing inside is called.
    with record.listening(network.model):
        network.loss(network.model, network.batch)


class _Recorder:
    """What modules return, and what those that read out are given; one tensor for each call.

    Args:
        places: The modules to listen to.
        old: Earlier values of tensors: for each, the change of its module's output that it alone makes
            is measured at every call.
    """

    def __init__(self, places: Places, old: dict[str, Tensor] | None = None) -> None:
        self.outputs: dict[str, list[Tensor]] = {m: [] for m in places.order}
        self.inputs: dict[str, list[Tensor]] = {m: [] for m in places.reads}
        self.own: dict[str, list[Tensor]] = {}
        self._places, self._old, self._busy = places, old or {}, False
        self.attention = LogitRecorder(places.attends, self._old)

    @contextmanager
    def listening(self, model: nn.Module) -> Iterator[None]:
        """Hooks on the modules, taken off at the end whatever happens."""
        hooks = [
            model.get_submodule(m).register_forward_hook(self._hook(m), with_kwargs=True)
            for m in self._places.order
        ]
        try:
            with self.attention.listening(model, self._alone):
                yield
        finally:
            for hook in hooks:
                hook.remove()

    def _hook(self, name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            if self._busy:
                return
            # Copies: an activation may work in place on what it is given.
            found = _first(output)
            if found is not None:
                self.outputs[name].append(found.detach().clone())
            given = _first((args, kwargs)) if name in self.inputs else None
            if given is not None:
                self.inputs[name].append(given.detach().clone())
            if self._old:
                with self._alone():
                    self._own_changes(name, module, args, kwargs)

        return hook

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """What modules do inside is not heard; false where somebody else is at it."""
        first, self._busy = not self._busy, True
        try:
            yield first
        finally:
            self._busy = not first

    def _own_changes(self, name: str, module: nn.Module, args: Any, kwargs: Any) -> None:
        def output(values: dict[str, Tensor]) -> Tensor | None:
            with torch.no_grad(), same_random_numbers():
                return _first(functional_call(module, values, args, kwargs))

        new = output({})
        for tensor in self._places.tensors(name):
            if new is not None and tensor in self._old:
                was = output({self._places.local(tensor): self._old[tensor]})
                assert was is not None
                self.own.setdefault(tensor, []).append(new - was)


def _compare(sizes: Sizes, before: _Recorder, after: _Recorder) -> None:
    for n, parts in after.own.items():
        sizes.tensor[n, Quantity.OWN_CHANGE] = _rms(parts)
    for name, pairs in after.attention.moved.items():
        moved = [b.values - a.values for a, b in pairs]
        steps = [_of_factors(a, b) for a, b in pairs]
        sizes.attention[bare(name, ())] = {
            Quantity.LOGITS: _rms(before.attention.start.get(name, [])),
            Quantity.LOGITS_CHANGE: _rms(moved),
            Quantity.LOGITS_STEP: math.sqrt(math.fsum(s * s for s in steps) / len(steps)),
        }
    pairs = (
        (before.outputs, after.outputs, Quantity.OUTPUT, Quantity.CHANGE),
        (before.inputs, after.inputs, Quantity.FEATURES, Quantity.FEATURES_CHANGE),
    )
    for one, two, size, change in pairs:
        for module, parts in one.items():
            if parts:
                sizes.module[module, size] = _rms(parts)
            # A module that is given other rows than before, as an expert may be, has no change.
            if parts and [p.shape for p in parts] == [p.shape for p in two[module]]:
                moved = [b - a for a, b in zip(parts, two[module], strict=True)]
                sizes.module[module, change] = _rms(moved)


def _bend(before: _Recorder, half: _Recorder, after: _Recorder) -> float:
    """How far the change of what is read out is from twice that of half the step."""
    worst = 0.0
    for module, parts in before.inputs.items():
        triples = list(zip(parts, half.inputs[module], after.inputs[module], strict=False))
        if any(len({x.shape for x in triple}) > 1 for triple in triples):
            return math.nan
        whole = _rms([c - a for a, _, c in triples])
        if whole > 0:
            worst = max(worst, _rms([(c - b) - (b - a) for a, b, c in triples]) / whole)
    return worst


def _first(value: Any) -> Tensor | None:
    """The first tensor of floats or complex numbers in whatever a module takes or returns."""
    if isinstance(value, Tensor):
        return value if value.is_floating_point() or value.is_complex() else None
    parts = value.values() if isinstance(value, Mapping) else value
    if isinstance(value, Mapping | list | tuple):
        return next((t for t in map(_first, parts) if t is not None), None)
    return None


def _of_factors(was: Logits, new: Logits) -> float:
    """How far queries and keys moved, as a change of their product."""
    sizes = [_rms([t]) for t in was.factors]
    steps = [_rms([b - a]) for a, b in zip(was.factors, new.factors, strict=True)]
    return steps[0] * sizes[1] + sizes[0] * steps[1] if steps else math.nan


def _rms(parts: Sequence[Tensor]) -> float:
    """Root mean square over all entries as real numbers, in float64; infinite if one is not finite."""
    real = [_real(p.detach()) for p in parts]
    count = sum(p.numel() for p in real)
    squares = sum(float(torch.linalg.vector_norm(p, dtype=torch.float64)) ** 2 for p in real)
    size = math.sqrt(squares / count) if count else 0.0
    return size if math.isfinite(size) else math.inf


def _moved(new: Tensor, old: Tensor) -> float:
    """Size of a change; zero where it is lost in the rounding of the entries that it is added to.

    A rounded entry is off by up to half the distance to the next number. A change of less than that
    distance, on the whole, is not what the optimizer asked for, and no power of the width.
    """
    size, entries = _rms([new.detach() - old]), _real(old)
    spacing = torch.finfo(entries.dtype).eps * 2.0 ** torch.floor(torch.log2(entries.abs()))
    return 0.0 if size < _GRAINS * _rms([spacing]) else size


def _real(tensor: Tensor) -> Tensor:
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _spread(tensor: Tensor) -> tuple[float, bool]:
    """Size of the entries about their mean, or of the mean itself if all are equal, and whether they are."""
    wide = _real(tensor.detach()).to(torch.float64)
    if wide.numel() <= 1 or bool((wide == wide.flatten()[0]).all()):
        return _rms([wide]), True
    return _rms([wide - wide.mean()]), False


@contextmanager
def _silence() -> Iterator[None]:
    yield
