"""Tensors that read out in no module of their own, watched where the model's code multiplies with them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from scalewise.torch._nested import tensors_in

_PRODUCTS = frozenset(
    """linear matmul __matmul__ __rmatmul__ mm bmm mv einsum tensordot addmm baddbmm conv1d conv2d conv3d
    conv_transpose1d conv_transpose2d conv_transpose3d""".split()  # noqa: SIM905
)
# What these add to their product comes first.
_SUMS = frozenset(["addmm", "baddbmm"])


@runtime_checkable
class Heard(Protocol):
    """The listener to each product."""

    def __call__(self, name: str, given: Tensor, returned: Tensor, was: Tensor | None) -> None:
        """A tensor by name, what it was multiplied with, the product, and that with its earlier entries."""
        ...


class BareReadouts(TorchFunctionMode):
    """Tells of every product that a tensor, or a view of it, has a part in.

    Args:
        tensors: Those to listen to, by name.
        old: Their earlier entries, as far as there are any.
        alone: Silences other listeners; false where somebody else is at work.
        heard: Called after each product.
    """

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        old: Mapping[str, Tensor],
        alone: Any,
        heard: Heard,
    ) -> None:
        super().__init__()
        self._tensors, self._old, self._alone, self._heard = tensors, old, alone, heard
        # What was computed from one of them alone, by number, kept so that no number is given twice.
        self._made: dict[int, tuple[Tensor, str, Tensor | None]] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if not isinstance(out, Tensor):
            return out
        if name not in _PRODUCTS:
            self._follow(func, args, kwargs, out)
            return out
        factors = list(tensors_in((args, kwargs)))[name in _SUMS :]
        for label, tensor in self._tensors.items():
            mine = next((t for t in factors if _is_view(t, tensor)), None)
            given = next((t for t in factors if t is not mine), None)
            if mine is not None and given is not None:
                self._tell(label, func, (args, kwargs), (mine, tensor), (given, out))
        for mine in factors:
            made = self._made.get(id(mine))
            given = next((t for t in factors if t is not mine), None)
            if made is not None and given is not None:
                self._tell(made[1], func, (args, kwargs), (mine, mine), (given, out), made[2])
        return out

    def _follow(self, func: Any, args: Any, kwargs: Any, out: Tensor) -> None:
        """A readout divided by its length, or times a learnt number, is one still."""
        given = list(tensors_in((args, kwargs)))
        found = [(t, *self._known(t)) for t in given]
        labels = {label for _, label, _ in found if label}
        if len(labels) != 1 or not all(
            label or isinstance(t, Parameter) or t.numel() == 1 for t, label, _ in found
        ):
            return
        (label,) = labels
        before = {id(t): was for t, name, was in found if name and was is not None}
        was = None
        if before:
            one, two = pytree.tree_map(lambda x: before.get(id(x), x), (args, kwargs))
            with self._alone() as first, torch.no_grad():
                was = func(*one, **two) if first else None
        self._made[id(out)] = out, label, was

    def _known(self, tensor: Tensor) -> tuple[str, Tensor | None]:
        """The readout that a tensor shows or was computed from, and the same of its earlier entries."""
        if id(tensor) in self._made:
            _, label, was = self._made[id(tensor)]
            return label, was
        for label, one in self._tensors.items():
            if _is_view(tensor, one):
                was = self._old.get(label)
                return label, None if was is None else _viewed(was, tensor, one)
        return "", None

    def _tell(
        self,
        label: str,
        func: Any,
        arguments: tuple[Any, Any],
        pair: tuple[Tensor, Tensor],
        seen: tuple[Tensor, Tensor],
        before: Tensor | None = None,
    ) -> None:
        silence: AbstractContextManager[bool] = self._alone()
        with silence as first:
            if not first:
                return
            was, (view, tensor) = self._old.get(label), pair
            if was is not None:
                before = _viewed(was, view, tensor) if before is None else before
                args, kwargs = pytree.tree_map(lambda x: before if x is view else x, arguments)
                with torch.no_grad():
                    was = func(*args, **kwargs)
            self._heard(label, *seen, was)


def _is_view(one: Tensor, of: Tensor) -> bool:
    """True if a tensor is another, or shows a part of its memory."""
    if one is of:
        return True
    if one.device != of.device or one.dtype != of.dtype or one.layout != torch.strided:
        return False
    if one.untyped_storage().data_ptr() != of.untyped_storage().data_ptr():
        return False
    # Several tensors may lie in one memory, as in a flat buffer.
    return 0 <= one.storage_offset() - of.storage_offset() < of.numel()


def _viewed(was: Tensor, view: Tensor, of: Tensor) -> Tensor:
    """Other entries in the view that a tensor is."""
    if was.stride() != of.stride():
        was = torch.empty_strided(of.size(), of.stride(), dtype=of.dtype).copy_(was)
    offset = view.storage_offset() - of.storage_offset() + was.storage_offset()
    return was.as_strided(view.size(), view.stride(), offset)
