"""Steps by which an optimiser of optax is tried: one matrix of a tree under one gradient, all others another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

# The later half is looked at: enough for a warm-up that starts at zero, a few steps that are gathered, and
# moments that are not used at first.
STEPS = 16
_SIDE = 2  # entries along an axis of the matrices


@dataclass(frozen=True)
class Found:
    """The results of a few steps.

    Args:
        update: The sum of the later updates of one matrix.
        before: Floating-point leaves of the state at the start.
        after: The same at the end.
    """

    update: np.ndarray
    before: list[np.ndarray]
    after: list[np.ndarray]


def trials(tx: Any, like: Any) -> tuple[list[str], Callable[..., Found]]:
    """Names of the matrices, and a function that takes steps: one matrix under one gradient, all others another."""
    tx = optax.with_extra_args_support(tx)
    tree = {"a": 0.0, "b": 0.0} if like is None else like
    paths = [p for p, leaf in jax.tree_util.tree_leaves_with_path(tree) if is_float(leaf)]
    names = [jax.tree_util.keystr(p) for p in paths]

    def filled(name: str, one: Any, others: Any) -> Any:
        def entry(path: Any, leaf: Any) -> Any:
            if not is_float(leaf):
                return leaf
            value = np.asarray(one if jax.tree_util.keystr(path) == name else others, float)
            return jnp.asarray(_of_axes(value, 2 if like is None else np.ndim(leaf)))

        return jax.tree_util.tree_map_with_path(entry, tree)

    def steps(grads: Any, params: Any, scan: Callable[..., Any]) -> tuple[Any, Any, Any]:
        more = {"value": jnp.asarray(1.0), "grad": grads, "value_fn": lambda _: jnp.asarray(1.0)}

        def step(state: Any, _: Any) -> tuple[Any, Any]:
            # As little as it asks for: the value of the loss, or all that a line search wants.
            for extra in ({}, {"value": more["value"]}):
                try:
                    return tx.update(grads, state, params, **extra)[::-1]
                except TypeError:
                    continue
            return tx.update(grads, state, params, **more)[::-1]

        first = tx.init(params)
        state, updates = scan(step, first)
        return jax.tree.map(lambda u: u[STEPS // 2 :].sum(0), updates), first, state

    def compiled(step: Any, state: Any) -> Any:
        return jax.lax.scan(step, state, None, length=STEPS)

    def one_by_one(step: Any, state: Any) -> Any:
        found = []
        for _ in range(STEPS):
            state, updates = step(state, None)
            found.append(updates)
        return state, jax.tree.map(lambda *u: jnp.stack(u), *found)

    def slow(grads: Any, params: Any) -> tuple[Any, Any, Any]:
        return steps(grads, params, one_by_one)

    walk = jax.jit(lambda grads, params: steps(grads, params, compiled))

    def trial(name: str, one: Any, others: Any, *, weight: Any = 0.0) -> Found:
        nonlocal walk
        with jax.ensure_compile_time_eval():
            grads, params = filled(name, one, others), filled(name, weight, 1.0)
            try:
                total, before, after = walk(grads, params)
            except Exception:
                # Some look at values, which only works without compilation.
                walk = slow
                total, before, after = walk(grads, params)
            leaves = jax.tree_util.tree_leaves_with_path(total)
            mine = next(leaf for p, leaf in leaves if jax.tree_util.keystr(p) == name)
            return Found(np.asarray(mine, dtype=float), _floats(before), _floats(after))

    return names, trial


def depends_on_tree(tx: optax.GradientTransformation, like: Any) -> bool:
    """True if an optimiser treats the tensors of a tree otherwise than those of any other, by name or by shape.

    One that does not computes and keeps as much for each further tensor as for the second of two.

    Args:
        tx: The optimiser.
        like: A tree of parameters.
    """

    def amount(tree: Any) -> tuple[int, int]:
        state = jax.eval_shape(tx.init, tree)
        traced = jax.make_jaxpr(lambda g, s, p: tx.update(g, s, p))(tree, state, tree)
        return len(jax.tree.leaves(state)), len(traced.jaxpr.eqns)

    def few(leaf: Any) -> Any:
        return jax.ShapeDtypeStruct((_SIDE,) * np.ndim(leaf), float) if is_float(leaf) else leaf

    matrix = jax.ShapeDtypeStruct((_SIDE, _SIDE), float)
    count = len(jax.tree.leaves(like))
    try:
        one, two = amount({"a": matrix}), amount({"a": matrix, "b": matrix})
        found = amount(jax.tree.map(few, like))
    except Exception:
        return True
    return any(f != a + (count - 1) * (b - a) for f, a, b in zip(found, one, two, strict=True))


def same(one: Found, two: Found) -> bool:
    return len(one.after) == len(two.after) and np.allclose(one.update, two.update, rtol=1e-4)


def _of_axes(value: np.ndarray, axes: int) -> np.ndarray:
    """A number or a matrix as a small array of so many axes, cut off or repeated."""
    while value.ndim > axes:
        value = value[-1]
    return np.broadcast_to(value, (_SIDE,) * axes)


def is_float(leaf: Any) -> bool:
    kind = getattr(leaf, "dtype", type(leaf))
    return kind is float or (hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.inexact))


def _floats(state: Any) -> list[np.ndarray]:
    return [np.asarray(x, dtype=float) for x in jax.tree.leaves(state) if is_float(x)]
