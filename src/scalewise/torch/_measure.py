"""Watching one real network of PyTorch before and after a few steps, by hooks that stay only as long as they count.

Every measured pass starts from the same state of the random number generator and the same buffers, in the mode
(training or evaluation) that the factory left the model in: dropout drops the same units before and after,
and normalisation by batch does what it does in training. Root mean squares are summed in float64 whatever the
model computes in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from scalewise.plan import PlanError
from scalewise.plan.spi import Places, Record, Sizes, bare, loss_refused
from scalewise.plan.spi import measure_network as measure
from scalewise.torch._bare import BareReadouts
from scalewise.torch._logits import LogitRecorder, same_random_numbers
from scalewise.torch._nested import tensors_in
from scalewise.torch._parametrized import is_parametrization
from scalewise.torch._setup import Together
from scalewise.torch._trace import attending, watching

Loss = Callable[[nn.Module, Any], Tensor]
_SUCH_AS = "lambda model, batch: cross_entropy(model(batch[0]), batch[1])"


@dataclass(frozen=True)
class BuiltNetwork:
    """A model at initialisation, ready to train, and what it trains on.

    Args:
        model: The model.
        optimizer: What trains it.
        loss: A function of (model, batch).
        batch: What it is given.
        seed: What the model was drawn by.
        trained: Makes what trains it at another learning rate.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer | Together
    loss: Loss
    batch: Any
    seed: int
    trained: Callable[[float], torch.optim.Optimizer | Together] | None = None


def seed_torch(seed: int) -> None:
    """As `torch.manual_seed`, which for accelerators that are not there keeps the stack of every call."""
    there = torch.accelerator.is_available()
    (torch.manual_seed if there else torch.default_generator.manual_seed)(seed)


def find_places(
    network: BuiltNetwork, names: Sequence[str], readouts: Sequence[str], inside: Sequence[str] = ()
) -> Places:
    """The module for each tensor: its owner, or the nearest module around it that is called.

    A module that holds further called modules with tensors of their own mixes what all of them do, and
    stands for none; nor does one that holds a readout and tensors inside the network, since what it is given
    is not what the readout reads. A readout without one is a place of its own.

    Args:
        network: Any network of the kind; it is run once.
        names: The tensors, tied ones by the name they have where they act.
        readouts: Those of them that read out.
        inside: Those of them that stand inside the network.
    """
    model = network.model
    with watching(model) as trace, attending(model, trace) as made:
        ranks = called_modules(network)
    owners = {n.rpartition(".")[0] for n, _ in model.named_parameters(remove_duplicate=False)}
    mixed = {m for m in ranks for o in owners & ranks.keys() if o != m and _inside(o, m)}
    found = {n: _nearest(n.rpartition(".")[0], ranks) for n in names}
    mixed |= {m for n in readouts for o in inside if (m := found[n]) is not None and m == found[o]}
    module = {n: m for n, m in found.items() if m is not None and m not in mixed}
    order = tuple(sorted(set(module.values()), key=ranks.__getitem__))
    alone = tuple(n for n in readouts if n not in module)
    module |= {n: n for n in alone}
    order = (*order, *alone)
    reads = {module[n] for n in readouts}
    attends = tuple(n for n, _ in model.named_modules() if bare(n, ()) in made)
    return Places(module, order, tuple(m for m in order if m in reads), attends, alone)


def called_modules(network: BuiltNetwork) -> dict[str, int]:
    """The modules that one pass calls, by the order in which it first does."""
    model, ranks = network.model, {}

    def note(name: str) -> Callable[..., None]:
        def hook(*_: object) -> None:
            ranks.setdefault(name, len(ranks))

        return hook

    hooks = [
        m.register_forward_pre_hook(note(n))
        for n, m in model.named_modules()
        if not is_parametrization(n)
    ]
    try:
        seed_torch(network.seed)
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
    network: BuiltNetwork,
    places: Places,
    names: Sequence[str],
    steps: int,
    *,
    linearity: bool = False,
) -> Sizes:
    """The sizes of one network; see `scalewise.plan._sizes.measure_network`.

    Args:
        network: The model at initialisation, with its optimiser.
        places: Where its tensors act.
        names: The trainable tensors.
        steps: How many steps to take.
        linearity: Whether to measure also what half of the change of the parameters does.

    Raises:
        PlanError: If the loss is not a scalar that depends on the parameters.
    """
    return measure(WatchedModule(network, places, tuple(names)), steps, linearity=linearity)


class WatchedModule:
    """A network as `scalewise.plan._sizes.Network` asks for it.

    Args:
        network: The model at initialisation, with its optimiser.
        places: Where its tensors act.
        names: The trainable tensors.
        of_loss: Whether the loss stands for what the model returns, as of one that returns its features.
    """

    def __init__(
        self,
        network: BuiltNetwork,
        places: Places,
        names: tuple[str, ...],
        *,
        of_loss: bool = False,
    ) -> None:
        self._of_loss = of_loss
        every = dict(network.model.named_parameters(remove_duplicate=False))
        self._network, self._places = network, places
        self._parameters = {n: every[n] for n in names}
        self._buffers = buffers_of(network.model)

    def weights(self) -> dict[str, Tensor]:
        """Copies."""
        return {n: p.detach().clone() for n, p in self._parameters.items()}

    def put(self, weights: Mapping[str, Tensor]) -> None:
        """Write tensors."""
        with torch.no_grad():
            for n, value in weights.items():
                self._parameters[n].copy_(value)

    def restart(self, lr: float) -> None:
        """The buffers of the first pass, and a new optimizer."""
        one = self._network
        assert one.trained is not None
        put_back(one.model, self._buffers)
        self._network = replace(one, optimizer=one.trained(lr))

    def step(self, t: int, *, watched: bool) -> tuple[dict[str, Tensor], Record | None]:
        """One step of the optimizer, listened to on the way if it is watched."""
        one = self._network
        seed_torch(one.seed + t)
        # Of all tensors: the optimizer may hold a part of them.
        one.model.zero_grad()
        recorder = _Recorder(self._places, {}) if watched else None
        with recorder.listening(one.model) if recorder else _silence():
            value = _loss(one)
        if recorder and self._of_loss:
            recorder.record.returned = [value.detach().clone()]
        value.backward()
        found = {
            n: p.grad.detach().clone() for n, p in self._parameters.items() if p.grad is not None
        }
        one.optimizer.step()
        return found, recorder and recorder.record

    def watch(self, old: Mapping[str, Tensor]) -> Record:
        """A pass on the buffers and the random numbers of the first."""
        network = self._network
        put_back(network.model, self._buffers)
        seed_torch(network.seed)
        recorder = _Recorder(self._places, old)
        # Gradients stay on: without them some modules take other ways on which nothing inside is called.
        with recorder.listening(network.model):
            value = network.loss(network.model, network.batch)
        if self._of_loss:
            recorder.record.returned = [value.detach().clone()]
        return recorder.record

    def rms(self, parts: Sequence[Tensor]) -> float:
        """Over all entries as real numbers, in float64; infinite if one is not finite."""
        return _rms(parts)

    def spectral(self, array: Tensor) -> float:
        """Largest singular value, in float64; infinite if an entry is not finite."""
        wide = array.detach().flatten(1).to(torch.float64)
        return float(torch.linalg.matrix_norm(wide, 2)) if bool(wide.isfinite().all()) else math.inf

    def spacing(self, array: Tensor) -> float:
        """Root mean square of the distance from each entry to the next number of its precision."""
        entries = _real(array)
        return _rms(
            [torch.finfo(entries.dtype).eps * 2.0 ** torch.floor(torch.log2(entries.abs()))]
        )

    def spread(self, array: Tensor) -> tuple[float, bool]:
        """Size of the entries about their mean, or of the mean itself if all are equal, and whether they are."""
        wide = _real(array.detach()).to(torch.float64)
        if wide.numel() <= 1 or bool((wide == wide.flatten()[0]).all()):
            return _rms([wide]), True
        return _rms([wide - wide.mean()]), False


def buffers_of(model: nn.Module) -> dict[str, Tensor]:
    """Copies of what a pass may change beside the parameters."""
    return {n: b.detach().clone() for n, b in model.named_buffers()}


def put_back(model: nn.Module, buffers: Mapping[str, Tensor]) -> None:
    """Write buffers as they were."""
    with torch.no_grad():
        for n, b in model.named_buffers():
            b.copy_(buffers[n])


def _loss(network: BuiltNetwork) -> Tensor:
    try:
        value = network.loss(network.model, network.batch)
    except Exception as error:
        refused = loss_refused(network.loss, network.model, network.batch, error, _SUCH_AS)
        if refused is not None:
            raise refused from error
        error.add_note(
            "`loss` was called as loss(model, batch), with the module and the batch given to `verify`: "
            f"{_SUCH_AS}."
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


class _Recorder:
    """Outputs of modules, and inputs of those that read out; one tensor for each call.

    Args:
        places: The modules to listen to.
        old: Earlier values of tensors: for each, the change of its module's output that it alone makes
            is measured at every call.
    """

    def __init__(self, places: Places, old: Mapping[str, Tensor]) -> None:
        self._attention = LogitRecorder(places.attends, old)
        self.record = Record(
            {m: [] for m in places.order},
            {m: [] for m in places.reads},
            logits=self._attention.start,
            moved=self._attention.moved,
        )
        self._places, self._old, self._busy = places, old, False

    @contextmanager
    def listening(self, model: nn.Module) -> Iterator[None]:
        """Hooks on the modules, taken off at the end whatever happens."""
        alone = self._places.bare
        hooks = [
            model.get_submodule(m).register_forward_hook(self._hook(m), with_kwargs=True)
            for m in self._places.order
            if m not in alone
        ]
        hooks.append(model.register_forward_hook(self._returned))
        try:
            with ExitStack() as stack:
                stack.enter_context(self._attention.listening(model, self._alone))
                if alone:
                    every = dict(model.named_parameters(remove_duplicate=False))
                    mine = {n: every[n] for n in alone}
                    stack.enter_context(BareReadouts(mine, self._old, self._alone, self._heard))
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
                self.record.outputs[name].append(found.detach().clone())
            given = _first((args, kwargs)) if name in self.record.inputs else None
            if given is not None:
                self.record.inputs[name].append(given.detach().clone())
            if self._old:
                with self._alone():
                    self._own_changes(name, module, args, kwargs)

        return hook

    def _returned(self, _: nn.Module, __: Any, output: Any) -> None:
        if not self._busy:
            self.record.returned += [
                t.detach().clone() for t in tensors_in(output) if _is_number(t)
            ]

    def _heard(self, name: str, given: Tensor, returned: Tensor, was: Tensor | None) -> None:
        new = returned.detach().clone()
        self.record.outputs[name].append(new)
        self.record.inputs[name].append(given.detach().clone())
        if was is not None:
            self.record.own.setdefault(name, []).append(new - was)
            self.record.kept.setdefault(name, []).append(was)

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Keeps the inside of modules from being heard; false where somebody else is at it."""
        first, self._busy = not self._busy, True
        try:
            yield first
        finally:
            self._busy = not first

    def _own_changes(self, name: str, module: nn.Module, args: Any, kwargs: Any) -> None:
        def output(values: dict[str, Tensor]) -> Tensor | None:
            with torch.no_grad(), same_random_numbers():
                return _first(functional_call(module, values, args, kwargs))

        new, places = output({}), self._places
        mine = [t for t in places.tensors(name) if t in self._old]
        if name in places.reads and mine:
            kept = output({places.local(t): self._old[t] for t in mine})
            if kept is not None:
                self.record.kept.setdefault(name, []).append(kept)
        for tensor in mine:
            if new is not None:
                was = output({places.local(tensor): self._old[tensor]})
                assert was is not None
                self.record.own.setdefault(tensor, []).append(new - was)


def _first(value: Any) -> Tensor | None:
    """The first tensor of floats or complex numbers in whatever a module takes or returns."""
    return next((t for t in tensors_in(value) if _is_number(t)), None)


def _is_number(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _rms(parts: Sequence[Tensor]) -> float:
    """Root mean square over all entries as real numbers, in float64; infinite if one is not finite."""
    real = [_real(p.detach()) for p in parts]
    count = sum(p.numel() for p in real)
    squares = sum(float(torch.linalg.vector_norm(p, dtype=torch.float64)) ** 2 for p in real)
    size = math.sqrt(squares / count) if count else 0.0
    return size if math.isfinite(size) else math.inf


def _real(tensor: Tensor) -> Tensor:
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


@contextmanager
def _silence() -> Iterator[None]:
    yield
