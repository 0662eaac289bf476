"""`audit`: a training script of JAX as it is, built at several widths, and what it does at great width."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from scalewise._checked import Count, Must, Positive, checked
from scalewise.jax._applied import JaxPlan
from scalewise.jax._parts import named, parted
from scalewise.jax._plan import plan
from scalewise.jax._verify import JaxBench, Loss
from scalewise.jax._watched import value_of
from scalewise.plan import Plan, PlanError
from scalewise.plan.audit import Audit
from scalewise.plan.spi import (
    NO_CLAIM,
    Argument,
    Factory,
    Names,
    Roles,
    SeenOptimizers,
    Tolerance,
    Widths,
    audit_of,
)

OptimizerLike = Annotated[
    Any,
    Must(
        "an optimiser of optax, such as optax.adamw(3e-4), or a function that takes a model and returns one, or "
        "the initialised model and one",
        lambda given: hasattr(given, "update") or callable(given),
    ),
]
# Entries of gradients by which an optimiser is tried: beside the first every epsilon is nothing, clipping by norm
# does not act on the second, and beside the third an epsilon shows, as small as anybody sets one.
_LARGE, _USUAL, _SMALL = 1.0, 1e-4, 1e-8
_LEAST = 1e-12  # no epsilon of single precision is seen below


@checked(error=PlanError)
def audit(
    init_fn: Factory,
    optimizer: OptimizerLike,
    loss: Loss,
    batch: Any,
    *,
    widths: Widths = (64, 128, 256, 512),
    seeds: Count = 3,
    target: Positive | None = None,
    tolerance: Tolerance = 0.0625,
    roles: Roles = None,
    readouts: Names = (),
    layout: Literal["plain", "linen"] = "plain",
    width: Argument = "width",
    seed: Argument = "seed",
    progress: bool = True,
) -> Audit:
    r"""The behaviour at great width of a training script as it is: no plan and no change of the model is needed.

    As `scalewise.torch.audit`, which says what is measured and told. What an optimiser of optax does to a tensor is
    found by trying it: its learning rate is the size of its first step under a gradient of equal entries, its
    epsilon the size of such a gradient at which that step is half as large as under a large one, and what it does
    without a gradient is weight decay, which is left out.

    Args:
        init_fn: Builds the model of a width: a module of Flax NNX or Equinox, or a tree of arrays. It makes its
            random key from a seed, ``init_fn(width=64, seed=0)``.
        optimizer: An optimiser of optax; or a function of a model that returns one, or a pair of the model as the
            script initialises it and its optimiser.
        loss: Called with a model and the batch; returns one number that can be differentiated.
        batch: Whatever `loss` takes. Of no more samples or tokens than the smallest width, powers are clean.
        widths: At least three, in whatever unit `init_fn` has: units, channels, or a number of heads.
        seeds: Networks of each width, at least 2.
        target: The width that wasted rates are told for; by default eight times the largest.
        tolerance: How far from zero a power may be beyond three standard errors.
        roles: What tensors of a plain tree are, where the report says that it was taken for granted otherwise; as
            `scalewise.jax.plan` takes them.
        readouts: Patterns of embeddings whose transpose reads out too, as with ``nnx.Embed.attend``.
        layout: ``"linen"`` if the tree is what a module of Flax Linen initialises.
        width: What `init_fn` calls its width.
        seed: What it calls the whole number that it draws by.
        progress: Whether to show a bar on a terminal once this takes longer than two seconds.

    Returns:
        The powers of every tensor with standard errors, the verdict in one sentence, and what it rests on;
        ``print`` shows all of it.

    Raises:
        PlanError: If widths or seeds are too few, nothing grows with the width or reads out, the factory takes no
            seed, the optimizer moves nothing, or the loss is not a finite number that depends on the parameters.

    Source: TP4 3.2 (r), Yaida 2210.04909 (s), both measured.

    Example:
        >>> import jax, jax.numpy as jnp, optax, scalewise as sw
        >>> def init_fn(width, seed=0):
        ...     first, last = jax.random.split(jax.random.key(seed))
        ...     return {"W": jax.random.normal(first, (8, width)) / 8**0.5,
        ...             "head": jax.random.normal(last, (width, 2)) / width**0.5}
        >>> x = jax.random.normal(jax.random.key(1), (16, 8))
        >>> found = sw.jax.audit(
        ...     init_fn, optax.sgd(0.1),
        ...     lambda p, x: jnp.mean((jnp.tanh(x @ p["W"]) @ p["head"] - 1) ** 2), x, seeds=4)
        >>> found.verdict.stable, found.bottleneck[0].place
        (False, 'head')
    """
    options = {"readouts": tuple(readouts), "layout": layout, "width": width, "seed": seed}
    seen, said = SeenOptimizers(), dict(roles or {})
    bench = JaxBench(batch, loss, None, partial(_set_up, optimizer, layout, seen), layout)

    def planned(of: tuple[int, ...], answers: Mapping[str, Any]) -> JaxPlan:
        return plan(
            init_fn,
            base={width: of[0]},
            target={width: of[-1]},
            inputs=(batch,),
            apply=lambda model, batch: value_of(loss, model, batch),
            **NO_CLAIM,
            **{**options, **answers, "roles": {**answers.get("roles", {}), **said}},
        )

    return audit_of(
        planned,
        bench,
        seen,
        tuple(sorted(widths)),
        seeds,
        framework="jax",
        target=target,
        tolerance=tolerance,
        progress=progress,
    )


def _set_up(
    optimizer: Any, layout: str, seen: SeenOptimizers, sized: Any, model: Any
) -> tuple[Any, Any]:
    """The model as the script initialises it, and what trains it, without weight decay."""
    made = optimizer if hasattr(optimizer, "update") else _made(optimizer, model)
    if isinstance(made, tuple) and len(made) == 2 and hasattr(made[1], "update"):
        model, made = made
    if not hasattr(made, "update"):
        raise PlanError(
            "`optimizer` must be an optimiser of optax or return the one that trains the model; it returned "
            f"{type(made).__name__}."
        )
    width = sized.table.target[sized.table.width_name]
    if width not in seen.rates:
        seen.rates[width] = _tried(made, sized.table, parted(model, layout).params, seen.epsilons)
    return model, _undecayed(made)


def _made(optimizer: Any, model: Any) -> Any:
    """The result of the user's function for a model."""
    module, name = (getattr(optimizer, k, "") for k in ("__module__", "__name__"))
    if module.partition(".")[0] == "optax":
        raise PlanError(
            f"`optimizer` is optax.{name} itself, which makes an optimiser of a learning rate: give "
            f"optax.{name}(3e-4), with the rate of your script."
        )
    try:
        return optimizer(model)
    except TypeError as error:
        raise PlanError(
            f"`optimizer` raised TypeError: {error}. Give an optimiser of optax, such as optax.adamw(3e-4), or "
            "a function that takes a model and returns one."
        ) from error


def _tried(tx: Any, table: Plan, params: Any, epsilons: dict[str, float]) -> dict[str, float]:
    """Learning rates as the optimiser's first steps have them; epsilons are noted besides."""

    def sizes(slopes: Any, p: Any) -> Any:
        return jax.tree.map(_sizes, _undecayed(tx).update(slopes, tx.init(p), p)[0])

    compiled = jax.jit(sizes)
    of_usual, of_small, of_large = (
        named(
            table,
            jax.tree.map(
                np.asarray,
                compiled(jax.tree.map(partial(_gradient, size, uneven), params), params),
            ),
        )
        for size, uneven in ((_USUAL, False), (_SMALL, False), (_LARGE, True))
    )
    usual = {name: float(most) for name, (most, _) in of_usual.items()}
    for name, (most, least) in of_large.items():
        small = float(of_small[name][0])
        if small and least > 0.5 * most:
            eps = _SMALL * (float(most) / small - 1)
            if eps > _LEAST:
                epsilons[name] = eps
    if not any(usual.values()):
        raise PlanError(
            "The first step of the optimiser moves nothing, as a warm-up leaves it at the start: let "
            "`optimizer` be the optimiser without its schedule."
        )
    # Of the same gradients at every width: powers are all that is asked of them.
    return usual


def _gradient(size: float, uneven: bool, like: Any) -> Any:
    """Entries of one size, or of that and a tenth of it in turn."""
    entries = np.full(like.shape, size)
    if uneven:
        entries.ravel()[1::2] *= 0.1
    return jax.device_put(entries.astype(like.dtype))


def _sizes(update: Any) -> Any:
    """The largest entry of an update and its least, 0 where there are not two."""
    sizes = jnp.abs(update)
    least = sizes.min() if sizes.size > 1 else jnp.zeros((), sizes.dtype)
    return jnp.stack([sizes.max(initial=0), least])


def _undecayed(tx: Any) -> Any:
    """An optimiser without what it does where there is no gradient: weight decay."""

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        still = jax.tree.map(jnp.zeros_like, updates)
        decay, _ = tx.update(still, tx.init(params), params)
        moved, state = tx.update(updates, state, params)
        return jax.tree.map(jnp.subtract, moved, decay), state

    return SimpleNamespace(init=tx.init, update=update)
