r"""What an optimizer's step is to a plan: the norm in which it has a fixed size, and its degree in the gradient.

A gradient is a sum of a few outer products, whatever the width. So an update rule is known to a plan by two
things: with $\|G\|$ the norm of the gradient, the step is as large as
$$\|\Delta W\|=\eta\,\|G\|^h,$$
where $h$ is the **degree** and the norm of an outer product with entries of size $e$ is
$\|E\|=e\,N$, $N=d_{\mathrm{in}}^{a}\,d_{\mathrm{out}}^{b}\,w^{c}$, with $w$ the size of the weight's entries:

| norm | a | b | c | whose |
|---|---|---|---|---|
| entrywise | 0 | 0 | 0 | Adam, Lion |
| spectral | 1/2 | 1/2 | 0 | Muon, Shampoo |
| of one side's rotation | 1/2 | 0 | 0 | SOAP with the inputs' preconditioner alone |
| relative to the weight | 0 | 0 | -1 | LAMB, Adafactor, AdamH |

Entries of the step are $\eta\,e^hN^{h-1}$; at $h=1$, gradient descent, the norm is gone.

`docs/scaling_rules.md` derives the table of rows; `tests/plan/test_laws.py` fits it on real updates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from scalewise._readable import readable
from scalewise.plan._errors import PlanError
from scalewise.plan._roles import Kind, Role

_ZERO, _QUARTER, _HALF, _ONE = Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(1)


@dataclass(frozen=True)
@readable
class Norm:
    r"""Norm of an outer product with entries of size $e$, in the form $e\,d_{in}^{a}d_{out}^{b}w^{c}$.

    Args:
        fan_in: $a$.
        fan_out: $b$.
        weight: $c$, of the size of the weight's own entries.
    """

    fan_in: Fraction = _ZERO
    fan_out: Fraction = _ZERO
    weight: Fraction = _ZERO

    def __pow__(self, power: Fraction) -> Norm:
        return Norm(self.fan_in * power, self.fan_out * power, self.weight * power)


ENTRYWISE, SPECTRAL, RELATIVE = Norm(), Norm(_HALF, _HALF), Norm(weight=-_ONE)


@dataclass(frozen=True)
class Size:
    """Size that a setting is compared with: a power of a gradient's entry, times a norm's factor.

    Args:
        gradient: The power of the entry.
        norm: The powers of the sides.
    """

    gradient: Fraction = _ZERO
    norm: Norm = ENTRYWISE


_ENTRY = Size(_ONE)


@dataclass(frozen=True)
@readable
class Law:
    r"""Scaling of one kind of step.

    Args:
        norm: The norm in which a step has a fixed size.
        degree: $h$: the step goes as the gradient's norm to this power.
        eps: What epsilon is added to; ``None`` if there is none.
        decay: What decay times weight is added to before the step is normalised; ``None`` if a step
            multiplies the weight by one minus learning rate times decay.

    Example:
        >>> from fractions import Fraction
        >>> from scalewise.plan import Law, Norm
        >>> Law(Norm(), Fraction(1)).follows  # gradient descent
        True
    """

    norm: Norm
    degree: Fraction
    eps: Size | None = None
    decay: Size | None = None

    @property
    def follows(self) -> bool:
        """True if the size of a step depends on that of the gradient."""
        return self.degree != 0


@dataclass(frozen=True)
class Optimizer:
    """The laws of one optimizer, as it is used: what it does itself, and what trains the rest.

    Args:
        name: Its name.
        law: Of all tensors, or of matrices where `rest` is given.
        rest: The optimizer that trains what is not a matrix; ``None`` if this one trains all.
        everywhere: Whether a matrix is any tensor with two sides; otherwise embeddings and readouts belong to
            the rest, as people use such optimizers.
    """

    name: str
    law: Law
    rest: Optimizer | None = None
    everywhere: bool = False

    def of(self, role: Role, kind: Kind = Kind.MATRIX, axes: int = 2) -> Optimizer:
        """Who trains a tensor.

        Args:
            role: Its role.
            kind: What its module does with it.
            axes: How many it has.
        """
        if self.rest is None:
            return self
        one_sided = role in (Role.VECTOR, Role.FIXED) or kind in (Kind.BIAS, Kind.GAIN) or axes < 2
        outside = role is Role.OUTPUT or kind is Kind.LOOKUP or axes != 2
        mine = not one_sided and (self.everywhere or not outside)
        return self if mine else self.rest

    @property
    def all(self) -> tuple[Optimizer, ...]:
        """Itself, and what trains the rest."""
        return (self,) if self.rest is None else (self, self.rest)


def shampoo(left: Fraction, right: Fraction, *, grafted: bool = False) -> Law:
    r"""Shampoo, $L^{-e_L}GR^{-e_R}$ of $L=GG^\top$ and $R=G^\top G$: singular values go as $1-2(e_L+e_R)$.

    Args:
        left: $e_L$.
        right: $e_R$; 0 for a tensor with one side.
        grafted: Whether each step is given the size of Adam's.
    """
    degree = 1 - 2 * (left + right)
    if grafted:
        # Epsilon stands where the step is divided by its own norm.
        return Law(ENTRYWISE, _ZERO, Size(degree, SPECTRAL**degree))
    return Law(SPECTRAL, degree, Size(Fraction(2), SPECTRAL ** Fraction(2)))


def soap(*, inputs: bool = True, outputs: bool = True) -> Law:
    """SOAP: Adam in a basis where one outer product has entries along the sides that are not rotated only.

    Args:
        inputs: Whether the side of the inputs is rotated.
        outputs: Whether that of the outputs is.
    """
    norm = Norm(_HALF * inputs, _HALF * outputs)
    return Law(norm, _ZERO, Size(_ONE, norm))


def _rows() -> Mapping[str, Optimizer]:
    adam = Law(ENTRYWISE, _ZERO, _ENTRY, _ENTRY)
    adamw = Optimizer("adamw", Law(ENTRYWISE, _ZERO, _ENTRY))
    sign = Law(ENTRYWISE, _ZERO)
    # Of an orthogonalised matrix, whose entries are what epsilon is added to.
    after = Size(norm=SPECTRAL**-_ONE)
    squares = Size(Fraction(2))
    lion = Optimizer("lion", sign)
    vectors = Optimizer("shampoo_vectors", shampoo(_QUARTER, _ZERO))
    halves = Optimizer("shampoo_half_vectors", shampoo(_HALF, _ZERO))
    alone = (
        Optimizer("sgd", Law(ENTRYWISE, _ONE)),
        *(Optimizer(name, adam) for name in ("adam", "nadam", "rmsprop", "adagrad")),
        adamw,
        lion,
        Optimizer("adafactor", Law(RELATIVE, _ZERO, squares)),
        Optimizer("adafactor_unscaled", Law(ENTRYWISE, _ZERO, squares)),
        # The decay is added to Adam's step, which is then given the size of the weight.
        Optimizer("lamb", Law(RELATIVE, _ZERO, _ENTRY, Size())),
        Optimizer("sophia", Law(ENTRYWISE, _ZERO, squares)),
        Optimizer("shampoo_grafted", shampoo(_QUARTER, _QUARTER, grafted=True)),
    )
    inside = (
        # Each weight stays on its sphere, so a step is a part of the weight at any time, and decay does nothing.
        Optimizer("adamh", Law(RELATIVE, _ZERO, _ENTRY), adamw),
        Optimizer("muon", Law(SPECTRAL, _ZERO, Size(_ONE, SPECTRAL)), adamw),
        Optimizer("adamuon", Law(ENTRYWISE, _ZERO, after), adamw),
        Optimizer("normuon", Law(SPECTRAL, _ZERO, after), adamw),
        Optimizer("scion", Law(SPECTRAL, _ZERO), lion),
        Optimizer("shampoo", shampoo(_QUARTER, _QUARTER), vectors, everywhere=True),
        Optimizer("shampoo_half", shampoo(_HALF, _HALF), halves, everywhere=True),
        Optimizer("soap", soap(), adamw, everywhere=True),
        Optimizer("soap_inputs", soap(outputs=False), adamw, everywhere=True),
        Optimizer("soap_outputs", soap(inputs=False), adamw, everywhere=True),
    )
    return MappingProxyType({o.name: o for o in (*alone, *inside)})


OPTIMIZERS = _rows()
# Muon on spheres.
_BY_RANK = frozenset(["muonh", "muon_hyperball"])


def known_optimizer(optimizer: object) -> Optimizer:
    """The laws of an optimizer, by its name in any letters, or its class or function, which is called so.

    Raises:
        PlanError: If it is not one of those that have rules.
    """
    name = getattr(optimizer, "__name__", None) if callable(optimizer) else optimizer
    wanted = str(name).strip().casefold().replace("-", "_")
    found = OPTIMIZERS.get(wanted)
    if found is None and wanted in _BY_RANK:
        raise PlanError(
            f"{optimizer!r} divides an orthogonal step by its Frobenius norm, so how far it goes depends on how "
            "many directions a gradient has, and that on the batch and the width together. Take 'adamh', or a plan "
            "for 'muon' with adjust='spectral_norm' and a step that is not divided."
        )
    if found is None:
        raise PlanError(
            f"`optimizer` must be one of {', '.join(map(repr, OPTIMIZERS))}; got {optimizer!r}. An "
            "optimizer that moves entries by a fixed amount scales as 'adam', or 'adamw' if its weight "
            "decay is decoupled; one that follows the gradient scales as 'sgd'; one that gives whole matrices "
            "singular values of a fixed size scales as 'muon'."
        )
    return found
