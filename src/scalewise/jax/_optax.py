"""The settings of every tensor for an optimiser of optax, wrapped around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from scalewise.jax._optimizers import check_optimizer, depends_on_tree
from scalewise.jax._trees import dotted
from scalewise.plan import Plan, PlanError
from scalewise.plan._names import bare

if TYPE_CHECKING:
    import optax

__all__ = ["factor_tree", "optax_of_the_user", "resolved", "wrapped"]


def resolved(table: Plan, name: str) -> str:
    """The name by which a plan knows a leaf: without the step into an NNX variable or a collection."""
    ends = (name, name.removesuffix(".value"))
    for candidate in (*ends, *(e.removeprefix("params.") for e in ends)):
        if bare(candidate, table.names) in table.names:
            return candidate
    return name


def factor_tree(table: Plan, tree: Any, setting: str) -> Any:
    """A tree of factors, Python floats: those of the plan, 1 for leaves that are not trained.

    Raises:
        PlanError: If the tree has a floating-point array that the plan does not know.
    """
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: (
            getattr(table.factors(resolved(table, dotted(path))), setting)
            if _trained(leaf)
            else 1.0
        ),
        tree,
    )


def optax_of_the_user() -> Any:
    """The library, which only optimisers need.

    Raises:
        ImportError: If it is not installed.
    """
    try:
        import optax
    except ImportError as error:
        raise ImportError(
            "Optimisers of jax need optax, which is not installed: pip install 'scalewise[optax]'."
        ) from error
    return optax


def wrapped(
    table: Plan, tx: optax.GradientTransformation, check: bool
) -> optax.GradientTransformationExtraArgs:
    """`JaxPlan.optax`, where the factors are derived."""
    optax = optax_of_the_user()
    if not isinstance(tx, optax.GradientTransformation):
        raise PlanError(
            f"`plan.optax` takes an optimiser of optax, such as optax.adamw(3e-3); got {type(tx).__name__}."
        )
    # One that knows its tree is tried when it sees it.
    tried = not check or check_optimizer(tx, table)
    inner = optax.with_extra_args_support(tx)
    factors = {name: table.factors(name) for name in table.names}
    before_decay = table.optimizer == "adam"

    def shown(name: str) -> float:
        f = factors[name]
        return f.weight_decay / f.eps if before_decay else f.weight_decay

    def init(params: Any) -> Any:
        _scaled(table, params, lambda _: 1.0)
        if not tried or (check and depends_on_tree(tx, params)):
            check_optimizer(tx, table, like=params)
        return inner.init(params)

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        gradients = _scaled(table, updates, lambda name: 1 / factors[name].eps)
        weights = None if params is None else _scaled(table, params, shown)
        out, state = inner.update(gradients, state, weights, **extra)
        return _scaled(table, out, lambda name: factors[name].lr, like=updates), state

    return optax.GradientTransformationExtraArgs(init, update)


def _scaled(table: Plan, tree: Any, factor: Callable[[str], float], like: Any = None) -> Any:
    """A tree times a factor for each tensor; leaves whose factor is 1 are passed on as they are.

    So are those that are not trained, of which optimisers may make floating-point numbers: `like` is the tree
    before.
    """
    before = jax.tree_util.tree_leaves_with_path(tree if like is None else like)
    trained = {dotted(path) for path, leaf in before if _trained(leaf)}

    def one(path: tuple[Any, ...], leaf: Any) -> Any:
        if dotted(path) not in trained:
            return leaf
        # Raises for a name that the plan does not know.
        f = factor(table[resolved(table, dotted(path))].name)
        return leaf if f == 1 else leaf * f

    return jax.tree_util.tree_map_with_path(one, tree)


def _trained(leaf: Any) -> bool:
    kind = getattr(leaf, "dtype", type(leaf))
    return kind in (float, complex) or (
        hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.inexact)
    )
