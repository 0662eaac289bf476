"""A pass of a model, watched: sizes, gradients and shares at every random layer, attention and residual sum."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from scalewise.signals import Drawn, Joined, Seen
from scalewise.torch._plainly import plainly
from scalewise.torch._rows import PlaceRows, drowned, looks_of, units_of

# Of the operations that are activations, what the theory calls them.
ACTIVATIONS = {
    "relu": "relu", "threshold": "relu", "clamp_min": "relu", "leaky_relu": "leaky_relu", "gelu": "gelu",
    "silu": "swish", "tanh": "tanh", "sigmoid": "sigmoid", "elu": "elu", "softplus": "softplus", "erf": "erf",
    "hardtanh": "hardtanh", "mish": "mish", "sin": "sin",
}  # fmt: skip
_NORMS = frozenset(
    """native_layer_norm native_group_norm native_batch_norm _fused_rms_norm _batch_norm_no_update _rms_norm
    _native_batch_norm_legit_no_training _native_batch_norm_legit cudnn_batch_norm""".split()  # noqa: SIM905
)
_DENSE = frozenset(["mm", "addmm", "bmm", "baddbmm", "mv", "convolution", "embedding"])
_CARRIED = frozenset(
    "clone _to_copy contiguous _unsafe_view copy alias detach to lift_fresh".split()  # noqa: SIM905
)
RANDOM = frozenset(
    """rand randn rand_like randn_like normal uniform bernoulli multinomial randint randperm exponential
    native_dropout""".split()  # noqa: SIM905
)
UNKNOWN_SHAPES = frozenset(
    ["nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive"]
)
_SCALED_BACK = 0.75  # a sum that is multiplied by less than this is not too large


@dataclass(frozen=True)
class Info:
    """Facts about the numbers in one storage.

    Args:
        number: Its own.
        deps: Numbers of all that it was computed from.
        terms: Of which of these it is a sum, and with which factors.
        row: The row behind it, through whatever is no row.
        sum_row: The row of the residual sum that it is, up to a factor.
        after_norm: The row of the residual sum whose norm it is, up to a factor.
        chain: See `Seen.chain`.
        kind: What made it, in a word.
        place: Where.
        last: Whether channels are the last axis.
        factor: The number by which it was multiplied since that sum or the random layer behind it.
        scaled: Whether a number or a parameter multiplies it since the random layer behind it.
        products: Of logits, how many numbers a query has, and the variance over keys of what it gives with them.
        added: The number that was added to a variance.
    """

    number: int
    deps: frozenset[int]
    terms: dict[int, float]
    row: int | None = None
    sum_row: int | None = None
    after_norm: int | None = None
    chain: tuple[int, int] | None = None
    kind: str = ""
    place: str = ""
    last: bool = True
    factor: float = 1.0
    scaled: bool = False
    products: tuple[int, float] | None = None
    added: float = 0.0


class Watch(TorchDispatchMode):
    """Follows what a model computes, and measures it."""

    def __init__(self, model: nn.Module, keep: bool) -> None:
        super().__init__()
        self.stack: list[str] = [""]
        self.rows = PlaceRows(keep)
        self.random: list[str] = []
        self.shapes: list[str] = []
        self.branches: list[str] = []
        self.norms: list[tuple[str, float, float]] = []
        self._normed: set[int] = set()
        self._looked_up: set[int] = set()
        self._known: dict[int, Info] = {}
        self._alive: list[Any] = []
        self._count = 0
        self._parameters = {p.untyped_storage().data_ptr(): n for n, p in model.named_parameters()}

    # What is known of tensors.

    def enter(self, tensor: Tensor) -> None:
        """An input."""
        self._note(tensor, self._new([], "input"))

    def _info(self, own: Any) -> Info | None:
        return (
            self._known.get(own.untyped_storage().data_ptr()) if isinstance(own, Tensor) else None
        )

    def _is_parameter(self, own: Any) -> bool:
        return isinstance(own, Tensor) and own.untyped_storage().data_ptr() in self._parameters

    def _note(self, tensor: Tensor, info: Info) -> None:
        self._alive.append(tensor)
        self._known[tensor.untyped_storage().data_ptr()] = info

    def _new(self, of: list[Info], kind: str) -> Info:
        self._count += 1
        deps = frozenset({self._count}).union(*(i.deps for i in of))
        first = max(of, key=lambda i: -1 if i.row is None else i.row, default=None)
        rows = {i.row for i in of if i.row is not None}
        return Info(
            self._count,
            deps,
            {self._count: 1.0},
            row=None if first is None else first.row,
            chain=first.chain if first is not None and len(rows) == 1 else None,
            kind=kind,
            place=self.stack[-1],
            last=all(i.last for i in of),
            scaled=any(i.scaled for i in of),
            products=next((i.products for i in of if i.products), None),
        )

    # One operation.

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.rows.ask_for_gradients()
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = func._schema.name.rpartition("::")[2]
        changed = name.endswith("_") and not name.startswith("_")
        name = name.rstrip("_") if changed else name
        if name in RANDOM and not (name == "native_dropout" and not args[2]):
            self.random.append(self.stack[-1])
        if name in UNKNOWN_SHAPES:
            self.shapes.append(self.stack[-1])
        if name == "_local_scalar_dense":
            read = self._info(args[0])
            if read is not None and read.row is not None:
                self.branches.append(self.stack[-1])
        first = out[0] if isinstance(out, tuple | list) and out else out
        if not isinstance(first, Tensor) or not first.dtype.is_floating_point:
            if isinstance(first, Tensor) and name not in UNKNOWN_SHAPES:
                self._pass_on(args, kwargs, first)
            return out
        of = [i for i in map(self._info, pytree.tree_leaves((args, kwargs))) if i is not None]
        if not of or (not changed and self._info(first) is not None and name not in _DENSE):
            return out
        self._note(first, self._made(name, args, first, of))
        return out

    def _pass_on(self, args: Any, kwargs: Any, out: Tensor) -> None:
        """Whole numbers that were made of inputs are inputs."""
        of = [i for i in map(self._info, pytree.tree_leaves((args, kwargs))) if i is not None]
        if of and self._info(out) is None:
            self._note(out, self._new(of, "input"))

    def _made(self, name: str, args: Any, out: Tensor, of: list[Info]) -> Info:
        made = self._new(of, name)
        x, own = args[0], self._info(args[0])
        if name in _DENSE:
            return self._random(name, args, out, made, of)
        if name in ("add", "sub") and len(args) > 1:
            return self._sum(args, out, made)
        if name in ("mul", "div") and len(args) > 1:
            return self._product(name, args, made)
        if name in _CARRIED and own is not None:
            return replace(own, number=made.number, deps=made.deps)
        if name in ACTIVATIONS and own is not None:
            self._unit(name, x, out, own)
            return replace(made, sum_row=own.sum_row, factor=own.factor)
        if name in ("rsqrt", "sqrt") and own is not None:
            return replace(made, added=own.added)
        if name in _NORMS or (
            name in ("_softmax", "_safe_softmax") and own is not None and own.kind == "logits"
        ):
            if name in _NORMS:
                return self._norm(own, made, drowned(name, args))
            self._look(x, out, made, own)
            return made
        if name in ("masked_fill", "where") and any(i.kind == "logits" for i in of):
            return replace(made, kind="logits")
        return made

    def _norm(self, own: Info | None, made: Info, eps: tuple[float, float] | None = None) -> Info:
        if own is None:
            return made
        self._normed.add(made.number)
        if eps is not None:
            self.norms.append((self.stack[-1], *eps))
        if own.row is not None and own.kind in (*_DENSE, *_CARRIED):
            uses = self.rows[own.row]
            uses.seen = replace(uses.seen, normed=True)
        return replace(made, chain=None, after_norm=own.sum_row, kind="norm")

    # Rows.

    def _random(self, name: str, args: Any, out: Tensor, made: Info, of: list[Info]) -> Info:
        operands = args[:2]
        if name in ("addmm", "baddbmm"):
            operands = args[1:3]
        weight = next((t for t in operands if self._is_parameter(t)), None)
        read = next((t for t in operands if not self._is_parameter(t)), None)
        below = self._info(read)
        if weight is None or below is None:
            if name not in ("bmm", "baddbmm") or len(of) < 2:
                return replace(made, kind=name, chain=None)
            variance = float(out.detach().float().var(-1, unbiased=False).mean())
            found = (operands[0].shape[-1], variance)
            return replace(made, kind="logits", chain=None, products=found)
        storage = weight.untyped_storage().data_ptr()
        lookup = name == "embedding"
        drawn = _drawn(name, weight, args, read, lookup)
        if lookup:
            self._looked_up.add(storage)
        drawn = replace(drawn, tied=not lookup and storage in self._looked_up)
        what = "embedding" if lookup else "convolution" if name == "convolution" else "linear"
        size = (
            None if lookup or read is None else float(read.detach().float().square().mean()) ** 0.5
        )
        silent = None
        if size == 0:
            silent = "the inputs" if below.kind == "input" else below.place or "the model"
        key = (self.stack[-1], storage, weight.storage_offset())
        chain = (
            (below.chain[0], below.chain[1] + 1)
            if below.chain and not lookup
            else (self.rows.index(key), 1)
        )
        seen = Seen(self.stack[-1], what, 0.0, reads=size, silent=silent, chain=chain, drawn=drawn)
        last = name != "convolution"
        index = self.rows.add(key, seen, out, last=last, of=made.deps - {made.number})
        return replace(made, row=index, chain=chain, kind=name, last=last, scaled=False)

    def _sum(self, args: Any, out: Tensor, made: Info) -> Info:
        a, b = (self._info(t) for t in args[:2])
        if a is None or b is None or not isinstance(args[1], Tensor):
            own = a or b
            assert own is not None
            other = args[1] if own is a else args[0]
            if (
                self._is_parameter(other)
                and own.kind in (*_DENSE, *_CARRIED)
                and own.row is not None
            ):
                self._biased(own.row, args[0] if own is a else args[1], out)
            added = 0.0 if isinstance(other, Tensor) else own.added + float(other)
            return replace(own, number=made.number, deps=made.deps, added=added)
        if "logits" in (a.kind, b.kind):
            return replace(made, kind="logits")
        terms = dict(a.terms)
        for k, v in b.terms.items():
            terms[k] = terms.get(k, 0.0) + v
        if len(terms) > 256:
            terms = {made.number: 1.0}
        shared = a.terms.keys() & b.terms.keys()
        doubled = any(
            abs(terms[k]) > 1.5 * max(abs(a.terms[k]), abs(b.terms[k]))
            for k in shared
            if k in terms
        )
        skip = None
        if doubled or a.terms.keys() & self._drawn_from(b):
            skip = (args[0], a, args[1])
        elif b.terms.keys() & self._drawn_from(a):
            skip = (args[1], b, args[0])
        if skip is None or args[0].shape != args[1].shape:
            kind = "function" if a.row == b.row else "plain sum"
            return replace(made, terms=terms, kind=kind)
        past, info, branch = skip
        before = info.sum_row if info.sum_row is not None else info.after_norm
        joined = Joined(
            _size(past), _size(branch), before, info.sum_row is None and before is not None, doubled,
            info.row if before is None else None, inner=bool((made.deps - info.deps) & self._normed),
            factor=1.0 if info.sum_row is None else info.factor,
        )  # fmt: skip
        place = self.stack[-1]
        key = (place, "sum", self.rows.count(place, "sum"), tuple(out.shape))
        seen = Seen(place, "sum", 0.0, joined=joined)
        index = self.rows.add(key, seen, out, last=info.last, of=made.deps - {made.number})
        return replace(
            made, terms=terms, row=index, sum_row=index, chain=None, kind="sum", last=info.last
        )

    def _drawn_from(self, own: Info) -> frozenset[int]:
        """The inputs of the random layer or sum behind a tensor."""
        return frozenset() if own.row is None else self.rows.behind(own.row)

    def _biased(self, index: int, before: Tensor, after: Tensor) -> None:
        """A bias that is added by itself belongs to its layer."""
        self.rows.measure(index, before, -1)
        self.rows.measure(index, after, 1)

    def _product(self, name: str, args: Any, made: Info) -> Info:
        a, b = (self._info(t) for t in args[:2])
        if a is not None and b is not None:
            for own, other, x, root in ((a, b, *args[:2]), (b, a, args[1], args[0])):
                if (
                    other.kind in ("rsqrt", "sqrt", "reciprocal", "linalg_vector_norm")
                    and own.number in other.deps
                    and root.numel() < x.numel()
                ):
                    return self._norm(own, made, drowned(other.kind, (root, other.added)))
            return made
        own = a or b
        assert own is not None
        other = args[1] if own is a else args[0]
        if isinstance(other, Tensor) and other.numel() > 1:
            if own.kind == "norm":
                return replace(made, kind="norm", after_norm=own.after_norm)
            return replace(made, scaled=made.scaled or other.requires_grad)
        factor = float(other.detach()) if isinstance(other, Tensor) else float(other)
        factor = factor if name == "mul" else 1 / factor if factor else 0.0
        if own.sum_row is not None and abs(factor) <= _SCALED_BACK:
            row = self.rows[own.sum_row]
            if row.seen.joined is not None:
                row.seen = replace(row.seen, joined=replace(row.seen.joined, doubled=False))
        terms = {k: factor * v for k, v in own.terms.items()}
        return replace(
            own,
            number=made.number,
            deps=made.deps,
            terms=terms,
            factor=own.factor * factor,
            scaled=own.scaled or abs(factor) != 1,
        )

    def _unit(self, name: str, x: Tensor, out: Tensor, own: Info) -> None:
        if own.row is None or (own.kind in ("logits", "norm") and name == "sigmoid"):
            return
        uses = self.rows[own.row]
        if uses.seen.units is not None and uses.count > 1:
            return
        units = replace(units_of(ACTIVATIONS[name], x, out, own.last), factor=own.factor)
        if own.kind in (*_DENSE, *_CARRIED, "plain sum", "norm", "sum"):
            uses.seen = replace(uses.seen, units=units)

    def _look(self, logits: Tensor, weights: Tensor, made: Info, own: Info | None) -> None:
        looks = looks_of(logits.detach().float(), weights.detach().float())
        if looks is None:
            return
        if own is not None and own.products is not None:
            head, variance = own.products
            looks = replace(looks, head=head, unscaled=None if own.scaled else variance)
        place = self.stack[-1]
        key = (place, "attention", self.rows.count(place, "attention"))
        seen = Seen(place, "attention", 0.0, looks=looks)
        self.rows.add(key, seen, weights, last=True, of=made.deps - {made.number})


def _size(tensor: Tensor) -> float:
    return float(tensor.detach().float().square().mean()) ** 0.5


def _drawn(name: str, weight: Tensor, args: Any, read: Any, lookup: bool) -> Drawn:
    values = weight.detach().float()
    variance = float(values.square().mean())
    if lookup:
        return Drawn(1, weight.shape[1], variance, True)
    if name == "convolution":
        window = math.prod(weight.shape[2:])
        groups = int(args[8])
        into, out = weight.shape[1] * window, weight.shape[0] * window // groups
        if args[6]:  # transposed
            into, out = weight.shape[0] * window // groups, weight.shape[1] * window
        return Drawn(into, out, variance * into)
    into = read.shape[-1]
    return Drawn(into, max(1, weight.numel() // into), variance * into)


@contextmanager
def watching(model: nn.Module, keep: bool = False) -> Iterator[Watch]:
    """Watch a model that is called inside."""
    watch, hooks = Watch(model, keep), []
    for name, module in model.named_modules():

        def enter(*_: Any, name: str = name) -> None:
            watch.stack.append(name)

        def leave(*_: Any) -> None:
            watch.stack.pop()

        hooks += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]
    try:
        with plainly(), watch:
            yield watch
            watch.rows.ask_for_gradients()
    finally:
        for hook in hooks:
            hook.remove()
