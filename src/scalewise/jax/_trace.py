"""A forward pass as jax traces it: every equation told to a `Flow`, whatever library wrote the model.

Below the modules a few operations are left: products, sums, views, and what is not linear. Functions that equations
call (`jit`, `checkpoint`, derivatives of one's own, `vmap`, loops and branches) are walked through. Nothing is
computed but single numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count, takewhile
from typing import Any

import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Primitive

from scalewise.jax._numbers import Computed, Constant, Given, Zeros, inner
from scalewise.jax._uses import TensorUses, View, summed_axes
from scalewise.plan.spi import Flow, Passed, Tracks, Value, put_together

# Marks a tensor of the model in what is traced.
weight = Primitive("weight")
weight.def_impl(lambda x, *, name: x)
weight.def_abstract_eval(lambda x, *, name: x)

# What passes its arguments on as they are, entry by entry.
_PASSED = frozenset(
    """add add_any sub neg convert_element_type reshape transpose broadcast_in_dim squeeze expand_dims slice
    dynamic_slice dynamic_update_slice concatenate pad rev gather scatter scatter-add scatter_add select_n copy
    reduce_precision cumsum split real imag conj complex stop_gradient sharding_constraint optimization_barrier
    reduce_window_sum device_put copy_p tile name""".split()  # noqa: SIM905
)
_BOUNDS = frozenset(["max", "min", "clamp"])
_PARTS = frozenset(["slice", "dynamic_slice", "gather", "split"])
_SUMS = frozenset(["dot_general", "conv_general_dilated", "reduce_sum"])
_SATURATING = frozenset(["exp", "exp2", "logistic"])
_POWERS = {"sqrt": 0.5, "rsqrt": -0.5, "square": 2.0, "abs": 1.0, "cbrt": 1 / 3}
_PRODUCTS = frozenset(["mul", "dot_general", "conv_general_dilated"])
# Bounds that no array of order one meets, and those that only keep from zero.
_FAR, _NEAR = 1e3, 1e-3


@dataclass(frozen=True)
class Known:
    """Facts about a variable.

    Args:
        value: Its sources; ``None`` of what depends neither on weights nor on the input.
        constant: How it is computed, where it does not depend on the input.
        lineage: Numbers of the arrays that it is made of, entry by entry.
        origin: Names of the tensors that made those.
        told: Whether it comes from whole numbers or truth values, and has no size of its own.
        summed: How many entries each of its own is the plain sum of: divided by that, it is a mean.
        passed: Which tensors lie right before it.
        picked: How many were chosen, of an index of the largest entries; else 0.
        few: Of a mask of what was chosen: among how many it was, and how many.
        pieces: Lengths of the arrays that were put beside each other to make it, along one axis.
        view: The tensor of the model that it is, or is multiplied by.
    """

    value: Value | None = None
    constant: Constant | None = None
    lineage: frozenset[int] = frozenset()
    origin: frozenset[str] = frozenset()
    told: bool = False
    summed: int = 0
    passed: Passed = field(default_factory=Passed)
    picked: int = 0
    few: tuple[int, int] | None = None
    pieces: tuple[int, ...] = ()
    view: View | None = None


@dataclass
class Walk:
    """Follows what the weights of a model do from one equation to the next.

    Args:
        flow: What is told of products and multipliers.
        tracks: What is told of tensors behind each other.
        read: By name of tensor the lengths of what it sums over, where that was put together.
        uses: What is told of the axes of tensors.
    """

    flow: Flow = field(default_factory=Flow)
    tracks: Tracks = field(default_factory=Tracks)
    read: dict[str, tuple[int, ...]] = field(default_factory=dict)
    uses: TensorUses = field(default_factory=TensorUses)
    _numbers: Any = field(default_factory=count)

    def input(self, array: Any) -> Known:
        """An argument of the function that is walked through."""
        return Known(Value(), lineage=self._fresh(), told=not _is_float(array))

    def run(self, closed: ClosedJaxpr, args: Sequence[Known]) -> list[Known]:
        """Facts about the results of a traced function."""
        jaxpr = closed.jaxpr
        known: dict[Any, Known] = dict(zip(jaxpr.invars, args, strict=True))
        for v, value in zip(jaxpr.constvars, closed.consts, strict=True):
            known[v] = Known(constant=Given(value))

        def read(v: Any) -> Known:
            return Known(constant=Given(v.val)) if isinstance(v, Literal) else known[v]

        for eqn in jaxpr.eqns:
            found = self._results(eqn, [read(v) for v in eqn.invars])
            known |= zip(eqn.outvars, found, strict=True)
        return [read(v) for v in jaxpr.outvars]

    def _fresh(self) -> frozenset[int]:
        return frozenset([next(self._numbers)])

    def _results(self, eqn: Any, given: list[Known]) -> list[Known]:
        constants = [k.constant for k in given if k.constant is not None]
        fixed: list[Constant | None] = [None] * len(eqn.outvars)
        if len(constants) == len(given):
            fixed = [Computed(eqn, constants, i) for i in range(len(eqn.outvars))]
        if eqn.primitive is weight:
            name = eqn.params["name"]
            passed = self.tracks.weight(name)
            origin = frozenset([name])
            view = View(name, tuple(frozenset([i]) for i in range(eqn.outvars[0].aval.ndim)))
            value = self.flow.weight(name)
            return [Known(value, fixed[0], self._fresh(), origin, passed=passed, view=view)]
        if all(k.value is None for k in given):
            return [Known(constant=c) for c in fixed]
        if eqn.primitive.name in _PRODUCTS and any(map(_is_zero, given[:2])):
            return [Known(constant=Zeros(eqn.outvars[0].aval))]
        found = self._inside(eqn, given)
        if eqn.primitive.name in ("top_k", "argmax") and given[0].value is not None:
            self.flow.chosen(given[0].value)
        if found is None:
            one = self._result(eqn, given)
            made = [k.passed for k in given if k.value is not None]
            passed = self.tracks.through(made, data=_data(one), lookup=_picks(eqn, given))
            view = self.uses.see(eqn, [k.view for k in given], [_data(k) for k in given])
            one = replace(one, passed=passed, pieces=_pieces(eqn, given), view=view)
            parts = eqn.primitive.name in _PARTS
            found = [_told(eqn, given, self._as(v, one, parts)) for v in eqn.outvars]
        return [
            k if c is None else replace(k, constant=c) for k, c in zip(found, fixed, strict=True)
        ]

    def _as(self, v: Any, found: Known, parts: bool) -> Known:
        """The result as one of an equation's variables: a part of an array is another array."""
        if not _is_float(v.aval):
            return Known(Value({}, _data(found)), lineage=found.lineage, told=True)
        return replace(found, lineage=self._fresh()) if parts and _data(found) else found

    def _inside(self, eqn: Any, given: list[Known]) -> list[Known] | None:
        """Facts about the results of equations that call functions."""
        name, p = eqn.primitive.name, eqn.params
        if name == "scan":
            consts, carry = p["num_consts"], p["num_carry"]
            body = p["jaxpr"]
            return self._loop(body, given[:consts], given[consts : consts + carry], given[consts + carry :],
                              again=p["length"] > 1)  # fmt: skip
        if name == "while":
            tests, consts = p["cond_nconsts"], p["body_nconsts"]
            rest = given[tests:]
            return self._loop(p["body_jaxpr"], rest[:consts], rest[consts:], [], again=True)
        if name == "cond":
            ways = [self.run(_closed(b), given[1:]) for b in p["branches"]]
            return [self._joined(ks) for ks in zip(*ways, strict=True)]
        body = inner(eqn)
        return None if body is None else self.run(body, given)

    def _loop(
        self, body: Any, consts: list[Known], carry: list[Known], xs: list[Known], *, again: bool
    ) -> list[Known]:
        """A loop, walked through twice: what a step returns enters the next."""
        closed, n = _closed(body), len(carry)
        inputs, outputs = closed.jaxpr.invars[len(consts) :], closed.jaxpr.outvars
        # A number that steps change is not known, but for a state that begins at zero; one that they hand on is.
        kept = [a is b for a, b in zip(inputs[:n], outputs[:n], strict=True)]
        known = [
            same or k.value or (v.aval.size > 1 and _is_float(v.aval) and _is_zero(k))
            for k, v, same in zip(carry, inputs, kept, strict=False)
        ]
        carry = [k if so else Known() for k, so in zip(carry, known, strict=True)]
        blank = [replace(k, constant=None) if k.value else k for k in xs]
        out = self.run(closed, [*consts, *map(_settled, carry), *blank])
        if not again:
            return out
        second = [
            k if same else replace(new, constant=None)
            for k, same, new in zip(carry, kept, out[:n], strict=True)
        ]
        return self.run(closed, [*consts, *map(_settled, second), *blank])

    def _joined(self, given: Sequence[Known]) -> Known:
        known = [k for k in given if k.value is not None]
        if not known:
            return Known()
        return Known(
            self.flow.joined([k.value for k in known if k.value is not None]),
            lineage=frozenset().union(*(k.lineage for k in known)),
            origin=frozenset().union(*(k.origin for k in known)),
            told=all(k.told for k in known),
            summed=known[0].summed if len(known) == len(given) == 1 else 0,
            passed=Passed(
                frozenset().union(*(k.passed.tensors for k in known)), any(map(_data, known))
            ),
        )

    def _result(self, eqn: Any, given: list[Known]) -> Known:
        name, flow = eqn.primitive.name, self.flow
        values = [k.value for k in given if k.value is not None]
        first = given[0]
        # Side by side in a sum sizes are compared; in a product they are not.
        apart = name not in _PASSED and name not in _BOUNDS
        whole = self._joined([_alone(k) for k in given] if apart else given)
        if name == "top_k" and first.value is not None:
            return replace(whole, value=flow.powered(first.value, 1.0), summed=0)
        if name in ("argmax", "argmin"):
            return replace(whole, value=flow.ordered(values[0]), summed=0)
        if name == "reduce_max":
            return replace(whole, value=flow.bent(values, "most"), summed=0)
        if name == "gather" and given[1].picked and not _data(first) and first.value is not None:
            flow.rows(eqn.invars[0].aval.shape[0], given[1].picked)
            return replace(first, constant=None, lineage=self._fresh())
        if _picks(eqn, given) and first.value is not None:
            return replace(
                whole, value=flow.looked_up(first.value), lineage=self._fresh(), told=False
            )
        if name == "sub" and len(values) == 2:
            pairs = zip(*(v.aval.shape for v in eqn.invars), strict=True)
            alike = [n for n, m in pairs if n == m]
            return replace(whole, value=flow.difference(values[0], values[1], alike), summed=0)
        if name in _PASSED:
            alone = len(given) == 1 or name in _PARTS
            return replace(whole, summed=first.summed if alone else 0)
        if name in ("mul", "div"):
            return self._multiplied(given[0], given[1], -1 if name == "div" else 1, whole)
        if name in ("dot_general", "conv_general_dilated"):
            return self._contracted(eqn, given[0], given[1], whole)
        if name in _BOUNDS:
            return self._bounded(given, whole)
        if name in _POWERS or name in ("integer_pow", "pow"):
            power = _POWERS.get(name, eqn.params.get("y"))
            if name == "pow" and given[1].constant is not None:
                power = given[1].constant.entry
            if power is not None and first.value is not None:
                return replace(whole, value=flow.powered(first.value, float(power)), summed=0)
        if name == "reduce_sum" and first.value is not None:
            sizes = [eqn.invars[0].aval.shape[i] for i in eqn.params["axes"]]
            length = math.prod(sizes)
            flow.place = place_of(whole.origin)
            value = flow.summed(first.value, *sizes)
            return replace(whole, value=value, summed=length if value is first.value else 0)
        if name == "tanh":
            return replace(whole, value=flow.capped(values[0]))
        kind = "positive" if name in _SATURATING else "other"
        return replace(whole, value=flow.bent(values, kind), summed=0)

    def _bounded(self, given: list[Known], whole: Known) -> Known:
        """The larger or smaller of several: what is far from the bound is passed on."""
        bounds = [k.constant.entry for k in given if k.value is None and k.constant is not None]
        felt = [b for b in bounds if b is None or (b != 0 and _NEAR < abs(b) < _FAR)]
        if felt and whole.value is not None:
            self.flow.bent([whole.value])
        return replace(whole, summed=0)

    def _contracted(self, eqn: Any, one: Known, two: Known, whole: Known) -> Known:
        if one.value is None or two.value is None:
            return replace(whole, value=two.value if one.value is None else one.value, summed=0)
        batched, shape = False, eqn.invars[1].aval.shape
        if eqn.primitive.name == "dot_general":
            (axes, _), (batch, _) = eqn.params["dimension_numbers"]
            if not axes and one.value.data and two.value.data:
                # Every entry of one with every entry of the other, and no sum.
                return self._multiplied(one, two, 1, whole)
            length = math.prod(eqn.invars[0].aval.shape[i] for i in axes)
            batched = bool(batch)
        else:
            kernel = eqn.params["dimension_numbers"].rhs_spec
            length = math.prod(shape[i] for i in kernel[1:])
        self.flow.place = place_of(whole.origin)
        matrix, other = (two, one) if one.value.data else (one, two)
        over = summed_axes(eqn, 1 if matrix is two else 0, matrix.view)
        value = self.flow.contracted(one.value, two.value, length, batched=batched, over=over)
        if sum(other.pieces) == length and matrix.value is not None and not matrix.value.data:
            self.read |= {s.name: other.pieces for s in matrix.value.parts}
        names = frozenset(s.name for s in value.parts if s.name)
        origin = whole.origin if any(s.kind == "product" for s in value.parts) else names
        return Known(value, lineage=self._fresh(), origin=origin)

    def _multiplied(self, one: Known, two: Known, sign: int, whole: Known) -> Known:
        a, b, flow = one.value, two.value, self.flow
        if a is not None and b is not None and a.data and b.data:
            if one.told or two.told:
                # Ones and zeros, such as a mask.
                both = replace(self._joined([one, two]), told=one.told and two.told, summed=0)
                few = one.few or two.few
                if few and not both.told and both.value is not None:
                    return replace(both, value=flow.few(both.value, *few))
                return replace(both, few=few)
            related = bool(one.lineage & two.lineage)
            if sign == 1 and one is two:
                return replace(whole, value=flow.powered(a, 2.0), summed=0)
            other = flow.powered(b, -1.0) if sign == -1 else b
            return replace(whole, value=flow.multiplied(a, other, related=related), summed=0)
        if a is not None and b is not None and not a.data and not b.data:
            if sign == 1 and one is two:
                return replace(whole, value=flow.powered(a, 2.0), summed=0)
            a = flow.directed(a, b, float(sign))
        if a is not None and (b is None or a.data or not b.data):
            factor = _number(two)
            if sign == -1 and one.summed and abs(factor - one.summed) < 0.5:
                return replace(whole, value=a, summed=0)
            if sign == 1 and one.summed and abs(factor * one.summed - 1) < 1e-3:
                return replace(whole, value=a, summed=0)
            return replace(whole, value=flow.scaled(a, factor**sign), summed=0)
        assert b is not None
        if sign == -1:
            b = flow.powered(b, -1.0)
        elif two.summed and abs(_number(one) * two.summed - 1) < 1e-3:
            return replace(whole, value=b, summed=0)
        return replace(whole, value=flow.scaled(b, _number(one)), summed=0)


# What leaves an index or a mask as it is but for its shape and kind of number.
_KEEPS = frozenset(
    """reshape transpose broadcast_in_dim squeeze expand_dims convert_element_type copy slice select_n add
    stop_gradient reduce_sum""".split()  # noqa: SIM905
)


def _told(eqn: Any, given: Sequence[Known], found: Known) -> Known:
    """Facts about a result, and how many of how many were chosen where it tells that."""
    name, shape = eqn.primitive.name, eqn.outvars[-1].aval.shape
    if name in ("top_k", "argmax"):
        return replace(found, picked=eqn.params.get("k", 1)) if found.told else found
    picked, few = max(k.picked for k in given), next((k.few for k in given if k.few), None)
    if name == "eq" and picked:
        # Compared with all that could have been chosen.
        return replace(found, few=(shape[-1], picked))
    if name in _KEEPS and found.told:
        return replace(found, picked=picked, few=few)
    return found


def _pieces(eqn: Any, given: Sequence[Known]) -> tuple[int, ...]:
    """The lengths of what a result is put together from, through every equation that keeps the axis."""
    name, shape = eqn.primitive.name, eqn.outvars[0].aval.shape
    if name == "concatenate":
        sizes = (v.aval.shape[eqn.params["dimension"]] for v in eqn.invars)
        return put_together(zip((k.pieces for k in given), sizes, strict=True))
    if name in _SUMS or name in _PARTS:
        return ()
    return next((k.pieces for k in given if k.pieces and sum(k.pieces) in shape), ())


def _number(of: Known) -> float:
    """The number that stands for a factor: its entry where all are the same, else of order one."""
    entry = None if of.constant is None else of.constant.entry
    return abs(entry) if entry is not None and entry != 0 and math.isfinite(entry) else 1.0


def _is_zero(of: Known) -> bool:
    """True of an array of zeros that no tensor of the model stands for."""
    return of.value is None and of.constant is not None and of.constant.entry == 0


def _data(of: Known) -> bool:
    return of.value is not None and of.value.data


def _picks(eqn: Any, given: Sequence[Known]) -> bool:
    """True if an equation picks rows of a tensor by what the model is given."""
    first = given[0].value
    gathers = eqn.primitive.name == "gather" and first is not None and not first.data
    return gathers and _data(given[1])


def _alone(of: Known) -> Known:
    """This knowledge without the sizes that the variable follows."""
    return of if of.value is None else replace(of, value=replace(of.value, trails={}))


def _settled(of: Known) -> Known:
    return replace(of, summed=0)


def _closed(body: Any) -> ClosedJaxpr:
    return ClosedJaxpr(body, ()) if isinstance(body, Jaxpr) else body


def _is_float(array: Any) -> bool:
    kind = getattr(array, "dtype", None)
    return kind is not None and jnp.issubdtype(kind, jnp.inexact)


def place_of(origin: frozenset[str]) -> str:
    """Where arrays meet: the module that holds all the tensors that made them."""
    if not origin:
        return ""
    # All paths share what the first and the last of them in order share.
    one, *_, two = sorted(name.split(".")[:-1] for name in (*origin, *origin))
    shared = takewhile(lambda pair: pair[0] == pair[1], zip(one, two, strict=False))
    return ".".join(step for step, _ in shared)
