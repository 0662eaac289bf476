"""Entries of a module, from one operation of its forward pass to the next."""

from __future__ import annotations

import copy
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from scalewise.plan.spi import Inputs
from scalewise.reading.spi import (
    Entries,
    GivenLayers,
    MixedSamplesError,
    ModelReader,
    ParameterLaw,
    Pass,
    Plain,
    UnreadError,
    in_a_row,
    replaced,
)
from scalewise.torch._measured import subject
from scalewise.torch._operations import Operations
from scalewise.torch._plainly import plainly
from scalewise.torch._watch import RANDOM, UNKNOWN_SHAPES


class UnreadOperand:
    """The result of an operation that was not understood."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class NetworkTrace(Operations, TorchDispatchMode):
    """Follows entries from one operation to the next."""

    def __init__(self, read: ModelReader) -> None:
        super().__init__()
        self.read = read
        self.stack: list[str] = [""]
        self.random: list[str] = []
        self.shapes: list[str] = []
        self._known: dict[int, tuple[Tensor, Tensor | UnreadOperand]] = {}

    def know(self, tensor: Tensor, entries: Any) -> None:
        """Note the entries of a tensor."""
        own = entries
        if not isinstance(
            own, UnreadOperand | Tensor
        ):  # laid out as the numbers are, so that views are views
            own = torch.empty_strided(tensor.shape, tensor.stride(), dtype=torch.long)
            own.copy_(torch.from_numpy(np.array(entries)))
        self._known[id(tensor)] = (tensor, own)

    def entries(self, tensor: Any) -> Tensor | UnreadOperand | None:
        """The entries of a tensor; ``None`` of numbers."""
        found = self._known.get(id(tensor))
        return None if found is None else found[1]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.rpartition("::")[2]
        in_place = name.endswith("_") and not name.startswith("_")
        if name.rstrip("_") in RANDOM and not (name == "native_dropout" and not args[2]):
            self.random += self.stack
        # numbers as they are before something is written in their place
        given = (args[0].clone(), *args[1:]) if in_place and self.entries(args[0]) is None else args
        out = func(*args, **kwargs)
        flat = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        known = [e for e in map(self.entries, flat) if e is not None]
        if not known:
            return out
        if name in UNKNOWN_SHAPES:
            self.shapes.append(self.stack[-1])
        lost = next((e for e in known if isinstance(e, UnreadOperand)), None)
        self.read.fields.place = self.stack[-1]
        if lost is not None:
            found: Any = lost
        else:
            try:
                found = self._result(
                    name.rstrip("_") if in_place else name, func, given, kwargs, out, in_place
                )
            except (UnreadError, MixedSamplesError) as error:
                found = UnreadOperand(error)
        if in_place:
            self._write(args[0], found)
        else:
            self._keep(out, found)
        return out

    def _keep(self, out: Any, found: Any) -> None:
        if isinstance(out, Tensor):
            if found is not None and not isinstance(found, Plain):
                self.know(out, found)
        elif isinstance(found, tuple | list):
            for one, own in zip(out, found, strict=False):
                if own is not None and isinstance(one, Tensor):
                    self.know(one, own)
        elif isinstance(out, tuple | list):
            for one in out:
                if isinstance(one, Tensor) and isinstance(found, UnreadOperand):
                    self.know(one, found)
            if (
                not isinstance(found, UnreadOperand | Plain)
                and found is not None
                and isinstance(out[0], Tensor)
            ):
                self.know(out[0], found)

    def _write(self, tensor: Tensor, found: Any) -> None:
        """Entries in place of others, also of what shares its memory."""
        own = self.entries(tensor)
        if isinstance(found, UnreadOperand) or isinstance(own, UnreadOperand):
            self.know(tensor, found)
            return
        if own is None:
            own = self._blank(tensor)
        value = (
            torch.from_numpy(np.array(found))
            if not isinstance(found, Plain)
            else torch.zeros_like(own)
        )
        own.copy_(value.expand(own.shape))

    def _blank(self, tensor: Tensor) -> Tensor:
        """Entries of zeros that something is written to."""
        base = tensor if tensor._base is None else tensor._base
        whole = self.entries(base)
        if whole is None or isinstance(whole, UnreadOperand):
            whole = torch.zeros(base.shape, dtype=torch.long)
            self._known[id(base)] = (base, whole)
        if base is tensor:
            return whole
        offset = tensor.storage_offset() - base.storage_offset()
        own = whole.as_strided(tensor.shape, tensor.stride(), offset)
        self._known[id(tensor)] = (tensor, own)
        return own

    def replace(self, given: GivenLayers, args: Any, output: Any) -> None:
        """Let what a module returned be what layers make of what it was called with."""
        name = self.read.fields.place
        x, made = (
            next((t for t in pytree.tree_leaves(own) if isinstance(t, Tensor)), None)
            for own in (args, output)
        )
        entries = self.entries(x)
        if x is None or made is None or not isinstance(entries, Tensor):
            raise self.read.refuse(
                "is given as layers, but nothing that is understood enters it as its first argument."
            )
        own = replaced(
            self.read, name, given.layers[name], entries.numpy(), tuple(made.shape), given.width
        )
        self.know(made, own)
        self.read.notes[f"`{name}` is what was given for it."] = None


@contextmanager
def watching(model: nn.Module, read: ModelReader, given: GivenLayers) -> Iterator[NetworkTrace]:
    """Follow entries until the end of the block; hooks tell in which module it is, and replace some."""
    trace = NetworkTrace(read)
    hooks = []
    for name, module in model.named_modules():

        def enter(*_: Any, name: str = name) -> None:
            trace.stack.append(name)

        def leave(_: Any, args: Any, output: Any) -> None:
            read.fields.place = trace.stack.pop()
            if read.fields.place in given.layers:
                trace.replace(given, args, output)

        hooks += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]
    try:
        with plainly(), trace:
            yield trace
    finally:
        for hook in hooks:
            hook.remove()


def traced(
    model: nn.Module,
    laws: Mapping[str, ParameterLaw],
    inputs: Inputs,
    given: GivenLayers,
    *,
    flat: bool,
    gains: bool,
    samples: bool,
) -> Pass:
    """One pass, in double precision, evaluation mode and on a copy."""
    _leave_memory()
    read = ModelReader(laws, flat, gains)
    model = copy.deepcopy(model).cpu().double().eval()
    args, kwargs = pytree.tree_map(_doubled, (inputs.args, dict(inputs.kwargs)))
    numbers = numbers_in((args, kwargs), samples)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        with watching(model, read, given) as trace:
            entries: dict[int, Entries] = {}
            values = {}
            for name, p in model.named_parameters(remove_duplicate=False):
                if id(p) not in entries:
                    entries[id(p)] = read.weight(name, tuple(p.shape))
                    values[name] = p.detach().numpy()
                trace.know(p, entries[id(p)])
            offset = 0
            for tensor in numbers:
                tokens = not tensor.dtype.is_floating_point
                own = read.enter(tuple(tensor.shape), offset, tokens=tokens, samples=samples)
                trace.know(tensor, own)
                offset += tensor.numel() // (len(tensor) if samples else 1)
            output = _called(model, args, kwargs)
            first = next(t for t in pytree.tree_leaves(output) if isinstance(t, Tensor))
            found = trace.entries(first)
    _check_repeats(trace, given, found)
    if isinstance(found, UnreadOperand):
        raise found.error
    if found is None:
        raise UnreadError(
            "What the model returns does not depend on its parameters. Let it return what it computes."
        )
    rows = [t.double().numpy() for t in numbers]
    return Pass(read, found.numpy(), first.double().numpy(), in_a_row(rows, samples), values)


def _called(model: nn.Module, args: Any, kwargs: Any) -> Any:
    """Outputs of the model in double precision, which numbers that it makes itself have by default."""
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        return model(*args, **kwargs)
    except RuntimeError as error:
        raise UnreadError(
            f"The model is read in double precision, where it raised RuntimeError: {str(error).splitlines()[0]}. "
            "Let numbers that it makes itself have the precision of its inputs."
        ) from error
    finally:
        torch.set_default_dtype(before)


def _check_repeats(trace: NetworkTrace, given: GivenLayers, found: Any) -> None:
    """Refuse what another pass would not do."""
    if trace.random and not given.layers.keys() & set(trace.random):
        raise UnreadError(
            f"{subject(trace.random[-1])} draws random numbers in its forward pass, in evaluation mode too, so the "
            "model computes something else each time. Fix what it draws, or give that module as a layer of "
            "`given`; `signals` measures the model as it is."
        )
    if trace.shapes and isinstance(found, UnreadOperand):
        raise UnreadError(
            f"{subject(trace.shapes[0])} has shapes that depend on the data, and the model is not a network of one "
            "shape. Give that module as a layer of `given`; `signals` measures the model for one batch."
        )


def _leave_memory() -> None:
    """JAX, which computes what the network returns, takes most of a GPU at its first number: training needs it."""
    if "jax" not in sys.modules:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def inputs_in_a_row(inputs: Inputs, shape: tuple[int, ...]) -> np.ndarray:
    """Inputs as a network of this input shape takes them."""
    args = inputs.args, dict(inputs.kwargs)
    for samples in (True, False):
        rows = [t.detach().cpu().double().numpy() for t in numbers_in(args, samples)]
        found = in_a_row(rows, samples)
        if found.shape[1:] == shape:
            return found
    raise AssertionError


def _doubled(own: Any) -> Any:
    if not isinstance(own, Tensor):
        return own
    return own.detach().cpu().double() if own.dtype.is_floating_point else own.detach().cpu()


def numbers_in(inputs: Any, samples: bool) -> list[Tensor]:
    """The tensors that are inputs: numbers, and tokens where samples have an axis; others are fixed."""
    return [
        t
        for t in pytree.tree_leaves(inputs)
        if isinstance(t, Tensor)
        and t.ndim
        and (t.dtype.is_floating_point or (samples and t.dtype != torch.bool))
    ]
