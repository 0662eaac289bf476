"""Numbers that a traced function computes from no input of its own, found only when one is asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

# Below so many entries it is looked whether they are all one number.
_FEW = 1 << 16
# What leaves entries that are all the same as they are, whatever happens to the shape.
_SAME = frozenset(
    """broadcast_in_dim reshape squeeze expand_dims transpose convert_element_type copy slice rev reduce_precision
    stop_gradient dynamic_slice gather reduce_max reduce_min""".split()  # noqa: SIM905
)
_ENTRYWISE: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "pow": np.power,
    "max": np.maximum,
    "min": np.minimum,
    "square": np.square,
    "abs": np.abs,
}
_LOOPS = frozenset(["scan", "while", "cond"])


class Constant:
    """An array that does not depend on what the function is called with."""

    @cached_property
    def entry(self) -> float | None:
        """The number that all its entries are, if they are all the same."""
        return self._entry()

    def _entry(self) -> float | None:
        raise NotImplementedError

    def array(self) -> Any:
        """The array itself."""
        raise NotImplementedError


class Given(Constant):
    """One that the function holds."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def _entry(self) -> float | None:
        kind = getattr(self._value, "dtype", None)
        if kind is not None and jnp.issubdtype(kind, jax.dtypes.extended):
            return None
        if np.size(self._value) > _FEW or not np.size(self._value):
            return None
        entries = np.ravel(np.asarray(self._value))
        if np.iscomplexobj(entries):
            return None
        first = float(entries[0])
        return first if bool((entries == entries[0]).all()) else None

    def array(self) -> Any:
        return self._value


class Zeros(Constant):
    """One of zeros, as a product with such an array."""

    def __init__(self, like: Any) -> None:
        self._like = like

    def _entry(self) -> float:
        return 0.0

    def array(self) -> Any:
        return jnp.zeros(self._like.shape, self._like.dtype)


@dataclass(frozen=True, eq=False)
class Computed(Constant):
    """One that an equation computes from others.

    Args:
        eqn: The equation.
        inputs: What it computes from.
        index: Which of its results this is.
    """

    eqn: Any
    inputs: Sequence[Constant]
    index: int = 0

    def _entry(self) -> float | None:
        name, entry = self.eqn.primitive.name, None
        body = inner(self.eqn)
        if body is not None:
            return _results(body, self.inputs)[self.index].entry
        if name in _SAME:
            entry = self.inputs[0].entry
        elif name in _ENTRYWISE or name == "integer_pow":
            entries = [c.entry for c in self.inputs]
            numbers = [e for e in entries if e is not None]
            if len(numbers) == len(entries):
                act = _ENTRYWISE.get(name, lambda x: x ** float(self.eqn.params["y"]))
                with np.errstate(all="ignore"):
                    entry = float(act(*map(np.float64, numbers)))
        elif name == "reduce_sum" and self.inputs[0].entry is not None:
            sizes = self.eqn.invars[0].aval.shape
            entry = self.inputs[0].entry * math.prod(sizes[i] for i in self.eqn.params["axes"])
        if entry is None and self.eqn.outvars[self.index].aval.size == 1:
            entry = Given(self.array()).entry
        return entry

    def array(self) -> Any:
        with jax.ensure_compile_time_eval():
            out = self.eqn.primitive.bind(*(c.array() for c in self.inputs), **self.eqn.params)
        return out[self.index] if self.eqn.primitive.multiple_results else out


def inner(eqn: Any) -> ClosedJaxpr | None:
    """The function that an equation calls once, on its own inputs and for its own results."""
    if eqn.primitive.name in _LOOPS:
        return None
    for value in eqn.params.values():
        body = ClosedJaxpr(value, ()) if isinstance(value, Jaxpr) else value
        if isinstance(body, ClosedJaxpr):
            shapes = [v.aval.shape for v in body.jaxpr.invars]
            alike = shapes == [v.aval.shape for v in eqn.invars]
            if alike and len(body.jaxpr.outvars) == len(eqn.outvars):
                return body
    return None


def _results(body: ClosedJaxpr, inputs: Sequence[Constant]) -> list[Constant]:
    known: dict[Any, Constant] = dict(zip(body.jaxpr.invars, inputs, strict=True))
    known |= zip(body.jaxpr.constvars, map(Given, body.consts), strict=True)

    def read(v: Any) -> Constant:
        return Given(v.val) if isinstance(v, Literal) else known[v]

    for eqn in body.jaxpr.eqns:
        given = [read(v) for v in eqn.invars]
        for i, v in enumerate(eqn.outvars):
            known[v] = Computed(eqn, given, i)
    return [read(v) for v in body.jaxpr.outvars]
