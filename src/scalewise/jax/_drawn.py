"""How a factory draws each parameter: the equations that make it, computed again from evenly spread random bits.

The factory is traced and not run: parameters whose law these equations tell are drawn here, from the same numbers.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.interpreters.partial_eval import dce_jaxpr

from scalewise.jax._describe import parameters
from scalewise.jax._spread import EvenSpread, Spreads
from scalewise.jax._trees import is_nnx_module
from scalewise.reading.spi import ParameterLaw, law_of

_DRAWS, _ENTRIES = 8, 1 << 14  # of a factory that takes a seed, and how many entries are enough


def drawn(
    build: Callable[..., Any], sizes: Mapping[str, Any], layout: str, seed: str
) -> tuple[Any, Mapping[str, ParameterLaw], tuple[str, ...]]:
    """A factory's model, and how each of its parameters is drawn.

    Args:
        build: The factory.
        sizes: What it is called with.
        layout: How its tensors are named.
        seed: What it calls the whole number that it draws by, if it takes one.

    Returns:
        The model, the law of each parameter, and those of which only entries tell how they are drawn.
    """
    laws: dict[str, ParameterLaw] = {}
    try:
        model = _from_equations(lambda: build(**sizes), layout, laws)
    except jax.errors.JAXTypeError:
        # it looks at numbers that it draws
        model = build(**sizes)
    entries = {
        p.name: [np.asarray(p.value)] for p in parameters(model, layout) if p.name not in laws
    }
    random = [name for name, (value,) in entries.items() if len(np.unique(value)) > 1]
    if random and seed in inspect.signature(build).parameters:
        fewest = min(entries[name][0].size for name in random)
        for k in range(1, min(_DRAWS, math.ceil(_ENTRIES / fewest))):
            for name, value in _drawn_again(
                lambda k=k: build(**sizes, **{seed: k}), layout, random
            ):
                entries[name].append(value)
    for name, own in entries.items():
        laws[name] = law_of(np.concatenate([value.ravel() for value in own]), few=True)
    return model, laws, tuple(random)


def told_by_entries(model: Any, layout: str) -> dict[str, ParameterLaw]:
    """How parameters were drawn, as far as their entries tell."""
    return {p.name: law_of(np.asarray(p.value), few=True) for p in parameters(model, layout)}


def _from_equations(build: Callable[[], Any], layout: str, laws: dict[str, ParameterLaw]) -> Any:
    """A model, and the laws that the equations of its factory tell."""
    leaves: list[Any] = []
    back: list[Callable[[list[Any]], Any]] = []
    names: dict[int, str] = {}

    def run() -> list[Any]:
        model = build()
        own, whole = _apart(model)
        places = {id(p.value): p.name for p in parameters(model, layout)}
        leaves.extend(own)
        back.append(whole)
        traced = [k for k, leaf in enumerate(own) if isinstance(leaf, Tracer)]
        names.update({k: places[id(own[k])] for k in traced if id(own[k]) in places})
        return [own[k] for k in traced]

    closed = jax.make_jaxpr(run)()
    traced = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Tracer)]
    found = dict(zip(traced, Spreads().run(closed, []), strict=True))
    rng = np.random.default_rng(0)
    needed = []
    for at, k in enumerate(traced):
        spread, aval = found[k], closed.out_avals[at]
        if k not in names or spread is None:
            needed.append(at)
            continue
        laws[names[k]] = law_of(spread.values, few=False)
        leaves[k] = jax.device_put(_sampled(spread, aval.shape, rng).astype(aval.dtype))
    for at, value in zip(needed, _computed(closed, needed), strict=True):
        leaves[traced[at]] = value
    return back[0](leaves)


def _drawn_again(
    build: Callable[[], Any], layout: str, names: Sequence[str]
) -> list[tuple[str, np.ndarray]]:
    """Some parameters, and nothing else, of another draw."""
    found: list[str] = []

    def run() -> list[Any]:
        own = [p for p in parameters(build(), layout) if p.name in names]
        found.extend(p.name for p in own)
        return [jnp.asarray(p.value) for p in own]

    try:
        closed = jax.make_jaxpr(run)()
    except jax.errors.JAXTypeError:
        return [
            (p.name, np.asarray(p.value)) for p in parameters(build(), layout) if p.name in names
        ]
    values = _computed(closed, list(range(len(found))))
    return [(name, np.asarray(value)) for name, value in zip(found, values, strict=True)]


def _apart(model: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The arrays of a model, and what makes a model of them."""
    if is_nnx_module(model):
        nnx = sys.modules["flax.nnx"]  # whoever has a module of it has imported it
        graph, state = nnx.split(model)
        leaves, tree = jax.tree.flatten(state)
        return leaves, lambda own: nnx.merge(graph, jax.tree.unflatten(tree, own))
    leaves, tree = jax.tree.flatten(model)
    return leaves, lambda own: jax.tree.unflatten(tree, own)


def _sampled(spread: EvenSpread, shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """Numbers of a law, in any order."""
    own, size = np.ravel(spread.values), math.prod(shape)
    if len(own) == 1:
        return np.full(shape, own[0])
    return rng.choice(own, size, replace=size > len(own)).reshape(shape)


def _computed(closed: ClosedJaxpr, which: list[int]) -> list[Any]:
    """Some results of a traced function."""
    if not which:
        return []
    used = [k in which for k in range(len(closed.jaxpr.outvars))]
    jaxpr, _ = dce_jaxpr(closed.jaxpr, used)
    return jaxpr_as_fun(ClosedJaxpr(jaxpr, closed.consts))()
