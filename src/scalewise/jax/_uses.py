"""Which axes of which tensor an equation of jax sums over, multiplies or adds, through every view of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from scalewise.plan.spi import Use, by_tensor

_ADDING = frozenset(["add", "add_any", "sub", "concatenate", "select_n", "dynamic_update_slice"])
# What leaves the axes of an array as they are, whatever it does to their entries and lengths.
_KEEPS = frozenset(
    """convert_element_type copy copy_p reduce_precision optimization_barrier sharding_constraint device_put name
    slice dynamic_slice rev pad stop_gradient""".split()  # noqa: SIM905
)
_Axes = frozenset[int]
_NONE: _Axes = frozenset()


@dataclass(frozen=True)
class View:
    """A tensor of the model as an equation is given it.

    Args:
        name: Its name.
        axes: Which of its axes each axis runs over.
        product: Number of the use that multiplied it with activations entry by entry; negative of itself.
    """

    name: str
    axes: tuple[_Axes, ...]
    product: int = -1


class TensorUses:
    """The trace of what equations do with the tensors of a model."""

    def __init__(self) -> None:
        self._found: list[tuple[str, Use]] = []

    def uses(self) -> dict[str, frozenset[Use]]:
        """By name of tensor, all ways in which it was used."""
        return by_tensor(self._found)

    def see(self, eqn: Any, views: Sequence[View | None], data: Sequence[bool]) -> View | None:
        """Take note of one equation.

        Args:
            eqn: The equation.
            views: Tensors among its arguments.
            data: Which of its arguments depend on the model's input.

        Returns:
            The view of a tensor that its result is, if it is one.
        """
        name = eqn.primitive.name
        # Of a layer that a loop goes through its axes are not those of the tensor.
        seen = [
            (i, v)
            for i, v in enumerate(views)
            if v is not None and len(v.axes) == len(eqn.invars[i].aval.shape)
        ]
        if len(seen) == 1 and (moved := _moved(eqn, *seen[0], data)) is not None:
            return moved
        if not any(data):
            return self._of_tensors(eqn, [(i, v) for i, v in seen if v.product < 0])
        found = None
        for i, v in seen:
            if v.product >= 0:
                self._perhaps_summed(eqn, v)
            elif name in ("dot_general", "conv_general_dilated"):
                self._contracted(eqn, i, v)
            elif name in _ADDING:
                self._found.append((v.name, Use("added")))
            elif name == "mul" or (name == "div" and i == 1):
                self._found.append((v.name, Use("multiplied")))
                found = replace(v, product=len(self._found) - 1)
            elif name in ("gather", "dynamic_slice") and i == 0:
                self._found.append((v.name, Use("picked", (0,))))
            else:
                self._found.append((v.name, Use("other")))
        return found

    def _of_tensors(self, eqn: Any, seen: list[tuple[int, View]]) -> View | None:
        """The result of tensors alone: one of them in another form, or a matrix of two, or a size."""
        shape = eqn.outvars[0].aval.shape
        if eqn.primitive.name in ("dot_general", "conv_general_dilated"):
            self._found += [(v.name, Use("other")) for _, v in seen]
            return None
        alike = [(i, v) for i, v in seen if eqn.invars[i].aval.shape == shape]
        if len(alike) == len(seen) == 2 and seen[0][1] == seen[1][1]:
            # A tensor with itself, as in a square.
            return seen[0][1]
        # A gain runs over some of the axes that a whole tensor has.
        whole = [
            (i, v) for i, v in alike if all(a for a, n in zip(v.axes, shape, strict=True) if n > 1)
        ]
        if len(whole) == len(seen) == 1:
            return whole[0][1]
        if len(whole) == 1 and eqn.primitive.name in ("mul", "div"):
            self._found += [(v.name, Use("multiplied")) for _, v in seen if v is not whole[0][1]]
            return whole[0][1]
        if len(alike) > 1:
            self._found += [(v.name, Use("other")) for _, v in seen]
        return None

    def _contracted(self, eqn: Any, place: int, view: View) -> None:
        axes, of = summed_axes(eqn, place, view), _NONE
        if eqn.primitive.name == "dot_general":
            batch = eqn.params["dimension_numbers"][1][place]
            of = _NONE.union(*(view.axes[i] for i in batch))
        elif not axes:
            self._found.append((view.name, Use("other")))
            return
        self._found.append((view.name, Use("summed", tuple(sorted(axes)), tuple(sorted(of)))))

    def _perhaps_summed(self, eqn: Any, view: View) -> None:
        """A sum of products entry by entry is a matrix too."""
        if eqn.primitive.name == "reduce_sum":
            axes = _NONE.union(*(view.axes[i] for i in eqn.params["axes"]))
            if axes:
                self._found[view.product] = (view.name, Use("summed", tuple(sorted(axes))))


def summed_axes(eqn: Any, place: int, view: View | None) -> frozenset[int]:
    """Axes of a tensor that a product or a convolution sums over; none where they are not known."""
    if view is None or len(view.axes) != len(eqn.invars[place].aval.shape):
        return _NONE
    if eqn.primitive.name == "dot_general":
        own = eqn.params["dimension_numbers"][0][place]
    elif place == 1 and eqn.params["feature_group_count"] == 1:
        own = eqn.params["dimension_numbers"].rhs_spec[1:]
    else:
        return _NONE
    return _NONE.union(*(view.axes[i] for i in own))


def _moved(eqn: Any, place: int, view: View, data: Sequence[bool]) -> View | None:
    """The view that an equation makes of another by moving its axes about; ``None`` if it does more."""
    name, p, shape = eqn.primitive.name, eqn.params, eqn.outvars[0].aval.shape
    if place != 0 or any(data[1:]):
        return None
    if name in _KEEPS or (name == "mul" and view.product >= 0):
        return view
    if name == "transpose":
        return replace(view, axes=tuple(view.axes[i] for i in p["permutation"]))
    if name == "squeeze":
        gone = {d % len(view.axes) for d in p["dimensions"]}
        return replace(view, axes=tuple(a for i, a in enumerate(view.axes) if i not in gone))
    if name == "broadcast_in_dim":
        found = dict(zip(p["broadcast_dimensions"], view.axes, strict=True))
        return replace(view, axes=tuple(found.get(i, _NONE) for i in range(len(shape))))
    if name == "reshape":
        return replace(view, axes=_regrouped(eqn.invars[0].aval.shape, view.axes, shape))
    return None


def _regrouped(old: Sequence[int], axes: Sequence[_Axes], new: Sequence[int]) -> tuple[_Axes, ...]:
    """The axes that each axis of a reshaped array runs over: those whose stretch in memory it meets."""

    def stretches(shape: Sequence[int]) -> list[tuple[int, int]]:
        out, stride = [], 1
        for n in reversed(shape):
            out.append((stride, stride * n))
            stride *= n
        return out[::-1]

    both = list(zip(stretches(old), axes, strict=True))
    return tuple(
        _NONE.union(*(a for (low, high), a in both if low < end and start < high))
        for start, end in stretches(new)
    )
