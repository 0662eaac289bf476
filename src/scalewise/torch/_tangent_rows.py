"""Derivatives of outputs by parameters, sample by sample, as outer products where these are smaller.

Two ways give them. Small models take many samples at once, by `torch.func.vmap`. Large ones, and all that `vmap`
cannot run, take one after another as autograd does, so that checkpoints, hooks and loops of Python work. What
layers return is then shifted by zeros, derivatives by which are one factor of the outer products. On the first
sample both are held against plain autograd; a model that they do not follow, such as one that calls other layers
for other samples, has all its derivatives by plain autograd.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from jaxtyping import Float

from scalewise.torch._dense_calls import DenseCall, DenseCalls
from scalewise.training.spi import Kept

Reads = Float[torch.Tensor, "read output"]


class Formed(NamedTuple):
    """Derivatives by one tensor.

    Args:
        g: (sample, read, entry).
    """

    g: torch.Tensor


class Outer(NamedTuple):
    """Factors of the derivatives by one weight.

    Args:
        x: (sample, place, in), or words (sample, place).
        d: (sample, read, place, out).
    """

    x: torch.Tensor
    d: torch.Tensor


Part = Formed | Outer
Parts = dict[str, Part]


@dataclass(frozen=True)
class Model:
    """A module with what is known of its forward pass.

    Args:
        module: From (1, ...) to (1, outputs) or (1,).
        named: Parameters that are trained.
        calls: Of dense layers by whose weights derivatives are outer products, in turn.
        graph: Bytes that the forward pass of one sample keeps.
    """

    module: torch.nn.Module
    named: Mapping[str, torch.Tensor]
    calls: tuple[DenseCall, ...]
    graph: int

    def plain(self) -> Model:
        """This model by autograd alone."""
        return Model(self.module, self.named, (), self.graph)

    @cached_property
    def numbers(self) -> dict[str, list[int]]:
        """The numbers of calls of every parameter."""
        found: dict[str, list[int]] = {name: [] for name in self.named}
        for k, call in enumerate(self.calls):
            found[call.name].append(k)
        return found

    def kept(self, name: str, reads: int) -> tuple[Kept, bool]:
        """Bytes of its derivatives, and whether these are formed."""
        p, own = self.named[name], [self.calls[k] for k in self.numbers[name]]
        formed = Kept(0, p.numel() * p.element_size())
        if not own:
            return formed, True
        outer = Kept(
            sum(c.x.numel() for c in own) * p.element_size(),
            sum(math.prod(c.shape) for c in own) * p.element_size(),
        )
        smaller = outer.of(reads) < formed.of(reads)
        return (outer, False) if smaller else (formed, True)


def column(z: torch.Tensor) -> torch.Tensor:
    """Outputs (1, outputs) of one sample."""
    columns = z[:, None] if z.ndim == 1 else z
    if columns.ndim != 2 or len(columns) != 1:
        raise ValueError(
            f"`module` must give outputs (samples, outputs); got shape {tuple(z.shape)} for one sample."
        )
    return columns


def seen(module: torch.nn.Module, named: Mapping[str, torch.Tensor], sample: torch.Tensor) -> Model:
    """The forward pass as it was seen: weights that only dense layers use, each in one way."""
    sizes: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        sizes[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    own = {p.data_ptr() for p in named.values()}
    with DenseCalls({id(p): name for name, p in named.items()}) as watched:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            z = module(sample)
        calls = tuple(watched.calls)
        names = list(dict.fromkeys(call.name for call in calls))
        left: Sequence[Any] = [None] * len(names)
        if names and z.requires_grad:
            weights = [named[name] for name in names]
            left = torch.autograd.grad(z.sum(), weights, allow_unused=True)
    kinds = {name: {c.kind for c in calls if c.name == name} for name in names}
    outer = {n for n, g in zip(names, left, strict=True) if g is None and len(kinds[n]) == 1}
    shared = tuple(c._replace(x=c.x.detach()) for c in calls if c.name in outer)
    graph = sum(size for place, size in sizes.items() if place not in own)
    return Model(module, named, shared, graph + 1)


Way = Callable[[torch.Tensor, Reads, Sequence[str]], tuple[torch.Tensor, Parts]]


def one_by_one(model: Model, reads: int) -> Way:
    """Rows of samples in turn, by autograd."""
    names = {id(model.named[call.name]): call.name for call in model.calls}

    def rows(samples: torch.Tensor, R: Reads, wanted: Sequence[str]) -> tuple[torch.Tensor, Parts]:
        outputs, found = [], []
        for sample in samples.split(1):
            z, parts = single(sample, R, wanted)
            outputs.append(z)
            found.append(parts)
        return torch.cat(outputs), joined(found, len(samples))

    def single(sample: torch.Tensor, R: Reads, wanted: Sequence[str]) -> tuple[torch.Tensor, Parts]:
        shifts = [_zeros(call, sample).requires_grad_() for call in model.calls]
        whole = [name for name in wanted if not model.numbers[name]]
        some = [k for name in wanted for k in model.numbers[name]]
        sources = [model.named[name] for name in whole] + [shifts[k] for k in some]
        with DenseCalls(names, shifts) as watched:
            z = column(model.module(sample))
            xs = [call.x.detach()[None] for call in watched.calls]
            _check_calls(model, watched.calls)
            slopes: list[list[torch.Tensor]] = []
            for read in R.to(z.dtype):
                found = torch.autograd.grad(
                    z, sources, read[None], retain_graph=True, allow_unused=True, materialize_grads=True
                )  # fmt: skip
                slopes.append(list(found))
        each = [torch.stack(column)[None] for column in zip(*slopes, strict=True)]
        plain = dict(zip(whole, each, strict=False))
        d = dict(zip(some, each[len(whole) :], strict=True))
        return z.detach(), _parts(model, wanted, plain, d, dict(enumerate(xs)), reads)

    return rows


def many_at_once(model: Model, reads: int) -> Way:
    """Rows of samples together, by `torch.func`."""
    values = {name: p.detach() for name, p in model.named.items()}
    names = {id(values[call.name]): call.name for call in model.calls}

    def rows(samples: torch.Tensor, R: Reads, wanted: Sequence[str]) -> tuple[torch.Tensor, Parts]:
        whole = {name: values[name] for name in wanted if not model.numbers[name]}
        shifts = [_zeros(call, samples) for call in model.calls]

        def single(x: torch.Tensor) -> Any:
            def outputs(own: dict[str, torch.Tensor], moved: list[torch.Tensor]) -> Any:
                with DenseCalls(names, moved) as watched:
                    z = torch.func.functional_call(model.module, {**values, **own}, (x[None],))
                _check_calls(model, watched.calls)
                return column(z)[0], [call.x for call in watched.calls]

            found: Any = torch.func.vjp(outputs, whole, shifts, has_aux=True)
            z, back, xs = found
            return z, xs, torch.func.vmap(back)(R.to(z.dtype))

        with warnings.catch_warnings():  # of operations that it takes one by one
            warnings.simplefilter("ignore", UserWarning)
            z, xs, (plain, d) = torch.func.vmap(single)(samples)
        return z, _parts(model, wanted, plain, dict(enumerate(d)), dict(enumerate(xs)), reads)

    return rows


def _zeros(call: DenseCall, like: torch.Tensor) -> torch.Tensor:
    return torch.zeros((), dtype=call.dtype, device=like.device).expand(call.shape)


def _check_calls(model: Model, calls: Sequence[DenseCall]) -> None:
    if [(c.name, c.kind) for c in calls] != [(c.name, c.kind) for c in model.calls]:
        raise RuntimeError("other layers are called for this sample than for the first")


def _parts(
    model: Model,
    wanted: Sequence[str],
    plain: Mapping[str, torch.Tensor],
    d: Mapping[int, torch.Tensor],
    xs: Mapping[int, torch.Tensor],
    reads: int,
) -> Parts:
    """For every tensor the outputs that were differentiated by it, or calls beside each other as places of one."""
    found: Parts = {}
    for name in wanted:
        own = model.numbers[name]
        if not own:
            found[name] = Formed(plain[name].flatten(2))
            continue
        words, dtype = model.calls[own[0]].kind == "words", model.named[name].dtype
        x = [xs[k].flatten(1) if words else xs[k].flatten(1, -2).to(dtype) for k in own]
        back = [d[k].flatten(2, -2).to(dtype) for k in own]
        outer = Outer(torch.cat(x, 1), torch.cat(back, 2))
        found[name] = formed(model, name, outer) if model.kept(name, reads)[1] else outer
    return found


def formed(model: Model, name: str, part: Part) -> Formed:
    """The derivatives themselves, in the order of the tensor's entries."""
    if isinstance(part, Formed):
        return part
    kind, p, x = model.calls[model.numbers[name][0]].kind, model.named[name], part.x
    if kind == "words":
        x = torch.nn.functional.one_hot(x, len(p)).to(part.d.dtype)
    legs = "bkto,bti->bkoi" if kind == "linear" else "bti,bkto->bkio"
    both = (part.d, x) if kind == "linear" else (x, part.d)
    return Formed(torch.einsum(legs, *both).flatten(2))


def joined(several: Iterable[Parts], samples: int) -> Parts:
    """Tensors of several blocks of samples, copied to where they stay as they come."""
    found: dict[str, list[torch.Tensor]] = {}
    kinds: dict[str, Any] = {}
    start = stop = 0
    for parts in several:
        start = stop
        for name, part in parts.items():
            stop = start + len(part[-1])
            if name not in found:
                kinds[name] = type(part)
                found[name] = [legs.new_empty(samples, *legs.shape[1:]) for legs in part]
            for whole, legs in zip(found[name], part, strict=True):
                whole[start:stop] = legs
    return {name: kinds[name](*legs) for name, legs in found.items()}
