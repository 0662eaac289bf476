"""An audit of a script of any framework: networks as it builds and trains them, by a plan that claims nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from inspect import Parameter, signature
from typing import Any, Protocol, runtime_checkable

import numpy as np

from scalewise.plan._errors import PlanError, PlanWarning
from scalewise.plan._fits import check_design
from scalewise.plan._questions import Asked
from scalewise.plan._run import Bench, Planned, prepared
from scalewise.plan._table import Plan
from scalewise.plan._verify import measured
from scalewise.plan.audit._audit import Audit, audited
from scalewise.scaling import standard

# What the plan behind an audit is made with: nothing of it but the roles is used.
NO_CLAIM: Mapping[str, Any] = {"strategy": standard(), "optimizer": "adam"}


def called(build: Callable[..., Any], width: int) -> Any:
    """Model that a factory builds from a width, given by position or, where that is not possible, by name.

    Args:
        build: The factory.
        width: What it is given.

    Raises:
        PlanError: If it cannot be called with a width and nothing else, or fails.
    """
    name = _only_named(build)
    call = f"build({width})" if name is None else f"build({name}={width})"
    try:
        return build(width) if name is None else build(**{name: width})
    except Exception as error:
        raise PlanError(
            f"`{call}` raised {type(error).__name__}: {error}. The factory is called with a width and nothing "
            "else: give a function such as lambda width: MyModel(width, depth=3)."
        ) from error


def _only_named(build: Callable[..., Any]) -> str | None:
    """Name that a factory has for its width, if it takes none by position."""
    try:
        given = signature(build).parameters.values()
    except (TypeError, ValueError):  # of C, without a signature
        return None
    named = [p for p in given if p.kind in (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD)]
    if len(named) < len(given) or not named:
        return None
    single = [p.name for p in named if p.kind is Parameter.KEYWORD_ONLY]
    needed = [p.name for p in named if p.kind is Parameter.KEYWORD_ONLY and p.default is p.empty]
    return "width" if "width" in single or not single else (needed or single)[0]


@runtime_checkable
class Script(Protocol):
    """A training script."""

    @property
    def rates(self) -> Mapping[int, Mapping[str, float]]:
        """Learning rates by width and tensor; filled as networks are set up."""
        ...

    @property
    def epsilons(self) -> Mapping[str, float]:
        """Numbers that the optimizer compares gradients with, by tensor."""
        ...

    def roles(self, widths: tuple[int, ...], answers: Mapping[str, Any]) -> Plan:
        """A plan of the model by `NO_CLAIM`, given answers to what it asks."""
        ...

    def sized(self, table: Plan) -> Planned:
        """A plan of one width, as the bench asks for it."""
        ...


def audit_of(
    script: Script,
    bench: Bench,
    widths: tuple[int, ...],
    seeds: int,
    *,
    framework: str,
    target: float | int | None,
    tolerance: float,
    progress: bool,
) -> Audit:
    """Measure the networks of a script, and say what becomes of them at great width.

    Args:
        script: How models and their optimizers are made.
        bench: Builds them, with all rates multiplied by one number and without weight decay.
        widths: Ascending.
        seeds: Networks of each width.
        framework: The room that plans such models, for the remedy.
        target: As in `Audit`.
        tolerance: How far from zero a power may be beyond three standard errors.
        progress: Whether to show a bar.
    """
    check_design(np.asarray(widths, dtype=float), seeds)
    with bench.undisturbed():
        table, assumed = _roles(script, widths)
        plans = [script.sized(_resized(table, w)) for w in widths]
        run = prepared(bench, plans, widths, None).with_rate(None)
        sizes = measured(run, seeds, progress, "audit")
    rates = [script.rates[w] for w in widths]
    found = audited(
        table,
        sizes,
        rates,
        epsilon=script.epsilons,
        assumed=assumed,
        target=None if target is None else float(target),
        tolerance=tolerance,
    )
    return replace(found, framework=framework)


def _resized(table: Plan, width: int) -> Plan:
    name = table.width_name
    ratio = Fraction(width, int(str(table.base[name])))
    return replace(table, target={name: width}, width=ratio)


def _roles(script: Script, widths: tuple[int, ...]) -> tuple[Plan, tuple[str, ...]]:
    """Plan that knows the role of each tensor, and the answers of most models that were assumed for it."""
    answers: dict[str, Any] = {}
    while True:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PlanWarning)
                found = script.roles(widths, answers)
            break
        except Asked as asked:
            if answers.items() >= asked.answers.items():
                raise
            answers |= {k: _joined(answers.get(k), said) for k, said in asked.answers.items()}
    said = [f"`{name}` is {role!r}" for name, role in answers.get("roles", {}).items()]
    said += [f"`{name}` reads out" for name in answers.get("readouts", ())]
    return found, tuple(said)


def _joined(before: Any, said: Any) -> Any:
    return {**(before or {}), **said} if isinstance(said, Mapping) else said
