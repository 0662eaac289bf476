"""Tracing a model's call once at each of two widths, on whatever it takes, to see what its forward pass does."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise._warn import warn
from scalewise.jax._describe import Described, parameters
from scalewise.jax._trace import Known, Walk, weight
from scalewise.jax._trees import is_nnx_module, rebuilt
from scalewise.plan import Kind, PlanError
from scalewise.plan.spi import (
    Forward,
    Inputs,
    Multiplied,
    Passes,
    PlanWarning,
    held_in,
    nothing_returned,
)

_SIDES, _LENGTHS, _TRIALS = (8, 16, 32, 28), (4, 8, 16), 60
_UNSEEN = (
    "The plan has not seen the forward pass of the model, so what it multiplies by, and whether attention heads "
    "grow in it, is not known. {}"
)
_NO_CALL = (
    "Say how it is called: apply=..., a function of what `init_fn` returns and of the inputs (and of any size of "
    "`base` that it has an argument for)."
)
_NO_INPUT = (
    "It could be called with none of the inputs that were tried: say inputs=..., one array, a tuple of arguments, "
    "or a dict of named ones, or how it is called: apply=... ({}: {})"
)


@dataclass(frozen=True)
class ModelCall:
    """How a model is built and called.

    Args:
        init_fn: Builds it.
        apply: Calls it: a function of the model and its inputs; ``None`` where the model itself is one.
        layout: How its tensors are named.
    """

    init_fn: Callable[..., Any]
    apply: Callable[..., Any] | None
    layout: str

    def function(self, sizes: Mapping[str, object]) -> Callable[..., Any]:
        """A function of the inputs alone that marks every tensor of the model."""

        def run(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
            return self.outputs(marked(self.init_fn(**sizes), self.layout), args, kwargs, sizes)

        return run

    def outputs(
        self,
        model: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        sizes: Mapping[str, object],
    ) -> list[Any]:
        """The arrays that a model returns, as it is evaluated."""
        if is_nnx_module(model):
            model.eval()
        if self.apply is not None:
            out = self.apply(model, *args, **kwargs, **_asked(self.apply, sizes))
        elif callable(model):
            out = model(*args, **kwargs, **_keys(model))
        else:
            raise TypeError(f"{type(model).__name__} is not a function")
        found = held_in(jax.tree.leaves(out), lambda x: isinstance(x, jax.Array))
        arrays = [x for x in found if jnp.issubdtype(x.dtype, jnp.inexact)]
        if not arrays:
            raise PlanError(nothing_returned(out))
        return arrays


def marked(tree: Any, layout: str) -> Any:
    """A model whose tensors tell their names to whoever walks through what is traced."""
    names: dict[str | int, str] = {}
    new: dict[str, Any] = {}
    for place in parameters(tree, layout):
        name = names.setdefault(place.identity, place.name)
        new[place.name] = weight.bind(jnp.asarray(place.value), name=name)
        if place.cell is not None and name == place.name:
            place.cell[...] = new[name]
    inside = layout == "linen" and isinstance(tree, Mapping) and "params" in tree
    start = "params." if inside else ""

    def one(name: str, leaf: Any) -> Any:
        return new.get(name.removeprefix(start), leaf) if name.startswith(start) else leaf

    return rebuilt(tree, one)


def look(
    call: ModelCall,
    narrow: tuple[Mapping[str, object], Described],
    wide: tuple[Mapping[str, object], Described],
    ratio: Fraction,
    inputs: Inputs | None,
) -> Passes | None:
    """The forward pass at two widths, as it was seen.

    Args:
        call: How the model is built and called.
        narrow: Its sizes at the narrower width, and its tensors there.
        wide: The same at another.
        ratio: The other width over the first.
        inputs: What to call it with; ``None`` to try.

    Returns:
        What was seen; nothing, with a warning, where no input was found that the model takes.

    Raises:
        PlanError: If the model cannot be called with the inputs that were given.
    """
    first, problem = None, None
    known = call.apply is not None or _is_called(call, narrow[0])
    trials = _guesses(call, narrow, wide[1]) if inputs is None else iter([inputs])
    for count, trial in enumerate(trials if known else ()):
        if count == _TRIALS:
            break
        try:
            first, inputs = seen(call, narrow[0], trial), trial
            break
        except PlanError:
            raise
        except Exception as error:
            problem = error
    if first is None or inputs is None:
        told = "" if problem is None else str(problem).partition("\n")[0]
        if inputs is not None and known:
            raise PlanError(
                f"The model cannot be called with the `inputs` given: {type(problem).__name__}: {told}. "
                "Give what it is called with: one array, a tuple of arguments, or a dict of named ones."
            ) from problem
        what = _NO_CALL if problem is None else _NO_INPUT.format(type(problem).__name__, told)
        warn(_UNSEEN.format(what), PlanWarning)
        return None
    try:
        return Passes(first, seen(call, wide[0], inputs), ratio)
    except Exception as error:
        raise PlanError(
            "The model runs at the base width, but not at another width on the same input: "
            f"{type(error).__name__}: {str(error).partition(chr(10))[0]}. What the model is called with must not "
            "depend on the width."
        ) from error


def seen(call: ModelCall, sizes: Mapping[str, object], inputs: Inputs) -> Forward:
    """One pass, traced and not computed."""
    leaves, tree = jax.tree.flatten((inputs.args, dict(inputs.kwargs)))
    arrays = [i for i, x in enumerate(leaves) if hasattr(x, "shape") and hasattr(x, "dtype")]
    run = call.function(sizes)

    def of_arrays(*values: Any) -> Any:
        whole = list(leaves)
        for i, value in zip(arrays, values, strict=True):
            whole[i] = value
        return run(*jax.tree.unflatten(tree, whole))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        closed = jax.make_jaxpr(of_arrays)(*(leaves[i] for i in arrays))
    walk = Walk()
    found: list[Known] = walk.run(closed, [walk.input(v.aval) for v in closed.jaxpr.invars])
    walk.flow.bent([k.value for k in found if k.value is not None])
    told = walk.flow.summary()
    paths = walk.tracks.paths(k.passed for k in found if k.value is not None)
    return replace(
        told,
        weights=_around(told.weights),
        lookups=_around(told.lookups),
        paths=paths,
        pieces=walk.read,
        uses=walk.uses.uses() | walk.flow.used(),
    )


def _around(found: Mapping[str, Multiplied]) -> dict[str, Multiplied]:
    """No module parts what multiplies a tensor's output from the tensor: it is either before that, or inside."""
    return {n: Multiplied(m.before * m.inside, m.after) for n, m in found.items()}


def _is_called(call: ModelCall, sizes: Mapping[str, object]) -> bool:
    """True if the factory builds a function."""
    found: list[bool] = []
    jax.eval_shape(lambda: found.append(callable(call.init_fn(**sizes))))
    return found[0]


def _asked(function: Callable[..., Any], sizes: Mapping[str, object]) -> dict[str, object]:
    """Those sizes for which a function has an argument by name."""
    return {n: v for n, v in sizes.items() if n in _parameters(function)}


def _keys(model: Any) -> dict[str, Any]:
    """A random key for each named argument that a model cannot do without."""
    named = _parameters(model).values()
    asked = [p.name for p in named if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    return {name: jax.random.key(0) for name in asked}


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def _guesses(
    call: ModelCall, narrow: tuple[Mapping[str, object], Described], wide: Described
) -> Iterator[Inputs]:
    """Inputs that the model may take: tokens, numbers, images, sequences, as its tensors suggest."""
    wanted = _arguments(call, narrow[0])
    for array in _arrays(narrow[1], wide):
        yield Inputs((array,) * wanted)
        if wanted == 2:
            yield Inputs((array, np.ones(len(array), np.float32)))


def _arguments(call: ModelCall, sizes: Mapping[str, object]) -> int:
    """How many arguments the model cannot do without."""
    found: list[int] = []

    def count(function: Callable[..., Any], but: int) -> None:
        known = [p for n, p in _parameters(function).items() if n not in sizes]
        plain = [p for p in known if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        found.append(max(1, sum(p.default is p.empty for p in plain) - but))

    if call.apply is not None:
        count(call.apply, 1)
    else:
        jax.eval_shape(lambda: count(call.init_fn(**sizes), 0))
    return found[0]


def _arrays(narrow: Described, wide: Described) -> Iterator[Any]:
    twins = wide.model.named()
    tensors = [t for t in narrow.model.tensors if t.name in twins]
    # Axes that do not grow may be what the model is given.
    fixed = {
        t.name: [
            i for i, (a, b) in enumerate(zip(t.shape, twins[t.name].shape, strict=False)) if a == b
        ]
        for t in tensors
    }
    tables = [t for t in tensors if t.kind is Kind.LOOKUP]
    if tables:
        words = min(t.shape[0] for t in tables)
        lengths = dict.fromkeys((*_LENGTHS, *(t.shape[0] for t in tables)))
        for length in (n for n in lengths if n <= 4096):
            tokens = (np.arange(2 * length) % words).reshape(2, length)
            yield from (tokens, tokens[0])
    for t in (t for t in tensors if len(t.shape) == 2 and fixed[t.name]):
        for size in dict.fromkeys(t.shape[i] for i in fixed[t.name]):
            for shape in ((2, size), (2, 4, size), (size,), (4, size)):
                yield np.ones(shape, np.float32)
    for t in (t for t in tensors if t.kind is Kind.MATRIX and len(t.shape) > 2 and t.fan_in):
        axes = len(t.shape) - 2
        for size in dict.fromkeys(t.shape[i] for i in fixed[t.name] if i in t.fan_in):
            for side in (s for s in _SIDES if math.prod((s,) * axes) <= 4096):
                box = (side,) * axes
                for shape in ((2, *box, size), (size, *box)):
                    yield np.ones(shape, np.float32)
    for t in (t for t in tensors if t.kind is Kind.UNKNOWN and t.shape):
        # A table that is picked from.
        tokens = (np.arange(8) % t.shape[0]).reshape(2, 4)
        yield from (tokens, tokens[0])
