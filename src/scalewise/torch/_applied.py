"""`TorchPlan`: what a plan does to modules: it initialises, groups and scales them, and is measured on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from typing import Any

from torch import nn
from torch.optim import Optimizer

from scalewise._checked import Count, checked
from scalewise._readable import readable
from scalewise.plan import Plan, PlanError, TensorPlan, save
from scalewise.plan.spi import (
    Factors,
    Names,
    Sights,
    Verified,
    requested,
    resized,
    taken,
)
from scalewise.torch._check import of_the_plan
from scalewise.torch._critical import critical_base
from scalewise.torch._given import Model, Settings
from scalewise.torch._groups import Groups, parameter_groups
from scalewise.torch._init import initialise
from scalewise.torch._measure import Loss
from scalewise.torch._options import Options
from scalewise.torch._probe import Factory, planned
from scalewise.torch._scale import apply_multipliers, refuse_unscaled
from scalewise.torch._schedule import check
from scalewise.torch._setup import own_optimizer, prepare
from scalewise.torch._verify import Setup, TorchBench, own_random_numbers, seed_all


@dataclass(frozen=True)
@readable
class TorchPlan(Verified):
    """A plan for modules: the table of every tensor's settings, and the verbs that apply it.

    Make one with `plan` or `load`. Nothing is hung on modules or parameters and no optimizer is wrapped:
    a model that has been through `init_` is an ordinary model.

    Args:
        table: The settings, by name of tensor.
        options: What the user said besides sizes and strategy.
        build: The factory; ``None`` in a plan that was loaded without it.
    """

    table: Plan
    options: Options = field(default_factory=Options)
    build: Factory | None = field(default=None, compare=False, repr=False)
    _sights: Sights = field(default_factory=Sights, compare=False, repr=False)

    def __getitem__(self, name: str) -> TensorPlan:
        return self.table[name]

    def factors(self, name: str) -> Factors:
        """Factors of the base settings of the tensor `name`: powers, 1 at the base, and constants."""
        return self.table.factors(name)

    def std(self, name: str) -> float:
        """The standard deviation that the tensor `name` is initialised with at the target."""
        return self.table.std(name)

    @property
    def multipliers(self) -> dict[str, float]:
        """Factors that the forward pass must apply itself, by name; 1 at the base."""
        return {m.name: m.factor for m in self.table.multipliers}

    @checked(error=PlanError)
    def init_(self, model: Model) -> nn.Module:
        """Bring a freshly built model of the target's size to the planned initialisation, in place.

        Every tensor keeps what its own code drew, multiplied by one factor (about its mean, if it has
        one). A second call changes nothing, and at the base not even the first does. Frozen parameters
        are scaled too, so a model that holds trained weights is not to be passed.

        Args:
            model: As the factory returns it at the target, or wrapped.

        Returns:
            The same model.

        Raises:
            PlanError: If a tensor is missing, unknown, of another shape or tied otherwise, or constant at
                one of the two sizes only.
        """
        initialise(self.table, model)
        return model

    @checked(error=PlanError)
    def param_groups(
        self,
        model: Model,
        *,
        lr: Any,
        eps: Any = None,
        weight_decay: Any = None,
        groups: Iterable[Mapping[str, Any]] = (),
        rest: Settings = None,
        **others: Any,
    ) -> Groups | tuple[Groups, ...]:
        """Parameter groups for an optimizer, as plain dictionaries and as few as there can be.

        Settings are those tuned at the base, and belong here: an optimizer's own arguments do not reach
        groups that have settings of their own. Epsilon and weight decay that are left out have PyTorch's
        default for the plan's optimizer, scaled like any other. Frozen parameters are in no group.

        Args:
            model: Of the target's size, wrapped or not.
            lr: Learning rate, a number or a tensor of one; a tensor is copied for each group.
            eps: Epsilon; not for gradient descent. Adafactor's is a pair.
            weight_decay: Weight decay.
            groups: Groups of the user's own, as
                ``{"params": ["*norm*", "*.bias"], "weight_decay": 0.0}``: parameters, names or patterns,
                and settings in place of those above. Each is split as the plan needs; what none of them
                holds has the settings above.
            rest: Where a second optimizer trains what the first leaves out, as AdamW beside Muon: its settings,
                as ``{"lr": 3e-3, "weight_decay": 0.1}``.
            others: Further settings, passed on as they are.

        Returns:
            Dictionaries with ``params``, ``lr``, ``eps`` (where there is one), ``weight_decay``,
            ``name``, and, for `check_schedule`, ``base_lr`` and ``lr_factor``. With `rest` a list of them for
            each of the two optimizers: ``muon, adamw = plan.param_groups(...)``.

        Raises:
            PlanError: If the model is not the plan's, nobody applies one of the plan's multipliers to it, or a
                setting or a group cannot be.
        """
        of_the_plan(self.table, model)
        refuse_unscaled(self.table, model, self.options.multiplied)
        given = {"lr": lr, "eps": eps, "weight_decay": weight_decay} | others
        return parameter_groups(self.table, model, list(groups), given, rest)

    @checked(error=PlanError)
    def scale_(self, model: Model, *, branches: Names = (), applied: Names = ()) -> nn.Module:
        """Let hooks apply the plan's multipliers: of tied readouts, and of residual branches.

        Needed only where `multipliers` is not empty and the model's own code does not apply them, as
        `multiplied` says. A checkpoint holds no hooks: a model that is built anew to load one needs this call
        anew, and `param_groups` refuses a model without it. A second call adds nothing, and at the base,
        where every factor is 1, none is added at all.

        Args:
            model: Of the target's size.
            branches: Patterns of the modules whose output is a residual branch, as ``"blocks.*.mlp"``.
            applied: Names of further multipliers that the model applies itself.

        Returns:
            The same model.

        Raises:
            PlanError: If a multiplier is left that nobody applies, or `multiplied` says of every one that the
                model applies it, or the module is scaled otherwise.
        """
        apply_multipliers(self.table, model, branches, applied, self.options.multiplied)
        return model

    @checked(error=PlanError)
    def check_schedule(
        self, optimizer: Optimizer, scheduler: Any, *, steps: Count = 10_000
    ) -> None:
        """Refuse a schedule that does not keep the ratios of learning rates between groups.

        A copy of the scheduler is run on a copy of the learning rates; nothing of the real ones changes.

        Args:
            optimizer: Made with `param_groups`.
            scheduler: The schedule, as it will be used.
            steps: How many steps to look ahead.

        Raises:
            PlanError: If ratios change, with the scheduler's name and the step; or the optimizer is of
                another kind than planned, has other groups, or was given a learning rate that its groups
                override.
        """
        check(self.table, optimizer, scheduler, steps)

    def at(self, **sizes: Any) -> TorchPlan:
        """This plan with another target, as ``plan.at(width=4096)``.

        Args:
            sizes: Those of the target that change, as the factory calls them.

        Raises:
            PlanError: If the plan was loaded without its factory, or has no such size.
        """
        t, said = self.table, self.options
        request = requested(
            self._factory(),
            base=t.base,
            target=resized(t.target, sizes),
            strategy=t.strategy,
            optimizer=t.optimizer,
            adjust=t.adjust,
            policy=t.policy,
            decay=t.decay,
            blocks=said.blocks,
            roles=said.roles,
            residual=t.residual,
            branch_outputs=said.branch_outputs,
            multiplied=said.multiplied,
            width=t.width_name,
            depth=t.depth_name,
            keep=said.keep,
        )
        table, options = planned(request, said, t.constants, self._sights)
        return TorchPlan(table, options, request.build, self._sights)

    def drawn(self, seed: int) -> nn.Module:
        """The factory's model at the target, drawn by a seed and not yet initialised as planned.

        The random numbers of the process go on from that seed.

        Args:
            seed: Any whole number.

        Raises:
            PlanError: If the plan was loaded without its factory.
        """
        build = self._factory()
        seed_all(seed)
        return build(**taken(build, self.table.target))

    def _factory(self) -> Factory:
        if self.build is None:
            raise PlanError(
                "This plan was loaded without its factory, so it is for one size only; "
                "load(path, build=...) gives it one."
            )
        return self.build

    def _prepared(self, model: nn.Module) -> nn.Module:
        return prepare(self, model)

    def _by_theory(self) -> TorchPlan | None:
        table, inputs = self.table, self.options.inputs
        if self.build is None or inputs is None:
            return None
        try:
            with own_random_numbers():
                found = critical_base(self.build, table.base, table.width_name, inputs)
        except PlanError:
            return None
        return self.with_constants(found.constants)

    def _undisturbed(self) -> AbstractContextManager[None]:
        return own_random_numbers()

    def _bench(self, batch: Any, loss: Loss, setup: Setup | None) -> TorchBench:
        return TorchBench(batch, loss, setup, prepare, own_optimizer)

    @checked(error=PlanError)
    def save(self, path: str | PathLike[str]) -> None:
        """Write the plan to the file `path`: a small JSON text that needs neither model nor factory.

        Raises:
            PlanError: If `base` or `target` hold what no text can.
        """
        said = asdict(replace(self.options, inputs=None))
        del said["inputs"]
        save(self.table, path, said)
