"""Which axes of which parameter an operation sums over, multiplies or adds, through every view of it.

A view is known by the memory it shares: an axis of it runs over those axes of the parameter whose strides lie in
the stretch that it covers. What is computed from a parameter alone, entry by entry, counts as the parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from scalewise.plan.spi import Use, bare, by_tensor
from scalewise.torch._nested import tensors_in

_ADDING = frozenset(
    """add sub rsub where cat stack copy masked_fill index_put lerp
    cdist _cdist_forward _euclidean_dist""".split()  # noqa: SIM905
)
# By operation: where its two factors stand.
_FACTORS = {
    "mm": 0,
    "bmm": 0,
    "mv": 0,
    "dot": 0,
    "_grouped_mm": 0,
    "grouped_mm_fallback": 0,
    "addmm": 1,
    "baddbmm": 1,
    "addbmm": 1,
    "addmv": 1,
}

_Axes = frozenset[int]
_NONE: _Axes = frozenset()


@dataclass(frozen=True)
class _Held:
    """A piece of memory that holds a parameter, or what was made of it.

    Args:
        name: The parameter's.
        layout: Stride in bytes, size, and the parameter's axes, of each axis.
        picked: Axes of which an index has picked.
    """

    name: str
    layout: tuple[tuple[int, int, _Axes], ...]
    picked: _Axes = _NONE


@dataclass(frozen=True)
class _View:
    """A parameter as an operation is given it: which of its axes each axis runs over."""

    name: str
    axes: tuple[_Axes, ...]
    picked: _Axes = _NONE


class UseTrace:
    """The trace of what operations do with the parameters of a model.

    Args:
        model: The model; uses are told by the names of its parameters.
    """

    def __init__(self, model: nn.Module) -> None:
        self._memory: dict[int, _Held] = {}
        self._kept: list[Tensor] = []
        self._found: list[tuple[str, Use]] = []
        self._products: dict[int, tuple[int, _View]] = {}
        for name, p in model.named_parameters():
            single = tuple(frozenset([i]) for i in range(p.ndim))
            self._hold(p, _View(bare(name, ()), single))

    def uses(self) -> dict[str, frozenset[Use]]:
        """By name of parameter, all ways in which it was used."""
        return by_tensor(self._found)

    def see(
        self, operation: str, args: tuple[Any, ...], out: Any, fixed: Callable[[Tensor], bool]
    ) -> None:
        """Take note of one operation.

        Args:
            operation: Its name, without the mark of one in place.
            args: What it was given.
            out: What it returned.
            fixed: Whether a tensor is made of the model's parameters alone.
        """
        tensors = tensors_in(args)
        if operation == "mul" and len(tensors) == 2 and tensors[0] is tensors[1]:
            # Entry by entry a tensor times itself is its square.
            tensors = tensors[:1]
        seen = [(t, v) for t in tensors if (v := self._view(t)) is not None]
        if not seen:
            self._perhaps_summed(operation, args)
            return
        results = tensors_in(out)
        if all(self._view(t) is not None for t in results):
            return
        if len(seen) == 1 and self._derived(operation, args, tensors, seen[0][1], results, fixed):
            return
        if self._of_parameters(operation, args, seen, results, all(map(fixed, tensors))):
            return
        if operation in _FACTORS:
            first = _FACTORS[operation]
            self._contracted(args[first], args[first + 1])
            seen = [(t, v) for t, v in seen if t is not args[first] and t is not args[first + 1]]
            operation = "add"
        elif operation == "convolution" and not args[6]:
            if (kernel := self._view(args[1])) is not None:
                self._sums(kernel, kernel.axes[1:])
            seen = [(t, v) for t, v in seen if t is not args[1]]
            operation = "add"
        for t, view in seen:
            if operation == "addcmul":
                self._found.append((view.name, Use("added" if t is args[0] else "multiplied")))
                continue
            self._plain(operation, view, alone=len(seen) == 1, result=results)

    def over(self, tensor: Tensor, axis: int) -> frozenset[int]:
        """The axes of a parameter that an axis of a tensor runs over; none of other tensors."""
        view = self._view(tensor)
        return _NONE if view is None or len(view.axes) < -axis else view.axes[axis]

    def _plain(self, operation: str, view: _View, *, alone: bool, result: list[Tensor]) -> None:
        if view.picked and operation != "mul":
            # Rows that were picked are activations, whatever becomes of them.
            self._found.append((view.name, Use("picked", tuple(sorted(view.picked)))))
        elif operation in _ADDING:
            self._found.append((view.name, Use("added")))
        elif operation == "mul" and alone:
            picked = tuple(sorted(view.picked))
            self._found.append((view.name, Use("picked", picked) if picked else Use("multiplied")))
            self._kept.append(result[0])
            self._products[id(result[0])] = (len(self._found) - 1, view)
        elif "norm" in operation and not operation.startswith("linalg"):
            self._found.append((view.name, Use("multiplied")))
        else:
            self._found.append((view.name, Use("other")))

    def _perhaps_summed(self, operation: str, args: tuple[Any, ...]) -> None:
        """A sum of products entry by entry is a matrix too."""
        if operation not in ("sum", "mean") or id(args[0]) not in self._products:
            return
        summand, *rest = args
        place, view = self._products[id(summand)]
        dims = rest[0] if rest and rest[0] else range(summand.ndim)
        dims = [dims] if isinstance(dims, int) else dims
        behind = [d - summand.ndim if d >= 0 else d for d in dims]
        axes = _NONE.union(*(view.axes[d] for d in behind if d >= -len(view.axes)))
        if axes:
            of = tuple(sorted(view.picked))
            self._found[place] = (view.name, Use("summed", tuple(sorted(axes)), of))

    def _contracted(self, one: Tensor, two: Tensor) -> None:
        a, b = self._view(one), self._view(two)
        if a is not None and a.picked and b is not None and not b.picked:
            # Rows that were picked are activations.
            self._found.append((a.name, Use("picked", tuple(sorted(a.picked)))))
            a = None
        if a is not None and b is not None:
            # The second reads rows of the first, or the two make a matrix: which of these, its module tells.
            read = tuple(sorted(_NONE.union(*(b.axes[-2:-1] or b.axes))))
            self._found += [(a.name, Use("other", read, by=b.name)), (b.name, Use("other"))]
        elif a is not None:
            self._sums(a, a.axes[-1:])
        elif b is not None:
            self._sums(b, b.axes[-2:-1] if len(b.axes) > 1 else b.axes)

    def _sums(self, view: _View, over: Iterable[_Axes]) -> None:
        axes, of = _NONE.union(*over), tuple(sorted(view.picked))
        self._found.append((view.name, Use("summed", tuple(sorted(axes)), of)))

    def _derived(
        self,
        operation: str,
        args: tuple[Any, ...],
        tensors: list[Tensor],
        view: _View,
        results: list[Tensor],
        fixed: Callable[[Tensor], bool],
    ) -> bool:
        """True if the results are the parameter in another form; they are then known as such."""
        weight = next(t for t in tensors if self._view(t) is not None)
        others = [t for t in tensors if t is not weight]
        if (
            operation in ("index", "index_select", "embedding")
            and args[0] is weight
            and len(results) == 1
        ):
            rows = self._first_picked(operation, args, weight, results[0])
            if rows is None:
                return False
            picked = view.picked | view.axes[0]
            axes = ((view.axes[0],) * rows) + view.axes[1:]
            self._hold(results[0], _View(view.name, axes, picked))
            return True
        if operation == "repeat" and len(results) == 1:
            again = (_NONE,) * (results[0].ndim - weight.ndim)
            self._hold(results[0], _View(view.name, again + view.axes, view.picked))
            return True
        if "upsample" in operation and len(results) == 1:
            # Positions brought to an image of another size.
            self._hold(results[0], view)
            return True
        alike = all(t.shape == weight.shape for t in results)
        # A magnitude over the norm of another parameter is a magnitude.
        entrywise = operation == "mul" or (operation == "div" and args[0] is weight)
        large = [t for t in others if t.numel() > 1]
        if not alike or (large and not (entrywise and all(map(fixed, large)))):
            return False
        for t in results:
            self._hold(t, view)
        return True

    def _of_parameters(
        self,
        operation: str,
        args: tuple[Any, ...],
        seen: list[tuple[Tensor, _View]],
        results: list[Tensor],
        alone: bool,
    ) -> bool:
        """True if parameters alone make a size of one, which is no use of it, or a gain meets a whole matrix."""
        if not alone or len(results) != 1 or operation in _FACTORS:
            return False
        if len(seen) == 1:
            return results[0].numel() < seen[0][0].numel()
        whole = [(t, v) for t, v in seen if t.shape == results[0].shape]
        if operation not in ("mul", "div") or len(seen) != 2 or len(whole) != 1:
            return False
        if operation == "div" and args[0] is not whole[0][0]:
            return False
        gain = next(v for t, v in seen if t is not whole[0][0])
        self._found.append((gain.name, Use("multiplied")))
        self._hold(results[0], whole[0][1])
        return True

    def _first_picked(
        self, operation: str, args: tuple[Any, ...], weight: Tensor, result: Tensor
    ) -> int | None:
        """How many axes of the result stand for the first of the parameter; nothing if others were picked."""
        if operation == "index":
            single = len(args[1]) == 1 and args[1][0] is not None
            rest = single and args[1][0].dtype.itemsize > 1
        else:
            rest = operation == "embedding" or args[1] == 0
        return result.ndim - weight.ndim + 1 if rest else None

    def _view(self, tensor: Any) -> _View | None:
        if not isinstance(tensor, Tensor):
            return None
        held = self._memory.get(_key(tensor))
        if held is None:
            return None
        axes = tuple(
            _NONE.union(*(a for s, n, a in held.layout if _overlap(stride, size, s, n)))
            for stride, size in zip(_strides(tensor), tensor.shape, strict=True)
        )
        return _View(held.name, axes, held.picked)

    def _hold(self, tensor: Tensor, view: _View) -> None:
        # What is gone would give its place in memory to another.
        self._kept.append(tensor)
        layout = tuple(zip(_strides(tensor), tensor.shape, view.axes, strict=True))
        self._memory.setdefault(_key(tensor), _Held(view.name, layout, view.picked))


def _key(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _strides(tensor: Tensor) -> list[int]:
    """In bytes: real numbers may be viewed as complex ones, and back."""
    return [n * tensor.element_size() for n in tensor.stride()]


def _overlap(stride: int, size: int, other: int, length: int) -> bool:
    """True if two axes of one memory run over entries of each other."""
    if size <= 1 or length <= 1 or not stride or not other:
        return False
    return stride < other * length and other < stride * size
