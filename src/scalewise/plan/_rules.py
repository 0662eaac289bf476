r"""From a strategy, a role and a law to exponents: initialisation, learning rate, epsilon, weight decay.

Written for weights that carry no multiplier in the forward pass (the gauge $a=0$). With $\nu$ the ratio
of widths, $F$ the ratio of fan-ins, $\lambda$ the ratio of depths, $A=\frac{p_L+1}2$ (initial size of the
readout, $n^{-A}$) and $U=1+q_L-r$ (size of its update):

* **initialisation** of a layer: $F^{-1/2}\nu^{-p_\ell/2}$, whatever the optimizer.
* **what a step should do**: move the output of a tensor by $\nu^{-r_\ell}$, $r_\ell=\min(A,U)+q_\ell-r$, and
  the readout's by $\nu^{1-U}$, as gradient descent does. A sum over the fan-in adds up, so entries are to move
  by $F^{-1}$ times that.
* **learning rate**: entries do move by $\eta\,g^hN^{h-1}$ under a law of degree $h$ whose norm has the factor
  $N$ (`Law`), with $g$ the size of a gradient's entry, $\nu^{-\min(A,U)}$ below the readout and 1 above.
* **epsilon** is compared with what it is added to, a power of the gradient: `Law.eps`.
* **weight decay** that multiplies the weight shrinks it by learning rate times decay each step; the same
  shrinkage at every size asks for the inverse of the learning rate's factor. Added to what is then
  normalised, it scales as that over the weight.
* **depth**: in a network of $L$ blocks whose branches are multiplied by $L^{-\alpha}$ ($\alpha=0$: a
  chain, or no multiplier), gradients are $L^{-\alpha}$ and the blocks together move the stream by
  $L^{1-\alpha}$ of what one of them moves: so one is to move by $\lambda^{\alpha-1}$.
* **batch and duration** multiply what a step should do and the gradient by powers of their own (`Training`).

`docs/scaling_rules.md` derives each line.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction

from scalewise._readable import readable
from scalewise.plan._laws import ENTRYWISE, Law, Norm, Size, known_optimizer
from scalewise.plan._policies import Training
from scalewise.plan._powers import Powers
from scalewise.plan._roles import Layer, Role
from scalewise.scaling import Strategy, readout_exponents

_HALF, _ONE, _ZERO = Fraction(1, 2), Fraction(1), Fraction(0)
_SUMMED = (Role.HIDDEN, Role.OUTPUT, Role.BOTTLENECK)
_PLAIN, _SAME = Training(), Powers()


@dataclass(frozen=True)
@readable
class Rule:
    """Powers that multiply a tensor's base settings: `init`, `lr`, `eps`, `weight_decay`.

    Those of `beta1` and `beta2`, the decay rates of moments, multiply one minus them.
    """

    init: Powers
    lr: Powers
    eps: Powers
    weight_decay: Powers
    beta1: Powers = _SAME
    beta2: Powers = _SAME

    def __mul__(self, other: Rule) -> Rule:
        return Rule(*(getattr(self, f.name) * getattr(other, f.name) for f in fields(self)))

    def __truediv__(self, other: Rule) -> Rule:
        return Rule(*(getattr(self, f.name) * getattr(other, f.name) ** -1 for f in fields(self)))

    def along(self, axis: str) -> Rule:
        """A copy of this rule for `axis` in place of the width."""
        return Rule(*(Powers(**{axis: getattr(self, f.name).of_width}) for f in fields(self)))


def exponents_of(
    strategy: Strategy, role: Role, layer: Layer
) -> tuple[Fraction, Fraction, Fraction]:
    """$p$, $q$ with the fan-in taken out, and $r$ that a tensor takes from its strategy."""
    own = {Layer.FIRST: strategy.first, Layer.LAST: strategy.last}.get(layer) or strategy.hidden
    # A scalar follows the output's rates but keeps its size: it passes nothing back through the width.
    p = _ZERO if role is Role.FIXED else own.p
    q = own.q_bias if role in (Role.VECTOR, Role.FIXED) else own.q
    return p, q, strategy.r


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


def norm_powers(norm: Norm, role: Role, weight: Powers) -> Powers:
    """The factor of a norm: of the sides of a tensor that grow, and of the size of its entries.

    Args:
        norm: The norm.
        role: Says which sides grow.
        weight: The size of the entries.
    """
    wide = role in (Role.INPUT, Role.HIDDEN, Role.VECTOR)
    sides = Powers(norm.fan_in * (role in _SUMMED), fan_out=norm.fan_out * wide)
    return sides * weight**norm.weight


def rule(
    strategy: Strategy,
    role: Role,
    layer: Layer,
    law: Law | str,
    *,
    residual: Fraction = _ZERO,
    in_block: bool = False,
    absorbs_branch: bool = False,
    forward: Fraction = _ZERO,
    normed: bool = False,
    training: Training = _PLAIN,
) -> Rule:
    r"""The powers that scale one tensor.

    Args:
        strategy: Exponents for the first, the hidden and the last layer. The standard parametrisation,
            which has one learning rate for all tensors of every size, knows neither norms nor depth.
        role: The tensor's role.
        layer: Whose exponents it takes.
        law: How the optimizer moves, or the optimizer's name.
        residual: $\alpha$: branches are multiplied by (depth)$^{-\alpha}$.
        in_block: Whether the tensor stands in a block that depth repeats.
        absorbs_branch: Whether it carries its branch's multiplier itself, by its initialisation and
            rates, so that the forward pass needs none.
        forward: Power of the width by which the model's own code multiplies the tensor: its initialisation
            and rates take that back.
        normed: Whether a norm divides what it writes by its size: a bottleneck then starts as a hidden matrix.
        training: What batch and duration ask for, and weight decay.

    Raises:
        PlanError: If the optimizer is unknown.

    Source: TP4 K.1, as rates and sizes of each tensor; docs/scaling_rules.md derives the others.
    """
    law = known_optimizer(law).of(role).law if isinstance(law, str) else law
    p, q, r = exponents_of(strategy, role, layer)
    if normed and role is Role.BOTTLENECK:
        # Its step is what it is by its rate; beside a readout's small weights it would turn all of the output.
        p = strategy.hidden.p
    fan_in = _ONE if role in _SUMMED else _ZERO
    in_block = in_block and not strategy.plain_biases
    # A change of gauge: the weight that acts is n^forward times the one that is stored, or depth^alpha times.
    absorbed = residual if in_block and absorbs_branch else _ZERO
    stored = Powers(width=-forward, depth=-absorbed)
    init = Powers(-_HALF * fan_in, -p / 2) * stored
    gradient = Powers(width=gradient_exponent(strategy, role))
    # What drives the step: at tensors with a fixed number of outputs, a gradient of order one.
    below = role not in (Role.OUTPUT, Role.FIXED, Role.BOTTLENECK)
    driving = gradient if below else Powers()
    entries = Powers(-fan_in, r - q) * driving
    if in_block:
        branch = Powers(depth=-residual)
        entries = entries * Powers(depth=residual - 1)
        gradient, driving = gradient * branch, driving * branch
    gradient, driving, entries = gradient * stored**-1, driving * stored**-1, entries * stored
    noise = training.gradient
    gradient, driving, entries = gradient * noise, driving * noise, entries * training.step
    plain = strategy.plain_biases

    def factor(norm: Norm) -> Powers:
        return norm_powers(ENTRYWISE if plain else norm, role, init)

    def of(size: Size) -> Powers:
        return gradient**size.gradient * factor(size.norm)

    h = law.degree
    lr = entries * driving**-h * factor(law.norm) ** (1 - h)
    eps = Powers() if law.eps is None else of(law.eps)
    if law.decay is not None:
        decay = of(law.decay) * init**-1
    else:
        shrinks = training.shrinks(role is Role.HIDDEN)
        decay = shrinks if training.coupled else lr**-1 * shrinks
    # What follows the gradient has no moments by which a step is normalised.
    moments = (Powers(), Powers()) if law.follows and h == 1 else training.betas
    return Rule(init, lr, eps, decay, *moments)
