"""A plan in words: what `print(plan)` shows."""

from __future__ import annotations

from fractions import Fraction

from scalewise._readable import Rows
from scalewise.plan._base import about_the_base
from scalewise.plan._growth import growth_between, of_width, written
from scalewise.plan._names import pattern
from scalewise.plan._parts import about_parts
from scalewise.plan._policies import DECAYS, DISAGREE, POLICIES
from scalewise.plan._predicted import Predicted, predictions
from scalewise.plan._table import Plan, TensorPlan
from scalewise.scaling import classify

_HEAD = ("tensor", "role", "shape", "init std", "base x √in", "lr", "eps", "decay", "slope")
_Shared = tuple[str, str, str, bool, str, str, str, str, str]


def describe(plan: Plan) -> str:
    """A table of a plan, a line for each kind of tensor.

    Columns: name with layer numbers as stars and how many there are; role; shape at the target, with
    what the base had; standard deviation at the target (its range, where tensors of a line differ by
    more than a tenth) and its power of the width; the standard deviation at the base in units of 1/sqrt(fan-in), or
    itself where rows are picked; factors of learning rate, epsilon and weight decay that the sizes make; and the
    predicted power of the width of what the first steps change in the output of the tensor's
    module.

    Args:
        plan: The plan.
    """
    return "\n".join(map(str, told(plan)))


def told(plan: Plan) -> list[str | Rows]:
    """The lines of a printed plan."""
    kinds: dict[_Shared, list[TensorPlan]] = {}
    slopes = predictions(plan, [t.name for t in plan.tensors])
    for tensor in plan.tensors:
        kinds.setdefault(_row(plan, tensor, slopes[tensor.name]), []).append(tensor)
    table = Rows(_HEAD, [_cells(plan, row, tensors) for row, tensors in kinds.items()])
    return [*_title(plan), "", table, *_notes(plan)]


def _row(plan: Plan, tensor: TensorPlan, slopes: Predicted) -> _Shared:
    """Cells that tensors on one line have in common; the fourth says whether the tensor is drawn at all."""
    f = plan.powers(tensor.name)
    sizes = zip(tensor.base_shape, tensor.shape, strict=True)
    return (
        pattern(tensor.name),
        str(tensor.role),
        " x ".join(str(b) if a == b else f"{b} ({a})" for a, b in sizes) or "scalar",
        tensor.base.std > 0,
        _power(of_width(tensor.rule.init, growth_between(plan, tensor))),
        _factor(f.lr),
        "" if tensor.law.eps is None else _factor(f.eps),
        _factor(f.weight_decay),
        written(slopes.change),
    )


def _cells(plan: Plan, row: _Shared, tensors: list[TensorPlan]) -> tuple[str, ...]:
    name, role, shape, drawn, init, *settings = row
    many = f" ({len(tensors)})" if len(tensors) > 1 else ""
    std = "as built"
    if drawn:
        stds = [plan.std(t.name) for t in tensors]
        low, high = min(stds), max(stds)
        # Two digits are more than a small tensor's entries tell of its spread.
        size = f"{sum(stds) / len(stds):.2g}" if high < 1.1 * low else f"{low:.2g}..{high:.2g}"
        std = f"{size} {init}".rstrip()
    units = [t.unit for t in tensors if t.unit]
    unit = f"{sum(units) / len(units):.2g}" if units else ""
    return (name + many, role, shape, std, unit, *settings)


def _title(plan: Plan) -> list[str]:
    verdict = classify(plan.strategy)
    return [
        f"{plan.strategy} with {plan.optimizer}: {verdict}",
        f"base   {_sizes(plan.base)}",
        f"target {_sizes(plan.target)}",
    ]


def _notes(plan: Plan) -> list[str]:
    out = []
    if plan.depth != 1 and plan.strategy.plain_biases:
        out.append(
            f"The depth changes by a factor of {float(plan.depth):g}; {plan.strategy} has no rule for it."
        )
    elif plan.depth != 1:
        what = "as a chain (no multiplier on branches)"
        if plan.residual:
            what = f"as residual branches multiplied by depth^(-{plan.residual})"
        out.append(
            f"The depth changes by a factor of {float(plan.depth):g}; what it repeats is taken {what}."
        )
    out += _of_training(plan)
    scaled = {pattern(t.name): t.gauge.total for t in plan.tensors if t.gauge.total}
    for name, power in scaled.items():
        out.append(
            f"The model's own code multiplies `{name}` by n^({power}); its initialisation and rates allow for it."
        )
    if not plan.looked:
        out.append("The forward pass was not seen: attention and multipliers in it are not known.")
    out += [*about_parts(plan), *about_the_base(plan)]
    for m in plan.multipliers:
        if m.left is not None:
            out.append(m.where)
            continue
        if m.factor == 1 and plan.width != 1:
            continue
        out.append(f"In the forward pass, {m.name}: x {m.factor:.6g}. {m.where}")
    return ["", *out] if out else []


def _of_training(plan: Plan) -> list[str]:
    """Lines on batch, duration and weight decay: their consequences, who says so, and who says otherwise."""
    batch, tokens = (plan.axes.get(a, Fraction(1)) for a in ("batch", "tokens"))
    changed = {a: f for a, f in (("batch", batch), ("tokens", tokens)) if f != 1}
    out = []
    if changed:
        sizes = ", ".join(f"{a} x {float(f):g}" for a, f in changed.items())
        betas = next((plan.factors(t.name) for t in plan.tensors if not t.law.follows), None)
        rates = "" if betas is None else _moments(plan, (betas.beta1, betas.beta2))
        out.append(f"Training: {sizes}, so steps x {float(tokens / batch):g}{rates}.")
        rows = [POLICIES[name] for name in plan.policy]
        out += [f"Policy {p.name!r}: {p.assumes} Source: {p.source}." for p in rows]
        out += [DISAGREE[axis] for axis in changed]
    if plan.width == plan.depth == 1 and not changed:
        return out
    if plan.decay is None and changed:
        return [*out, "Weight decay follows the policy. " + DISAGREE["decay"]]
    decay = DECAYS[plan.decay or "shrinkage"]
    out.append(f"Weight decay {decay.name!r}: {decay.assumes} Source: {decay.source}.")
    return [*out, DISAGREE["decay"]] if changed else out


def _moments(plan: Plan, factors: tuple[float, float]) -> str:
    if factors == (1.0, 1.0):
        return ""
    of = "log(beta)" if plan.half_life else "1-beta"
    return "".join(f", {of}{i} {_factor(f)}" for i, f in enumerate(factors, 1))


def _sizes(sizes: object) -> str:
    assert isinstance(sizes, dict)
    return ", ".join(f"{k} = {v}" for k, v in sizes.items())


def _factor(value: float) -> str:
    return "1" if value == 1 else f"x {value:.4g}"


def _power(power: Fraction) -> str:
    return f"(n^{written(power)})" if power else ""
