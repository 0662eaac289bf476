"""Parameter groups: plain dictionaries for any optimizer that reads them, as few as there can be."""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from scalewise.plan import Law, Plan, PlanError, SettingsGroup, groups
from scalewise.plan.spi import ADJUSTMENTS, Optimizer, bare, known_optimizer, matching
from scalewise.torch._check import of_the_plan

OPTIMIZERS: dict[str, Any] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "nadam": torch.optim.NAdam,
    "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad,
}
# Younger than the oldest PyTorch that is served.
OPTIMIZERS |= {
    name.lower(): getattr(torch.optim, name)
    for name in ("Adafactor", "Muon")
    if hasattr(torch.optim, name)
}
_OWN = ("params", "name", "base_lr", "base_eps", "base_weight_decay", "lr_factor", "optimizer")

Groups = list[dict[str, Any]]


def parameter_groups(
    plan: Plan,
    model: nn.Module,
    groups: Iterable[Mapping[str, Any]],
    defaults: Mapping[str, Any],
    rest: Mapping[str, Any] | None = None,
) -> Groups | tuple[Groups, ...]:
    """One dictionary for every set of parameters with the same settings.

    Args:
        plan: The plan.
        model: A model of the target's size, wrapped or not; its frozen parameters are left out.
        groups: The user's own groups, each with settings of its own.
        defaults: Settings of all others.
        rest: Settings of what a second optimizer trains.

    Returns:
        A list, or one for each of the plan's optimizers.

    Raises:
        PlanError: If a setting is none, or the groups overlap or name what is not there.
    """
    named = {n: p for n, p in of_the_plan(plan, model).items() if p.requires_grad}
    if not named:
        raise PlanError(
            "Every parameter of the model is frozen (requires_grad=False), so there is nothing to train."
        )
    out = _sorted(
        plan, {n: p.dtype for n, p in named.items()}, model, groups, (defaults, rest), named
    )
    for group in (g for found in out.values() for g in found):
        group["params"] = [named[n] for n in group["params"]]
    return out[plan.optimizer] if len(out) == 1 else tuple(out.values())


def groups_of_names(
    plan: Plan,
    model: nn.Module | None,
    groups: Iterable[Mapping[str, Any]],
    defaults: Mapping[str, Any],
    rest: Mapping[str, Any] | None = None,
) -> dict[str, Groups]:
    """Groups by optimizer, with the plan's names of parameters in place of them.

    Args:
        plan: The plan.
        model: Its model, whose frozen parameters are left out; ``None`` if nothing is frozen.
        groups: The user's own groups.
        defaults: Settings of all others.
        rest: Settings of what a second optimizer trains.

    Raises:
        PlanError: For any reason of `parameter_groups`.
    """
    if model is None:
        types = {t.name: torch.float32 for t in plan.tensors}
        return _sorted(plan, types, None, groups, (defaults, rest), {})
    named = {n: p for n, p in of_the_plan(plan, model).items() if p.requires_grad}
    types = {n: p.dtype for n, p in named.items()}
    return _sorted(plan, types, model, groups, (defaults, rest), named)


def _sorted(
    plan: Plan,
    types: Mapping[str, torch.dtype],
    model: nn.Module | None,
    groups: Iterable[Mapping[str, Any]],
    settings: tuple[Mapping[str, Any], Mapping[str, Any] | None],
    named: Mapping[str, nn.Parameter],
) -> dict[str, Groups]:
    """Groups of names, by optimizer."""
    once: dict[int, str] = {id(p): n for n, p in reversed([*named.items()])}
    once = once if named else dict(enumerate(reversed([*types])))
    every = list(reversed(once.values()))
    defaults, rest = settings
    trainers = known_optimizer(plan.optimizer).all
    alone = len(trainers) == 1
    if alone is not (rest is None):
        raise PlanError(_about_rest(plan.optimizer, trainers[-1].name, alone))
    of = {trainers[0].name: defaults, trainers[-1].name: defaults if rest is None else rest}
    out: dict[str, Groups] = {t.name: [] for t in trainers}
    taken: set[str] = set()
    parts: list[tuple[dict[str, Any], set[str], str]] = []
    for number, group in enumerate(groups):
        own = {k: v for k, v in group.items() if k != "params"}
        mine = _selected(group, number, plan, model, once)
        if twice := taken & mine:
            raise PlanError(f"Two of the `groups` hold `{min(twice)}`; each parameter goes in one.")
        taken |= mine
        parts.append((own, mine, str(own.pop("name", f"group {number}"))))
    for own, mine, label in [*parts, ({}, set(every) - taken, "")]:
        for t in trainers:
            names = [n for n in every if n in mine and plan[n].optimizer == t.name]
            out[t.name] += _split(plan, types, names, dict(of[t.name]) | own, label, t)
    if alone:
        return out
    return {name: _marked(found, name, plan.adjust) for name, found in out.items()}


def _marked(groups: Groups, name: str, adjust: str) -> Groups:
    """Groups that say who is to train them, and which factor of PyTorch's own Muon is meant."""
    own = {"adjust_lr_fn": known_to_torch(adjust) or adjust} if name == "muon" else {}
    return [g | {"optimizer": name} | own for g in groups]


def known_to_torch(adjust: str) -> str | None:
    """The name in PyTorch's own Muon of a factor of shapes; ``None`` if it has no such factor."""
    of_torch = ("none", "original", "match_rms_adamw")
    return next((n for n in of_torch if ADJUSTMENTS[n] is ADJUSTMENTS[adjust]), None)


def _about_rest(optimizer: str, second: str, alone: bool) -> str:
    if alone:
        return f"`rest` is for plans of two optimizers; {optimizer!r} trains all tensors itself."
    return (
        f"The plan gives matrices to {optimizer!r} and the rest to {second!r}. Give the settings of that "
        f'too, as tuned at the base: plan.param_groups(model, lr=..., rest={{"lr": ...}}).'
    )


def _selected(
    group: Mapping[str, Any],
    number: int,
    plan: Plan,
    model: nn.Module | None,
    once: Mapping[int, str],
) -> set[str]:
    """Names of the parameters that one of the user's groups holds."""
    if "params" not in group:
        raise PlanError(f'`groups[{number}]` has no "params": parameters, names or patterns.')
    wanted = group["params"]
    items = [wanted] if isinstance(wanted, str | torch.Tensor) else list(wanted)
    everywhere = set() if model is None else {id(p) for p in model.parameters()}
    out: set[str] = set()
    for item in items:
        found = item[1] if isinstance(item, tuple) else item
        if isinstance(found, torch.Tensor):
            if id(found) not in everywhere:
                raise PlanError(
                    f"`groups[{number}]` holds a tensor of shape {tuple(found.shape)} that is not a parameter "
                    "of the model."
                )
            out |= {once[id(found)]} if id(found) in once else set()
            continue
        hits = matching(bare(str(found), plan.names), plan.names)
        if not hits:
            raise PlanError(
                f"`groups[{number}]` names {found!r}, which fits no parameter of the model."
            )
        rows = {plan[n].name for n in hits}
        out |= {n for n in once.values() if plan[n].name in rows}
    return out


def _split(
    plan: Plan,
    types: Mapping[str, torch.dtype],
    names: list[str],
    given: Mapping[str, Any],
    label: str,
    optimizer: Optimizer,
) -> Groups:
    if not names:
        return []
    settings = _complete(optimizer, given)
    lr, eps, decay = settings["lr"], settings.get("eps"), settings["weight_decay"]
    pair = isinstance(eps, tuple)
    moments = _moments(optimizer, settings)
    scale = 1.0 if pair or eps is None else float(eps)
    out = []
    for g in groups(plan, names, eps=scale, weight_decay=float(decay)):
        group: dict[str, Any] = {"params": list(g.tensors)}
        # A tensor is shared by whoever is handed it: each group gets one of its own.
        group["lr"] = lr.detach().clone() * g.lr if isinstance(lr, torch.Tensor) else lr * g.lr
        if eps is not None:
            group["eps"] = g.eps
        group["weight_decay"] = g.weight_decay
        group["name"] = f"{label}: {g.name}" if label else g.name
        # What check_schedule compares with: schedulers overwrite everything else they find.
        group |= {"base_lr": float(lr), "lr_factor": g.lr, "base_weight_decay": float(decay)}
        group |= {} if eps is None or pair else {"base_eps": float(eps)}
        group |= _scaled(plan, optimizer, g, moments)
        group |= {k: v for k, v in settings.items() if k not in group}
        out += _by_floor(plan, types, g, group, eps) if pair else [group]
    return out


def _moments(optimizer: Optimizer, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The decay rates of moments, by the names that PyTorch has for them, of steps that are normalised."""
    if optimizer.law.follows:
        return {}
    known = (
        inspect.signature(OPTIMIZERS[optimizer.name]).parameters
        if optimizer.name in OPTIMIZERS
        else {}
    )
    names = _MOMENTS.get(optimizer.name, ("betas",))
    given = {
        n: settings[n] if n in settings else known[n].default
        for n in names
        if n in settings or n in known
    }
    return {n: v for n, v in given.items() if n in _RATES}


# Which of the two moments a setting is of.
_RATES = {"betas": (1, 2), "momentum": (1,), "alpha": (2,), "beta2": (2,)}
_MOMENTS = {"muon": ("momentum",), "normuon": ("momentum", "beta2"), "rmsprop": ("alpha",)}


def _scaled(
    plan: Plan, optimizer: Optimizer, g: SettingsGroup, moments: Mapping[str, Any]
) -> dict[str, Any]:
    """Decay rates of moments at the target; nothing where the plan leaves them."""
    factors = {1: g.beta1, 2: g.beta2}
    if all(f == 1 for f in factors.values()):
        return {}
    if not moments and optimizer.name not in OPTIMIZERS:
        raise PlanError(
            f"`betas` must be given to plan.param_groups: the policy {', '.join(map(repr, plan.policy))} changes "
            f"them, and PyTorch has no {optimizer.name!r} whose default could be taken."
        )
    out = {}
    for name, value in moments.items():
        rates = [
            plan.moment(float(beta), factors[which])
            for beta, which in zip(
                value if name == "betas" else (value,), _RATES[name], strict=True
            )
        ]
        out[name] = tuple(rates) if name == "betas" else rates[0]
    return out


def _by_floor(
    plan: Plan,
    types: Mapping[str, torch.dtype],
    g: SettingsGroup,
    group: dict[str, Any],
    eps: tuple[float | None, float],
) -> Groups:
    """A group of Adafactor, whose second epsilon is a least size of weights, and scales like one."""
    floors: dict[float, list[str]] = {}
    for n in g.tensors:
        floors.setdefault(plan.factors(n).init, []).append(n)
    out = []
    for number, (init, names) in enumerate(floors.items()):
        first = torch.finfo(types[names[0]]).eps if eps[0] is None else eps[0]
        more = {"params": names, "eps": (first * g.eps, eps[1] * init)}
        out.append(
            group | more | {"name": f"{group['name']}~{number}" if number else group["name"]}
        )
    return out


def _complete(optimizer: Optimizer, given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with PyTorch's own defaults where the user says nothing."""
    odd = [k for k in given if k in _OWN]
    if odd:
        raise PlanError(f"`{odd[0]}` is set by the plan and cannot be given.")
    name, law = optimizer.name, optimizer.law
    wanted = ["lr", *(["eps"] if law.eps is not None else []), "weight_decay"]
    settings = {k: v for k, v in given.items() if v is not None}
    if "eps" in settings and "eps" not in wanted:
        what = "Gradient descent" if law.degree == 1 else repr(name)
        raise PlanError(f"{what} has no `eps`; leave it out, or plan for 'adam' or 'adamw'.")
    if "lr" not in settings:
        # An optimizer's own `lr` argument does not reach groups that have one: nothing may stand in for it.
        raise PlanError(
            "`lr` is the learning rate tuned at the base and must be given to plan.param_groups; got None."
        )
    known = inspect.signature(OPTIMIZERS[name]).parameters if name in OPTIMIZERS else {}
    for key in wanted:
        if key not in settings and key not in known:
            raise PlanError(
                f"`{key}` must be given to plan.param_groups: PyTorch has no {name!r} whose default could be "
                "taken, and one that the optimizer takes by itself would not be scaled."
            )
        value = settings[key] = settings[key] if key in settings else known[key].default
        if key == "eps" and isinstance(value, tuple | list):
            settings[key] = _pair(value, law, name)
        elif not (math.isfinite(number := _number(value)) and number >= 0):
            raise PlanError(f"`{key}` must be a finite number, not negative; got {value!r}.")
    return settings


def _pair(eps: Any, law: Law, name: str) -> tuple[float | None, float]:
    """The two epsilons of Adafactor."""
    numbers_ = [_number(0.0 if i == 0 and e is None else e) for i, e in enumerate(eps)]
    if not law.norm.weight or law.decay is not None:
        raise PlanError(
            f"`eps` must be one number; got {eps!r}. A pair is Adafactor's, which multiplies each "
            f"step by the size of its tensor; the plan's rules for {name!r} are not those of such "
            "an optimizer."
        )
    if len(numbers_) != 2 or not all(math.isfinite(x) and x >= 0 for x in numbers_):
        raise PlanError(f"`eps` must be a pair of finite numbers, not negative; got {eps!r}.")
    return eps[0], eps[1]


def _number(value: Any) -> float:
    """The value of a setting, NaN if it is not a number."""
    single = isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_complex()
    if isinstance(value, bool) or not (single or isinstance(value, numbers.Real)):
        return math.nan
    return float(value)
