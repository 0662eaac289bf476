"""The networks of one verification: how each is made, and what is told of all of them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from scalewise.plan import Kind, PlanError, Role
from scalewise.plan._growth import growth_over
from scalewise.plan._measurement import Measurement, Quantity
from scalewise.plan._names import pattern
from scalewise.torch._groups import OPTIMIZERS
from scalewise.torch._law import followed, refuse_another_law
from scalewise.torch._measure import Loss, Network, Places, Sizes, find_places, measure_network
from scalewise.torch._plan import TorchPlan

__all__ = ["Run", "Setup", "seed_all"]

Setup = Callable[[TorchPlan, nn.Module], torch.optim.Optimizer]

# Features change by one percent: far above rounding, and far below where the response bends.
_RESPONSE, _FIRST_LR, _TRIALS = 1e-2, 1e-3, 12
_HALF = (torch.bfloat16, torch.float16)
_OF_MODULE = (Quantity.OUTPUT, Quantity.CHANGE)
_OF_FEATURES = (Quantity.FEATURES, Quantity.FEATURES_CHANGE)


@dataclass(frozen=True)
class Run:
    """What all networks of one measurement have in common.

    Args:
        plans: For each width the plan with that target.
        widths: Ascending.
        batch: What `loss` is given.
        loss: A function of (model, batch).
        setup: What initialises a model and returns its optimizer; ``None`` for the plan's own.
        names: The trainable tensors; a tied one by the name it has where it looks up.
        readouts: The tensors that read out; a tied one by the name it has there.
        places: Where all these act.
        steps: Optimiser steps.
        zero_readout: Whether the readout starts at zero.
        precision: Rounding unit of the parameters.
        lr: Learning rate at the base for the plan's own setup.
        raised: Whether parameters and batches of half precision are raised to single: powers are those of
            the model, and rounding has none.
    """

    plans: tuple[TorchPlan, ...]
    widths: tuple[int, ...]
    batch: Any
    loss: Loss
    setup: Setup | None = None
    names: tuple[str, ...] = ()
    readouts: tuple[str, ...] = ()
    places: Places = field(default_factory=lambda: Places({}, (), ()))
    steps: int = 1
    zero_readout: bool = False
    precision: float = 0.0
    lr: float | None = None
    raised: bool = True

    def prepared(self, steps: int | None) -> Run:
        """The same with all that can be learnt from one network.

        Raises:
            PlanError: If nothing reads out, the loss is not finite, or the readout starts at zero and one step
                is asked for.
        """
        network = self.network(0, 0)
        tensors = dict(network.model.named_parameters(remove_duplicate=False))
        names, readouts = _roles(self.plans[0], network.model)
        if not readouts:
            raise PlanError(
                "No tensor of this model reads out its features to a fixed number of outputs, so whether "
                "the outputs move cannot be measured. Verify a model with its head, or say which tensor "
                'is it with roles={NAME: "output"}.'
            )
        zero = all(not bool(tensors[n].detach().any()) for n in readouts)
        if zero and steps == 1:
            raise PlanError(
                f"The readout `{readouts[0]}` starts at zero, so the first step moves it alone and shows "
                "nothing of the features. Take steps=2, or leave `steps` out."
            )
        try:
            every = tuple(dict.fromkeys((*names, *readouts)))
            table = self.plans[0].table
            inside = [n for n in names if n not in readouts and table[n].role is not Role.FIXED]
            places = find_places(network, every, readouts, inside)
        except RuntimeError:
            # A model that casts by itself runs in its own precision only.
            if not self.raised:
                raise
            return replace(self, raised=False).prepared(steps)
        floats = [p.dtype for p in tensors.values() if p.is_floating_point() or p.is_complex()]
        return replace(
            self,
            names=names,
            readouts=readouts,
            places=places,
            steps=steps or (2 if zero else 1),
            zero_readout=zero,
            precision=max((torch.finfo(d).eps for d in floats), default=0.0),
        )

    def network(self, index: int, seed: int) -> Network:
        """A new network of one of the widths: an independent draw for each width and seed."""
        plan = self.plans[index]
        drawn = int(np.random.SeedSequence([seed, self.widths[index]]).generate_state(1)[0])
        seed_all(drawn)
        assert plan.build is not None
        model = plan.build(**plan.table.target)
        device = _device(self.batch)
        model = model if device is None else model.to(device)
        batch = self.batch
        if self.raised and any(p.dtype in _HALF for p in model.parameters()):
            model, batch = model.float(), _single(batch)
        optimizer = (self.setup or self._own_setup)(plan, model)
        _check_optimizer(optimizer, plan.table.optimizer)
        return Network(model, optimizer, self.loss, batch, drawn)

    def _own_setup(self, plan: TorchPlan, model: nn.Module) -> torch.optim.Optimizer:
        plan.init_(model)
        if any(
            m.name != "residual"
            for m in plan.table.multipliers
            if m.name not in plan.options.multiplied
        ):
            plan.scale_(model, applied=["residual"] if "residual" in plan.multipliers else [])
        groups = plan.param_groups(model, lr=self.lr or 0.0, weight_decay=0.0)
        optimizer: Any = OPTIMIZERS[plan.table.optimizer]
        return optimizer(groups)

    def measure(self, index: int, seed: int, *, linearity: bool = False) -> Sizes:
        """The sizes of one network."""
        network = self.network(index, seed)
        return measure_network(network, self.places, self.names, self.steps, linearity=linearity)

    def small_lr(self) -> float:
        """A learning rate at which no features, at the least and the largest width, move by more than 1 %.

        Raises:
            PlanError: If none is found.
        """
        lr, finite = _FIRST_LR, False
        for _ in range(_TRIALS):
            trial = replace(self, lr=lr)
            ends = [trial.measure(i, 0) for i in (0, len(self.widths) - 1)]
            found = max(_response(s, self.places) for s in ends)
            finite = finite or math.isfinite(found)
            if found == 0 or not math.isfinite(found):
                lr *= 1e-2 if found else 10.0
                continue
            if _RESPONSE / 4 <= found <= 2 * _RESPONSE:
                return lr
            lr *= (_RESPONSE / found) ** (1 / self.steps)
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
        """All sizes as arrays: one row for a tensor, with what its module does in that of its leader."""
        ranks = {m: i for i, m in enumerate(self.places.order)}
        rows = dict.fromkeys((*self.names, *self.readouts))
        modules = {n: self.places.module.get(n, "") for n in rows}
        tensors = tuple(sorted(rows, key=lambda n: ranks.get(modules[n], -1)))
        leaders = {m: self._leader(m) for m in self.places.order}
        shape = (len(tensors), len(self.widths), len(found[0]))
        sizes = {q: np.full(shape, np.nan) for q in Quantity}
        for i, of_width in enumerate(found):
            for j, one in enumerate(of_width):
                for (name, quantity), value in one.tensor.items():
                    sizes[quantity][tensors.index(name), i, j] = value
                for (module, quantity), value in one.module.items():
                    sizes[quantity][tensors.index(leaders[module]), i, j] = value
        return Measurement(
            np.asarray(self.widths, dtype=float),
            tensors,
            tuple(modules[n] for n in tensors),
            tuple(n for n in tensors if n in self.readouts),
            sizes,
            self.steps,
            self.zero_readout,
            self.lr,
            self.precision,
            np.array([of_width[0].nonlinearity for of_width in found]),
            frozenset.intersection(*(frozenset(s.constant) for w in found for s in w)),
            {n: growth_over([p.table for p in self.plans], n) for n in tensors},
            _attention(found),
        )

    def _leader(self, module: str) -> str:
        """The tensor that stands for a module: the readout, or what sums or looks up, or the first."""
        mine = self.places.tensors(module)
        table = self.plans[0].table
        leading = [n for n in mine if n in self.readouts]
        leading += [n for n in mine if table[n].kind in (Kind.MATRIX, Kind.LOOKUP)]
        return (leading or mine)[0]


def _attention(found: list[list[Sizes]]) -> dict[tuple[str, Quantity], np.ndarray]:
    """Attention logits and their change, over all layers of a kind."""
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
    return out


def seed_all(seed: int) -> None:
    """Seed whatever a factory may draw from."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def _roles(plan: TorchPlan, model: nn.Module) -> tuple[tuple[str, ...], tuple[str, ...]]:
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
        row = plan.table[mine[0]]
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


def _is_lookup(model: nn.Module, name: str) -> bool:
    return isinstance(model.get_submodule(name.rpartition(".")[0]), nn.Embedding)


def _response(sizes: Sizes, places: Places) -> float:
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


def _check_optimizer(optimizer: Any, planned: str) -> None:
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise PlanError(
            "`setup` must return the optimizer that trains the model; it returned "
            f"{type(optimizer).__name__}."
        )
    # Without weight decay, or with one that is not looked at here, Adam and AdamW are one.
    law = followed(optimizer)
    if law is None or (law == "sgd") != (planned == "sgd"):
        refuse_another_law(planned, optimizer)
