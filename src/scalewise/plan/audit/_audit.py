"""`Audit`: the powers of a script, what they make of it at great width, and a verdict in one sentence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from scalewise._readable import Rows, readable
from scalewise.plan._fits import Fit, Status
from scalewise.plan._measurement import Measurement, Quantity
from scalewise.plan._names import pattern
from scalewise.plan._roles import Role
from scalewise.plan._verdict import Verdict, not_seen
from scalewise.plan.audit._breaks import Break
from scalewise.plan.audit._epsilon import Epsilon
from scalewise.plan.audit._limits import Bound, Limit, Waste
from scalewise.plan.audit._powers import APART, TensorPowers
from scalewise.scaling import Regime

_HEAD = ("tensor", "role", "init", "multiplier", "lr", "gradient", "own change")
_FEW, _ALWAYS = 4, 0.25


@dataclass(frozen=True)
@readable
class Audit:
    r"""Powers of a training script, and its verdict at great width.

    Args:
        tensors: The powers of every tensor, in the order of the forward pass.
        verdict: Stable or not, and the regime, at the rates of the script.
        limits: What bounds a common factor of all learning rates, the steepest first.
        bottleneck: Those of them that none is surely steeper than; empty where nothing is held back.
        fall: $c^*$: a common factor of the rates must fall as $n^{-c^*}$; negative if it may grow.
        wastes: Tensors that then learn more slowly than others.
        breaks: What grows with the width, the first to break a run first.
        starts: Modules whose output at initialisation grows or fades, in the order of the forward pass.
        epsilons: Tensors whose gradients fall below the optimizer's epsilon, and at which width.
        idle: Tensors that no group of the optimizer holds, or whose learning rate is zero.
        assumed: What a plan would have asked, and the answers of most models, which were taken.
        target: The width that rates are extrapolated to.
        measured: The sizes, taken at the script's rates times `measured.lr`, without weight decay.
        tolerance: How far from zero a power may be.
        framework: The room whose `plan` is the remedy.
    """

    tensors: tuple[TensorPowers, ...]
    verdict: Verdict
    limits: tuple[Limit, ...]
    bottleneck: tuple[Limit, ...]
    fall: float
    wastes: tuple[Waste, ...]
    breaks: tuple[Break, ...]
    starts: tuple[TensorPowers, ...]
    epsilons: tuple[Epsilon, ...]
    idle: tuple[str, ...]
    assumed: tuple[str, ...]
    target: float
    measured: Measurement = field(repr=False)
    tolerance: float = 0.0625
    framework: str = "torch"

    def __getitem__(self, name: str) -> TensorPowers:
        return {t.name: t for t in self.tensors}[name]

    @property
    def r(self) -> float:
        r"""The features move by $n^{-r}$ at the rates of the script (TP4, 3.2); NaN where that was not seen."""
        features = self.verdict.features
        return math.nan if features.status is Status.ABSENT else -features.slope

    @property
    def r_stable(self) -> float:
        """The power $r$ at the largest common factor of the rates that keeps everything stable."""
        return self.r + self.fall

    @property
    def s(self) -> float:
        """The member of the family from neural tangent (0) to maximal update (1) with that `r_stable`."""
        s = 1 - 2 * self.r_stable
        return s if math.isnan(s) else min(max(s, 0.0), 1.0)

    @property
    def ok(self) -> bool:
        """True if the script is in the maximal update: nothing grows or fades, and no tensor lags behind."""
        return self.maximal and not self.starts

    @property
    def maximal(self) -> bool:
        """True if every tensor surely moves what it writes at order one, and what readouts do was seen."""
        if self.unsure is not None or self.blind:
            return False
        learns = self.verdict.stable and self.verdict.nontrivial and self.r < APART
        return learns and not self.wastes and not self.bottleneck

    @property
    def unsure(self) -> Limit | None:
        """Limit whose error is too large to tell whether it grows with the width."""
        top = self.limits[0] if self.limits else None
        open_ = top is not None and not self.fall and top.fit.slope > 2 * APART
        return top if open_ and self.verdict.stable else None

    @property
    def blind(self) -> tuple[str, ...]:
        """Readouts of which was not seen what they read and return."""
        unknown = self.verdict.regime is None
        return self.measured.unseen or (self.measured.readouts if unknown else ())

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        return _sentence(self)

    def _told(self) -> list[str | Rows]:
        return _lines(self)


def _sentence(audit: Audit) -> str:
    """One sentence: the regime, what holds it back, what it wastes."""
    v = audit.verdict
    if not v.stable:
        first = f": {audit.breaks[0]}" if audit.breaks else ""
        return f"Unstable at great width{first}{_because(audit)}{_lagging(audit)}."
    if v.regime is None:
        first = f"Not told, and nothing that was seen grows{_because(audit)}{_lagging(audit)}"
        return f"{first}. {not_seen(audit.blind)}"
    if v.regime is Regime.TRIVIAL and audit.r < APART:
        power = f"n^({v.logits.slope:+.2f} ± {v.logits.sem:.2f})"
        why = f"{_because(audit)}{_lagging(audit)}"
        return f"Features are learnt at every width, but the outputs follow by {power}{why}."
    if v.regime is Regime.TRIVIAL:
        return f"Trivial at great width: the outputs stop moving{_because(audit)}{_lagging(audit)}."
    if v.regime is Regime.KERNEL:
        power = f"n^({-audit.r:+.2f} ± {v.features.sem:.2f})"
        return (
            f"Lazy at great width (kernel regime): features move by {power}, s = {audit.s:.2f}"
            f"{_because(audit)}{_lagging(audit)}."
        )
    if audit.unsure is not None:
        return f"Too close to call, more seeds or widths will tell: {audit.unsure}."
    if audit.maximal:
        return "Maximal update: every tensor moves what it writes by as much at every width."
    return f"Features are learnt at every width{_because(audit)}{_lagging(audit)}."


def _because(audit: Audit) -> str:
    drawn = ""
    if audit.starts:
        t = audit.starts[0]
        size = "large" if t.output.slope > 0 else "small"
        drawn = f"; `{t.name}` is drawn n^{abs(t.output.slope):.2f} too {size}"
    attention = [b.place for b in audit.bottleneck if b.bound is Bound.ATTENTION]
    held = [f"the attention of `{place}`" if place else "attention" for place in attention]
    tensors = [b.place for b in audit.bottleneck if b.bound is not Bound.ATTENTION]
    named = [*([_names(tensors)] if tensors else []), *held]
    return f"{drawn}; the bottleneck is {' and '.join(named)}" if named else drawn


def _lagging(audit: Audit) -> str:
    if not audit.wastes:
        return ""
    worst = max(audit.wastes, key=lambda w: w.power)
    named, many = _lagging_names(audit)
    return f"; {named} learn{'' if many else 's'} too slowly, by up to n^{worst.power:.2f}"


def _lagging_names(audit: Audit) -> tuple[str, bool]:
    """Matrices and embeddings by name, gains and biases in a word."""
    names = [w.tensor for w in audit.wastes]
    vectors = [n for n in names if audit[n].role is Role.VECTOR]
    others = [n for n in names if n not in vectors]
    if len(vectors) < _FEW:
        return _names(names), len(names) > 1
    word = f"{len(vectors)} gains and biases"
    return (f"{_names(others)} and {word}" if others else word), True


def _names(names: Iterable[str]) -> str:
    every = list(dict.fromkeys(names))
    alike = Counter(map(pattern, every))
    found = list(dict.fromkeys(f"`{n}`" if alike[pattern(n)] == 1 else _name(n) for n in every))
    more = f" and {len(found) - _FEW} more" if len(found) > _FEW else ""
    return ", ".join(found[:_FEW]) + more


def _name(name: str) -> str:
    """Name with stars for the numbers of layers; of a plain sequence the name itself."""
    return f"`{pattern(name) if name.count('.') > 1 else name}`"


def _lines(audit: Audit) -> list[str | Rows]:
    """Lines of an audit."""
    m = audit.measured
    widths = ", ".join(f"{w:g}" for w in m.widths)
    steps = f"{m.steps} step{'s' if m.steps > 1 else ''}"
    factor = "" if m.lr is None else f" at {m.lr:.2g} times the script's learning rates"
    head = f"width {widths}; {m.seeds} seeds, {steps}{factor}, no weight decay"
    notes = [*_rates(audit), *_broken(audit), *_at_start(audit), *_more(audit)]
    return [audit.sentence, head, "", _grid(audit.tensors), "", *notes]


def _grid(tensors: Sequence[TensorPowers]) -> Rows:
    kinds: dict[tuple[str, ...], list[TensorPowers]] = {}
    for t in tensors:
        kinds.setdefault((pattern(t.name), t.role, *_coarse(t)), []).append(t)
    lines: list[tuple[str, ...]] = []
    for mine in kinds.values():
        first = max(mine, key=lambda t: t.own_change.slope)
        label = mine[0].name if len(mine) == 1 else f"{pattern(mine[0].name)} ({len(mine)})"
        a = "not seen" if first.multiplier is None else f"{float(first.multiplier):+.2f}"
        fits = (first.rate, first.gradient, first.own_change)
        cells = (_cell(first.init), a, *map(_cell, fits))
        lines.append((label, str(first.role), *cells))
    return Rows(_HEAD, lines)


def _coarse(t: TensorPowers) -> tuple[str, ...]:
    """Powers to the next quarter: layers that have them in common stand on one line."""
    fits = (t.init, t.rate, t.own_change)
    return tuple(
        f"{round(f.slope / _ALWAYS) * _ALWAYS:+.2f}" if f.status is Status.FITTED else f.status
        for f in fits
    )


def _cell(fit: Fit) -> str:
    if fit.status is not Status.FITTED:
        return "" if fit.status is Status.ABSENT else str(fit.status)
    return f"{round(fit.slope, 2) + 0.0:+.2f}" + (f"±{fit.sem:.2f}" if fit.sem > 1e-9 else "")


def _rates(audit: Audit) -> list[str]:
    out = []
    if audit.bottleneck:
        must = "must fall" if audit.fall > 0 else "may grow"
        said = f"All learning rates together {must} as n^({-audit.fall:+.2f})"
        if not audit.fall:
            said = "All learning rates together need not fall with the width, and may not grow"
        moves = f"what is read out then moves by n^({-audit.r_stable:+.2f}), s = {audit.s:.2f}"
        if math.isnan(audit.r):
            moves = "how what is read out then moves was not seen"
        out.append(f"{said}; {moves}. What bounds them:")
        out += [f"  {limit}" for limit in audit.bottleneck[:_FEW]]
    kinds: dict[tuple[str, Role], Waste] = {}
    for w in audit.wastes:
        role = audit[w.tensor].role
        key = "gains and biases" if role is Role.VECTOR else _name(w.tensor)
        kinds[key, role] = max(w, kinds.get((key, role), w), key=lambda one: one.power)
    for (name, role), w in kinds.items():
        verb, whose = ("waste", "their") if role is Role.VECTOR else ("wastes", "its")
        line = (
            f"{name} {verb} n^{w.power:.2f} of {whose} learning rate beside the others: a factor of "
            f"{w.factor:.2g} from width {audit.measured.widths[0]:g} to {audit.target:g}."
        )
        out.append(line[0].upper() + line[1:])
    return out


def _broken(audit: Audit) -> list[str]:
    """The first to blow up, and how many follow."""
    if not audit.breaks:
        return ["Nothing grows with the width."]
    first, lines = audit.breaks[0], []
    when = ""
    if first.width is not None:
        when = f"; at the script's own rates {_reached(audit, first)}"
    lines.append(f"The first to blow up: {first}{when}.")
    rest = len(audit.breaks) - 1
    if rest:
        lines.append("One other size grows too." if rest == 1 else f"{rest} other sizes grow too.")
    return lines


def _reached(audit: Audit, first: Break) -> str:
    logits = first.place not in audit.measured.tensors or audit[first.place].role is Role.OUTPUT
    if first.width is None or first.width < audit.measured.widths[0]:
        return "that is too much at every width measured"
    width = f"at a width of about {_round(first.width)}"
    if first.quantity in (Quantity.LOGITS, Quantity.OUTPUT):
        return f"it is ten {width}"
    return f"one step changes it by {'one' if logits else 'its own size'} {width}"


def _at_start(audit: Audit) -> list[str]:
    if not audit.starts:
        return []
    t = audit.starts[0]
    what = "grows" if t.output.slope > 0 else "fades"
    others = len(audit.starts) - 1
    more = f", and {others} other module{'s' if others > 1 else ''} with it" if others else ""
    return [
        f"At initialisation what `{t.module}` returns {what} as n^({t.output.slope:+.2f} ± {t.output.sem:.2f})"
        f"{more}: `{t.name}` is drawn as n^({t.init.slope:+.2f})."
    ]


def _more(audit: Audit) -> list[str]:
    out = []
    if audit.epsilons:
        e = audit.epsilons[0]
        out.append(
            f"The gradients of `{e.tensor}` fall below eps = {e.eps:g} at a width of about {_round(e.width)}; from "
            "there on its steps shrink with them."
        )
    if audit.idle:
        out.append(
            f"Not trained, in no group of the optimizer or at the rate zero: {_names(audit.idle)}."
        )
    if audit.assumed:
        out.append(f"Taken for granted, as in most models: {'; '.join(audit.assumed)}.")
    if any(t.multiplier is None for t in audit.tensors):
        out.append(
            "The forward pass could not be watched, so multipliers in the model's code were not seen."
        )
    if audit.blind and audit.verdict.regime is not None:
        out.append(not_seen(audit.blind))
    odd = [t.name for t in audit.tensors if not t.module and t.role is not Role.FIXED]
    if odd:
        out.append(f"No module shows what these do alone: {_names(odd)}.")
    if not audit.maximal:
        out.append(
            f"What each tensor needs instead: sw.{audit.framework}.plan(build, ..., strategy=sw.scaling.mup())."
        )
    return out


def _round(width: float) -> str:
    return f"{float(f'{width:.2g}'):.0f}"
