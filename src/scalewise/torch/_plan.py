"""`plan`: from a factory of modules to a plan; and a plan from a file."""

from __future__ import annotations

from fractions import Fraction
from os import PathLike
from typing import Any, Literal

from scalewise._checked import checked
from scalewise.plan import PlanError
from scalewise.plan.spi import (
    Argument,
    Blocks,
    ConstantsLike,
    Names,
    OptimizerLike,
    Policies,
    Roles,
    Sights,
    SizesLike,
    StrategyLike,
    combined,
    given,
    read,
    requested,
)
from scalewise.scaling.spi import Exponent
from scalewise.torch._applied import TorchPlan
from scalewise.torch._critical import critical_base, of_layers
from scalewise.torch._given import Device, ModuleFactory
from scalewise.torch._options import Options, told
from scalewise.torch._probe import planned


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
        build,
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
        blocks=blocks,
        keep=keep,
    )
    options = Options(
        dict(r.roles), r.branch_outputs, r.multiplied, device, given(inputs), dict(r.blocks), r.keep
    )
    if init == "critical":
        found = critical_base(build, base, width, inputs)
        constants = combined(
            constants, of_layers(found, depth in base, base.get(depth) != target.get(depth))
        )
    sights = Sights()
    table, options = planned(r, options, constants, sights)
    return TorchPlan(table, options, r.build, sights)


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
