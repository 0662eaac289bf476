"""What an optimiser of optax does, found by trying it: is it the kind that the plan was made for?

Each statement is made on evidence only. An optimiser that cannot be tried on two small matrices (because it
holds a mask of another tree, or wants further arguments) is taken on trust.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from scalewise.plan import Plan, PlanError

if TYPE_CHECKING:
    import optax

__all__ = ["check_optimizer"]

_UNTRIED = (TypeError, ValueError, KeyError, AttributeError, NotImplementedError, AssertionError)
_SMALL, _GREAT, _HUGE = 1e-3, 1e7, 1e12


def check_optimizer(tx: optax.GradientTransformation, table: Plan) -> None:
    """Refuse an optimiser that scales otherwise than the plan says.

    Args:
        tx: The optimiser.
        table: The plan.

    Raises:
        PlanError: If it follows the gradient and the plan is for Adam, or the reverse; if its weight decay
            is decoupled and the plan's is not, or the reverse; if it mixes tensors that the plan scales
            apart, or normalises whole tensors.
    """
    try:
        small = _update(tx, _SMALL, _SMALL)
        if not small.any():
            return
        _check_kind(tx, table.optimizer, small)
        if table.optimizer != "sgd":
            _check_decay(tx, table.optimizer)
            _check_mixing(tx, table)
    except _UNTRIED as error:
        if isinstance(error, PlanError):
            raise


def _update(tx: optax.GradientTransformation, a: Any, b: Any, *, weight: Any = 0.0) -> np.ndarray:
    """The second update of a 2 x 2 matrix beside another, under constant gradients `a` and `b`."""
    params = {"a": _matrix(weight), "b": _matrix(1.0)}
    grads = {"a": _matrix(a), "b": _matrix(b)}
    _, state = tx.update(grads, tx.init(params), params)
    # The first step of a warm-up is often zero.
    updates: Any = tx.update(grads, state, params)[0]
    return np.asarray(updates["a"], dtype=float)


def _matrix(entries: Any) -> Any:
    return jnp.broadcast_to(jnp.asarray(entries, float), (2, 2))


def _largest(update: np.ndarray) -> float:
    return float(abs(update).max())


def _check_kind(tx: optax.GradientTransformation, optimizer: str, small: np.ndarray) -> None:
    # Small gradients tell from clipping, great ones from a large epsilon.
    fixed = _largest(_update(tx, 10 * _SMALL, 10 * _SMALL)) < 2 * _largest(small)
    great = [_largest(_update(tx, g, g)) for g in (_GREAT, 10 * _GREAT)]
    if optimizer == "sgd" and fixed:
        raise PlanError(
            "The plan was made for gradient descent (optimizer='sgd'), but the updates of this optimiser "
            "do not grow with the gradient, as Adam's do not. Make the plan with optimizer='adamw', or "
            "'adam' if weight decay is added to the gradient."
        )
    if optimizer != "sgd" and great[1] > 5 * great[0]:
        raise PlanError(
            f"The plan was made for optimizer={optimizer!r}, whose steps have a fixed size, but the updates "
            "of this optimiser grow with the gradient. Make the plan with optimizer='sgd'."
        )


def _check_decay(tx: optax.GradientTransformation, optimizer: str) -> None:
    """With no gradient all that is left is weight decay: linear in the weight, or normalised too."""
    one, two = (_largest(_update(tx, 0.0, 0.0, weight=w)) for w in (_GREAT, 2 * _GREAT))
    if not one:
        return
    if optimizer == "adam" and two > 1.5 * one:
        raise PlanError(
            "The plan was made for optimizer='adam', whose weight decay is added to the gradient, but the "
            "weight decay of this optimiser is decoupled. Make the plan with optimizer='adamw'."
        )
    if optimizer == "adamw" and two < 1.5 * one:
        raise PlanError(
            "The plan was made for optimizer='adamw', whose weight decay is decoupled, but this optimiser "
            "adds it to the gradient that it normalises. Make the plan with optimizer='adam'."
        )


def _check_mixing(tx: optax.GradientTransformation, table: Plan) -> None:
    alone = _update(tx, _SMALL, _SMALL, weight=1.0)
    if not np.allclose(_update(tx, _SMALL, _HUGE, weight=1.0), alone, rtol=1e-2):
        if all(table.factors(t.name).eps == 1 for t in table.tensors):
            return
        raise PlanError(
            "This optimiser makes the update of one tensor depend on the gradients of others, as clipping "
            "by the global norm does, and it would see gradients that the plan has divided by the factors "
            "of epsilon. Put it outside: optax.chain(optax.clip_by_global_norm(c), "
            "plan.optax(optax.adamw(...)))."
        )
    corner = np.array([[0.0, 0.0], [0.0, 1.0]])
    gradient = _update(tx, _SMALL + corner * _HUGE, _SMALL, weight=1.0)
    weight = _update(tx, _SMALL, _SMALL, weight=1.0 + corner * _HUGE)
    if not np.allclose([gradient[0, 0], weight[0, 0]], alone[0, 0], rtol=1e-2):
        raise PlanError(
            "This optimiser makes the update of one entry of a tensor depend on its other entries, so it "
            "scales neither as Adam nor as gradient descent. Plan the tensors that Adam trains; for others "
            "take `plan.multiplier_tree`, or `plan.optax(tx, check=False)` if you know that Adam's rules "
            "hold."
        )
