"""`plan`: from a function that builds a model of jax to a plan; and a plan from a file."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, Literal

from scalewise._checked import Must, checked
from scalewise.jax._probe import JaxOptions, planned
from scalewise.plan import PlanError
from scalewise.plan import load as load_table
from scalewise.plan.spi import (
    Argument,
    ConstantsLike,
    Factory,
    Names,
    OptimizerLike,
    Policies,
    Roles,
    Sights,
    SizesLike,
    StrategyLike,
    given,
    requested,
    with_constants,
)
from scalewise.scaling.spi import Exponent

if TYPE_CHECKING:
    pass
from scalewise.jax._applied import JaxPlan

Apply = Annotated[
    Callable[..., Any],
    Must("a function of the model and its inputs, such as lambda model, x: jax.vmap(model)(x)"),
]


@checked(error=PlanError)
def plan(
    init_fn: Factory,
    *,
    base: SizesLike,
    target: SizesLike,
    strategy: StrategyLike,
    optimizer: OptimizerLike = "adamw",
    adjust: str | None = None,
    policy: Policies = (),
    decay: str | None = None,
    roles: Roles = None,
    residual: Exponent = Fraction(0),
    branch_outputs: Names = (),
    multiplied: Names = (),
    keep: Names = (),
    constants: ConstantsLike = None,
    readouts: Names = (),
    layout: Literal["plain", "linen"] = "plain",
    apply: Apply | None = None,
    inputs: Any = None,
    width: Argument = "width",
    depth: Argument = "depth",
    seed: Argument = "seed",
) -> JaxPlan:
    r"""Plan the initialisation and the optimiser settings of every tensor of a model.

    The model is traced at base and target without building an array, and built once at the base width. Flax
    NNX and Equinox modules say themselves what they do with their tensors. A tree of arrays says nothing, and
    every tensor of it that grows with the width needs a role, unless it follows the naming of Flax Linen and
    `layout` says so. The model's call is traced too, at two widths, to see what its code multiplies by: attention
    logits and their heads, embeddings, readouts.

    Args:
        init_fn: Builds the model: ``init_fn(**base)`` returns an NNX module, an Equinox module or a tree of
            arrays. It makes its own random key, from a `seed` if it has that argument.
        base: The sizes at which the hyperparameters were found: what `init_fn` is called with, and ``batch`` and
            ``tokens`` (of a step, of the whole training), which it is never given. Of ``heads``, ``kv_heads``,
            ``experts``, ``vocabulary`` and ``rank`` it is given those that it has arguments for.
        target: The sizes to go to, with the same keys.
        strategy: How to scale; a depth-3 form such as ``sw.scaling.meta(s=1)``, or a name such as ``"mup"``.
        optimizer: Its name, such as ``"sgd"``, ``"adam"`` (weight decay added to the gradient), ``"adamw"``
            (decoupled) or ``"muon"``; or the function of optax that is called so.
        adjust: What the library of Muon multiplies steps by: ``"optax"`` or ``"consistent_rms"`` for
            `optax.contrib.muon` without and with that argument; ``None`` for nothing.
        policy: What batch and duration ask for, by name, where `base` and `target` have ``batch`` or ``tokens``:
            ``"completed"`` for both, or one for each, as ``["sde", "horizon"]``; see `scalewise.plan.POLICIES`.
        decay: What weight decay follows, by name: ``"shrinkage"`` (learning rate times decay stays),
            ``"timescale"``, ``"power_lines"``, ``"steady"``, ``"inverse_width"`` or ``"constant"``; see
            `scalewise.plan.DECAYS`. By default what the policies say of it, and the first without any.
        roles: Role by pattern of names, as ``{"head.kernel": "output"}``; or role and axes summed over.
        residual: $\alpha$: the model multiplies its residual branches by (depth)$^{-\alpha}$.
        branch_outputs: Patterns of the tensors that end a branch and carry that factor themselves.
        multiplied: Names of the multipliers that the model's forward pass applies.
        keep: Factors of the model's own code that are to be left as they are, in place of a question or of settings
            that take them back: ``"attention"``, ``"product"``, ``"distance"``, or patterns of the modules (of
            products, of an embedding that reads out) and tensors at which they stand. `print` shows what follows.
        constants: What was tuned at the base (`tune` does), as factors of what `init_fn` draws and of the base's
            settings: by role, or by the name of a tensor or module, a factor of the standard deviation or
            ``{"std": ..., "lr": ..., "weight_decay": ...}``. They are the same at every size.
        readouts: Patterns of embeddings whose transpose reads out too, as with ``nnx.Embed.attend``.
        layout: ``"linen"`` if the tree is what a module of Flax Linen initialises.
        apply: Calls the model, ``apply(model, *inputs)``, with those sizes of `base` by name that it has arguments
            for: ``lambda params, x, width: Net(width).apply(params, x)``. Modules of NNX and Equinox are called
            themselves by default; of other trees a plan without `apply` warns that it knows nothing of attention.
        inputs: What the model is called with: an array (or its ``jax.ShapeDtypeStruct``), a tuple of arguments or a
            dict of named ones. By default tokens, numbers and images of sizes that its tensors suggest are tried.
        width: What `init_fn` calls its width.
        depth: What it calls its depth; it need not have one.
        seed: What it calls the whole number that it draws by; it needs one only for `JaxPlan.verify`.

    Returns:
        The plan. Names of tensors are paths joined by dots.

    Raises:
        PlanError: If only the user can decide something, all of it at once; or an argument is of the wrong type.

    Example:
        >>> import jax, scalewise as sw
        >>> def init_fn(width):
        ...     first, last = jax.random.split(jax.random.key(0))
        ...     return {
        ...         "W": jax.random.normal(first, (3, width)) / 3**0.5,
        ...         "head": jax.random.normal(last, (width, 2)) / width**0.5,
        ...     }
        >>> plan = sw.jax.plan(init_fn, base=dict(width=64), target=dict(width=1024),
        ...     strategy=sw.scaling.mup(), roles={"W": "input", "head": "output"},
        ...     apply=lambda params, x: jax.nn.relu(x @ params["W"]) @ params["head"])
        >>> plan.factors("head").lr, plan.factors("W").lr
        (0.0625, 1.0)
    """
    request = requested(
        init_fn,
        base=base,
        target=target,
        strategy=strategy,
        optimizer=optimizer,
        adjust=adjust,
        roles=roles,
        residual=residual,
        branch_outputs=branch_outputs,
        multiplied=multiplied,
        width=width,
        depth=depth,
        policy=policy,
        decay=decay,
        keep=keep,
    )
    options, sights = JaxOptions(tuple(readouts), layout, apply, given(inputs), seed), Sights()
    table = with_constants(planned(request, options, sights), constants)
    return JaxPlan(table, request, options, sights)


@checked(error=PlanError)
def load(path: str | PathLike[str]) -> JaxPlan:
    """Read a plan that `JaxPlan.save` wrote to `path`; it cannot be made anew for other sizes.

    Raises:
        PlanError: If there is no such file, or it holds no plan.
    """
    return JaxPlan(load_table(path))
