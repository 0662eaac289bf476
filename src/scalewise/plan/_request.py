"""What the user asks of a plan, in any framework: checked once, before anything is built."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from numbers import Real
from typing import Any

from scalewise.plan._errors import PlanError
from scalewise.plan._roles import Role, RoleSpec
from scalewise.plan._rules import known_optimizer
from scalewise.scaling import ABC, Strategy
from scalewise.scaling._exact import fraction

__all__ = ["Request", "names_in", "requested", "resized"]


@dataclass(frozen=True)
class Request:
    r"""The arguments that `plan` has in every framework.

    Args:
        build: The factory.
        base: What it is called with where the hyperparameters were tuned.
        target: What it is called with for the model to train.
        strategy: Exponents for the first, the hidden and the last layer.
        optimizer: The law by which the optimizer moves.
        roles: Pattern of names to role, or to role and axes.
        residual: $\alpha$: branches are multiplied by (depth)$^{-\alpha}$.
        branch_outputs: Patterns of the tensors that end a branch.
        multiplied: Names of the multipliers that the forward pass applies.
        width: What the factory calls its width.
        depth: What it calls its depth; ``None`` if it has none.
    """

    build: Callable[..., Any] = field(compare=False)
    base: Mapping[str, Any]
    target: Mapping[str, Any]
    strategy: Strategy
    optimizer: str
    roles: Mapping[str, RoleSpec]
    residual: Fraction
    branch_outputs: tuple[str, ...]
    multiplied: tuple[str, ...]
    width: str
    depth: str | None

    @property
    def wider(self) -> Fraction:
        """Target over base width."""
        return self._ratio(self.width)

    @property
    def deeper(self) -> Fraction:
        """Target over base depth; 1 without one."""
        return Fraction(1) if self.depth is None else self._ratio(self.depth)

    def at(self, sizes: Mapping[str, object]) -> Request:
        """The same for another target."""
        target = resized(self.target, sizes)
        _check_sizes(self.base, target, self.width, self.depth)
        return replace(self, target=_sizes(target, self.width, self.depth))

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
    build: Any,
    *,
    called: str,
    base: Any,
    target: Any,
    strategy: Any,
    optimizer: Any = "adamw",
    roles: Any = None,
    residual: Any = 0,
    branch_outputs: Any = (),
    multiplied: Any = (),
    width: Any = "width",
    depth: Any = "depth",
) -> Request:
    """The arguments of `plan` as a record, or a sentence on the first that cannot be.

    Args:
        build: The factory.
        called: What the adapter calls that argument.
        base: As in `Request`; so are the others, but for `depth`, which neither size need have.
        target: See `Request`.
        strategy: A strategy, as p, q and r or as a, b and c.
        optimizer: See `Request`.
        roles: See `Request`; ``None`` for none.
        residual: A number or a fraction as text.
        branch_outputs: A list of patterns.
        multiplied: A list of names.
        width: See `Request`.
        depth: The name that a depth would have.

    Raises:
        PlanError: If an argument is of the wrong type or out of its range.
    """
    if not callable(build):
        raise PlanError(
            f"`{called}` must be a function that returns a new model, such as lambda width: MyModel(width); got "
            f"{build!r}."
        )
    for which, sizes in (("base", base), ("target", target)):
        if not isinstance(sizes, Mapping) or not all(isinstance(k, str) for k in sizes):
            raise PlanError(
                f'`{which}` must be a dictionary of what the factory is called with, such as {{"width": 64}}; got '
                f"{sizes!r}."
            )
    for which, name in (("width", width), ("depth", depth)):
        if not isinstance(name, str):
            raise PlanError(
                f"`{which}` must be the name of an argument of the factory, such as {which!r}; got {name!r}. The "
                "sizes themselves belong into `base` and `target`."
            )
    known = depth if depth in base or depth in target else None
    _check_sizes(base, target, width, known)
    return Request(
        build, _sizes(base, width, known), _sizes(target, width, known), _strategy(strategy),
        known_optimizer(optimizer), _roles(roles),
        _exponent(residual), names_in("branch_outputs", branch_outputs), names_in("multiplied", multiplied),
        width, known,
    )  # fmt: skip


def _check_sizes(
    base: Mapping[str, Any], target: Mapping[str, Any], width: str, depth: str | None
) -> None:
    for name in (width, depth) if depth is not None else (width,):
        for which, sizes in (("base", base), ("target", target)):
            if name not in sizes:
                raise PlanError(
                    f"`{which}` has no {name!r}; it has {', '.join(map(repr, sizes)) or 'nothing'}. Give it, "
                    f'or say what the factory calls it: width="..." or depth="...".'
                )
            value = sizes[name]
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not number or not 0 < float(value) < math.inf:
                raise PlanError(f"{name!r} in `{which}` must be a positive number; got {value!r}.")
    for key in sorted((base.keys() | target.keys()) - {width, depth}):
        if key not in base or key not in target or base[key] != target[key]:
            raise PlanError(
                f"{key!r} differs between `base` and `target` ({base.get(key, 'absent')} and "
                f"{target.get(key, 'absent')}). Only {width!r} and {depth or 'depth'!r} may; let the factory "
                "compute the rest from them."
            )


def _strategy(given: Any) -> Strategy:
    """A strategy, of one or of exponents a, b and c."""
    if isinstance(given, ABC):
        return given.to_strategy()
    if not isinstance(given, Strategy):
        raise PlanError(
            f"`strategy` must be a strategy of scalewise.scaling, such as mup() or meta(s=1); got {given!r}."
        )
    return given


def _roles(given: Any) -> dict[str, RoleSpec]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(k, str) for k in given):
        raise PlanError(
            f'`roles` must be a dictionary of patterns and roles, such as {{"head.weight": "output"}}; got '
            f"{given!r}."
        )
    for wanted, spec in given.items():
        if not _is_spec(spec):
            raise PlanError(
                f"`roles` gives {wanted!r} the role {spec!r}; roles are {', '.join(repr(str(r)) for r in Role)}, "
                'alone or with the axes that are summed over, such as ("output", 0).'
            )
    return dict(given)


def _is_spec(spec: Any) -> bool:
    if isinstance(spec, str):
        return spec in set(Role)
    if not isinstance(spec, tuple) or len(spec) != 2 or not isinstance(spec[0], str):
        return False
    axes = (spec[1],) if isinstance(spec[1], int) else spec[1]
    whole = isinstance(axes, tuple) and all(isinstance(i, int) for i in axes)
    return whole and spec[0] in set(Role)


def _exponent(given: Any) -> Fraction:
    try:
        return fraction(given)
    except TypeError:
        raise PlanError(
            "`residual` is an exponent and must be a finite number or a fraction such as '1/4'; got "
            f"{given!r}."
        ) from None


def names_in(which: str, given: Any) -> tuple[str, ...]:
    """A list of names: the letters of a text are none.

    Raises:
        PlanError: If it is not one.
    """
    if isinstance(given, str) or not isinstance(given, Collection):
        raise PlanError(f"`{which}` must be a list of names; got {given!r}.")
    if not all(isinstance(name, str) for name in given):
        raise PlanError(f"`{which}` must be a list of names; got {given!r}.")
    return tuple(given)


def _sizes(given: Mapping[str, Any], width: str, depth: str | None) -> dict[str, Any]:
    """The same with plain numbers for the sizes that change, of whatever library they were."""
    return {k: _python_number(v) if k in (width, depth) else v for k, v in given.items()}


def _python_number(value: Any) -> int | float:
    return int(value) if value == int(value) else float(value)
