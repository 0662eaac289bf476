"""`JaxPlan`: a plan applied to a tree, handed to optax, and measured."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, Literal

from scalewise._checked import Must, checked
from scalewise._extras import require
from scalewise._readable import readable
from scalewise.jax._describe import parameters
from scalewise.jax._entries import relength, respread, respread_parts
from scalewise.jax._optax import factor_tree, wrapped
from scalewise.jax._probe import JaxOptions, drawn_model, planned
from scalewise.jax._trees import rebuilt, resolved
from scalewise.jax._verify import JaxBench, Loss, Setup
from scalewise.plan import Multiplier, Plan, PlanError
from scalewise.plan import save as save_table
from scalewise.plan.spi import (
    Factory,
    Request,
    Sights,
    Verified,
    with_constants,
)

if TYPE_CHECKING:
    import optax

_NO_DECAY = {"weight_decay": 0.0}

Betas = Annotated[tuple[float, float] | None, Must("a pair of numbers, such as (0.9, 0.999)")]


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
    options: JaxOptions = field(default_factory=JaxOptions, compare=False, repr=False)
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
        request = self._made_from().at(sizes)
        table = planned(request, self.options, self._sights)
        return replace(self, table=with_constants(table, self.table.constants), request=request)

    def drawn(self, seed: int) -> Any:
        """The factory's model at the target, drawn by a `seed` and not yet initialised as planned.

        Raises:
            PlanError: If the plan was loaded, or the factory does not take a seed.
        """
        request = replace(self._made_from(), target=dict(self.table.target))
        return drawn_model(request, self.options.seed, seed)

    def _made_from(self) -> Request:
        if self.request is None:
            raise PlanError(
                "This plan was loaded from a file, which does not hold the model's factory. Make the plan with "
                "scalewise.jax.plan(init_fn, ...)."
            )
        return self.request

    def _factory(self) -> Factory:
        return self._made_from().build

    def _prepared(self, model: Any) -> Any:
        return self.init(model)

    def _by_theory(self) -> None:
        """None: the initialisation of the theory is read off modules of PyTorch alone."""

    def _undisturbed(self) -> AbstractContextManager[None]:
        """Nothing is drawn from random numbers of the process."""
        return nullcontext()

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
