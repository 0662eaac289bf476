"""What `audit`, `plan` and `verify` say as JSON: for programs that decide by it, so names stay.

Every record begins with ``schema``, the name of its form and a number that changes when a key is renamed, removed
or means something else (new keys may come), then ``scalewise``, the version that wrote it, and ``status``:
``"ok"``, ``"finding"``, or ``"not measured"`` where nothing wrong was seen and not all that counts was seen.
`docs/guide/shell.md` lists the keys.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from scalewise._version import __version__
from scalewise.plan import describe
from scalewise.scaling import classify

if TYPE_CHECKING:
    from scalewise.plan import Check, Plan
    from scalewise.plan.audit import Audit
    from scalewise.plan.spi import Fit, Row

OK, FINDING, NOT_MEASURED = "ok", "finding", "not measured"


def check_record(check: Check) -> dict[str, Any]:
    """A check of a plan."""
    from scalewise.plan.spi import Cause

    unseen = all(c.cause is Cause.UNSEEN for c in check.culprits) and check.verdict.stable
    m = check.measured
    rows = (*check.rows, *check.attention, *check.returned)
    said = [str(c) for c in check.culprits] or list(check.verdict.reasons)
    return {
        **_head("verify", OK if check.ok else NOT_MEASURED if unseen else FINDING),
        "sentence": "Every power is as planned." if check.ok else said[0],
        "regime": _text(check.verdict.regime),
        "stable": check.verdict.stable,
        "sure": check.verdict.sure,
        "planned": str(classify(check.plan.strategy)),
        **_made(check.plan),
        "widths": [int(w) for w in m.widths],
        "seeds": m.seeds,
        "steps": m.steps,
        "lr": _number(m.lr),
        "findings": [
            {"place": c.tensor, "cause": str(c.cause), "power": _number(c.power), "text": c.text}
            for c in check.culprits
        ],
        "rows": [_row(row) for row in rows],
    }


def audit_record(audit: Audit) -> dict[str, Any]:
    """An audit of a script."""
    wrong = audit.wastes or audit.bottleneck or audit.starts or not audit.verdict.stable
    unseen = not wrong and (audit.blind or audit.unsure is not None)
    return {
        **_head("audit", OK if audit.ok else NOT_MEASURED if unseen else FINDING),
        "sentence": audit.sentence,
        "regime": _text(audit.verdict.regime),
        "stable": audit.verdict.stable,
        "s": _number(audit.s),
        "r": _number(audit.r),
        "r_stable": _number(audit.r_stable),
        "fall": _number(audit.fall),
        "widths": [int(w) for w in audit.measured.widths],
        "seeds": audit.measured.seeds,
        "target": _number(audit.target),
        "bottleneck": [
            {"place": b.place, "bound": str(b.bound), **_power(b.fit), "text": str(b)}
            for b in audit.bottleneck
        ],
        "wastes": [
            {"place": w.tensor, "power": _number(w.power), "factor": _number(w.factor)}
            for w in audit.wastes
        ],
        "breaks": [
            {
                "place": b.place,
                "quantity": str(b.quantity),
                **_power(b.fit),
                "width": _number(b.width),
                "text": str(b),
            }
            for b in audit.breaks
        ],
        "starts": [{"place": t.name, **_power(t.output)} for t in audit.starts],
        "epsilons": [
            {"place": e.tensor, "eps": e.eps, "width": _number(e.width)} for e in audit.epsilons
        ],
        "idle": list(audit.idle),
        "not_seen": list(audit.blind),
        "assumed": list(audit.assumed),
    }


def plan_record(plan: Plan) -> dict[str, Any]:
    """A plan; ``init`` to ``weight_decay`` multiply the settings of the base, ``std`` is what they make of it."""
    return {
        **_head("plan", OK if plan.looked else NOT_MEASURED),
        "sentence": _notes(plan),
        **_made(plan),
        "planned": str(classify(plan.strategy)),
        "multipliers": [
            {"name": m.name, "factor": m.factor, "text": m.where} for m in plan.multipliers
        ],
        "tensors": [
            {
                "name": t.name,
                "role": str(t.role),
                "base_shape": list(t.base_shape),
                "shape": list(t.shape),
                "optimizer": t.optimizer,
                "std": _number(plan.std(t.name)) if t.base.std else None,
                **{
                    name: _number(getattr(plan.factors(t.name), name))
                    for name in ("init", "lr", "eps", "weight_decay")
                },
            }
            for t in plan.tensors
        ],
    }


def _head(verb: str, status: str) -> dict[str, Any]:
    return {"schema": f"scalewise {verb} 1", "scalewise": __version__, "status": status}


def _made(plan: Plan) -> dict[str, Any]:
    return {
        "strategy": str(plan.strategy),
        "optimizer": plan.optimizer,
        "base": dict(plan.base),
        "target": dict(plan.target),
    }


def _notes(plan: Plan) -> str:
    if not plan.looked:
        return "The forward pass was not seen: attention and multipliers in it are not known."
    return describe(plan).splitlines()[0]


def _row(row: Row) -> dict[str, Any]:
    return {
        "place": row.tensor,
        "quantity": str(row.quantity),
        "status": str(row.fit.status),
        "agrees": row.agrees,
        "planned": float(row.predicted),
        "least": _number(float(row.least)),
        **_power(row.fit),
    }


def _power(fit: Fit) -> dict[str, Any]:
    known = fit.status == "fitted"
    return {
        "power": _number(fit.slope) if known else None,
        "error": _number(fit.sem) if known else None,
    }


def _number(value: Any) -> float | None:
    """Number as JSON can hold it; ``None`` if it is not finite."""
    return None if value is None or not math.isfinite(value) else float(value)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
