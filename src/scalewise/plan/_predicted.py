r"""What the plan says a measurement over widths will find: powers of the width, by tensor.

Sizes are root mean squares over entries. After the first step from a random readout of size $n^{-A}$,
gradients below it are $n^{-A}$; a readout that starts at zero moves first by $n^{-U}$, and what lies
below follows it one step later.

What several tensors add to one output is a sum of powers. Its local power lies between the least and the
largest of them, and tends to the largest; the prediction is that one, with the others beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from scalewise._readable import readable
from scalewise.plan._computed import spanned
from scalewise.plan._growth import Growth, growth_between, of_width
from scalewise.plan._multiplier import Place
from scalewise.plan._roles import Kind, Layer, Role
from scalewise.plan._rules import gradient_exponent, norm_powers
from scalewise.plan._table import Plan, TensorPlan
from scalewise.scaling import readout_exponents

_ONE, _HALF, _ZERO = Fraction(1), Fraction(1, 2), Fraction(0)


@dataclass(frozen=True)
@readable
class Predicted:
    """Powers of the width; of what may be smaller without being wrong, the least as well.

    Args:
        weight: Of a tensor's entries at initialisation, about their mean.
        update: Of the change of its entries by the first step.
        update_least: The same where the gradient is the least.
        own_change: Of the change of its module's output that its own update makes, aligned with what it
            is given.
        own_change_least: The same where they are not aligned, as in a network narrower than its batch.
        change: Of the change of its module's output, all tensors below having moved too.
        output: Of its module's output at initialisation.
        gradient: Of the gradient of its entries at the first step.
        gradient_least: The same where the loss pulls less: at the readout by the outputs alone.
        rate: Of its learning rate.
        parts: Of all that the change of its module's output is a sum of.
    """

    weight: Fraction
    update: Fraction
    update_least: Fraction
    own_change: Fraction
    own_change_least: Fraction
    change: Fraction
    output: Fraction
    gradient: Fraction
    gradient_least: Fraction
    rate: Fraction
    parts: tuple[Fraction, ...]


def predicted(
    plan: Plan,
    name: str,
    *,
    zero_readout: bool = False,
    growth: Mapping[str, Growth] | None = None,
) -> Predicted:
    """The predicted powers for one tensor and the module it belongs to.

    Args:
        plan: The plan.
        name: Name of the tensor.
        zero_readout: Whether the readout starts at zero and two steps are taken: the first moves the
            readout alone.
        growth: How the sides of tensors grow over the widths measured; by default as from base to target.
    """
    return predictions(plan, [name], zero_readout=zero_readout, growth=growth)[name]


def predictions(
    plan: Plan,
    names: Iterable[str],
    *,
    zero_readout: bool = False,
    growth: Mapping[str, Growth] | None = None,
    modules: Mapping[str, str] | None = None,
) -> dict[str, Predicted]:
    """Predicted powers of many tensors, by name; `modules` says which act together, if not those of an owner."""
    grown = _Grown(plan, growth or {}, modules or {})
    features = of_features(plan, zero_readout, growth)
    return {name: _predicted(grown, name, features, zero_readout) for name in names}


def _predicted(grown: _Grown, name: str, features: list[Fraction], zero_readout: bool) -> Predicted:
    plan = grown.plan
    tensor = plan[name]
    own = _own_change(grown, tensor, zero_readout)
    # What the model's own code multiplies after the module has returned is not in what it returns.
    together = grown.together(name)
    after = max((t.gauge.after for t in together), key=abs)
    mine = [p for t in together for p in _own_change(grown, t, zero_readout)]
    gradient = _gradient(grown, tensor, zero_readout)
    least = _least_gradient(plan, tensor, gradient, zero_readout)
    weaker = tensor.law.degree * (gradient - least)
    update = _update(grown, tensor, zero_readout)
    if reads_out(plan, tensor):
        parts, output = _of_readout(plan, features, zero_readout)
        parts = [*parts, *mine]
    elif tensor.layer is Layer.FIRST:
        parts, output = mine, -plan.strategy.first.p / 2
    else:
        parts = [*mine, *features]
        output = -plan.strategy.hidden.p / 2
    return Predicted(
        weight=of_width(tensor.rule.init, grown.of(tensor)) - _of_norms(grown, tensor),
        update=update + _filled(grown, tensor),
        update_least=update - weaker,
        own_change=max(own) - after,
        own_change_least=min(own) - weaker - after,
        change=max(parts) - after,
        output=output - after,
        gradient=gradient,
        gradient_least=least,
        rate=of_width(tensor.rule.lr, grown.of(tensor)) + _unmeasured(grown, tensor),
        parts=tuple(sorted({p - after for p in parts})),
    )


@dataclass(frozen=True)
class _Grown:
    """A plan, how its tensors grow, and where they were seen to act."""

    plan: Plan
    growth: Mapping[str, Growth]
    modules: Mapping[str, str] = field(default_factory=dict)

    def together(self, name: str) -> list[TensorPlan]:
        """Tensors that write to one output."""
        place, tensor = self.modules.get(name), self.plan[name]
        if place:
            return [self.plan[n] for n, m in self.modules.items() if m == place]
        return [t for t in self.plan.tensors if t.owner == tensor.owner]

    def of(self, tensor: TensorPlan) -> Growth:
        places = (n for n in (tensor.name, *tensor.aliases) if n in self.growth)
        known = next(places, None)
        return growth_between(self.plan, tensor) if known is None else self.growth[known]


def of_readout(
    plan: Plan, *, zero_readout: bool = False, growth: Mapping[str, Growth] | None = None
) -> tuple[list[Fraction], Fraction]:
    r"""Powers of what moves the logits, and of their size at initialisation without a bias, $n^{1/2-A}$.

    The readout moves, $n^{1-U}$, and what it reads moves, which it passes on at $n^{1-A}$ where the two are
    aligned and at $n^{1/2-A}$ where they are not: the largest is seen, in a narrow network some of each.
    """
    return _of_readout(plan, of_features(plan, zero_readout, growth), zero_readout)


def _of_readout(
    plan: Plan, moves: list[Fraction], zero_readout: bool
) -> tuple[list[Fraction], Fraction]:
    A, U = readout_exponents(plan.strategy)
    size = U if zero_readout else A
    passed = [share - size + p for p in moves for share in (_ONE, _HALF)]
    return [1 - U, *passed], _HALF - A


def reads_out(plan: Plan, tensor: TensorPlan) -> bool:
    """True if a tensor writes to the network's output: a readout or its bias."""
    if tensor.role is not Role.FIXED:
        return tensor.role is Role.OUTPUT
    # An embedding that is tied reads out in the modules of its other names.
    tied = [
        n for t in plan.tensors if t.kind is Kind.LOOKUP for n in t.aliases if t.role is Role.INPUT
    ]
    owners = {n.rpartition(".")[0] for n in tied}
    owners |= {t.owner for t in plan.tensors if t.role is Role.OUTPUT}
    return tensor.owner in owners


def returns_products(plan: Plan) -> bool:
    """True if no tensor reads out: the model, or its loss, makes products or distances of its features."""
    reads = any(t.role is Role.OUTPUT for t in plan.tensors)
    return not reads and all(m.place is not Place.READOUT for m in plan.multipliers)


def part_of_loss(plan: Plan, tensor: TensorPlan) -> bool:
    """True if a tensor of fixed size makes what is returned from what readouts write.

    It may be a norm, which divides their size out. To the network whose width is scaled, all this is a part of the
    loss: how gradients come out of it is measured at the readouts, and no power of the width is planned for it.
    """
    return tensor.role is Role.FIXED and tensor.ends and not reads_out(plan, tensor)


def of_features(
    plan: Plan, zero_readout: bool, growth: Mapping[str, Growth] | None = None
) -> list[Fraction]:
    """Powers of what moves the features that the readout reads, one for each tensor below it.

    A bottleneck's few units move as an output does, whatever the features, and take along what reads them.
    """
    movers = (Role.INPUT, Role.HIDDEN, Role.VECTOR, Role.BOTTLENECK)
    grown = _Grown(plan, growth or {})
    return [max(_own_change(grown, t, zero_readout)) for t in plan.tensors if t.role in movers]


def _gradient(grown: _Grown, tensor: TensorPlan, zero_readout: bool) -> Fraction:
    plan, forward = grown.plan, tensor.gauge.total
    if reads_out(plan, tensor):
        return forward
    # A fixed number of units, whatever the role: each is used by all neurons above.
    apart = tensor.blocks[0] != tensor.blocks[1]
    few = tensor.role in (Role.FIXED, Role.BOTTLENECK) or not (apart or grown.of(tensor).fan_out)
    if zero_readout:
        U = readout_exponents(plan.strategy)[1]
        return forward + (1 - U if few else -U)
    role = Role.BOTTLENECK if few else tensor.role
    return forward + gradient_exponent(plan.strategy, role, initial=True)


def _least_gradient(
    plan: Plan, tensor: TensorPlan, gradient: Fraction, zero_readout: bool
) -> Fraction:
    """Power of the smallest gradient, of random targets and a large batch: little is left but the pull of outputs.

    A tensor below a readout is pulled by its random weights too. Where features are multiplied in place of a
    readout, each reads out the other.
    """
    if not zero_readout and returns_products(plan):
        return gradient + min(_ZERO, _HALF - readout_exponents(plan.strategy)[0])
    if zero_readout or not reads_out(plan, tensor):
        return gradient
    return min(gradient, tensor.gauge.total + _HALF - readout_exponents(plan.strategy)[0])


def _update(grown: _Grown, tensor: TensorPlan, zero_readout: bool) -> Fraction:
    """Power of the entries of a step that follows one outer product; see `scalewise.plan._laws`."""
    h, growth = tensor.law.degree, grown.of(tensor)
    norm = norm_powers(tensor.law.norm, tensor.role, tensor.rule.init)
    driven = h * _gradient(grown, tensor, zero_readout) if h else _ZERO
    return of_width(tensor.rule.lr * norm ** (h - 1), growth) + driven


def _unmeasured(grown: _Grown, tensor: TensorPlan) -> Fraction:
    """Power of the tensor's sides that is part of a step as measured, by its entries or its singular value."""
    norm = norm_powers(replace(tensor.law.norm, weight=_ZERO), tensor.role, tensor.rule.init)
    power = tensor.law.degree - (0 if tensor.spectral else 1)
    return of_width(norm**power, grown.of(tensor))


def _of_norms(grown: _Grown, tensor: TensorPlan) -> Fraction:
    """Power by which lengths spread less about their mean than they are, as norms of many random entries do."""
    if not tensor.of or all(size == 1 for size in tensor.shape):
        return _ZERO
    return spanned(grown.of(grown.plan[tensor.of]), grown.of(tensor)) / 2


def _filled(grown: _Grown, tensor: TensorPlan) -> Fraction:
    """Power by which entries are larger where a step is of full rank, as that of a large batch may be."""
    norm, growth = tensor.law.norm, grown.of(tensor)
    sides = [(norm.fan_in, growth.fan_in), (norm.fan_out, growth.fan_out)]
    rotated = [grows for power, grows in sides if power]
    return (1 - tensor.law.degree) * min(rotated, default=_ZERO) / 2


def _own_change(grown: _Grown, tensor: TensorPlan, zero_readout: bool) -> tuple[Fraction, Fraction]:
    """Powers of the change that a tensor's own step makes, with terms that are aligned and with random ones."""
    summed = tensor.role in (Role.HIDDEN, Role.OUTPUT, Role.BOTTLENECK)
    update, terms = _update(grown, tensor, zero_readout), grown.of(tensor).fan_in
    forward = update + tensor.gauge.total
    if tensor.of and tensor.role is Role.FIXED:
        # The weights of a readout are not yet aligned with what they read.
        return forward, forward - max(tensor.gauge.inside, _ZERO)
    return (forward + terms, forward + terms / 2) if summed else (forward, forward)
