r"""From a strategy and a role to exponents: initialisation, learning rate, epsilon, weight decay.

Written for weights that carry no multiplier in the forward pass (the gauge $a=0$). With $\nu$ the ratio
of widths, $F$ the ratio of fan-ins, $\lambda$ the ratio of depths, $A=\frac{p_L+1}2$ (initial size of the
readout, $n^{-A}$) and $U=1+q_L-r$ (size of its update):

* **initialisation** of a layer: $F^{-1/2}\nu^{-p_\ell/2}$.
* **gradient descent**: learning rate $F^{-1}\nu^{r-q_\ell}$; a bias has no fan-in to sum over.
* **Adam and kin** move each entry by a fixed amount, so a matrix moves its output by the learning rate
  times the fan-in. Asking for the same change of features $n^{-r_\ell}$ that gradient descent makes
  gives $F^{-1}\nu^{-r_\ell}$, $r_\ell=\min(A,U)+q_\ell-r$, and $F^{-1}\nu^{1-U}$ for the readout.
* **epsilon** is compared with a gradient and scales like one: $\nu^{-\min(A,U)}$ below the readout,
  1 for what writes to a fixed number of units.
* **weight decay**, decoupled or added to the gradient of gradient descent, shrinks a weight by
  learning rate times decay each step; the same shrinkage at every size asks for the inverse of the
  learning rate's factor. Added to a gradient that Adam then normalises, it scales as gradient over
  weight.
* **depth**: in a network of $L$ blocks whose branches are multiplied by $L^{-\alpha}$ ($\alpha=0$: a
  chain, or no multiplier), each block's share of the NTK is $L^{-2\alpha}$, so blocks learn at
  $\lambda^{2\alpha-1}$ under gradient descent and, by fixed steps, at $\lambda^{\alpha-1}$ under Adam,
  with gradients of order $\lambda^{-\alpha}$.

`docs/scaling_rules.md` derives each line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from scalewise.plan._errors import PlanError
from scalewise.plan._roles import Layer, Role
from scalewise.scaling import Strategy, readout_exponents

__all__ = [
    "OPTIMIZERS",
    "Powers",
    "Ratios",
    "Rule",
    "exponents_of",
    "gradient_exponent",
    "known_optimizer",
    "rule",
]

OPTIMIZERS = ("sgd", "adam", "adamw")
_HALF, _ONE, _ZERO = Fraction(1, 2), Fraction(1), Fraction(0)


@dataclass(frozen=True)
class Ratios:
    """Target over base: of one tensor's fan-in, of the width, of the depth. Exact."""

    fan_in: Fraction = _ONE
    width: Fraction = _ONE
    depth: Fraction = _ONE


@dataclass(frozen=True)
class Powers:
    r"""$F^f\nu^w\lambda^d$, exact exponents."""

    fan_in: Fraction = _ZERO
    width: Fraction = _ZERO
    depth: Fraction = _ZERO

    def __mul__(self, other: Powers) -> Powers:
        return Powers(
            self.fan_in + other.fan_in, self.width + other.width, self.depth + other.depth
        )

    def __pow__(self, power: int | Fraction) -> Powers:
        return Powers(self.fan_in * power, self.width * power, self.depth * power)

    def factor(self, ratios: Ratios) -> float:
        """The number; exactly 1 where every ratio is 1, or where equal ratios cancel."""
        total: dict[Fraction, Fraction] = {}
        pairs = ((ratios.fan_in, self.fan_in), (ratios.width, self.width))
        for ratio, power in (*pairs, (ratios.depth, self.depth)):
            total[ratio] = total.get(ratio, _ZERO) + power
        out = 1.0
        for ratio, power in total.items():
            if power and ratio != 1:
                out *= float(ratio) ** float(power)
        return out

    @property
    def of_width(self) -> Fraction:
        """The power of the width where the fan-in grows like it: what a slope against width is."""
        return self.fan_in + self.width


@dataclass(frozen=True)
class Rule:
    """What multiplies a tensor's base settings."""

    init: Powers
    lr: Powers
    eps: Powers
    weight_decay: Powers


@dataclass(frozen=True)
class Exponents:
    """Of one layer: `p`, `q` with the fan-in taken out, and `r`; see `Strategy`."""

    p: Fraction
    q: Fraction
    r: Fraction


def exponents_of(strategy: Strategy, role: Role, layer: Layer) -> Exponents:
    """The exponents that a tensor takes from its strategy."""
    own = {Layer.FIRST: strategy.first, Layer.LAST: strategy.last}.get(layer) or strategy.hidden
    # A scalar follows the output's rates but keeps its size: it passes nothing back through the width.
    p = _ZERO if role is Role.FIXED else own.p
    q = own.q_bias if role in (Role.VECTOR, Role.FIXED) else own.q
    return Exponents(p, q, strategy.r)


def gradient_exponent(strategy: Strategy, role: Role, *, initial: bool = False) -> Fraction:
    r"""Power of the width of an entry's gradient, at most over training.

    Below the readout an entry's gradient is as large as a readout weight, $n^{-\min(A,U)}$; at a tensor
    with a fixed number of outputs it is of order one once the readout is aligned with the features.

    Args:
        strategy: The strategy.
        role: The tensor's role.
        initial: At initialisation instead, where the readout is random: $n^{-A}$ and, for a tensor
            inside the network with a fixed number of outputs, $n^{1/2-A}$.
    """
    A, U = readout_exponents(strategy)
    if role is Role.OUTPUT:
        return _ZERO
    if role in (Role.FIXED, Role.BOTTLENECK):
        return _HALF - A if initial else min(_ZERO, max(_HALF - A, 1 - U))
    return -A if initial else -min(A, U)


def known_optimizer(optimizer: object) -> str:
    """An optimizer's law, if it is one of those that have rules.

    Raises:
        PlanError: If it is not.
    """
    if not isinstance(optimizer, str) or optimizer not in OPTIMIZERS:
        raise PlanError(
            f"`optimizer` must be one of {', '.join(map(repr, OPTIMIZERS))}; got {optimizer!r}. An "
            "optimizer that moves entries by a fixed amount scales as 'adam', or 'adamw' if its weight "
            "decay is decoupled; one that follows the gradient scales as 'sgd'. One that normalises "
            "whole matrices brings its own rule: give it the hidden matrices and plan the rest."
        )
    return optimizer


def rule(
    strategy: Strategy,
    role: Role,
    layer: Layer,
    optimizer: str,
    *,
    residual: Fraction = _ZERO,
    in_block: bool = False,
    absorbs_branch: bool = False,
    forward: Fraction = _ZERO,
) -> Rule:
    r"""The powers that scale one tensor.

    Args:
        strategy: Exponents for the first, the hidden and the last layer.
        role: The tensor's role.
        layer: Whose exponents it takes.
        optimizer: One of `OPTIMIZERS`.
        residual: $\alpha$: branches are multiplied by (depth)$^{-\alpha}$.
        in_block: Whether the tensor stands in a block that depth repeats. The standard parametrisation,
            which scales nothing but initialisation, has no rule for depth either.
        absorbs_branch: Whether it carries its branch's multiplier itself, by its initialisation and
            rates, so that the forward pass needs none.
        forward: Power of the width by which the model's own code multiplies the tensor: its initialisation
            and rates take that back.

    Raises:
        PlanError: If the optimizer is unknown.

    Source: TP4 K.1, as rates and sizes of each tensor; docs/scaling_rules.md derives the others.
    """
    known_optimizer(optimizer)
    own = exponents_of(strategy, role, layer)
    summed = role in (Role.HIDDEN, Role.OUTPUT, Role.BOTTLENECK)
    init = Powers(-_HALF if summed else _ZERO, -own.p / 2)
    gradient = Powers(width=gradient_exponent(strategy, role))
    lr = Powers(-_ONE if summed else _ZERO, own.r - own.q)
    if optimizer != "sgd":
        # The step is fixed: what the gradient brought to the change must come from the rate. For
        # tensors with a fixed number of outputs it brings nothing.
        below = role not in (Role.OUTPUT, Role.FIXED, Role.BOTTLENECK)
        lr = lr * gradient if below else lr
    in_block = in_block and not strategy.plain_biases
    depth = _depth(optimizer, residual) if in_block else (Powers(), Powers())
    lr, gradient = lr * depth[0], gradient * depth[1]
    # A change of gauge: the weight that acts is n^forward times the one that is stored, or depth^alpha times.
    absorbed = residual if in_block and absorbs_branch else _ZERO
    shift = Powers(width=-forward, depth=-absorbed)
    init, gradient = init * shift, gradient * shift**-1
    lr = lr * shift ** (2 if optimizer == "sgd" else 1)
    eps = Powers() if optimizer == "sgd" else gradient
    decay = gradient * init**-1 if optimizer == "adam" else lr**-1
    return Rule(init, lr, eps, decay)


def _depth(optimizer: str, alpha: Fraction) -> tuple[Powers, Powers]:
    """How a block's learning rate and gradient go with the depth."""
    rate: Callable[[Fraction], Fraction] = (
        (lambda a: 2 * a - 1) if optimizer == "sgd" else (lambda a: a - 1)
    )
    return Powers(depth=rate(alpha)), Powers(depth=-alpha)
