"""How a factory draws each parameter: the equations that make it, computed again from evenly spread random bits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from scalewise.jax._describe import parameters
from scalewise.jax._numbers import inner
from scalewise.reading._laws import law_of
from scalewise.reading._reader import Law

_POINTS = 1 << 17  # evenly spread numbers
_DRAWS, _ENTRIES = 8, 1 << 14  # of a factory that takes a seed, and how many entries are enough
_MOVED = frozenset(
    """reshape transpose broadcast_in_dim squeeze expand_dims copy copy_p stop_gradient slice rev
    optimization_barrier""".split()  # noqa: SIM905
)
_ENTRYWISE = frozenset(
    """add sub mul div neg max min erf erf_inv sqrt rsqrt square integer_pow pow exp log log1p expm1 abs sign floor
    tanh logistic lt gt le ge eq ne and or xor not select_n clamp shift_right_logical shift_left
    convert_element_type bitcast_convert_type nextafter is_finite cos sin""".split()  # noqa: SIM905
)


@dataclass(frozen=True)
class Spread:
    """Numbers that are spread evenly over the law of an array; one number where all its entries are equal.

    Args:
        values: The numbers.
        bits: Which random bits they come from; ``None`` of one number.
    """

    values: Any
    bits: int | None = None


def drawn(
    build: Callable[..., Any], sizes: Mapping[str, Any], layout: str, seed: str
) -> tuple[Any, dict[str, Law], list[str]]:
    """A model, how each of its parameters was drawn, and those of which only the entries tell.

    Args:
        build: The factory.
        sizes: What it is called with.
        layout: How its tensors are named.
        seed: What it calls the whole number that it draws by, if it takes one.
    """
    model = build(**sizes)
    found = parameters(model, layout)
    exact = _spreads(lambda: [p.value for p in parameters(build(**sizes), layout)])
    laws = {p.name: law_of(s.values, few=False) for p, s in zip(found, exact, strict=True) if s is not None}
    values = {p.name: [np.asarray(p.value)] for p in found if p.name not in laws}
    if any(len(np.unique(v[0])) > 1 for v in values.values()) and seed in inspect.signature(build).parameters:
        fewest = min(v[0].size for v in values.values())
        for k in range(1, min(_DRAWS, -(-_ENTRIES // fewest))):
            for p in parameters(build(**sizes, **{seed: k}), layout):
                if p.name in values:
                    values[p.name].append(np.asarray(p.value))
    told = {name: law_of(np.concatenate([x.ravel() for x in v]), few=True) for name, v in values.items()}
    random = [name for name, law in told.items() if law.constant is None]
    return model, {p.name: (laws | told)[p.name] for p in found}, random


def told_by_entries(model: Any, layout: str) -> dict[str, Law]:
    """How parameters were drawn, as far as their entries tell."""
    return {p.name: law_of(np.asarray(p.value), few=True) for p in parameters(model, layout)}


def _spreads(values: Callable[[], list[Any]]) -> list[Spread | None]:
    """Evenly spread numbers of each array that a function draws; ``None`` where they are not made entry by entry."""
    closed = jax.make_jaxpr(lambda: [jnp.asarray(v) for v in values()])()
    return _Draws().run(closed, [])


class _Draws:
    """Follows random bits from one equation to the next."""

    def __init__(self) -> None:
        self._count = 0

    def run(self, closed: ClosedJaxpr, args: Sequence[Spread | None]) -> list[Spread | None]:
        jaxpr = closed.jaxpr
        known: dict[Any, Spread | None] = dict(zip(jaxpr.invars, args, strict=True))
        known |= {v: _constant(c) for v, c in zip(jaxpr.constvars, closed.consts, strict=True)}

        def look(v: Any) -> Spread | None:
            return _constant(v.val) if isinstance(v, Literal) else known[v]

        for eqn in jaxpr.eqns:
            found = self._results(eqn, [look(v) for v in eqn.invars])
            known |= zip(eqn.outvars, found, strict=True)
        return [look(v) for v in jaxpr.outvars]

    def _results(self, eqn: Any, given: list[Spread | None]) -> list[Spread | None]:
        name = eqn.primitive.name
        if name == "random_bits":
            self._count += 1
            width = eqn.params["bit_width"]
            even = (np.arange(_POINTS, dtype=np.float64) + 0.5) / _POINTS * 2.0**width
            return [Spread(even.astype(f"uint{width}"), self._count)]
        if (body := inner(eqn)) is not None:
            return self.run(body, given)
        whole = [k for k in given if k is not None]
        if len(whole) != len(given) or not given:
            return [None] * len(eqn.outvars)
        if name in _MOVED:
            return whole
        bits = {k.bits for k in whole} - {None}
        if name not in _ENTRYWISE or len(bits) > 1:
            return [None] * len(eqn.outvars)
        size = (_POINTS,) if bits else ()
        values = [np.broadcast_to(k.values, size) for k in whole]
        out = eqn.primitive.bind(*values, **eqn.params)
        return [Spread(np.asarray(out), bits.pop() if bits else None)]


def _constant(value: Any) -> Spread | None:
    if jnp.issubdtype(jnp.result_type(value), jax.dtypes.prng_key):
        return None
    own = np.asarray(value)
    return Spread(own.ravel()[0]) if own.size and np.all(own == own.ravel()[0]) else None
