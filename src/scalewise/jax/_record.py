"""Computing a traced loss equation by equation, and keeping what every tensor writes on the way.

In a model of jax there is nothing to hang a hook on. What a tensor does is read off the equations: where an array
is multiplied with a weight (or rows of it are picked), the product is that tensor's *output*, together with the
biases that are added to it and the numbers that multiply it, up to the first equation that does anything else. So
no module and no name decides what belongs together.

Beside each array stands what it would be with earlier entries of one tensor: the change that this tensor alone
makes. It is carried no further than the output reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Literal

from scalewise.jax._numbers import inner
from scalewise.jax._trace import place_of

# What moves entries about, or keeps them as they are.
_MOVED = frozenset(
    """reshape transpose broadcast_in_dim squeeze expand_dims convert_element_type copy copy_p reduce_precision rev
    name sharding_constraint optimization_barrier device_put""".split()  # noqa: SIM905
)
_CONTRACTED = frozenset(["dot_general", "conv_general_dilated"])
_ADDED = frozenset(["add", "add_any", "sub"])
# What logits pass on their way into a softmax, apart from numbers and shapes: masks, biases, soft bounds.
_PASSED = frozenset([*_ADDED, "select_n", "tanh"])
_SATURATING = frozenset(["exp", "exp2", "logistic"])


@dataclass(frozen=True)
class Output:
    """The output that one tensor writes.

    Args:
        tensor: The tensor that sums, looks up or multiplies.
        looked_up: Whether its rows are picked.
        value: The array.
        given: What the tensor was multiplied with; ``None`` for a lookup and for gains.
        old: By tensor, biases included, the array with that tensor's earlier entries.
    """

    tensor: str
    looked_up: bool
    value: Any
    given: Any
    old: Mapping[str, Any]


@dataclass(frozen=True)
class Attending:
    """Attention logits: a product of two arrays, both of data, that enters a softmax.

    Args:
        place: The module that holds the tensors that made them.
        value: Without masks and biases.
        factors: Queries and keys.
        was: The same with the earlier entries of these tensors; ``None`` where none made them.
        old_factors: Queries and keys then.
        number: Tells products apart: one may enter several softmaxes.
    """

    place: str
    value: Any
    factors: tuple[Any, Any]
    was: Any
    old_factors: tuple[Any, Any]
    number: int


@dataclass(frozen=True)
class SeenArray:
    """A variable as it is computed.

    Args:
        value: Its array.
        data: Whether it depends on what the model is called with.
        old: Of what is made of tensors alone, and of outputs: by tensor the array with its earlier entries.
        was: The array with earlier entries of all tensors since the last product; ``None`` if there are none.
        output: Which output it is; ``None`` if it is none.
        logits: The attention logits that it is, but for masks.
        origin: Names of the tensors that made it since the last product.
    """

    value: Any
    data: bool = False
    old: Mapping[str, Any] = field(default_factory=dict)
    was: Any = None
    output: int | None = None
    logits: Attending | None = None
    origin: frozenset[str] = frozenset()

    @property
    def is_weight(self) -> bool:
        """True if it is made of tensors alone."""
        return not self.data and bool(self.old)

    @property
    def is_number(self) -> bool:
        """True if it depends on neither tensors nor data."""
        return not self.data and not self.old

    @property
    def before(self) -> Any:
        """With the earlier entries of all tensors that made it."""
        return self.value if self.was is None else self.was


class Recorder:
    """Computes equations and keeps outputs and attention logits.

    Args:
        lengths: Tensors that are lengths of weights, which go by their directions.
        outputs: What tensors write, in order.
        attentions: Attention logits, in order.
    """

    def __init__(self, lengths: frozenset[str] = frozenset()) -> None:
        self._lengths = lengths
        self.outputs: list[Output] = []
        self.attentions: list[Attending] = []
        self._numbers = count()

    def run(self, closed: ClosedJaxpr, args: Sequence[SeenArray]) -> list[SeenArray]:
        """The results of a traced function."""
        jaxpr = closed.jaxpr
        known: dict[Any, SeenArray] = dict(zip(jaxpr.invars, args, strict=True))
        known |= zip(jaxpr.constvars, map(SeenArray, closed.consts), strict=True)

        def read(v: Any) -> SeenArray:
            return SeenArray(v.val) if isinstance(v, Literal) else known[v]

        for eqn in jaxpr.eqns:
            given = [read(v) for v in eqn.invars]
            known |= zip(eqn.outvars, self._results(eqn, given), strict=True)
        return [read(v) for v in jaxpr.outvars]

    def _results(self, eqn: Any, given: list[SeenArray]) -> list[SeenArray]:
        body = inner(eqn)
        if body is not None:
            return self.run(body, given)
        if all(k.is_number for k in given):
            return [SeenArray(x) for x in _computed(eqn, [k.value for k in given])]
        if eqn.primitive.name == "scan":
            return self._scan(eqn, given)
        values = _computed(eqn, [k.value for k in given])
        if len(values) == 1:
            return [self._result(eqn, given, values[0])]
        data = any(k.data for k in given)
        changed = _alternative(eqn, given, lambda k: k.was) if not data else None
        olds = self._olds(eqn, given) if not data else {}
        return [
            SeenArray(
                x,
                data,
                {n: o[i] for n, o in olds.items()},
                changed and changed[i],
                origin=_origin(given),
            )
            for i, x in enumerate(values)
        ]

    def _olds(self, eqn: Any, given: list[SeenArray]) -> dict[str, list[Any]]:
        names = dict.fromkeys(n for k in given for n in k.old)
        found = {n: _alternative(eqn, given, lambda k, n=n: k.old.get(n)) for n in names}
        return {n: values for n, values in found.items() if values is not None}

    def _result(self, eqn: Any, given: list[SeenArray], value: Any) -> SeenArray:
        name = eqn.primitive.name
        was = _alternative(eqn, given, lambda k: k.was)
        made = SeenArray(
            value, any(k.data for k in given), was=was and was[0], origin=_origin(given)
        )
        one, two = given[0], given[1] if len(given) > 1 else SeenArray(None)
        if not made.data:
            return replace(made, old=self._single(eqn, given))
        if name in _CONTRACTED and (one.is_weight or two.is_weight):
            weight, other = (one, two) if one.is_weight else (two, one)
            # What the other factor would have been belongs to the tensors below.
            old = _computed(eqn, [k.before if k is weight else k.value for k in (one, two)])
            made = replace(made, was=old[0], origin=weight.origin)
            return self._written(eqn, weight, [one, two], made, given=other.value)
        if name in _CONTRACTED and one.data and two.data:
            return self._product(eqn, one, two, made)
        if name == "gather" and one.is_weight:
            return self._written(eqn, one, given, made, looked_up=True)
        if name == "mul" and (one.is_weight or two.is_weight):
            return self._written(eqn, one if one.is_weight else two, given, made)
        scaled = (name == "mul" and (one.is_number or two.is_number)) or (
            name == "div" and two.is_number
        )
        if name in _MOVED or scaled:
            made = self._extended(eqn, given, made)
            carried = one.logits or two.logits
            return replace(made, logits=carried and _like(eqn, given, carried))
        if name in _ADDED and (one.is_weight or two.is_weight):
            made = self._extended(eqn, given, made)
        if name in _SATURATING and one.logits is not None:
            known = {a.number for a in self.attentions}
            self.attentions += [one.logits] if one.logits.number not in known else []
        passed = next((k.logits for k in given if k.logits), None) if name in _PASSED else None
        return replace(made, logits=passed)

    def _single(self, eqn: Any, given: list[SeenArray]) -> dict[str, Any]:
        return {n: values[0] for n, values in self._olds(eqn, given).items()}

    def _written(
        self, eqn: Any, weight: SeenArray, inputs: list[SeenArray], made: SeenArray, **about: Any
    ) -> SeenArray:
        """An array meets a tensor: what the tensor writes."""
        names = [n for n in weight.old if n not in self._lengths]
        if len(names) != 1:
            return made
        own = [k if k is weight else replace(k, old={}) for k in inputs]
        old, (name,) = self._single(eqn, own), names
        settings = {"looked_up": False, "given": None} | about
        self.outputs.append(Output(name, value=made.value, old=old, **settings))
        return replace(made, old=old, output=len(self.outputs) - 1)

    def _extended(self, eqn: Any, given: list[SeenArray], made: SeenArray) -> SeenArray:
        """Operations on an output: a bias added, a number that multiplies it, another shape."""
        number = next((k.output for k in given if k.output is not None), None)
        if number is None:
            return made
        old = self._single(eqn, given)
        self.outputs[number] = replace(self.outputs[number], value=made.value, old=old)
        return replace(made, old=old, output=number)

    def _product(self, eqn: Any, one: SeenArray, two: SeenArray, made: SeenArray) -> SeenArray:
        """Two arrays of data multiplied and summed: attention logits, if a softmax follows."""
        moved = one.was is not None or two.was is not None
        was = _computed(eqn, [one.before, two.before])[0] if moved else None
        logits = Attending(
            place_of(made.origin),
            made.value,
            (one.value, two.value),
            was,
            (one.before, two.before),
            next(self._numbers),
        )
        return replace(made, was=None, logits=logits)

    def _scan(self, eqn: Any, given: list[SeenArray]) -> list[SeenArray]:
        """A loop whose steps are watched: what they write is stacked."""
        p = eqn.params
        consts, n = p["num_consts"], p["num_consts"] + p["num_carry"]
        fixed, carry, xs = given[:consts], given[consts:n], given[n:]
        kept: list[Recorder] = []

        def body(values: Any, slices: Any) -> Any:
            step = Recorder(self._lengths)
            inside = [replace(k, **parts) for k, parts in zip(xs, slices, strict=True)]
            out = step.run(
                p["jaxpr"], [*map(_settled, fixed), *(SeenArray(v, True) for v in values), *inside]
            )
            kept.append(step)
            arrays = [k.value for k in out]
            return arrays[: len(carry)], (arrays[len(carry) :], _arrays(step))

        slices = [
            {"value": k.value, "old": dict(k.old) if k.is_weight else {}, "was": k.was} for k in xs
        ]
        xs = [replace(_settled(k), value=None, old={}, was=None) for k in xs]
        last, (stacked, seen) = jax.lax.scan(
            body, [k.value for k in carry], slices, p["length"], p["reverse"], p["unroll"]
        )
        outputs, attentions = seen
        pairs = zip(kept[-1].outputs, outputs, strict=True)
        self.outputs += [replace(o, **arrays) for o, arrays in pairs]
        pairs = zip(kept[-1].attentions, attentions, strict=True)
        self.attentions += [replace(a, **arrays, number=next(self._numbers)) for a, arrays in pairs]
        return [SeenArray(x, True) for x in (*last, *stacked)]


def _settled(of: SeenArray) -> SeenArray:
    return replace(of, output=None, logits=None, old=of.old if of.is_weight else {})


def _arrays(step: Recorder) -> Any:
    """The arrays of what was kept, to be stacked by a loop."""
    outputs = [{"value": o.value, "given": o.given, "old": dict(o.old)} for o in step.outputs]
    attentions = [
        {"value": a.value, "factors": a.factors, "was": a.was, "old_factors": a.old_factors}
        for a in step.attentions
    ]
    return outputs, attentions


def _computed(eqn: Any, values: Sequence[Any]) -> list[Any]:
    """The results of an equation that calls no function but in a loop or a branch."""
    out = eqn.primitive.bind(*values, **eqn.params)
    return list(out) if eqn.primitive.multiple_results else [out]


def _alternative(
    eqn: Any, given: Sequence[SeenArray], other: Callable[[SeenArray], Any]
) -> list[Any] | None:
    """The results with other values of some inputs; nothing if there are none."""
    values = [other(k) for k in given]
    if all(v is None for v in values):
        return None
    return _computed(eqn, [k.value if v is None else v for k, v in zip(given, values, strict=True)])


def _like(eqn: Any, given: Sequence[SeenArray], logits: Attending) -> Attending:
    """Logits after what was done to them."""

    def same(value: Any) -> Any:
        if value is None:
            return None
        return _computed(eqn, [value if k.logits is logits else k.value for k in given])[0]

    return replace(logits, value=same(logits.value), was=same(logits.was))


def _origin(given: Sequence[SeenArray]) -> frozenset[str]:
    return frozenset().union(*(k.origin for k in given))
