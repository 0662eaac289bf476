"""What the user asks of a plan, in any framework: checked once, before anything is built."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Annotated, Any

from scalewise._checked import Count, Must, Positive, held
from scalewise.plan._adjust import adjustment
from scalewise.plan._axes import ARCHITECTURE, TRAINING, ratios_of, taken
from scalewise.plan._errors import PlanError
from scalewise.plan._laws import SPECTRAL, Optimizer, known_optimizer
from scalewise.plan._policies import Training, training
from scalewise.plan._roles import Role, RoleSpec
from scalewise.scaling import ABC, Strategy
from scalewise.scaling.spi import strategy_of

# What `plan` is given in every framework; its annotations refuse all else.
FACTORY = "a function that returns a new model, such as lambda width: MyModel(width)"
Factory = Annotated[Callable[..., Any], Must(FACTORY)]
SizesLike = Annotated[
    Mapping[str, object],
    Must('a dictionary of what the factory is called with, such as {"width": 64}'),
]
StrategyLike = Annotated[
    Strategy | ABC | str,
    Must(
        "a strategy of scalewise.scaling, such as mup() or meta(s=1), or a name: 'mup', 'ntk', 'mean_field' or "
        "'standard'",
        to=strategy_of,
    ),
]
OptimizerLike = Annotated[
    str | Callable[..., Any],
    Must("the name of an optimizer, such as 'adamw', or its class, such as torch.optim.AdamW"),
]
Roles = Annotated[
    Mapping[str, RoleSpec] | None,
    Must(
        f"a dictionary of patterns and roles ({', '.join(Role)}), each alone or with the axes that are summed "
        'over, such as {"head.weight": "output"} or {"head.weight": ("output", 0)}'
    ),
]
Names = Annotated[Collection[str], Must("a list of names")]
Policies = Annotated[
    str | Collection[str], Must("the name of a policy, such as 'completed', or a list of names")
]
Blocks = Annotated[
    Mapping[str, int | str] | None,
    Must(
        "a dictionary of patterns and of how many blocks of rows are orthogonalised apart, as a number or as the "
        'name of a size, such as {"*.qkv.weight": "heads"}'
    ),
]
Argument = Annotated[str, Must("the name of an argument of the factory, such as 'width'")]


@dataclass(frozen=True)
class Request:
    r"""The arguments that `plan` has in every framework.

    Args:
        build: The factory.
        base: What it is called with where the hyperparameters were tuned.
        target: What it is called with for the model to train.
        strategy: Exponents for the first, the hidden and the last layer.
        optimizer: Name of the optimizer.
        adjust: What its library multiplies orthogonalised steps by.
        roles: Pattern of names to role, or to role and axes.
        residual: $\alpha$: branches are multiplied by (depth)$^{-\alpha}$.
        branch_outputs: Patterns of the tensors that end a branch.
        multiplied: Names of the multipliers that the forward pass applies.
        keep: Factors that are to be left as they are: kinds of them, or patterns of modules and tensors.
        width: What the factory calls its width.
        depth: What it calls its depth; ``None`` if it has none.
        training: What follows batch and duration, and weight decay.
        blocks: Pattern of names to the number of blocks that the optimizer treats apart.
    """

    build: Callable[..., Any] = field(compare=False)
    base: Mapping[str, Any]
    target: Mapping[str, Any]
    strategy: Strategy
    optimizer: str
    adjust: str
    roles: Mapping[str, RoleSpec]
    residual: Fraction
    branch_outputs: tuple[str, ...]
    multiplied: tuple[str, ...]
    width: str
    depth: str | None
    training: Training = field(default_factory=Training)
    blocks: Mapping[str, int | str] = field(default_factory=dict)
    keep: tuple[str, ...] = ()

    @property
    def wider(self) -> Fraction:
        """Target over base width."""
        return self._ratio(self.width)

    @property
    def deeper(self) -> Fraction:
        """Target over base depth; 1 without one."""
        return Fraction(1) if self.depth is None else self._ratio(self.depth)

    def at(self, sizes: Mapping[str, object]) -> Request:
        """This request for another target."""
        _, target = _sizes(self.base, resized(self.target, sizes), self.width, self.depth)
        _seen(self.build, self.base, target)
        said, decay = [p.name for p in self.training.policies], self.training.decay
        found = training(said, decay and decay.name, _changes(self.base, target))
        return replace(self, target=target, training=found)

    def _ratio(self, name: str) -> Fraction:
        return Fraction(self.target[name]) / Fraction(self.base[name])


def resized(target: Mapping[str, Any], sizes: Mapping[str, Any]) -> dict[str, Any]:
    """A target with some of its sizes changed.

    Raises:
        PlanError: If it has no such size.
    """
    unknown = sorted(map(repr, sizes.keys() - target.keys()))
    if unknown:
        raise PlanError(
            f"The plan has no size {', '.join(unknown)}; it has {', '.join(map(repr, target))}."
        )
    return {**target, **sizes}


def requested(
    build: Callable[..., Any],
    *,
    base: Mapping[str, object],
    target: Mapping[str, object],
    strategy: Strategy | ABC | str,
    optimizer: str | Callable[..., Any] = "adamw",
    adjust: str | None = None,
    roles: Mapping[str, RoleSpec] | None = None,
    residual: Fraction = Fraction(0),
    branch_outputs: Collection[str] = (),
    multiplied: Collection[str] = (),
    width: str = "width",
    depth: str = "depth",
    policy: str | Collection[str] = (),
    decay: str | None = None,
    blocks: Mapping[str, int | str] | None = None,
    keep: Collection[str] = (),
) -> Request:
    """The arguments of `plan`, each of its type, as a record, or a sentence on the first that cannot be.

    Args:
        build: The factory.
        base: As in `Request`; so are the others, but for `depth`, which neither size need have.
        target: See `Request`.
        strategy: A strategy, as p, q and r or as a, b and c, or its name.
        optimizer: Its name, in any letters, or its class.
        adjust: See `Request`; ``None`` for nothing.
        roles: See `Request`; ``None`` for none.
        residual: See `Request`.
        branch_outputs: Patterns.
        multiplied: Names.
        width: See `Request`.
        depth: The name that a depth would have.
        policy: Names of what batch and duration ask for.
        decay: The name of what weight decay follows; ``None`` for what the policies say, or the same shrinkage.
        blocks: See `Request`; ``None`` for none.
        keep: Names.

    Raises:
        PlanError: If the optimizer or a policy is not known, sizes are missing, not positive, or differ that may
            not, or branches are to be scaled without a depth.
    """
    known, trained = depth if depth in base or depth in target else None, known_optimizer(optimizer)
    one, two = _sizes(base, target, width, known)
    _seen(build, one, two)
    if residual and known is None:
        raise PlanError(
            f"`residual` says how branches go with the depth, and neither `base` nor `target` has a {depth!r}: "
            f"give it in both, such as base={{{width!r}: 64, {depth!r}: 4}}, or leave `residual` out."
        )
    named = (policy,) if isinstance(policy, str) else tuple(policy)
    return Request(
        build=build,
        base=one,
        target=two,
        strategy=strategy_of(strategy),
        optimizer=trained.name,
        adjust=_adjustment(adjust, trained),
        roles=dict(roles or {}),
        residual=residual,
        branch_outputs=tuple(branch_outputs),
        multiplied=tuple(multiplied),
        width=width,
        depth=known,
        training=training(named, decay, _changes(one, two)),
        blocks=dict(blocks or {}),
        keep=tuple(keep),
    )


def _adjustment(adjust: str | None, optimizer: Optimizer) -> str:
    name = adjustment(adjust)
    if name != "none" and optimizer.law.norm != SPECTRAL:
        raise PlanError(
            f"`adjust` is for optimizers that orthogonalise, such as 'muon'; got {adjust!r} with "
            f"{optimizer.name!r}."
        )
    return name


def _seen(build: Callable[..., Any], base: Mapping[str, Any], target: Mapping[str, Any]) -> None:
    """Refuse a change of a size that the factory is not given, where only its tensors tell what goes along."""
    ratios, given = ratios_of(base, target), taken(build, target)
    names = {
        "queries": "kv_heads",
        "experts": "experts",
        "vocabulary": "vocabulary",
        "rank": "rank",
    }
    for axis, name in names.items():
        if ratios[axis] != 1 and name not in given:
            raise PlanError(
                f"{name!r} differs between `base` and `target` ({base[name]} and {target[name]}), and the factory "
                "has no argument of that name, so which tensors go along with it cannot be seen. Let it take one."
            )


def _changes(base: Mapping[str, Any], target: Mapping[str, Any]) -> list[str]:
    return [axis for axis in TRAINING if base.get(axis) != target.get(axis)]


def _sizes(
    base: Mapping[str, Any], target: Mapping[str, Any], width: str, depth: str | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Base and target, with Python's numbers for the sizes that change, of whatever library they were."""
    found = {"base": dict(base), "target": dict(target)}
    for name in (width, depth) if depth is not None else (width,):
        for which, sizes in found.items():
            if name not in sizes:
                raise PlanError(
                    f"`{which}` has no {name!r}; it has {', '.join(map(repr, sizes)) or 'nothing'}. Give it, "
                    f'or say what the factory calls it: width="..." or depth="...".'
                )
            sizes[name] = held(f"{which}[{name!r}]", sizes[name], Positive, error=PlanError)
    may = (*TRAINING, *ARCHITECTURE)
    for key in sorted((base.keys() | target.keys()) - {width, depth}):
        here = key in base and key in target
        if here and key in may:
            for which, sizes in found.items():
                kind = Positive if key in TRAINING else Count
                sizes[key] = held(f"{which}[{key!r}]", sizes[key], kind, error=PlanError)
        elif not here or base[key] != target[key]:
            raise PlanError(
                f"{key!r} differs between `base` and `target` ({base.get(key, 'absent')} and "
                f"{target.get(key, 'absent')}). Only {width!r}, {depth or 'depth'!r} and, given in both, "
                f"{', '.join(map(repr, may))} may; let the factory compute the rest from them."
            )
    return found["base"], found["target"]
