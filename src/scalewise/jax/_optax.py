"""The settings of every tensor for an optimiser of optax, wrapped around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from scalewise._extras import require
from scalewise.jax._trees import dotted, resolved
from scalewise.plan import Plan, PlanError

if TYPE_CHECKING:
    import optax


def factor_tree(table: Plan, tree: Any, setting: str) -> Any:
    """A tree of factors, Python floats: those of the plan, 1 for leaves that are not trained.

    Raises:
        PlanError: If the tree has a floating-point array that the plan does not know.
    """
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: (
            getattr(table.factors(resolved(table, dotted(path))), setting)
            if is_trained(leaf)
            else 1.0
        ),
        tree,
    )


def wrapped(
    table: Plan, tx: optax.GradientTransformation, check: bool
) -> optax.GradientTransformationExtraArgs:
    """`JaxPlan.optax`, where the factors are derived."""
    require("optax", for_="`plan.optax`", extra="jax")
    import optax

    from scalewise.jax._optimizers import check_optimizer
    from scalewise.jax._trials import depends_on_tree

    if not isinstance(tx, optax.GradientTransformation):
        raise PlanError(
            f"`plan.optax` takes an optimiser of optax, such as optax.adamw(3e-3); got {type(tx).__name__}."
        )
    # One that knows its tree is tried when it sees it.
    tried = not check or check_optimizer(tx, table)
    inner = optax.with_extra_args_support(tx)
    factors = {name: table.factors(name) for name in table.names}
    _refuse_epsilon(table)

    def gradient(name: str) -> float:
        """The divisor of a gradient, so that epsilon is as large beside it as at the base."""
        eps = table[name].law.eps
        return (
            1.0 if eps is None or not eps.gradient else factors[name].eps ** float(1 / eps.gradient)
        )

    def weight(name: str) -> float:
        decay = table[name].law.decay
        added = gradient(name) ** float(decay.gradient) if decay is not None else 1.0
        return factors[name].weight_decay / added

    def moved(name: str) -> float:
        h, norm = table[name].law.degree, table[name].law.norm
        own = gradient(name) ** float(h) * weight(name) ** float(norm.weight * (1 - h))
        return factors[name].lr * own

    def init(params: Any) -> Any:
        _scaled(table, params, lambda _: 1.0)
        if not tried or (check and depends_on_tree(tx, params)):
            check_optimizer(tx, table, like=params)
        return inner.init(params)

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        gradients = _scaled(table, updates, lambda name: 1 / gradient(name))
        weights = None if params is None else _scaled(table, params, weight)
        out, state = inner.update(gradients, state, weights, **extra)
        return _scaled(table, out, moved, like=updates), state

    return optax.GradientTransformationExtraArgs(init, update)


def _refuse_epsilon(table: Plan) -> None:
    """Refuse a plan whose epsilon no scale of the gradient can stand for.

    Raises:
        PlanError: If it is compared with what does not go with the gradient.
    """
    for t in table.tensors:
        eps = t.law.eps
        if eps is not None and not eps.gradient and table.factors(t.name).eps != 1:
            raise PlanError(
                f"{t.optimizer!r} compares epsilon with a step that is normalised already, so `{t.name}` needs an "
                f"epsilon {table.factors(t.name).eps:.4g} times that of the base, which plan.optax cannot give. "
                "Take plan.multiplier_tree(tree, 'eps') and 'lr', in a chain of your own."
            )


def _scaled(table: Plan, tree: Any, factor: Callable[[str], float], like: Any = None) -> Any:
    """A tree times a factor for each tensor; leaves whose factor is 1 are passed on as they are.

    So are those that are not trained, of which optimisers may make floating-point numbers: `like` is the tree
    before.
    """
    before = jax.tree_util.tree_leaves_with_path(tree if like is None else like)
    trained = {dotted(path) for path, leaf in before if is_trained(leaf)}

    def one(path: tuple[Any, ...], leaf: Any) -> Any:
        if dotted(path) not in trained:
            return leaf
        # Raises for a name that the plan does not know.
        f = factor(table[resolved(table, dotted(path))].name)
        return leaf if f == 1 else leaf * f

    return jax.tree_util.tree_map_with_path(one, tree)


def is_trained(leaf: Any) -> bool:
    """True if a leaf is an array, or its gradient, that an optimiser moves."""
    kind = getattr(leaf, "dtype", type(leaf))
    return kind in (float, complex) or (
        hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.inexact)
    )
