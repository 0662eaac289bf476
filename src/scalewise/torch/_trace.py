"""A forward pass as the framework executes it: every operation told to a `Flow`, whatever module it is in.

Below the modules a few operations are left: products, sums, views, and what is not linear. Fused attention is
taken apart on the way, and so is the fast path of `torch.nn`. Arrays may be on the device "meta": what is looked
at are shapes, and the values of single numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from scalewise.plan.spi import Flow, Logits, Passed, Source, Tracks, Value, bare
from scalewise.torch._nested import tensors_in
from scalewise.torch._parametrized import computed
from scalewise.torch._picks import CHOOSES, SCATTERS, Picks
from scalewise.torch._pieces import Pieces
from scalewise.torch._plainly import plainly
from scalewise.torch._uses import UseTrace
from scalewise.torch._weightless import Weightless


class Unseen(Exception):
    """A number that the pass multiplies by has no value here."""


# What passes its arguments on as they are, entry by entry.
_PASSED = frozenset(
    """add sub rsub neg view _unsafe_view reshape _reshape_alias t transpose permute expand unsqueeze squeeze slice
    select split split_with_sizes unbind unsafe_split unsafe_split_with_sizes unsafe_chunk chunk clone _to_copy
    detach alias cat stack repeat repeat_interleave masked_fill where constant_pad_nd roll flip as_strided triu tril
    mean clamp_min maximum unfold copy diagonal gather index index_select index_put scatter native_dropout dropout
    movedim contiguous scatter_add index_add scatter_reduce lift_fresh _conj cumsum pixel_shuffle im2col col2im
    fill view_as_complex view_as_real complex conj_physical _neg_view resolve_conj""".split()  # noqa: SIM905
)
_SATURATING = frozenset(["_softmax", "_safe_softmax", "exp", "exp2", "sigmoid", "logsumexp"])
_PRODUCTS = frozenset(["mm", "bmm", "mv", "dot"])
_SUMS = frozenset(["addmm", "baddbmm", "addmv", "addbmm"])
_POWERS = {"sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1.0, "square": 2.0, "abs": 1.0}
_HOMOGENEOUS = frozenset(
    ["relu", "leaky_relu", "amax", "amin", "sort", "topk", "max_pool2d_with_indices"]
)
_DISTANCES = frozenset(["_cdist_forward", "_euclidean_dist", "_pdist_forward", "cdist"])
_DIRECTIONS = frozenset(["_weight_norm_interface", "_weight_norm"])
_LOOKUPS = frozenset(["embedding", "_embedding_bag", "_embedding_bag_forward_only"])
# Below so many entries it is looked whether they are all one number.
_FEW = 1 << 16


class Trace(TorchDispatchMode):
    """Follows what the weights of a model do from one operation to the next.

    Args:
        model: The model; its parameters are known by name.
        inputs: What it will be given.
        filled: Tensors that were seen to multiply with one number in all their entries, other than 1.
    """

    def __init__(
        self, model: nn.Module, inputs: Any = (), filled: Collection[str] = frozenset()
    ) -> None:
        super().__init__()
        self.filled = set(filled)
        self.flow, self.tracks = Flow(), Tracks()
        self.uses, self.picks, self.pieces = UseTrace(model), Picks(), Pieces()
        self._logits: dict[Source, Tensor] = {}
        self._factors: dict[Source, tuple[Tensor, Tensor]] = {}
        # Every tensor is kept: a number of one that is gone would be given to another.
        self._known: dict[int, tuple[Tensor, Value]] = {}
        self._passed: dict[int, Passed] = {}
        # Whole numbers and truth values that depend on the input.
        self._told: dict[int, Tensor] = {}
        self._weights = {id(p): p for p in model.parameters()}
        self._weightless = Weightless()
        bounded = {key for key, c in computed(model).items() if c.part == "bounded"}
        self._bounded = {bare(n, ()) for n, p in model.named_parameters() if id(p) in bounded}
        for name, p in model.named_parameters():
            self._know(p, self.flow.weight(bare(name, ())))
            self._passed[id(p)] = self.tracks.weight(bare(name, ()))
        for tensor in tensors_in(inputs):
            if _is_number(tensor):
                self._know(tensor, Value())
            else:
                self._told[id(tensor)] = tensor

    def value(self, tensor: Any) -> Value | None:
        """Facts about a tensor; none of constants."""
        found = self._known.get(id(tensor))
        return None if found is None else found[1]

    def given(self, tensor: Any) -> Value | None:
        """Facts about a module's argument: numbers that nobody made are the model's input."""
        new = isinstance(tensor, Tensor) and _is_number(tensor) and self.value(tensor) is None
        if new and tensor.numel() > 1 and id(tensor) not in self._weights:
            self._know(tensor, Value())
        return self.value(tensor)

    def passed(self, tensor: Any) -> Passed:
        """The operation that made a known tensor."""
        value = self.value(tensor)
        return self._passed.get(id(tensor), Passed(data=value is None or value.data))

    def _fixed(self, tensor: Tensor) -> bool:
        value = self.value(tensor)
        return value is not None and not value.data

    def attentions(self) -> list[Logits]:
        """Attention logits, in the order in which they were made."""
        return [
            Logits(place, self._logits[s] * f, self._factors.get(s, ()))
            for s, place, f in self.flow.saturated()
        ]

    def _know(self, tensor: Tensor, value: Value) -> None:
        self._known[id(tensor)] = (tensor, value)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        out = self._weightless.call(func, args, kwargs)
        name = func._schema.name.rpartition("::")[2]
        in_place = name.endswith("_") and not name.startswith("_")
        name = name.rstrip("_") if in_place else name
        self.uses.see(name, args, out, self._fixed)
        self.picks.see(name, args, out, in_place=in_place)
        flat = tensors_in((args, kwargs))
        values = [v for v in map(self.value, flat) if v is not None]
        if any(v.data for v in values) or any(id(t) in self._told for t in flat):
            self._told |= {id(t): t for t in tensors_in(out) if not _is_number(t)}
        if not values or (self.picks.zero(out) and self.value(out) is None):
            return out
        found = self._result(name, args, kwargs, flat, values)
        if (few := self._few(name, args, out)) is not None:
            found = self.flow.few(found, *few)
        self.pieces.see(name, args, flat, out)
        made = [self.passed(t) for t in flat if self.value(t) is not None]
        passed = self.tracks.through(made, data=found.data, lookup=self._looks_up(name, args, flat))
        for tensor in tensors_in(out):
            if _is_number(tensor):
                self._note(tensor, found)
                self._passed[id(tensor)] = passed
        if in_place and isinstance(args[0], Tensor) and args[0]._base is not None:
            base = args[0]._base
            whole, before = self.value(base), self.passed(base)
            self._note(base, found if whole is None else self.flow.joined([whole, found]))
            both = before.tensors | passed.tensors
            self._passed[id(base)] = Passed(both, before.data or passed.data)
        return out

    def _few(self, name: str, args: tuple[Any, ...], out: Any) -> tuple[int, int] | None:
        """The numbers of entries, and of those that are not zero, where an operation is the first to make zeros."""
        blank = name in SCATTERS or any(self.picks.mask(a) and not self.value(a) for a in args[:2])
        return self.picks.mask(out) if blank and name in (*SCATTERS, "mul") else None

    def _note(self, tensor: Tensor, found: Value) -> None:
        self._know(tensor, found)
        for source in found.parts:
            if source.kind == "product" and source not in self._logits:
                # A copy: the code may work in place on it.
                self._logits[source] = tensor.detach().clone()

    def _result(
        self, name: str, args: tuple[Any, ...], kwargs: Any, flat: list[Tensor], values: list[Value]
    ) -> Value:
        flow = self.flow
        if name in CHOOSES:
            flow.chosen(values[0])
        count = self.picks.index(flat)
        if count and name in ("index", "index_select", "embedding") and self._fixed(args[0]):
            flow.rows(args[0].shape[0], count)
        if all(not v.data and {s.name for s in v.parts} <= self._bounded for v in values):
            # Divided by its own largest singular value, a matrix has no size left to follow.
            return values[0]
        if name in ("argmax", "argmin"):
            return flow.ordered(values[0])
        if self._looks_up(name, args, flat):
            return flow.looked_up(values[0])
        if name in ("sub", "rsub") and len(flat) == len(values) == 2:
            return flow.difference(values[0], values[1], _alike(*flat))
        if name in _DISTANCES:
            apart = flow.difference(values[0], values[-1], flat[0].shape[-1:])
            return flow.normed(apart, flat[0].shape[-1])
        if name in _PASSED:
            return flow.joined(values)
        if name in _DIRECTIONS and (of := self.value(flat[0])) is not None:
            # A weight made of its direction and its lengths goes by the name of the first.
            return of
        if name in ("mul", "div"):
            return self._multiplied(args[0], args[1], -1 if name == "div" else 1)
        if name in _PRODUCTS:
            return self._product(args[0], args[1], batched=name == "bmm")
        if name in _SUMS:
            batched = name == "baddbmm"
            product = self._product(args[1], args[2], batched=batched)
            product = flow.scaled(product, float(abs(kwargs.get("alpha", 1))))
            added = self.value(args[0]) if kwargs.get("beta", 1) else None
            return product if added is None else flow.joined([product, added])
        if name == "convolution":
            return self._convolution(args)
        if name in _POWERS or name == "pow":
            power = _POWERS.get(name, args[1] if len(args) > 1 else None)
            if isinstance(power, int | float):
                return flow.powered(values[0], float(power))
        if name in ("sum", "linalg_vector_norm", "norm"):
            sizes = _reduced(flat[0], args, kwargs, 1 if name == "sum" else 2)
            act = flow.summed if name == "sum" else flow.normed
            return act(values[0], *sizes)
        if name == "tanh":
            return flow.capped(values[0])
        if name in _HOMOGENEOUS:
            return flow.powered(values[0], 1.0)
        if "norm" in name and (given := self.value(flat[0])) is not None:
            flow.bent(v for v in values if v is not given)
            return flow.divided(given)
        if name in ("_softmax", "_safe_softmax"):
            # So many parts of one.
            return flow.scaled(flow.bent(values, "positive"), 1 / flat[0].shape[[*args][1]])
        return flow.bent(values, "positive" if name in _SATURATING else "other")

    def _looks_up(self, name: str, args: tuple[Any, ...], flat: list[Tensor]) -> bool:
        """True if an operation picks rows of a tensor by what the model is given."""
        if name in _LOOKUPS:
            return True
        # What is left of a table without its first axis are rows; of experts, matrices are.
        picks = name in ("index", "index_select", "gather") and args[0].ndim <= 2
        return picks and self._fixed(args[0]) and any(id(t) in self._told for t in flat[1:])

    def _product(self, one: Tensor, two: Tensor, *, batched: bool) -> Value:
        a, b = self.value(one), self.value(two)
        if a is None or b is None:
            known = a if b is None else b
            return self.flow.bent([]) if known is None else known
        over = self.uses.over(two, -2) if a.data else self.uses.over(one, -1)
        found = self.flow.contracted(a, b, one.shape[-1], batched=batched, over=over)
        self._reads(*((two, one) if a.data else (one, two)), one.shape[-1])
        for source in found.parts:
            if source.kind == "product":
                self._factors[source] = (one.detach() / a.size, two.detach() / b.size)
        return found

    def _reads(self, weight: Tensor, given: Tensor, length: int) -> None:
        value = self.value(weight)
        if value is not None and not value.data:
            for source in value.parts:
                self.pieces.summed(source.name, given, length)

    def _convolution(self, args: tuple[Any, ...]) -> Value:
        x, w = self.value(args[0]) or Value(), self.value(args[1])
        if w is None:
            return x
        out = self.flow.contracted(x, w, math.prod(args[1].shape[1:]))
        self._reads(args[1], args[0], args[1].shape[1])
        bias = self.value(args[2]) if args[2] is not None else None
        return out if bias is None else self.flow.joined([out, bias])

    def _multiplied(self, one: Any, two: Any, sign: int) -> Value:
        a, b = self.value(one), self.value(two)
        flow = self.flow
        if a is not None and b is not None and a.data and b.data:
            if one is two:
                return flow.powered(a, 2.0) if sign == 1 else flow.new()
            return flow.multiplied(a, flow.powered(b, -1.0) if sign == -1 else b)
        if a is not None and b is not None and not a.data and not b.data:
            if one is two and sign == 1:
                return flow.powered(a, 2.0)
            a = flow.directed(a, b, float(sign))
        if a is not None and (b is None or a.data or not b.data):
            return flow.scaled(a, self._number(two, a.data) ** sign)
        assert b is not None
        if sign == -1:
            b = flow.powered(b, -1.0)
        return flow.scaled(b, self._number(one, b.data))

    def _number(self, factor: Any, of_data: bool) -> float:
        """The number that stands for a factor: its entry where all are the same, else of order one."""
        if not isinstance(factor, Tensor):
            return float(abs(factor)) or 1.0
        if not factor.numel():
            return 1.0
        # One number for many entries: a scale, and no gain.
        single = factor.numel() == 1 or (self.value(factor) is not None and factor.shape[-1] == 1)
        value = self.value(factor)
        names = set() if value is None or value.data else {s.name for s in value.parts}
        if factor.device.type == "meta":
            if (single and of_data) or names & self.filled:
                raise Unseen
            return 1.0
        if factor.numel() > _FEW:
            return 1.0
        entries = factor.detach().flatten()
        entries = entries.to(torch.complex128 if factor.is_complex() else torch.float64)
        first = float(entries[0].abs())
        same = bool((entries == entries[0]).all())
        if not (same and first and math.isfinite(first)):
            return 1.0
        if first != 1:
            self.filled |= names
        return first


def _is_number(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _reduced(tensor: Tensor, args: tuple[Any, ...], kwargs: Any, place: int) -> tuple[int, ...]:
    """The sizes of the axes that are summed over."""
    axes = kwargs.get("dim", args[place] if len(args) > place else None)
    if axes is None or axes == []:
        return tuple(tensor.shape)
    axes = [axes] if isinstance(axes, int) else axes
    return tuple(tensor.shape[i] for i in axes)


def _alike(one: Tensor, two: Tensor) -> list[int]:
    """The sizes of axes along which neither of two arrays is repeated to meet the other."""
    pairs = zip(reversed(one.shape), reversed(two.shape), strict=False)
    return [n for n, m in pairs if n == m]


@contextmanager
def watching(
    model: nn.Module, inputs: Any = (), filled: Collection[str] = frozenset()
) -> Iterator[Trace]:
    """Watch what the model does until the end of the block; hooks tell in which module it is.

    Args:
        model: The model.
        inputs: What it will be given, for the arrays that are not made by it.
        filled: As `Trace` takes them.
    """
    trace, stack = Trace(model, inputs, filled), [""]
    names = {bare(n, ()): m for n, m in model.named_modules()}

    def enter(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: Any, kwargs: Any) -> None:
            stack.append(name)
            trace.flow.place = name
            given = [trace.given(t) for t in tensors_in((args, kwargs))]
            trace.flow.entries[name] = trace.flow.joined([v for v in given if v is not None])

        return hook

    def leave(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: Any, output: Any) -> None:
            while stack.pop() != name:
                pass
            trace.flow.place = stack[-1]
            for tensor in tensors_in(output):
                value = trace.value(tensor)
                if value is not None:
                    trace.flow.left(name, value)

        return hook

    hooks = []
    for name, module in names.items():
        hooks.append(module.register_forward_pre_hook(enter(name), with_kwargs=True))
        hooks.append(module.register_forward_hook(leave(name)))
    try:
        with plainly(), trace:
            yield trace
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def attending(model: nn.Module, trace: Trace) -> Iterator[set[str]]:
    """The modules whose products enter a softmax, at the end; of the model itself, before it returns."""
    made: set[str] = set()
    returned: list[bool] = []

    def note(*_: object) -> None:
        returned.append("" in {place for _, place, _ in trace.flow.saturated()})

    hook = model.register_forward_hook(note)
    try:
        yield made
    finally:
        hook.remove()
    made |= {place for _, place, _ in trace.flow.saturated()}
    # Products that are returned may enter the softmax of a loss, where they are outputs.
    if returned and not any(returned):
        made -= {""}
