"""Evenly spread numbers of the law of an array: its equations, entry by entry, from evenly spread random bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal
from scipy import special

from scalewise.jax._numbers import inner

_POINTS = 1 << 17
_MOVED = frozenset(
    """reshape transpose broadcast_in_dim squeeze expand_dims copy copy_p stop_gradient slice rev
    optimization_barrier""".split()  # noqa: SIM905
)
_ENTRYWISE: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "max": np.maximum,
    "min": np.minimum,
    "sqrt": np.sqrt,
    "square": np.square,
    "exp": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "abs": np.abs,
    "sign": np.sign,
    "floor": np.floor,
    "tanh": np.tanh,
    "cos": np.cos,
    "sin": np.sin,
    "pow": np.power,
    "lt": np.less,
    "gt": np.greater,
    "le": np.less_equal,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "shift_right_logical": np.right_shift,
    "shift_left": np.left_shift,
    "nextafter": np.nextafter,
    "erf": special.erf,
    "erf_inv": special.erfinv,
    "logistic": special.expit,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "select_n": lambda c, *own: np.where(c, *own[::-1]),
    "clamp": lambda low, x, high: np.clip(x, low, high),
}


@dataclass(frozen=True)
class EvenSpread:
    """Numbers that are spread evenly over the law of an array; one number where all its entries are equal.

    Args:
        values: The numbers.
        bits: Which random bits they come from; ``None`` of one number.
    """

    values: np.ndarray
    bits: int | None = None


class Spreads:
    """Follows random bits from one equation to the next; ``None`` stands for what is not made entry by entry."""

    def __init__(self) -> None:
        self._count = 0

    def run(
        self, closed: ClosedJaxpr, args: Sequence[EvenSpread | None]
    ) -> list[EvenSpread | None]:
        """The results of a traced function."""
        jaxpr = closed.jaxpr
        known: dict[Any, EvenSpread | None] = dict(zip(jaxpr.invars, args, strict=True))
        known |= {v: _constant(c) for v, c in zip(jaxpr.constvars, closed.consts, strict=True)}

        def look(v: Any) -> EvenSpread | None:
            return _constant(v.val) if isinstance(v, Literal) else known[v]

        for eqn in jaxpr.eqns:
            found = self._results(eqn, [look(v) for v in eqn.invars])
            known |= zip(eqn.outvars, found, strict=True)
        return [look(v) for v in jaxpr.outvars]

    def _results(self, eqn: Any, given: list[EvenSpread | None]) -> list[EvenSpread | None]:
        name = eqn.primitive.name
        if name == "random_bits":
            self._count += 1
            width = eqn.params["bit_width"]
            even = (np.arange(_POINTS, dtype=np.float64) + 0.5) / _POINTS * 2.0**width
            return [EvenSpread(even.astype(f"uint{width}"), self._count)]
        if (body := inner(eqn)) is not None:
            return self.run(body, given)
        whole = [k for k in given if k is not None]
        if len(whole) != len(given) or not given:
            return [None] * len(eqn.outvars)
        if name in _MOVED:
            return [*whole]
        bits = {k.bits for k in whole if k.bits is not None}
        values = None if len(bits) > 1 else _made(eqn, [k.values for k in whole])
        if values is None:
            return [None] * len(eqn.outvars)
        return [EvenSpread(values, bits.pop() if bits else None)]


def _made(eqn: Any, given: list[np.ndarray]) -> np.ndarray | None:
    """The result of an equation entry by entry, of the type that it says; ``None`` of another equation."""
    name, kind = eqn.primitive.name, eqn.outvars[0].aval.dtype
    with np.errstate(all="ignore"):
        if name == "convert_element_type":
            return given[0].astype(kind)
        if name == "bitcast_convert_type":
            return given[0].view(kind) if given[0].dtype.itemsize == kind.itemsize else None
        if name == "integer_pow":
            return (given[0] ** float(eqn.params["y"])).astype(kind)
        made = _ENTRYWISE.get(name)
        return None if made is None else np.asarray(made(*given)).astype(kind)


def _constant(value: Any) -> EvenSpread | None:
    if jnp.issubdtype(jnp.result_type(value), jax.dtypes.prng_key):
        return None
    own = np.asarray(value)
    return (
        EvenSpread(own.ravel()[:1].reshape(()))
        if own.size and np.all(own == own.ravel()[0])
        else None
    )
