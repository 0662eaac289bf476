"""The built-in activations, and the verb that turns a name or a callable into an `Activation`."""

from __future__ import annotations

import copyreg
import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any
from weakref import WeakValueDictionary

from scalewise._checked import FiniteNumber, Must, checked
from scalewise._extras import MissingExtraError, require
from scalewise.activations import _piecewise, _smooth
from scalewise.activations._activation import Activation
from scalewise.activations._recognise import (
    PROBES,
    NotTraceableError,
    foreign_values,
    recognise,
)


@dataclass(frozen=True)
class _Builtin:
    """Recipe of an activation: how to build it; its parameter, if it has one, and names of that."""

    build: Callable[..., Activation]
    default: float | None = None
    parameter: tuple[str, ...] = ()


_CATALOGUE: dict[str, _Builtin] = {
    "linear": _Builtin(_piecewise.linear),
    "relu": _Builtin(_piecewise.relu),
    "leaky_relu": _Builtin(_piecewise.leaky_relu, 0.01, ("slope", "negative_slope")),
    "tanh": _Builtin(_smooth.tanh),
    "sin": _Builtin(_smooth.sin),
    "sigmoid": _Builtin(_smooth.sigmoid),
    "softplus": _Builtin(_smooth.softplus, 1.0, ("beta",)),
    "softplus_shifted": _Builtin(_smooth.softplus_shifted),
    "gelu": _Builtin(_smooth.gelu),
    "gelu_tanh": _Builtin(_smooth.gelu_tanh),
    "quick_gelu": _Builtin(_smooth.quick_gelu),
    "swish": _Builtin(_smooth.swish),
    "mish": _Builtin(_smooth.mish),
    "elu": _Builtin(_piecewise.elu, 1.0, ("alpha",)),
    "celu": _Builtin(_piecewise.celu, 1.0, ("alpha",)),
    "selu": _Builtin(_piecewise.selu),
    "erf": _Builtin(_smooth.erf),
    "logsigmoid": _Builtin(_smooth.logsigmoid),
    "softsign": _Builtin(_piecewise.softsign),
    "tanhshrink": _Builtin(_smooth.tanhshrink),
    "hardtanh": _Builtin(_piecewise.hardtanh),
    "hardsigmoid": _Builtin(_piecewise.hardsigmoid),
    "hardswish": _Builtin(_piecewise.hardswish),
    "relu6": _Builtin(_piecewise.relu6),
    "monomial": _Builtin(_smooth.monomial, 2.0, ("power",)),
    "quadratic": _Builtin(_smooth.monomial, 2.0),
    "perceptron": _Builtin(_piecewise.perceptron),
    "exp": _Builtin(_smooth.exp),
}
# Differences from a built-in activation that are roundings: of float64, and of libraries that replace
# a function by its asymptote where float32 does not see it (softplus of torch beyond 20, by 2e-9).
_TRACED, _FOREIGN = 1e-12, 2e-10
_TINY = 1e-70  # of a parameter, so that fourth powers of it and of its inverse are numbers
BUILTIN_NAMES: tuple[str, ...] = tuple(_CATALOGUE)
_MADE: WeakValueDictionary[tuple[Any, ...], Activation] = WeakValueDictionary()  # of callables
# What the same functions are called elsewhere, in configurations of models for instance.
_ALSO = {
    "silu": "swish",
    "hard_silu": "hardswish",
    "identity": "linear",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_python": "gelu",
    "logistic": "sigmoid",
    "step": "perceptron",
    "heaviside": "perceptron",
    "square": "quadratic",
}


def _spelling(name: str) -> str:
    """A name without what people write differently: LeakyReLU, leaky-relu and leaky_relu."""
    return re.sub(r"[\s_-]", "", name).lower()


_KEYS = {_spelling(key): key for key in BUILTIN_NAMES} | {_spelling(k): v for k, v in _ALSO.items()}


_SOURCE = "the name of an activation, a callable or an Activation"


@checked
def activation(
    source: Annotated[str | Activation | Callable[[Any], Any], Must(_SOURCE)],
    *,
    kinks: Sequence[FiniteNumber] = (),
    name: str | None = None,
) -> Activation:
    r"""An activation function by name, or from any JAX-traceable callable.

    Args:
        source: A name (``"tanh"``; case and underscores do not matter, and names of other libraries
            such as ``"silu"`` and ``"gelu_new"`` are known), a name with its parameter
            (``"leaky_relu(0.1)"``, ``"elu(alpha=0.5)"``, ``"monomial(3)"``), an `Activation`
            (returned as it is), or a callable that maps an array to an array of the same shape, entry
            by entry. Of any library if what it computes is a built-in activation, which is found by
            comparing values (``torch.nn.GELU()``); otherwise one that JAX can trace.
        kinks: For a callable: where it or one of its first three derivatives jumps. An undeclared
            kink is refused, with its place named, because every quadrature rule across it would be
            quietly wrong.
        name: For a callable: what to call it; its ``__name__`` otherwise.

    Returns:
        The activation with its derivatives to third order.

    Raises:
        ValueError: If the name is unknown, or the callable cannot be traced by JAX and is not a
            built-in activation, changes the shape, treats entries together, computes in less than
            float64, returns complex numbers or one that is not finite, or has a kink that was not
            declared; or if `kinks` or `name` are given with what has its own.
        TypeError: If `source` is none of the above.

    Example:
        >>> import scalewise as sw
        >>> sw.activation("tanh").taylor
        (0.0, 1.0, 0.0, -2.0, 0.0, 16.0)
        >>> sw.activation("leaky_relu(0.1)").slopes
        (0.1, 1.0)
    """
    if callable(source) and not isinstance(source, Activation):
        return _of_callable(source, tuple(kinks), name)
    if len(kinks) or name is not None:
        raise ValueError(
            f"`{'kinks' if len(kinks) else 'name'}` must be left out with {str(source)!r}, which has its own; "
            "it is for a callable."
        )
    return source if isinstance(source, Activation) else _by_name(source)


ActivationLike = Annotated[Any, Must(_SOURCE, to=activation)]


def _of_callable(
    function: Callable[[Any], Any], kinks: tuple[float, ...], name: str | None
) -> Activation:
    """The built-in activation that it is, or one with derivatives by autodiff."""
    label = name or getattr(function, "__name__", type(function).__name__)
    try:
        require(
            "jax",
            for_=f"The activation {label!r}, whose values are not those of a built-in one,",
            extra="jax",
        )
        from scalewise.activations._callable import from_callable
        from scalewise.activations._tracing import traced, values_at

        own = traced(function, label)
    except (MissingExtraError, NotTraceableError):
        found = foreign_values(function, label)
        known = None if found is None else recognise(found, _candidates, _FOREIGN)
        if known is None:
            raise
        return known if name is None else replace(known, name=name)
    values = values_at(own, PROBES)
    # Declared kinks are taken at their word.
    known = None if kinks else recognise(values, _candidates, _TRACED)
    if known is not None:
        return known if name is None else replace(known, name=name)
    of = (function, kinks, label)
    key = (*of, values.tobytes())  # the same object each time, as long as it computes the same
    made = _MADE.get(key) if _has_hash(function) else None
    if made is None:
        made = from_callable(own, kinks, label)
        object.__setattr__(made, "_of", of)  # what goes to another process
        if _has_hash(function):
            _MADE[key] = made
    return made


def _has_hash(function: Callable[[Any], Any]) -> bool:
    try:
        hash(function)
    except TypeError:
        return False
    return True


def _candidates(parameters: dict[str, float]) -> Iterator[Activation]:
    yield from map(_by_name, BUILTIN_NAMES)
    for name, parameter in parameters.items():
        with suppress(ValueError):  # not in the range of this family
            yield _by_name(f"{name}({parameter!r})")


def _by_name(text: str) -> Activation:
    match = re.fullmatch(r"([\w\s-]*?)\s*(?:\(\s*(?:(\w+)\s*=\s*)?([^()=]*?)\s*\))?\s*", text)
    key = _KEYS.get(_spelling(match[1])) if match else None
    if match is None or key is None or match[3] == "":
        raise ValueError(
            f"No activation is called {text!r}.{_did_you_mean(text)} The built-in ones are "
            f"{', '.join(BUILTIN_NAMES)}. For your own, pass a JAX-traceable callable."
        )
    row, given = _CATALOGUE[key], match[3]
    if given is None:
        return _built(row.build, row.default)
    if not row.parameter:
        raise ValueError(f"The activation {key!r} takes no parameter; got {text!r}. Write {key!r}.")
    if match[2] not in (None, *row.parameter):
        raise ValueError(
            f"The parameter of {key!r} is called {' or '.join(row.parameter)}; got {text!r}."
        )
    try:
        value = float(given)
    except ValueError:
        raise ValueError(f"The parameter in {text!r} is not a number.") from None
    if not (value == 0 or _TINY <= abs(value) <= 1 / _TINY):
        raise ValueError(
            f"The parameter in {text!r} must be finite, and 0 or from {_TINY:g} to {1 / _TINY:g} in size, so "
            "that its fourth power and that of its inverse are numbers."
        )
    return _built(row.build, value)


@lru_cache(maxsize=256)  # the same object each time, so that JAX compiles its networks once
def _built(build: Callable[..., Activation], parameter: float | None) -> Activation:
    return build() if parameter is None else build(parameter)


def _reduced(known: Activation) -> Any:
    """Pickle an activation by its name or its callable, so that unpickling gives the same object."""
    with suppress(ValueError):
        if _by_name(known.name) is known:
            return _by_name, (known.name,)
    of = getattr(known, "_of", None)
    return known.__reduce_ex__(4) if of is None else (_of_callable, of)


copyreg.pickle(Activation, _reduced)


def _did_you_mean(text: str) -> str:
    near = difflib.get_close_matches(_spelling(text.split("(")[0]), _KEYS, n=1, cutoff=0.75)
    return f" Did you mean {_KEYS[near[0]]!r}?" if near else ""
