"""The plan: one row for each tensor, and what the forward pass must be multiplied by."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from scalewise._readable import readable
from scalewise.plan._adjust import ADJUSTMENTS
from scalewise.plan._errors import PlanError
from scalewise.plan._forward import Gauge
from scalewise.plan._laws import Law, known_optimizer
from scalewise.plan._multiplier import Multiplier, Place
from scalewise.plan._names import bare
from scalewise.plan._policies import DECAYS
from scalewise.plan._powers import Powers
from scalewise.plan._roles import Kind, Layer, Role
from scalewise.plan._rules import Rule
from scalewise.scaling import Strategy


@dataclass(frozen=True)
@readable
class Spread:
    """Distribution of the entries of a freshly built tensor.

    Args:
        mean: Their mean.
        std: Their standard deviation; 0 for a tensor of equal entries.
        error: Relative standard error of `std`, from the number of entries and their kurtosis.
    """

    mean: float
    std: float
    error: float


@dataclass(frozen=True)
@readable
class Constants:
    """Constants tuned at the base for one tensor: factors of what its own code draws and of the base's settings.

    Unlike powers they are the same at every size.

    Args:
        std: Of the standard deviation at initialisation.
        lr: Of the learning rate.
        weight_decay: Of the weight decay.
    """

    std: float = 1.0
    lr: float = 1.0
    weight_decay: float = 1.0


@dataclass(frozen=True)
@readable
class TensorPlan:
    """Row of one tensor in a plan.

    Args:
        name: Fully qualified name.
        role: How it scales.
        layer: Whose exponents it takes.
        kind: What its module does with it.
        module: Type of its module.
        owner: Name of its module.
        base_shape: Shape at the base width and the target depth.
        shape: Shape at the target.
        fan_in: Target over base of the number of terms it sums over.
        in_block: Whether it stands in a block that depth repeats.
        rule: The powers of its four settings.
        base: Its entries as the model's own code draws them at the base width.
        aliases: Other names of the same tensor.
        gauge: Powers of the width by which the model's own code multiplies around it.
        optimizer: Name of what trains it.
        law: How that moves it.
        beside: Target over base of its entries, as far as other sizes than the width make it.
        blocks: How many blocks of its rows are treated apart by the optimizer, at the base and at the target.
        terms: How many terms it sums over at the base; 1 where rows are picked, 0 where nothing is summed.
        constants: What was tuned for it at the base.
        ends: Whether what the model returns is made from what it writes by tensors of fixed size alone.
        unused: Whether the model was seen to return what it does without it: the loss may use it by itself.
        normed: Whether a norm divides what its module returns by its size.
        directed: Whether the model's own code divides it by its own norm.
        of: Of lengths of weights the tensor that has their direction.
        fixed: Stretches at the target of what it sums over that do not grow with the width: axis, start and stop.
    """

    name: str
    role: Role
    layer: Layer
    kind: Kind
    module: str
    owner: str
    base_shape: tuple[int, ...]
    shape: tuple[int, ...]
    fan_in: Fraction
    in_block: bool
    rule: Rule
    base: Spread
    aliases: tuple[str, ...] = ()
    gauge: Gauge = field(default_factory=Gauge)
    optimizer: str = "adamw"
    law: Law = field(default_factory=lambda: known_optimizer("adamw").law)
    beside: Fraction = Fraction(1)
    blocks: tuple[int, int] = (1, 1)
    terms: int = 0
    constants: Constants = field(default_factory=Constants)
    ends: bool = False
    unused: bool = False
    normed: bool = False
    directed: bool = False
    of: str = ""
    fixed: tuple[tuple[int, int, int], ...] = ()

    @property
    def fan_out(self) -> Fraction:
        """Target over base of the number of units it writes to: of all entries over the fan-in."""
        sizes, base = (self._entries(s) for s in (self.shape, self.base_shape))
        return (
            (Fraction(sizes, base) if sizes and base else Fraction(1)) / self.fan_in / self.beside
        )

    def _entries(self, shape: tuple[int, ...]) -> int:
        """Number of its entries, without those over what does not grow."""
        sizes = list(shape)
        for axis, start, stop in self.fixed:
            sizes[axis] -= stop - start
        return math.prod(sizes)

    @property
    def together(self) -> Fraction:
        """Target over base of the number of units that one step of its optimizer looks at together."""
        return self.fan_out / Fraction(self.blocks[1], self.blocks[0])

    @property
    def unit(self) -> float:
        """Standard deviation at the base in units of 1/sqrt(fan-in); 0 where nothing is drawn or summed."""
        return self.base.std * self.constants.std * math.sqrt(self.terms)

    @property
    def spectral(self) -> bool:
        """True if its optimizer fixes the singular values of a step."""
        norm = self.law.norm
        return bool(norm.fan_in and norm.fan_out) and len(self.shape) > 1


@dataclass(frozen=True)
@readable
class Factors:
    """Factors of the settings of one tensor at the target; for decay rates of moments, of one minus them."""

    init: float
    lr: float
    eps: float
    weight_decay: float
    beta1: float = 1.0
    beta2: float = 1.0


def _whole(factor: float) -> float:
    """The number one, where roots that cancel have left a rounding."""
    return 1.0 if math.isclose(factor, 1.0, rel_tol=1e-14) else factor


@dataclass(frozen=True)
@readable
class Plan:
    r"""Settings for every tensor of a model, as factors of those at the base.

    Args:
        strategy: Exponents for the first, the hidden and the last layer.
        optimizer: Name of the optimizer; with a second one for what it leaves out, each tensor has its own.
        base: What the factory was called with at the base.
        target: What it is called with at the target.
        width: Target over base width, $\nu$.
        depth: Target over base depth, $\lambda$.
        residual: $\alpha$ of the branches' multiplier (depth)$^{-\alpha}$.
        tensors: One row for each trainable tensor.
        multipliers: What the forward pass must do itself.
        width_name: What the factory calls its width.
        depth_name: What it calls its depth.
        adjust: What the library multiplies the steps of `optimizer` by, as a function of the shape.
        looked: Whether the forward pass was seen: if not, multipliers and heads in it are not known.
        axes: Target over base of further sizes, by the names that `Powers` has for them.
        policy: Names of what batch and duration ask for.
        decay: Name of what weight decay follows; ``None`` for what those policies say of it, and the same shrinkage
            without any.
        half_life: Whether factors of the moments are those of the logarithms of their decay rates.
        constants: What was tuned at the base, as it was said; every tensor has its share.
        names: Which row has a name; it is found from `tensors`.
    """

    strategy: Strategy
    optimizer: str
    base: Mapping[str, object]
    target: Mapping[str, object]
    width: Fraction
    depth: Fraction
    residual: Fraction
    tensors: tuple[TensorPlan, ...]
    multipliers: tuple[Multiplier, ...] = ()
    width_name: str = "width"
    depth_name: str = "depth"
    looked: bool = True
    adjust: str = "none"
    axes: Mapping[str, Fraction] = field(default_factory=dict)
    policy: tuple[str, ...] = ()
    decay: str | None = None
    half_life: bool = False
    constants: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        places = [(n, i) for i, t in enumerate(self.tensors) for n in (t.name, *t.aliases)]
        self.names.update(places)

    def __getitem__(self, name: str) -> TensorPlan:
        """The row of a tensor, by its name with or without the prefixes of wrappers.

        Raises:
            PlanError: If the plan has no such tensor.
        """
        own = bare(name, self.names)
        if own not in self.names:
            raise PlanError(
                f"The plan has no tensor `{name}`. It was made for a model with "
                f"`{self.tensors[0].name}`, ..., `{self.tensors[-1].name}`; make a new plan for this one."
            )
        return self.tensors[self.names[own]]

    def respreads(self, tensor: TensorPlan) -> bool:
        """True if a `tensor` may have to be drawn otherwise than its own code does."""
        return self.base != self.target or tensor.constants.std != 1

    def ratios(self, tensor: TensorPlan) -> dict[str, Fraction]:
        """Target over base of what the rule of a `tensor` depends on."""
        own = {"fan_in": tensor.fan_in, "fan_out": tensor.together}
        return {**own, "width": self.width, "depth": self.depth, **self.axes}

    def factors(self, name: str) -> Factors:
        """Factors of the base settings of the tensor `name`: its powers, and the constants of the base."""
        p, c = self.powers(name), self[name].constants
        return replace(
            p, init=p.init * c.std, lr=p.lr * c.lr, weight_decay=p.weight_decay * c.weight_decay
        )

    def powers(self, name: str) -> Factors:
        """The part of `factors` of `name` that sizes make; exactly 1 at the base."""
        tensor = self[name]
        ratios, rule = self.ratios(tensor), tensor.rule
        powers: tuple[Powers, ...] = (
            rule.init,
            rule.lr,
            rule.eps,
            rule.weight_decay,
            rule.beta1,
            rule.beta2,
        )
        init, lr, eps, decay, *betas = (p.factor(ratios) for p in powers)
        own = self.adjusted(tensor)
        # What shrinks by the learning rate itself does not know of the factor.
        coupled = self.decay is not None and DECAYS[self.decay].coupled
        shrinks = own if tensor.law.decay is None and not coupled else 1.0
        return Factors(init, _whole(lr / own), eps, _whole(decay * shrinks), *betas)

    def betas(self, beta1: float, beta2: float) -> tuple[float, float]:
        """Decay rates of the moments at the target, from `beta1` and `beta2` at the base.

        Raises:
            PlanError: If nothing of a moment would be kept.
        """
        t = next((t for t in self.tensors if not t.law.follows), None)
        f = Factors(1, 1, 1, 1) if t is None else self.factors(t.name)
        return self.moment(beta1, f.beta1), self.moment(beta2, f.beta2)

    def moment(self, beta: float, factor: float) -> float:
        """The decay rate `beta` at the target, where one minus it has a `factor`; see `betas`."""
        if factor == 1 or not beta:
            return beta
        out = beta**factor if self.half_life else 1 - (1 - beta) * factor
        if not 0 <= out < 1:
            raise PlanError(
                f"The policy {', '.join(map(repr, self.policy))} multiplies one minus a decay rate of {beta:g} by "
                f"{factor:.4g}, which leaves nothing of the moment. Change the batch by less, tune a larger rate "
                "at the base, or take a policy that keeps it, such as 'sde_beta2'."
            )
        return out

    def adjusted(self, tensor: TensorPlan) -> float:
        """Target over base of what the library multiplies the steps of a `tensor` by."""
        if self.adjust == "none" or tensor.optimizer != self.optimizer:
            return 1.0
        factor, (one, two) = ADJUSTMENTS[self.adjust], tensor.blocks
        (rows, columns), (before, over) = tensor.shape, tensor.base_shape
        return factor(rows // two, columns) / factor(before // one, over)

    @property
    def laws(self) -> dict[str, Law]:
        """Optimizers that train its tensors, by name, and how each moves them."""
        return {t.optimizer: t.law for t in self.tensors}

    def std(self, name: str) -> float:
        """The standard deviation that the tensor `name` is initialised with at the target."""
        return self[name].base.std * self.factors(name).init

    def multiplies(self, place: Place) -> bool:
        """True if the plan has a multiplier at such a `place`, which the forward pass must then apply."""
        return any(m.place is place for m in self.multipliers)

    def multiplier(self, name: str) -> float:
        """The multiplier of this `name`, 1 if the plan has none."""
        return next((m.factor for m in self.multipliers if m.name == name), 1.0)
