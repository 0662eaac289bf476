"""`network`: from a traced call to fields, equation by equation, whatever library wrote the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from scalewise.jax._equations import SPECIAL, numbers
from scalewise.jax._given import stood_for
from scalewise.jax._moves import ALONE, SEVERAL, zeros_for
from scalewise.jax._numbers import inner
from scalewise.jax._trace import place_of, weight
from scalewise.reading.spi import (
    Entries,
    GivenLayers,
    Input,
    MixedSamplesError,
    ModelReader,
    Operand,
    Plain,
    UnreadError,
    Weight,
    entrywise,
    replaced,
)

# The functions of entries, by the names of trees.
_FUNCTIONS = {
    name: name
    for name in """neg tanh erf erfc exp exp2 expm1 log log1p sqrt rsqrt cbrt abs sign sin cos square add sub mul
    div pow and or not""".split()  # noqa: SIM905
} | {
    "add_any": "add", "logistic": "sigmoid", "max": "maximum", "min": "minimum", "lt": "less", "gt": "greater",
    "le": "less_equal", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip
_STEPS = 10_000  # of a loop whose length is fixed
_RANDOM = frozenset(
    ["random_bits", "random_gamma", "rng_bit_generator", "threefry2x32", "rng_uniform"]
)


@dataclass(frozen=True)
class Unread:
    """The result of an operation that was not understood."""

    error: Exception


@dataclass(frozen=True)
class Key:
    """A random key, or several."""

    value: Any


@dataclass(frozen=True)
class Held:
    """A variable of what is traced.

    Args:
        own: Its entries, or numbers, or why it has neither.
        origin: Names of the parameters that made it.
        random: Whether numbers were drawn for it.
    """

    own: Operand | Key | Unread
    origin: frozenset[str] = frozenset()
    random: bool = False

    @property
    def is_plain(self) -> bool:
        """True if neither inputs nor parameters change it."""
        return isinstance(self.own, Plain | Key)


def fixed(value: Any) -> Plain | Key:
    """Numbers that neither inputs nor parameters change."""
    if jnp.issubdtype(jnp.result_type(value), jax.dtypes.prng_key):
        return Key(value)
    return Plain(np.asarray(value))


@dataclass
class NetworkWalk:
    """Follows entries from one equation to the next.

    Args:
        read: What has been read.
        given: Layers in place of modules.
        values: Parameters by name.
    """

    read: ModelReader
    given: GivenLayers = field(default_factory=GivenLayers)
    values: dict[str, np.ndarray] = field(default_factory=dict)
    _weights: dict[str, Entries] = field(default_factory=dict)

    def run(self, closed: ClosedJaxpr, args: Sequence[Held]) -> list[Held]:
        """The results of a traced function."""
        jaxpr = closed.jaxpr
        known: dict[Any, Held] = dict(zip(jaxpr.invars, args, strict=True))
        known |= {v: Held(fixed(c)) for v, c in zip(jaxpr.constvars, closed.consts, strict=True)}

        def look(v: Any) -> Held:
            return Held(fixed(v.val)) if isinstance(v, Literal) else known[v]

        for eqn in jaxpr.eqns:
            found = self._results(eqn, [look(v) for v in eqn.invars])
            known |= zip(eqn.outvars, found, strict=True)
        return [look(v) for v in jaxpr.outvars]

    def _results(self, eqn: Any, given: list[Held]) -> list[Held]:
        name = eqn.primitive.name
        if eqn.primitive is weight:
            return [self._weight(eqn.params["name"], given[0])]
        if eqn.primitive is stood_for:
            return [self._stood_for(eqn.params["name"], given[0], eqn.outvars[0].aval.shape)]
        if name == "scan" and not all(k.is_plain for k in given):
            return self._scan(eqn.params, given)
        if name == "while" and not all(k.is_plain for k in given):
            return self._while(eqn, given)
        if name == "cond" and given[0].is_plain:
            way = int(given[0].own.value)  # pyright: ignore[reportAttributeAccessIssue]
            return self.run(_closed(eqn.params["branches"][way]), given[1:])
        if (body := inner(eqn)) is not None:
            return self.run(body, given)
        random = any(k.random for k in given) or _draws(eqn)
        if all(k.is_plain for k in given):
            values = [k.own.value for k in given]  # pyright: ignore[reportAttributeAccessIssue]
            return [Held(fixed(value), random=random) for value in _computed(eqn, values)]
        origin = self._origin(given)
        self.read.fields.place = place_of(origin)
        lost = next((k.own for k in given if isinstance(k.own, Unread)), None)
        if lost is None:
            try:
                if random:
                    raise self.read.refuse(
                        "draws random numbers as it computes. Call it as it is evaluated, without dropout "
                        "(Equinox: `eqx.nn.inference_mode`)."
                    )
                own = [k.own for k in given if not isinstance(k.own, Unread | Key)]
                return [Held(o, origin) for o in self._read(eqn, own)]
            except (UnreadError, MixedSamplesError) as error:
                lost = Unread(error)
        return [Held(lost, origin) for _ in eqn.outvars]

    def _origin(self, given: Sequence[Held]) -> frozenset[str]:
        """The parameters that make something: those themselves that it is made of, else those behind it."""
        direct = [
            k.origin
            for k in given
            if not isinstance(k.own, Plain | Key | Unread) and self._is_parameter(k.own)
        ]
        return frozenset().union(*(direct or (k.origin for k in given)))

    def _is_parameter(self, own: Entries) -> bool:
        owners = self.read.fields.owners(own)
        return bool(owners) and all(isinstance(self.read.source(k).what, Weight) for k in owners)

    def _weight(self, name: str, given: Held) -> Held:
        if name not in self._weights:
            assert isinstance(given.own, Plain)
            self.values[name] = np.asarray(given.own.value)
            self._weights[name] = self.read.weight(name, np.shape(given.own.value))
        return Held(self._weights[name], frozenset([name]))

    def _stood_for(self, name: str, given: Held, shape: tuple[int, ...]) -> Held:
        """The fields that given layers make of a module's inputs, in place of its outputs."""
        read = self.read
        read.fields.place = name
        if isinstance(given.own, Unread):
            return given
        if isinstance(given.own, Plain | Key):
            error = read.refuse("is given as layers, but no inputs enter it as its first argument.")
            return Held(Unread(error))
        try:
            own = replaced(read, name, self.given.layers[name], given.own, shape, self.given.width)
        except (UnreadError, MixedSamplesError) as error:
            return Held(Unread(error), given.origin)
        read.notes[f"`{name}` is what was given for it."] = None
        return Held(own, given.origin)

    # Functions that equations call.

    def _scan(self, p: Any, given: list[Held]) -> list[Held]:
        """A loop of fixed length, one step after another."""
        count, carried = p["num_consts"], p["num_consts"] + p["num_carry"]
        fixed, carry, rows = given[:count], given[count:carried], given[carried:]
        order = range(p["length"])
        kept: list[list[Held]] = []
        for k in reversed(order) if p["reverse"] else order:
            out = self.run(_closed(p["jaxpr"]), [*fixed, *carry, *(_row(own, k) for own in rows)])
            carry, made = out[: len(carry)], out[len(carry) :]
            kept.append(made)
        kept = kept[::-1] if p["reverse"] else kept
        return [*carry, *(self._stacked(own) for own in zip(*kept, strict=True))]

    def _while(self, eqn: Any, given: list[Held]) -> list[Held]:
        p = eqn.params
        tests, consts = p["cond_nconsts"], p["body_nconsts"]
        condition, fixed = given[:tests], given[tests : tests + consts]
        carry = given[tests + consts :]
        for _ in range(_STEPS):
            (again,) = self.run(_closed(p["cond_jaxpr"]), [*condition, *carry])
            if not isinstance(again.own, Plain):
                break
            if not bool(again.own.value):
                return carry
            carry = self.run(_closed(p["body_jaxpr"]), [*fixed, *carry])
        self.read.fields.place = place_of(self._origin(given))
        error = self.read.refuse(
            "has a loop that ends where its numbers say. Let it have a fixed length."
        )
        return [Held(Unread(error)) for _ in eqn.outvars]

    def _stacked(self, rows: Sequence[Held]) -> Held:
        origin = self._origin(rows)
        lost = next((k.own for k in rows if isinstance(k.own, Unread)), None)
        if lost is not None:
            return Held(lost, origin)
        own = [k.own for k in rows if not isinstance(k.own, Unread | Key)]
        if all(isinstance(o, Plain) for o in own):
            values = [np.asarray(o.value) for o in own if isinstance(o, Plain)]
            return Held(Plain(np.stack(values)), random=any(k.random for k in rows))
        try:
            return Held(np.stack([zeros_for(self.read, o) for o in own]), origin)
        except UnreadError as error:
            return Held(Unread(error), origin)

    # Equations by themselves.

    def _read(self, eqn: Any, given: list[Operand]) -> list[Operand]:
        """The results of an equation that some entries enter."""
        name, p = eqn.primitive.name, eqn.params
        if name in SEVERAL:
            return given
        if name == "split":
            ends = np.cumsum(p["sizes"])[:-1]
            return list(np.split(zeros_for(self.read, given[0]), ends, axis=p["axis"]))
        return [self._one(eqn, name, p, given)]

    def _one(self, eqn: Any, name: str, p: Any, given: list[Operand]) -> Operand:
        read, x = self.read, given[0]
        if name in ALONE and not isinstance(x, Plain):
            return ALONE[name](x, p)
        if name == "convert_element_type":
            return self._converted(eqn, x, p)
        if name in _FUNCTIONS:
            return self._function(_FUNCTIONS[name], [numbers(o) for o in given])
        if (special := SPECIAL.get(name)) is not None:
            return special(read, given, p)
        raise read.refuse(
            f"computes {name!r}, which is not known. Write it with functions of entries, sums, products and moves."
        )

    def _converted(self, eqn: Any, x: Operand, p: Any) -> Operand:
        assert not isinstance(x, Plain)
        before, behind = (
            np.issubdtype(k, np.floating) for k in (eqn.invars[0].aval.dtype, p["new_dtype"])
        )
        if before and not behind:
            owners = self.read.fields.owners(x)
            if not all(isinstance(k.what, Input) for k in owners):
                raise self.read.refuse("rounds what it computes. Leave that out of the model.")
        return x

    def _function(self, name: str, given: list[Operand]) -> Operand:
        """A function of entries; bounds that nothing meets are left out."""
        if name in ("maximum", "minimum") and isinstance(given[0], Plain):
            given = given[::-1]
        far = {"maximum": -np.inf, "minimum": np.inf}.get(name)
        if far is not None and isinstance(given[1], Plain) and np.all(given[1].value == far):
            return given[0]
        return entrywise(self.read, name, given)


def _row(own: Held, k: int) -> Held:
    if isinstance(own.own, Unread):
        return own
    if isinstance(own.own, Plain | Key):
        return Held(fixed(own.own.value[k]), random=own.random)
    return Held(own.own[k], own.origin)


def _closed(body: Any) -> ClosedJaxpr:
    return ClosedJaxpr(body, ()) if isinstance(body, Jaxpr) else body


def _computed(eqn: Any, values: Sequence[Any]) -> list[Any]:
    out = eqn.primitive.bind(*values, **eqn.params)
    return list(out) if eqn.primitive.multiple_results else [out]


def _draws(eqn: Any) -> bool:
    """True if an equation draws random numbers, or calls what does."""
    if eqn.primitive.name in _RANDOM:
        return True
    leaves = jax.tree.leaves(
        list(eqn.params.values()), is_leaf=lambda p: isinstance(p, ClosedJaxpr | Jaxpr)
    )
    bodies = [_closed(p) for p in leaves if isinstance(p, ClosedJaxpr | Jaxpr)]
    return any(_draws(e) for body in bodies for e in body.jaxpr.eqns)
