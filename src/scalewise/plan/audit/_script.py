"""An audit of a script of any framework: networks as it builds and trains them, by a plan that claims nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from inspect import Parameter, signature
from typing import Any

import numpy as np

from scalewise.plan._adapter import Bench
from scalewise.plan._errors import PlanError, PlanWarning
from scalewise.plan._fits import Fit, Status, check_design
from scalewise.plan._measurement import Measurement
from scalewise.plan._questions import Asked
from scalewise.plan._roles import Role
from scalewise.plan._rows import passed_on, starts_small
from scalewise.plan._run import prepared
from scalewise.plan._table import Plan
from scalewise.plan._verdict import judge
from scalewise.plan._verify import Verified, measured
from scalewise.plan.audit._audit import Audit
from scalewise.plan.audit._breaks import breaks_of
from scalewise.plan.audit._epsilon import drowned
from scalewise.plan.audit._limits import binding, fall_of, limits_of, wasted
from scalewise.plan.audit._powers import APART, TensorPowers, growth_rows, powers_of, reads
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


class SeenOptimizers:
    """Learning rates and epsilons of a script's optimizers, noted as its networks are set up.

    Attributes:
        rates: By width, and there by tensor.
        epsilons: The number that a tensor's gradients are compared with, at the largest width seen last.
    """

    def __init__(self) -> None:
        self.rates: dict[int, dict[str, float]] = {}
        self.epsilons: dict[str, float] = {}


def audit_of(
    planned: Callable[[tuple[int, ...], Mapping[str, Any]], Verified],
    bench: Bench,
    seen: SeenOptimizers,
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
        planned: A plan of the model by `NO_CLAIM`, given widths and answers to what it asks.
        bench: Builds networks, with all rates multiplied by one number and without weight decay.
        seen: What it notes of the script's optimizers.
        widths: Ascending.
        seeds: Networks of each width.
        framework: The room that plans such models, for the remedy.
        target: As in `Audit`.
        tolerance: How far from zero a power may be beyond three standard errors.
        progress: Whether to show a bar.
    """
    check_design(np.asarray(widths, dtype=float), seeds)
    plan, assumed = _answered(planned, widths)
    plans = [replace(plan, table=_resized(plan.table, w)) for w in widths]
    run = prepared(bench, plans, widths, None).with_rate(None)
    sizes = measured(run, seeds, progress, "audit")
    found = audited(
        plan.table,
        sizes,
        [seen.rates[w] for w in widths],
        epsilon=seen.epsilons,
        assumed=assumed,
        target=None if target is None else float(target),
        tolerance=tolerance,
    )
    return replace(found, framework=framework)


def _resized(table: Plan, width: int) -> Plan:
    name = table.width_name
    ratio = Fraction(width, int(str(table.base[name])))
    return replace(table, target={name: width}, width=ratio)


def _answered(
    planned: Callable[[tuple[int, ...], Mapping[str, Any]], Verified], widths: tuple[int, ...]
) -> tuple[Verified, tuple[str, ...]]:
    """Plan that knows the role of each tensor, and the answers of most models that were assumed for it."""
    answers: dict[str, Any] = {}
    while True:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PlanWarning)
                found = planned(widths, answers)
            break
        except Asked as asked:
            if answers.items() >= asked.answers.items():
                raise
            for k, said in asked.answers.items():
                more = isinstance(said, Mapping)
                answers[k] = {**(answers.get(k) or {}), **said} if more else said
    said = [f"`{name}` is {role!r}" for name, role in answers.get("roles", {}).items()]
    said += [f"`{name}` reads out" for name in answers.get("readouts", ())]
    return found, tuple(said)


def audited(
    plan: Plan,
    measured: Measurement,
    rates: Sequence[Mapping[str, float]],
    *,
    epsilon: Mapping[str, float],
    assumed: Sequence[str] = (),
    target: float | None = None,
    tolerance: float = 0.0625,
) -> Audit:
    """Fit, judge and name.

    Args:
        plan: Any plan of the model, for roles and the multipliers in its code.
        measured: Sizes over widths and seeds.
        rates: For each width the learning rate of every tensor.
        epsilon: By tensor what the optimizer compares its gradient with.
        assumed: See `Audit`.
        target: See `Audit`; by default eight times the largest width.
        tolerance: How far from zero a power may be beyond three standard errors.
    """
    measured = passed_on(plan, measured)
    tensors = powers_of(plan, measured, rates)
    rows = growth_rows(plan, measured, tolerance)
    small = starts_small(plan)
    verdict = judge(rows, measured, tolerance, late=small)
    limits = limits_of(tensors, measured, verdict.features)
    fall, bounds = fall_of(limits), binding(limits)
    widest = float(measured.widths[-1])
    target = 8 * widest if target is None else float(target)
    widening = target / float(measured.widths[0])
    wastes = wasted(tensors, measured, tolerance, widening)
    moves = verdict.features.slope - fall
    held = bool(fall) or moves < -APART - verdict.features.error
    return Audit(
        tensors=tensors,
        verdict=verdict,
        limits=limits,
        bottleneck=bounds if held else (),
        fall=fall,
        wastes=wastes,
        breaks=breaks_of(plan, measured, rows, tolerance),
        starts=_starts(measured, tensors, tolerance, small),
        epsilons=drowned(tensors, measured, epsilon, target),
        idle=tuple(t.name for t in tensors if t.rate.status is not Status.FITTED),
        assumed=tuple(assumed),
        target=target,
        measured=measured,
        tolerance=tolerance,
    )


def _starts(
    measured: Measurement, tensors: Sequence[TensorPowers], tolerance: float, small: bool
) -> tuple[TensorPowers, ...]:
    """Tensors, one for each module inside the network, that start larger or smaller at another width."""
    found: dict[str, TensorPowers] = {}
    for t in tensors:
        inside = t.role in (Role.INPUT, Role.HIDDEN) and not reads(measured, t.name)
        if inside and _moved(t.output, tolerance) and not (small and t.output.slope < 0):
            found.setdefault(t.module, t)
    return tuple(found.values())


def _moved(fit: Fit, tolerance: float) -> bool:
    off = fit.status is Status.FITTED and abs(fit.slope) > APART + tolerance + fit.doubt
    return off and not fit.tends_to(0.0, tolerance)
