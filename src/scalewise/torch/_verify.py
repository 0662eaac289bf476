"""The networks of PyTorch of one verification: how each is built, seeded and set up."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from scalewise.plan import Place, Plan, PlanError, Role
from scalewise.plan.spi import Adapter, Places, Scene
from scalewise.torch._law import followed, kinds_of, refuse_another_law
from scalewise.torch._measure import (
    BuiltNetwork,
    Loss,
    WatchedModule,
    buffers_of,
    called_modules,
    find_places,
    put_back,
    seed_torch,
)
from scalewise.torch._setup import Together

_HALF = (torch.bfloat16, torch.float16)


Setup = Callable[[Any, nn.Module], torch.optim.Optimizer | list[torch.optim.Optimizer]]


class TorchBench:
    """The networks of PyTorch of one measurement; see `scalewise.plan._adapter.Bench`.

    Args:
        batch: What `loss` is given.
        loss: A function of (model, batch).
        setup: What initialises a model and returns its optimizer; ``None`` for the plan's own.
        prepare: What the plan itself does to a fresh model.
        trained: What it trains the model with, at a learning rate.
    """

    def __init__(
        self,
        batch: Any,
        loss: Loss,
        setup: Setup | None,
        prepare: Callable[[Any, nn.Module], Any],
        trained: Callable[[Any, nn.Module, float], Any],
    ) -> None:
        self.batch, self.loss, self.setup = batch, loss, setup
        self.prepare, self.trained = prepare, trained
        # The network that was looked at last: it need not be built twice.
        self._looked: dict[tuple[str, int, bool], BuiltNetwork] = {}

    @property
    def searches(self) -> bool:
        """True if the learning rate is ours to choose."""
        return self.setup is None

    def scene(self, plan: Adapter, seed: int, *, raised: bool = True) -> Scene:
        """One network as it is measured.

        Raises:
            PlanError: If the loss is not finite, or not a scalar that depends on the parameters.
        """
        network = self._ready(plan, seed, 0.0, raised)
        tensors = dict(network.model.named_parameters(remove_duplicate=False))
        names, readouts = _roles(plan.table, network.model)
        every = tuple(dict.fromkeys((*names, *readouts)))
        apart = {n for n in names if plan.table[n].role is Role.FIXED or plan.table[n].of}
        inside = [n for n in names if n not in readouts and n not in apart]
        try:
            with self._looking(plan, network, raised):
                places = find_places(network, every, readouts, inside)
        except RuntimeError:
            # A model that casts by itself runs in its own precision only.
            if not raised:
                raise
            return self.scene(plan, seed, raised=False)
        floats = [p.dtype for p in tensors.values() if p.is_floating_point() or p.is_complex()]
        zero = bool(readouts) and all(not bool(tensors[n].detach().any()) for n in readouts)
        precision = max((torch.finfo(d).eps for d in floats), default=0.0)
        whole = "the model" if readouts or _returns(plan.table) else "the loss"
        return Scene(names, readouts, places, zero, precision, raised, whole)

    def network(self, plan: Adapter, scene: Scene, seed: int, lr: float) -> WatchedModule:
        """A network, ready to train."""
        network = self._ready(plan, seed, lr, scene.raised)
        return WatchedModule(network, scene.places, scene.names, of_loss=scene.whole == "the loss")

    def everywhere(self, plan: Adapter, scene: Scene, seed: int) -> Scene:
        """This scene with every module that is called, and no tensors."""
        network = self._ready(plan, seed, 0.0, scene.raised)
        with self._looking(plan, network, scene.raised):
            order = tuple(n for n in called_modules(network) if n)
        bare = scene.places.bare
        order = (*order, *bare)
        return replace(scene, names=(), places=Places({}, order, order, bare=bare))

    @contextmanager
    def _looking(self, plan: Adapter, network: BuiltNetwork, raised: bool) -> Iterator[None]:
        """A pass that leaves the network as it was, to be taken for the next that is asked for like it."""
        before = buffers_of(network.model)
        yield
        put_back(network.model, before)
        self._looked[_like(plan, network.seed, raised)] = network

    def _ready(self, plan: Adapter, seed: int, lr: float, raised: bool) -> BuiltNetwork:
        looked = self._looked.pop(_like(plan, seed, raised), None)
        self._looked.clear()
        if looked is None:
            return self._built(plan, seed, lr, raised)
        return looked if looked.trained is None else replace(looked, optimizer=looked.trained(lr))

    def _built(self, plan: Adapter, seed: int, lr: float, raised: bool) -> BuiltNetwork:
        model = plan.drawn(seed)
        device = _device(self.batch)
        model = model if device is None else model.to(device)
        batch = self.batch
        if raised and any(p.dtype in _HALF for p in model.parameters()):
            model, batch = model.float(), _single(batch)
        if self.setup is not None:
            optimizer = _checked(self.setup(plan, model), plan.table)
            return BuiltNetwork(model, optimizer, self.loss, batch, seed)
        self.prepare(plan, model)
        trained = partial(self.trained, plan, model)
        return BuiltNetwork(model, trained(lr), self.loss, batch, seed, trained)


def _like(plan: Adapter, seed: int, raised: bool) -> tuple[str, int, bool]:
    return repr(sorted(plan.table.target.items())), seed, raised


@contextmanager
def own_random_numbers() -> Iterator[None]:
    """The process's random numbers go on afterwards as if nothing had been drawn."""
    states = random.getstate(), np.random.get_state()
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        # Making a plan draws too: a model at the base.
        seed_all(0)
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])


def seed_all(seed: int) -> None:
    """Seed whatever a factory may draw from."""
    seed_torch(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def _roles(table: Plan, model: nn.Module) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the trainable tensors where they act, and of those that read out, trainable or not."""
    places: dict[int, list[str]] = {}
    trained: dict[int, bool] = {}
    for name, p in model.named_parameters(remove_duplicate=False):
        if p.is_floating_point() or p.is_complex():
            places.setdefault(id(p), []).append(name)
            trained[id(p)] = p.requires_grad
    names, readouts = [], []
    for one, mine in places.items():
        looks_up = [n for n in mine if _is_lookup(model, n)]
        reads = [n for n in mine if n not in looks_up]
        row = table[mine[0]]
        acts = next((n for n in mine if n.rpartition(".")[0] == row.owner), mine[0])
        if row.role is Role.OUTPUT:
            readouts.append(acts)
        elif looks_up and reads and row.role is Role.INPUT:
            acts = looks_up[0]
            readouts.append(reads[0])
        # A frozen readout, as that of a model with adapters, reads out all the same.
        if trained[one]:
            names.append(acts)
    return tuple(names), tuple(readouts)


def _returns(table: Plan) -> bool:
    """True if what the model returns is made from its features in the model itself, and of order one.

    Otherwise they go out as they are, and only the loss shows what is made of them.
    """
    return any(m.place.may_read_out or m.place is Place.READOUT for m in table.multipliers)


def _is_lookup(model: nn.Module, name: str) -> bool:
    return isinstance(model.get_submodule(name.rpartition(".")[0]), nn.Embedding)


def _single(batch: Any) -> Any:
    """A batch with its floating-point tensors in single precision, if they are in less."""
    if isinstance(batch, torch.Tensor):
        return batch.float() if batch.dtype in _HALF else batch
    if isinstance(batch, Mapping):
        return {k: _single(v) for k, v in batch.items()}
    if isinstance(batch, list | tuple):
        parts = [_single(v) for v in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    return batch


def _device(batch: Any) -> torch.device | None:
    """Where the first tensor of a batch is."""
    if isinstance(batch, torch.Tensor):
        return batch.device
    parts = batch.values() if isinstance(batch, Mapping) else batch
    if isinstance(batch, Mapping | list | tuple):
        return next((d for d in map(_device, parts) if d is not None), None)
    return None


def _checked(made: Any, plan: Plan) -> Any:
    """The optimizer that a setup returned, one for all."""
    several = isinstance(made, list | tuple) and made
    parts: list[Any] = list(made) if several else [made]
    for one in parts:
        if not isinstance(one, torch.optim.Optimizer):
            raise PlanError(
                "`setup` must return the optimizer that trains the model, or several in a list; it returned "
                f"{type(one).__name__}."
            )
        # Without weight decay, or with one that is not looked at here, Adam and AdamW are one.
        alike = {"sgd" if t.degree == 1 else "adam" for t in plan.laws.values()}
        found = {followed(one, g) for g in kinds_of(one)}
        kinds = {law and ("sgd" if law == "sgd" else "adam") for law in found}
        if None in kinds or len(plan.laws) > 1 or not kinds <= alike:
            refuse_another_law(plan, one, shapes=False)
    return parts[0] if len(parts) == 1 else Together(*parts)
