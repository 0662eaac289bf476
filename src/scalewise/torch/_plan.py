"""`plan`: from a factory of modules to a plan, and what a plan does to the modules."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from os import PathLike
from typing import Any, Literal

from torch import nn
from torch.optim import Optimizer

from scalewise._checked import Count, checked
from scalewise._readable import readable
from scalewise.plan import Plan, PlanError, TensorPlan, make_plan, save
from scalewise.plan.spi import (
    Argument,
    Blocks,
    ConstantsLike,
    Factors,
    Names,
    OptimizerLike,
    Policies,
    Request,
    Roles,
    Sights,
    SizesLike,
    StrategyLike,
    Verified,
    Wording,
    combined,
    given,
    read,
    requested,
    resized,
    stds_of_kinds,
    with_constants,
)
from scalewise.reading._critical import CriticalInit, factors_of
from scalewise.scaling.spi import Exponent
from scalewise.torch._check import of_the_plan
from scalewise.torch._critical import critical
from scalewise.torch._given import Device, Model, ModuleFactory, Settings
from scalewise.torch._groups import Groups, parameter_groups
from scalewise.torch._init import initialise
from scalewise.torch._measure import Loss
from scalewise.torch._options import Options, told
from scalewise.torch._probe import Factory, probe
from scalewise.torch._scale import apply_multipliers, refuse_unscaled
from scalewise.torch._schedule import check
from scalewise.torch._setup import own_optimizer, prepare
from scalewise.torch._verify import Setup, TorchBench

_WORDING = Wording(
    "If it reads out with the embedding's weights, let a module do it that shares them (torch.nn.Linear, with its "
    "weight set to the embedding's)"
)


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
        if self.build is None:
            raise PlanError(
                "This plan was loaded without its factory, so it is for one size only; "
                "load(path, build=...) gives it one."
            )
        t, said = self.table, self.options
        request = requested(
            self.build, base=t.base, target=resized(t.target, sizes), strategy=t.strategy,
            optimizer=t.optimizer, adjust=t.adjust, policy=t.policy, decay=t.decay,
            blocks=said.blocks, roles=said.roles, residual=t.residual,
            branch_outputs=said.branch_outputs, multiplied=said.multiplied, width=t.width_name,
            depth=t.depth_name, keep=said.keep,
        )  # fmt: skip
        return _planned(request, said, t.constants, self._sights)

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


@checked(error=PlanError)
def plan(
    build: ModuleFactory,
    *,
    base: SizesLike,
    target: SizesLike,
    strategy: StrategyLike,
    optimizer: OptimizerLike = "adamw",
    adjust: str | None = None,
    policy: Policies = (),
    decay: str | None = None,
    blocks: Blocks = None,
    roles: Roles = None,
    residual: Exponent = Fraction(0),
    branch_outputs: Names = (),
    multiplied: Names = (),
    keep: Names = (),
    constants: ConstantsLike = None,
    init: Literal["drawn", "critical"] = "drawn",
    width: Argument = "width",
    depth: Argument = "depth",
    device: Device = "meta",
    inputs: Any = None,
) -> TorchPlan:
    r"""Plan the initialisation and the optimizer settings of a model, without touching it.

    The factory is called at the base width in earnest, to see how each tensor is drawn, and at two
    widths (and two depths) without memory. What grows between them, and what each kind of module does
    with its axes, decides each tensor's role; nothing is guessed. The model is run once at each of two
    widths, on a small input, to see what its code multiplies by: attention logits and their heads, embeddings,
    readouts.

    Args:
        build: A function of the names in `base` that returns a new model.
        base: The sizes where the hyperparameters were tuned: its arguments, and ``batch`` and ``tokens`` (of a
            step, of the whole training), which it is never given. Of ``heads``, ``kv_heads``, ``experts``,
            ``vocabulary`` and ``rank`` it is given those that it has arguments for.
        target: The same of the model to train.
        strategy: How to scale: a `Strategy` of `scalewise.scaling`, such as ``mup()``, or its name, ``"mup"``.
        optimizer: Its name, such as ``"sgd"``, ``"adamw"`` or ``"muon"``, or its class, ``torch.optim.AdamW``: the
            law by which it moves. Muon and its kin train matrices inside the network, and AdamW all else.
        adjust: What the library of Muon multiplies steps by, by the library's own name for it: ``"original"``,
            ``"match_rms_adamw"``, ``"moonlight"``, ``"consistent_rms"``, ``"spectral"`` (Megatron) or
            ``"spectral_norm"`` (dion). ``None`` for nothing but the learning rate.
        policy: What batch and duration ask for, by name, where `base` and `target` have ``batch`` or ``tokens``:
            ``"completed"`` for both, or one for each, as ``["sde", "horizon"]``; see `scalewise.plan.POLICIES`.
        decay: What weight decay follows, by name: ``"shrinkage"`` (learning rate times decay stays),
            ``"timescale"``, ``"power_lines"``, ``"steady"``, ``"inverse_width"`` or ``"constant"``; see
            `scalewise.plan.DECAYS`. By default what the policies say of it, and the first without any.
        blocks: Where the library of Muon treats blocks of rows apart (heads, fused projections): pattern of names
            to how many there are, or to the size that counts them, as ``{"*.qkv.weight": "heads"}``.
        roles: What the plan had to ask: pattern of names to role, or to (role, axes summed over).
        residual: $\alpha$: branches are multiplied by (depth)$^{-\alpha}$.
        branch_outputs: Patterns of the tensors that end a branch and carry that multiplier.
        multiplied: Names of the multipliers that the model's own forward pass applies; those of tied readouts
            that are not among them are for `TorchPlan.scale_`. A tensor's name says that the power of the width
            by which the model's own code multiplies it is to stay; else initialisation and rates take it back.
        keep: Factors of the model's own code that are to be left as they are, in place of a question or of settings
            that take them back: ``"attention"``, ``"product"``, ``"distance"``, or patterns of the modules (of
            products, of a readout that shares its weights) and tensors at which they stand. `print` shows what
            follows.
        constants: What was tuned at the base (`tune` does), as factors of what the factory draws and of the base's
            settings: by role, or by the name of a tensor or module, a factor of the standard deviation or
            ``{"std": ..., "lr": ..., "weight_decay": ...}``. They are the same at every size.
        init: How the base is drawn: as the factory does, or so that signals keep their size, ``"critical"``. Then
            `critical` gives constants, which multiply those that are given. It needs `inputs`.
        width: What the factory calls its width.
        depth: What it calls its depth; it need not have one.
        device: Where to learn the shapes. ``"cpu"`` builds in earnest, for factories that must.
        inputs: What the model is called with, to see its forward pass: a tensor, a tuple of arguments or a
            dict of named ones. By default tokens, numbers and images of sizes that its layers suggest are tried;
            if none is taken a warning says so, and the plan knows nothing of attention.

    Raises:
        PlanError: If anything is left that only the user can decide (all of it is asked at once), an argument is
            of the wrong type, a size is missing or not a positive number, or the factory fails.

    Example:
        >>> import torch, scalewise as sw
        >>> def build(width):
        ...     return torch.nn.Sequential(
        ...         torch.nn.Linear(8, width), torch.nn.ReLU(), torch.nn.Linear(width, width),
        ...         torch.nn.ReLU(), torch.nn.Linear(width, 10))
        >>> p = sw.torch.plan(
        ...     build, base={"width": 64}, target={"width": 256}, strategy=sw.scaling.mup())
        >>> model = p.init_(build(width=256))
        >>> opt = torch.optim.AdamW(p.param_groups(model, lr=3e-3))
        >>> [(g["name"], g["lr"]) for g in opt.param_groups]
        [('input+vector', 0.003), ('hidden', 0.00075), ('output', 0.00075), ('fixed', 0.003)]
    """
    r = requested(
        build, base=base, target=target, strategy=strategy, optimizer=optimizer, adjust=adjust, roles=roles,
        residual=residual, branch_outputs=branch_outputs, multiplied=multiplied, width=width, depth=depth,
        policy=policy, decay=decay, blocks=blocks, keep=keep,
    )  # fmt: skip
    options = Options(
        dict(r.roles), r.branch_outputs, r.multiplied, device, given(inputs), dict(r.blocks), r.keep
    )
    if init == "critical":
        found = critical_base(build, base, width, inputs)
        constants = combined(
            constants, _of_layers(found, depth in base, base.get(depth) != target.get(depth))
        )
    return _planned(r, options, constants, Sights())


def critical_base(build: Any, base: Mapping[str, Any], width: str, inputs: Any) -> CriticalInit:
    """How the base is to be drawn."""
    if inputs is None:
        raise PlanError(
            'init="critical" reads the model, and needs what it is called with: give `inputs`, such as a tensor of '
            "a few samples."
        )
    names = inspect.signature(build).parameters
    own = {k: v for k, v in base.items() if k in names and k != width}
    return critical(lambda n: build(**{width: n}, **own), inputs, width=base[width])


def _of_layers(found: CriticalInit, deepens: bool, deeper: bool) -> dict[str, dict[str, float]]:
    """Constants of the base that further layers have as well, where the depth can change."""
    if not deepens:
        return found.constants
    try:
        return stds_of_kinds(factors_of(found.proposals))
    except PlanError:
        if deeper:
            raise
        return found.constants


def _planned(
    request: Request, options: Options, constants: ConstantsLike, sights: Sights
) -> TorchPlan:
    """See the model where it must be known, and make the plan."""
    found, inputs = probe(request, options.device, options.inputs, sights)
    table = with_constants(make_plan(found, request, by_hooks=True, wording=_WORDING), constants)
    return TorchPlan(table, replace(options, inputs=inputs), request.build, sights)


@checked(error=PlanError)
def load(path: str | PathLike[str], build: ModuleFactory | None = None) -> TorchPlan:
    """Read a plan from a file.

    Args:
        path: Where `TorchPlan.save` wrote it.
        build: The factory, which `at` and `verify` need.

    Raises:
        PlanError: If there is no such file, or it holds no plan.
    """
    table, said = read(path)
    return TorchPlan(table, told(said), build)
