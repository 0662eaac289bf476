"""A plan for a model of jax: made, applied to a tree, handed to optax."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, Literal

from scalewise._checked import Must, checked
from scalewise._extras import require
from scalewise._readable import readable
from scalewise.jax._describe import parameters
from scalewise.jax._entries import relength, respread, respread_parts
from scalewise.jax._optax import factor_tree, wrapped
from scalewise.jax._probe import Options, drawn_model, planned
from scalewise.jax._resolve import resolved
from scalewise.jax._trees import rebuilt
from scalewise.jax._verify import JaxBench, Loss, Setup
from scalewise.plan import Multiplier, Plan, PlanError
from scalewise.plan import load as load_table
from scalewise.plan import save as save_table
from scalewise.plan.spi import (
    Argument,
    ConstantsLike,
    Factory,
    Names,
    OptimizerLike,
    Policies,
    Request,
    Roles,
    Sights,
    SizesLike,
    StrategyLike,
    Verified,
    given,
    requested,
    with_constants,
)
from scalewise.scaling.spi import Exponent

if TYPE_CHECKING:
    import optax

_NO_DECAY = {"weight_decay": 0.0}

Betas = Annotated[tuple[float, float] | None, Must("a pair of numbers, such as (0.9, 0.999)")]
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
        init_fn, base=base, target=target, strategy=strategy, optimizer=optimizer, adjust=adjust, roles=roles,
        residual=residual, branch_outputs=branch_outputs, multiplied=multiplied, width=width, depth=depth,
        policy=policy, decay=decay, keep=keep,
    )  # fmt: skip
    options, sights = Options(tuple(readouts), layout, apply, given(inputs), seed), Sights()
    table = with_constants(planned(request, options, sights), constants)
    return JaxPlan(table, request, options, sights)


@checked(error=PlanError)
def load(path: str | PathLike[str]) -> JaxPlan:
    """Read a plan that `JaxPlan.save` wrote to `path`; it cannot be made anew for other sizes.

    Raises:
        PlanError: If there is no such file, or it holds no plan.
    """
    return JaxPlan(load_table(path))


@dataclass(frozen=True)
@readable
class JaxPlan(Verified):
    """Settings for every tensor of a model of jax.

    Args:
        table: The plan itself, which knows nothing of jax.
        request: What it was made from; ``None`` for a plan that was loaded.
        options: What was said besides.
    """

    table: Plan
    request: Request | None = field(default=None, compare=False, repr=False)
    options: Options = field(default_factory=Options, compare=False, repr=False)
    _sights: Sights = field(default_factory=Sights, compare=False, repr=False)

    @property
    def multipliers(self) -> tuple[Multiplier, ...]:
        """Factors that the forward pass must apply itself."""
        return self.table.multipliers

    def factors(self, name: str) -> Any:
        """Factors of the base settings of the tensor `name`: `init`, `lr`, `eps` and `weight_decay`.

        Raises:
            PlanError: If the plan has no such tensor.
        """
        return self.table.factors(resolved(self.table, name))

    def init(self, tree: Any) -> Any:
        """The model with every tensor as the plan wants it spread.

        A tensor's deviations from its mean are multiplied by one factor; where it is spread as planned already,
        within what its number of entries tells, it is passed on as it is. So nothing changes at the base
        size, and to do it twice is to do it once.

        Args:
            tree: What `init_fn` returned at the target, or the parameters of it (``nnx.State``).

        Returns:
            A new tree; but an NNX module is changed in place, as an optimiser would, and returned.

        Raises:
            PlanError: If the tree is not of the planned names and shapes, a tensor is constant at one size and
                drawn at the other, or the tree is being traced.
        """
        linen = not any(name.startswith("params.") for name in self.table.names)
        found = parameters(tree, "linen" if linen else "plain")
        new: dict[str, Any] = {}
        cells: dict[str, Any] = {}
        for place in found:
            name = resolved(self.table, place.name)
            row = self.table[name]
            if tuple(place.value.shape if hasattr(place.value, "shape") else ()) != row.shape:
                raise PlanError(
                    f"`{place.name}` has the shape {tuple(place.value.shape)}, but the plan was made for "
                    f"{row.shape}. Build the model with the target's sizes, or plan for these."
                )
            new[name] = place.value
            if row.of:
                drawn = next(p.value for p in found if resolved(self.table, p.name) == row.of)
                new[name] = relength(self.table, place.value, self.table[row.of], drawn)
            elif row.fixed and self.table.respreads(row):
                new[name] = respread_parts(self.table, row, place.name, place.value)
            elif self.table.respreads(row):
                tuned = row.constants.std != 1
                new[name] = respread(
                    place.name, place.value, row.base, self.table.std(name), tuned=tuned
                )
            if place.cell is not None and new[name] is not place.value:
                cells[name] = place.cell
        missing = [t.name for t in self.table.tensors if not {t.name, *t.aliases} & new.keys()]
        if missing:
            raise PlanError(
                f"The plan has `{missing[0]}`, and the model has not. Was it made by the same factory?"
            )
        for name, cell in cells.items():
            cell[...] = new[name]
        return rebuilt(tree, lambda name, leaf: new.get(resolved(self.table, name), leaf))

    @checked(error=PlanError)
    def optax(
        self,
        tx: optax.GradientTransformation | Callable[..., optax.GradientTransformation],
        *,
        betas: Betas = None,
        check: bool = True,
    ) -> optax.GradientTransformationExtraArgs:
        r"""An optimiser of optax with the plan's settings for each tensor.

        Let $f$, $e$ and $w$ be a tensor's factors of learning rate, epsilon and weight decay. The
        optimiser is shown the gradient $g/e$ and the weight $w'\theta$, and its update is multiplied by $f$:
        $$\Delta\theta=f\,u(g/e,\,w'\theta).$$
        *AdamW*, $u(g,\theta)=-\eta\,[\hat m/(\sqrt{\hat v}+\epsilon)+\lambda\theta]$: both moments are
        homogeneous in the gradient, so
        $$\Delta\theta=-f\eta\Big[\frac{\hat m/e}{\sqrt{\hat v}/e+\epsilon}+\lambda w'\theta\Big]
        =-f\eta\Big[\frac{\hat m}{\sqrt{\hat v}+e\epsilon}+\lambda w'\theta\Big],$$
        which is AdamW with $f\eta$, $e\epsilon$ and $w\lambda$ if $w'=w$.
        *Adam with decay added to the gradient* is shown $g/e+\lambda w'\theta=(g+\lambda ew'\theta)/e$, which
        must be $(g+\lambda w\theta)/e$: here $w'=w/e$.
        *Gradient descent* has no epsilon, $e=1$, and is linear in both, with momentum or without: $w'=w$.
        *What compares epsilon with a square of the gradient*, as Adafactor does, is shown $g/\sqrt e$. *What
        gives steps the size of the weight*, as LAMB does, is shown $w'\theta$ and moves $w'$ times as far: its
        update is multiplied by $f/w'$.

        All that `optax.chain`, schedules, `inject_hyperparams`, `masked` and `MultiSteps` make of these can be
        wrapped, provided that it treats entries one by one and that weights enter by weight decay only.
        The state is the optimiser's own. What compares tensors, as clipping by the global norm does, goes
        outside: ``optax.chain(optax.clip_by_global_norm(1.0), plan.optax(optax.adamw(3e-3)))``; so does what
        keeps weights of its own (`optax.contrib.schedule_free`, `optax.lookahead`).

        Args:
            tx: The optimiser with the settings of the base; where a policy for batch or duration changes the decay
                rates of moments, which no factor can stand for, a function of these two that makes it, as
                ``lambda b1, b2: optax.adamw(3e-3, b1, b2)``.
            betas: Those two at the base, where `tx` is such a function.
            check: Try it on two small matrices first.

        Returns:
            An optimiser for the model's parameters: of an NNX module (``nnx.Optimizer(model, tx,
            wrt=nnx.Param)``), of an Equinox module (``tx.init(eqx.filter(model, eqx.is_array))``), or a tree.

        Raises:
            PlanError: If the optimiser is of another kind than the plan's, or, when it is used, the tree has
                a tensor that the plan does not know.
            MissingExtraError: If optax is not installed.

        Example:
            >>> import jax.numpy as jnp, optax, scalewise as sw
            >>> plan = sw.jax.plan(lambda width: {"head": jnp.zeros((width, 2))}, base=dict(width=4),
            ...     target=dict(width=16), strategy=sw.scaling.mup(), roles={"head": "output"},
            ...     apply=lambda params, x, width: jnp.tile(x, width) @ params["head"], inputs=jnp.ones(1))
            >>> tx = plan.optax(optax.adamw(1.0, eps=0.0, weight_decay=0.1))
            >>> params = {"head": jnp.ones((16, 2))}
            >>> updates, state = tx.update({"head": jnp.ones((16, 2))}, tx.init(params), params)
            >>> print(f"{updates['head'][0, 0]:.3f}")
            -0.350
        """
        return wrapped(self.table, _with_moments(self.table, tx, betas), check)

    @checked(error=PlanError)
    def multiplier_tree(
        self, tree: Any, setting: Literal["lr", "eps", "weight_decay", "init"] = "lr"
    ) -> Any:
        """The factors of one setting as a tree of Python floats, for a chain of one's own.

        Args:
            tree: The parameters, or anything of their structure.
            setting: Which factor.

        Raises:
            PlanError: If the tree has a tensor that the plan does not know.
        """
        return factor_tree(self.table, tree, setting)

    def at(self, **sizes: object) -> JaxPlan:
        """This plan for other target sizes, as ``plan.at(width=4096)``.

        Args:
            sizes: Those of the target that change.

        Raises:
            PlanError: If the plan was loaded, or the factory has no such size.
        """
        if self.request is None:
            raise PlanError(
                "This plan was loaded from a file, which does not hold the model's factory. Make the plan for "
                "the new sizes with scalewise.jax.plan(init_fn, ...)."
            )
        request = self.request.at(sizes)
        table = planned(request, self.options, self._sights)
        return replace(self, table=with_constants(table, self.table.constants), request=request)

    def drawn(self, seed: int) -> Any:
        """The factory's model at the target, drawn by a `seed` and not yet initialised as planned.

        Raises:
            PlanError: If the plan was loaded, or the factory does not take a seed.
        """
        if self.request is None:
            raise PlanError(
                "This plan was loaded from a file, which does not hold the model's factory. Make the plan with "
                "scalewise.jax.plan(init_fn, ...)."
            )
        return drawn_model(self.request, self.options.seed, seed)

    def _bench(self, batch: Any, loss: Loss, setup: Setup | None) -> JaxBench:
        return JaxBench(batch, loss, setup, _own_setup, self.options.layout)

    @checked(error=PlanError)
    def save(self, path: str | PathLike[str]) -> None:
        """Write the plan to the file `path`, to be kept beside the checkpoint."""
        save_table(self.table, path)


def _with_moments(table: Plan, tx: Any, betas: tuple[float, float] | None) -> Any:
    """The optimiser with the decay rates of moments that the plan asks for."""
    if isinstance(tx, tuple) or not callable(tx):
        if betas is not None:
            raise PlanError(
                "`betas` is for an optimiser that is made of them: plan.optax(lambda b1, b2: "
                "optax.adamw(3e-3, b1, b2), betas=(0.9, 0.999))."
            )
        if any(
            f.beta1 != 1 or f.beta2 != 1 for f in (table.factors(t.name) for t in table.tensors)
        ):
            raise PlanError(
                f"The policy {', '.join(map(repr, table.policy))} changes the decay rates of moments, which are "
                "inside the optimiser. Give what makes it of them: plan.optax(lambda b1, b2: "
                "optax.adamw(3e-3, b1, b2), betas=(0.9, 0.999))."
            )
        return tx
    if betas is None:
        raise PlanError("`betas` must be given beside a function of them: those at the base.")
    return tx(*table.betas(*betas))


def _own_setup(plan: JaxPlan, model: Any) -> tuple[Any, Any]:
    """The plan's own setup of a model before it is trained, for a learning rate of 1 and without decay."""
    require("optax", for_="`plan.verify` without a `setup` of your own", extra="jax")
    import optax

    name = plan.table.optimizer
    # Those that are used as their names say, without weight decay.
    known = {
        "sgd": {},
        "adam": {},
        "nadam": {},
        "rmsprop": {},
        "adamw": _NO_DECAY,
        "lion": _NO_DECAY,
        "lamb": {},
    }
    if name not in known:
        raise PlanError(
            f"`verify` of a plan for {name!r} needs a `setup` that returns the initialised model and the "
            "optimiser: lambda plan, model: (plan.init(model), plan.optax(...))."
        )
    tx = getattr(optax, name)(1.0, **known[name])
    return plan.init(model), wrapped(plan.table, tx, check=False)
