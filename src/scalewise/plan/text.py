"""A plan in words: what `print(plan)` shows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

from scalewise.plan.names import pattern
from scalewise.plan.predicted import predicted
from scalewise.plan.table import Plan, TensorPlan

__all__ = ["describe"]

_HEAD = ("tensor", "role", "shape", "init std", "lr", "eps", "decay", "slope")


def describe(plan: Plan) -> str:
    """A table of a plan, a line for each kind of tensor.

    Columns: name with layer numbers as stars and how many there are; role; shape at the target, with
    what the base had; standard deviation at the target and its power of the width; factors of learning
    rate, epsilon and weight decay; and the predicted power of the width of what the first steps change
    in the output of the tensor's module.

    Args:
        plan: The plan.
    """
    rows = Counter(_row(plan, t) for t in plan.tensors)
    lines = [_HEAD, *(r.cells(count) for r, count in rows.items())]
    widths = [max(len(line[i]) for line in lines) for i in range(len(_HEAD))]
    table = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) for line in lines]
    table.insert(1, "-" * len(table[0].rstrip()))
    return "\n".join([*_title(plan), "", *(line.rstrip() for line in table), *_notes(plan)])


@dataclass(frozen=True)
class _Row:
    name: str
    role: str
    shape: str
    std: str
    lr: str
    eps: str
    decay: str
    slope: str

    def cells(self, count: int) -> tuple[str, ...]:
        many = f" ({count})" if count > 1 else ""
        return (
            self.name + many, self.role, self.shape, self.std, self.lr, self.eps, self.decay, self.slope,
        )  # fmt: skip


def _row(plan: Plan, tensor: TensorPlan) -> _Row:
    f = plan.factors(tensor.name)
    sizes = zip(tensor.base_shape, tensor.shape, strict=True)
    shape = " x ".join(str(b) if a == b else f"{b} ({a})" for a, b in sizes) or "scalar"
    std = plan.std(tensor.name)
    # Three digits are more than a small tensor's entries tell of its spread.
    spread = "as built" if std == 0 else f"{std:.2g} {_power(tensor.rule.init.of_width)}".rstrip()
    return _Row(
        pattern(tensor.name),
        str(tensor.role),
        shape,
        spread,
        _factor(f.lr),
        "" if plan.optimizer == "sgd" else _factor(f.eps),
        _factor(f.weight_decay),
        str(predicted(plan, tensor.name).change),
    )


def _title(plan: Plan) -> list[str]:
    verdict = plan.strategy.classify()
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
    for m in plan.multipliers:
        out.append(f"In the forward pass, {m.name}: x {m.factor:.6g}. {m.where}")
    return ["", *out] if out else []


def _sizes(sizes: object) -> str:
    assert isinstance(sizes, dict)
    return ", ".join(f"{k} = {v}" for k, v in sizes.items())


def _factor(value: float) -> str:
    return "1" if value == 1 else f"x {value:.4g}"


def _power(power: Fraction) -> str:
    return f"(n^{power})" if power else ""
