"""What an optimiser of optax does, found by trying it: is it the kind that the plan was made for?

No optimiser is known by its name. It is given small matrices under constant gradients for a few steps, and what
it returns and keeps is looked at: how its updates go with the gradient, with the weights and with the gradients
of others, and whether its state holds weights, squares of gradients, or numbers that all tensors share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import jax
import numpy as np
import optax

from scalewise.jax._trees import dotted, resolved
from scalewise.jax._trials import STEPS, Found, is_float, same, trials
from scalewise.plan import Law, Plan, PlanError
from scalewise.plan.spi import ENTRYWISE, Size, bare

_SMALL, _GREAT, _HUGE = 1e-3, 1e7, 1e12
_NEAR = 0.15  # how far a degree may be from a whole number
_LEAVES = 6  # tried in a tree of one's own


def check_optimizer(tx: optax.GradientTransformation, table: Plan, like: Any = None) -> bool:
    """Refuse an optimiser that scales otherwise than the plan says.

    Args:
        tx: The optimiser.
        table: The plan.
        like: A tree of parameters, for an optimiser that knows its tree; by default two matrices.

    Returns:
        Whether it could be tried on such a tree at all.

    Raises:
        PlanError: If it follows the gradient and the plan is for Adam, or the reverse; if its weight decay
            is decoupled and the plan's is not, or the reverse; if it mixes tensors that the plan scales
            apart, normalises whole tensors, or keeps weights of its own; and, with `like`, if it cannot be
            tried.
    """
    if like is None and len(table.laws) > 1:
        # Which tensors follow which law is told by the tree alone.
        return False
    names, trial = trials(tx, like)
    laws = _laws(table, like)
    for name in names if like is None else _chosen(like):
        try:
            small = trial(name, _SMALL, _SMALL)
        except Exception as error:
            if like is None:
                return False
            raise PlanError(
                "This optimiser cannot be tried on small matrices, so whether it follows the plan's rules is not "
                f"known (it raised {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}). "
                "If you know that it does, say plan.optax(tx, check=False)."
            ) from error
        if like is None and name != names[0] and same(small, trial(names[0], _SMALL, _SMALL)):
            continue
        passed = np.allclose(small.update, _SMALL * (STEPS - STEPS // 2), rtol=1e-4)
        if small.update.any() and not passed:
            # Without an update a tensor is held still, and one whose gradient comes out as it went in is left to
            # another transformation: both are what masks want.
            said = laws.get(name, (table.optimizer, next(iter(table.laws.values()))))
            _check(lambda *a, n=name, **k: trial(n, *a, **k), table, small, *said)
    return True


def _chosen(like: Any) -> list[str]:
    """A few tensors of a tree: one of every number of axes and last name, then others spread over it."""
    leaves = [(p, x) for p, x in jax.tree_util.tree_leaves_with_path(like) if is_float(x)]
    kinds = {(np.ndim(x), str(p[-1:])): jax.tree_util.keystr(p) for p, x in reversed(leaves)}
    names = [jax.tree_util.keystr(p) for p, _ in leaves]
    further = names[:: max(1, math.ceil(len(names) / _LEAVES))]
    return list(dict.fromkeys([*list(kinds.values())[::-1], *further]))[:_LEAVES]


def _check(
    trial: Callable[..., Found], table: Plan, small: Found, optimizer: str, law: Law
) -> None:
    _check_weights_kept(trial)
    _check_shared_numbers(trial)
    _check_kind(trial, optimizer, law, small)
    if law.degree == 0:
        if law.norm.weight == 0:
            _check_decay(trial, optimizer, law)
        elif law.decay is None:
            _check_relative_decay(trial)
        _check_mixing(trial, table, law, optimizer)


def _laws(table: Plan, like: Any) -> dict[str, tuple[str, Law]]:
    """By path the optimizer of each tensor of a tree that the plan knows, and its law."""
    out = {}
    for path, _ in jax.tree_util.tree_leaves_with_path(like):
        name = resolved(table, dotted(path))
        if bare(name, table.names) in table.names:
            row = table[name]
            out[jax.tree_util.keystr(path)] = row.optimizer, row.law
    return out


def _largest(update: np.ndarray) -> float:
    return float(abs(update).max())


def _check_weights_kept(trial: Callable[..., Found]) -> None:
    """Weights in the state are what the plan has multiplied them with, not what they are."""
    # Numbers that nothing else in a state is.
    weight = np.array([[0.7131, -0.3947], [1.2853, 0.5619]])
    found = trial(_SMALL, _SMALL, weight=weight)
    last = (
        weight[-1]
        if found.update.ndim == 1
        else weight[-1, -1]
        if not found.update.ndim
        else weight
    )
    if any(_holds(x, last) for x in (*found.before, *found.after)):
        raise PlanError(
            "This optimiser keeps weights of its own in its state, as schedule-free, prodigy and L-BFGS do, and "
            "the plan would have it keep multiples of them. Put what keeps weights outside, as "
            "optax.contrib.schedule_free(plan.optax(...), ...), or take an optimiser that does not."
        )


def _holds(kept: np.ndarray, weight: np.ndarray) -> bool:
    """True if an array of the state is the weight, or copies of it."""
    return kept.shape[kept.ndim - weight.ndim :] == weight.shape and np.allclose(
        kept, weight, rtol=1e-3
    )


def _check_shared_numbers(trial: Callable[..., Found]) -> None:
    """A number in the state that depends on gradients, and on those of all tensors together."""
    still, *moved = (
        trial(a, b, weight=1.0).after
        for a, b in ((_SMALL, _SMALL), (_SMALL, 3 * _SMALL), (3 * _SMALL, _SMALL))
    )
    # One that depends on one tensor alone is that tensor's.
    differ = [
        [
            x.size == 1 and not np.allclose(x, y, rtol=1e-4, atol=0)
            for x, y in zip(still, other, strict=True)
        ]
        for other in moved
    ]
    if any(one and two for one, two in zip(*differ, strict=True)):
        raise PlanError(
            "This optimiser estimates one number, such as a learning rate or a distance, from the gradients of "
            "all tensors together, which the plan scales apart. Take one whose learning rate is given."
        )


def _degree(trial: Callable[..., Found], gradient: float, *, weight: float = 0.0) -> float:
    """The power of the gradient by which updates go, apart from what they are without one."""
    none = trial(0.0, 0.0, weight=weight).update
    sizes = [_largest(trial(g, g, weight=weight).update - none) for g in (gradient, 10 * gradient)]
    return math.log10(sizes[1] / sizes[0]) if all(sizes) else 0.0


def _check_kind(trial: Callable[..., Found], optimizer: str, law: Law, small: Found) -> None:
    # Small gradients tell from clipping, great ones from a large epsilon.
    if law.degree == 1:
        degree = _degree(trial, _SMALL, weight=1.0)
        if degree < 0.3 or _squares(trial, small):
            raise PlanError(
                "The plan was made for gradient descent (optimizer='sgd'), but the updates of this optimiser "
                "do not grow with the gradient, as Adam's do not. Make the plan with optimizer='adamw', or "
                "'adam' if weight decay is added to the gradient."
            )
        # Great gradients may be clipped.
        late = _degree(trial, _GREAT)
        if abs(degree - 1) > _NEAR or late < -_NEAR:
            raise PlanError(_odd_degree(late if late < -_NEAR else degree))
        return
    degree = _degree(trial, _GREAT)
    # Without squares it is not that small gradients lie below epsilon, but that great ones are clipped.
    follows = abs(_degree(trial, _SMALL) - 1) <= _NEAR and not _squares(trial, small)
    if abs(degree - 1) <= _NEAR or follows:
        raise PlanError(
            f"The plan was made for optimizer={optimizer!r}, whose steps have a fixed size, but the updates "
            "of this optimiser grow with the gradient. Make the plan with optimizer='sgd'."
        )
    if abs(degree) > _NEAR:
        raise PlanError(_odd_degree(degree))


def _odd_degree(degree: float) -> str:
    return (
        f"The updates of this optimiser go as the power {degree:.2f} of the gradient. A plan has rules for "
        "those that follow it (power 1, optimizer='sgd') and those whose steps have a fixed size (power 0, "
        "'adam' and 'adamw')."
    )


def _squares(trial: Callable[..., Found], small: Found) -> bool:
    """True if the state gathers squares of gradients, by which updates are divided once they are large."""
    great = trial(10 * _SMALL, 10 * _SMALL)
    for start, one, ten in zip(small.before, small.after, great.after, strict=True):
        moved = _largest(one - start)
        if one.size > 1 and moved > 0 and _largest(ten - start) > 30 * moved:
            return True
    return False


def _check_decay(trial: Callable[..., Found], optimizer: str, law: Law) -> None:
    """With no gradient all that depends on the weight is its decay: linear in it, or normalised too."""
    none, *found = (trial(0.0, 0.0, weight=w).update for w in (0.0, _GREAT, 2 * _GREAT))
    one, two = (_largest(u - none) for u in found)
    if not one:
        return
    if law.decay is not None and two > 1.5 * one:
        raise PlanError(
            f"The plan was made for optimizer={optimizer!r}, whose weight decay is added to the gradient, but the "
            "weight decay of this optimiser is decoupled. Make the plan with optimizer='adamw'."
        )
    if law.decay is None and two < 1.5 * one:
        raise PlanError(
            f"The plan was made for optimizer={optimizer!r}, whose weight decay is decoupled, but this optimiser "
            "adds it to the gradient that it normalises. Make the plan with optimizer='adam'."
        )


def _check_relative_decay(trial: Callable[..., Found]) -> None:
    """Steps of the size of the weight, and a decay beside them: no multiple of the weight suits both."""
    if trial(0.0, 0.0, weight=1.0).update.any():
        raise PlanError(
            "This optimiser scales its step by the size of the weight and also decays the weight; a plan cannot "
            "scale the two separately. Leave its weight decay out and put it outside: "
            "optax.chain(plan.optax(...), optax.add_decayed_weights(-rate)), with the part of the weight that one "
            "step takes, the same at every size."
        )


def _check_mixing(trial: Callable[..., Found], table: Plan, law: Law, optimizer: str) -> None:
    alone = trial(_SMALL, _SMALL, weight=1.0).update
    if not np.allclose(trial(_SMALL, _HUGE, weight=1.0).update, alone, rtol=1e-2):
        if all(table.factors(t.name).eps == 1 for t in table.tensors):
            return
        raise PlanError(
            "This optimiser makes the update of one tensor depend on the gradients of others, as clipping "
            "by the global norm does, and it would see gradients that the plan has divided by the factors "
            "of epsilon. Put it outside: optax.chain(optax.clip_by_global_norm(c), "
            "plan.optax(optax.adamw(...)))."
        )
    if not alone.ndim:
        return
    corner = np.array([[0.0, 0.0], [0.0, 1.0]])
    gradient = trial(_SMALL + corner * _HUGE, _SMALL, weight=1.0).update
    weight = trial(_SMALL, _SMALL, weight=1.0 + corner * _HUGE).update
    first: Sequence[float] = (gradient.flat[0], weight.flat[0])
    apart = np.allclose(first, alone.flat[0], rtol=1e-2)
    if law.norm == ENTRYWISE and law.eps in (None, Size(Fraction(1))):
        wrong = not apart
    elif apart and law.norm != ENTRYWISE and alone.ndim > 1:
        raise PlanError(
            f"The plan was made for optimizer={optimizer!r}, which sets the size of a step by the whole tensor, "
            "but this optimiser moves each entry for itself. Make the plan with optimizer='adamw', or 'adam' if "
            "weight decay is added to the gradient."
        )
    else:
        wrong = False
    if wrong:
        raise PlanError(
            "This optimiser makes the update of one entry of a tensor depend on its other entries, so it "
            "scales neither as Adam nor as gradient descent. Plan the tensors that Adam trains; for others "
            "take `plan.multiplier_tree`, or `plan.optax(tx, check=False)` if you know that Adam's rules "
            "hold."
        )
