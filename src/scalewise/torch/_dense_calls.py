r"""Calls of dense layers, seen while a model of PyTorch runs: derivatives by their weights are outer products.

Of $y_t=Wx_t$ at positions $t$ of one sample, with $d_{r;t}=dz_r/dy_t$,

$$\frac{dz_r}{dW}=\sum_td_{r;t}x_t^T.$$

A call is known by the tensor that it gets, whatever the module is called: `torch.nn.functional.linear`,
`torch.addmm`, products with a matrix, and `torch.nn.functional.embedding`, whose inputs are unit vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

_PRODUCTS = (torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.mm, torch.Tensor.mm)


class DenseCall(NamedTuple):
    """A call.

    Args:
        name: The parameter.
        kind: ``"linear"`` for $Wx$, ``"across"`` for $xW$, ``"words"`` for an embedding.
        x: What the layer reads: numbers (..., features), or words.
        shape: Of what it returns.
        dtype: The same.
    """

    name: str
    kind: str
    x: torch.Tensor
    shape: torch.Size
    dtype: torch.dtype


class DenseCalls(TorchFunctionMode):
    """While it is entered, weights in calls of dense layers are constants, and what the layers return is shifted.

    Args:
        names: Of parameters, by ``id``.
        shifts: Added to what calls return, in turn: derivatives by these are $d$. None are by default.
    """

    def __init__(
        self, names: Mapping[int, str], shifts: Sequence[torch.Tensor] | None = None
    ) -> None:
        super().__init__()
        self._names, self._shifts = names, shifts
        self.calls: list[DenseCall] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run what the model calls."""
        given = dict(kwargs or {})
        found = _dense(func, args, given) if self._names else None
        name = found and self._names.get(id(found[2]))
        if not found or name is None:
            return func(*args, **given)
        kind, x, weight = found
        args = tuple(weight.detach() if a is weight else a for a in args)
        given = {key: weight.detach() if a is weight else a for key, a in given.items()}
        y = func(*args, **given)
        self.calls.append(DenseCall(name, kind, x, y.shape, y.dtype))
        return y if self._shifts is None else y + self._shifts[len(self.calls) - 1]


def _dense(
    func: Callable[..., Any], args: tuple[Any, ...], given: Mapping[str, Any]
) -> tuple[str, torch.Tensor, torch.Tensor] | None:
    """Kind, inputs and weight of a call that is one of a dense layer."""
    if func is torch.nn.functional.linear:
        both = (*args, *(given[k] for k in ("input", "weight") if k in given))[:2]
        return ("linear", *both) if len(both) == 2 else None
    if func is torch.addmm:
        return ("across", args[1], args[2]) if len(args) == 3 and not given else None
    if func in _PRODUCTS:
        return ("across", *args) if len(args) == 2 and args[1].ndim == 2 else None
    if func is torch.nn.functional.embedding and len(args) >= 2:
        names = ("padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse")
        more = {**dict(zip(names, args[2:], strict=False)), **given}
        # The gradient of a padded row is left out, and rows may be rescaled: those are left to autograd.
        plain = more.get("padding_idx") is None and more.get("max_norm") is None
        return ("words", *args[:2]) if plain and not more.get("scale_grad_by_freq") else None
    return None
