r"""How hyperparameters scale with the width: exact exponents, two notations, one gauge.

A strategy multiplies the initialisation variances of layer $\ell$ by $n^{-p_\ell}$, its learning rates by
$n^{-q_\ell}$ and the global learning rate by $n^r$. The notation $a_\ell b_\ell c$ of tensor programs
says the same in other coordinates. Shifting all $q_\ell$ and $r$ together changes no update: that is the
gauge, and two strategies that differ by it are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational, Real
from typing import Any

__all__ = ["ABC", "Strategy", "fraction"]


def fraction(name: str, value: Any) -> Fraction:
    """An exponent as an exact fraction: a whole number, a `Fraction`, text, or a decimal.

    Args:
        name: What the exponent is called in a message.
        value: 1, ``"1/4"``, ``Fraction(1, 4)`` or 0.25; a float is read as its shortest decimal.

    Raises:
        ValueError: If it is not a finite number.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        if isinstance(value, Rational | str):
            return Fraction(value)
        if isinstance(value, Real):
            return Fraction(repr(float(value)))
    except (TypeError, ValueError, ZeroDivisionError):
        pass
    raise ValueError(
        f"`{name}` is an exponent and must be a finite number or a fraction such as '1/4'; "
        f"got {value!r}."
    )


def _exponents(name: str, values: Any) -> tuple[Fraction, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ValueError(f"`{name}` needs one exponent per layer, as a sequence; got {values!r}.")
    out = tuple(fraction(f"{name}_{i}", v) for i, v in enumerate(values, 1))
    if len(out) < 2:
        raise ValueError(
            f"`{name}` needs one exponent for each layer of a network of depth 2 or more; got "
            f"{len(out)}. Without a hidden layer there is no width to scale with."
        )
    return out


def _same_length(one: str, first: tuple[Any, ...], other: str, second: tuple[Any, ...]) -> None:
    if len(first) != len(second):
        raise ValueError(
            f"`{one}` and `{other}` must have one exponent for each layer; got {len(first)} and "
            f"{len(second)}. Give both the depth of the network."
        )


@dataclass(frozen=True)
class Strategy:
    r"""The exponents $p_\ell,q_\ell,r$ of a hyperparameter scaling strategy.

    $$\mathbb E[b_ib_j]=n^{-p_\ell}C_b\delta_{ij},\quad
    \mathbb E[W_{ij}W_{kl}]=n^{-p_\ell}\tfrac{C_W}{n_{\ell-1}}\delta_{ik}\delta_{jl},\quad
    \lambda\to n^{-q_\ell}\lambda,\quad \eta=n^r\eta_0.$$

    All zero is the neural-tangent scaling. Make a known one with `ntk`, `mup`, `mean_field`, `meta`.

    Args:
        p: $p_1,\dots,p_L$, exponents of the initialisation variances.
        q: $q_1,\dots,q_L$, exponents of the learning rates of the layers.
        r: Exponent of the global learning rate.
        name: For messages and figures; it plays no part in equality.

    Raises:
        ValueError: If an exponent is not a finite number, `p` and `q` differ in length, or there are
            fewer than two layers.

    Source: Yaida (2.4), (2.6), (2.7).

    Example:
        >>> from scalewise.scaling import Strategy
        >>> Strategy(p=(0, 0, "1/2"), q=(0, 0, "1/2"), r=0.5)
        Strategy(p=(0, 0, 1/2), q=(0, 0, 1/2), r=1/2)
    """

    p: tuple[Fraction, ...]
    q: tuple[Fraction, ...]
    r: Fraction
    name: str = ""

    def __init__(self, p: Any, q: Any, r: Any, name: str = "") -> None:
        store = object.__setattr__
        store(self, "p", _exponents("p", p))
        store(self, "q", _exponents("q", q))
        store(self, "r", fraction("r", r))
        store(self, "name", name)
        _same_length("p", self.p, "q", self.q)

    @property
    def depth(self) -> int:
        r"""$L$, the number of weight layers."""
        return len(self.p)

    def gauge(self, g: Any) -> Strategy:
        r"""The same strategy written otherwise: $q_\ell\to q_\ell+g$, $r\to r+g$.

        Neither the initialisation nor any update changes, so $\eta\hat H$, $\eta^2\widehat{dH}$ and every
        $\eta^kd^{k-1}H$ stay as they are.

        Args:
            g: The shift.

        Source: Yaida (2.8).

        Example:
            >>> from scalewise.scaling import mup
            >>> mup(depth=3).gauge(1)
            Strategy(p=(0, 0, 1), q=(0, 0, 1), r=1)
        """
        shift = fraction("g", g)
        return Strategy(self.p, tuple(q + shift for q in self.q), self.r + shift, self.name)

    def canonical(self) -> Strategy:
        r"""The member of the gauge orbit with $q_1=0$."""
        return self.gauge(-self.q[0])

    def equivalent(self, other: Strategy) -> bool:
        """Whether the two differ by a gauge only: same networks, same training.

        Example:
            >>> from scalewise.scaling import mean_field, mup
            >>> mup(depth=4) == mean_field(depth=4), mup(depth=4).equivalent(mean_field(depth=4))
            (False, True)
        """
        one, two = self.canonical(), other.canonical()
        return (one.p, one.q, one.r) == (two.p, two.q, two.r)

    def to_abc(self) -> ABC:
        r"""The same strategy as $a_\ell,b_\ell,c$; inverse of `ABC.to_strategy`.

        Source: Yaida, footnote 2, with the bare inverse width of layers $\ell\ge2$ put into $a_\ell$.
        """
        half = Fraction(1, 2)
        offsets = (Fraction(0), *(Fraction(1),) * (self.depth - 1))
        a = tuple(half * (o + q) for o, q in zip(offsets, self.q, strict=True))
        b = tuple(half * (p - q) for p, q in zip(self.p, self.q, strict=True))
        return ABC(a, b, -self.r, self.name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Strategy):
            return NotImplemented
        return (self.p, self.q, self.r) == (other.p, other.q, other.r)

    def __hash__(self) -> int:
        return hash((self.p, self.q, self.r))

    def __repr__(self) -> str:
        return f"Strategy(p={_text(self.p)}, q={_text(self.q)}, r={self.r})"

    def __str__(self) -> str:
        return self.name or repr(self)


@dataclass(frozen=True)
class ABC:
    r"""The exponents $a_\ell,b_\ell,c$ of tensor programs.

    $W^{(\ell)}=n^{-a_\ell}w^{(\ell)}$ with $w^{(\ell)}_{ij}\sim N(0,n^{-2b_\ell})$, and gradient descent on
    $w$ with learning rate $\eta n^{-c}$.

    Args:
        a: $a_1,\dots,a_L$, exponents of the multipliers. The output layer is $\ell=L$ here; texts that
            count hidden layers call it $L+1$.
        b: $b_1,\dots,b_L$, exponents of the standard deviations.
        c: Exponent of the learning rate.
        name: For messages and figures; it plays no part in equality.

    Raises:
        ValueError: As for `Strategy`.

    Source: Yang & Hu, *Tensor Programs IV*, abc-parametrisations; Yaida, footnote 2.

    Example:
        >>> from scalewise.scaling import ABC, ntk
        >>> ABC(a=(0, "1/2", "1/2"), b=(0, 0, 0), c=0).to_strategy() == ntk(depth=3)
        True
    """

    a: tuple[Fraction, ...]
    b: tuple[Fraction, ...]
    c: Fraction
    name: str = ""

    def __init__(self, a: Any, b: Any, c: Any, name: str = "") -> None:
        store = object.__setattr__
        store(self, "a", _exponents("a", a))
        store(self, "b", _exponents("b", b))
        store(self, "c", fraction("c", c))
        store(self, "name", name)
        _same_length("a", self.a, "b", self.b)

    @property
    def depth(self) -> int:
        r"""$L$, the number of weight layers."""
        return len(self.a)

    def gauge(self, theta: Any) -> ABC:
        r"""$a_\ell\to a_\ell+\theta$, $b_\ell\to b_\ell-\theta$, $c\to c-2\theta$: the same training.

        Holds for gradient descent, with or without momentum; an adaptive optimiser breaks it.

        Source: Yang & Hu (13); it is Yaida (2.8) with $g=2\theta$.
        """
        t = fraction("theta", theta)
        return ABC(
            tuple(a + t for a in self.a), tuple(b - t for b in self.b), self.c - 2 * t, self.name
        )

    def to_strategy(self) -> Strategy:
        r"""$p_1=2a_1+2b_1$, $p_\ell=2a_\ell+2b_\ell-1$; $q_1=2a_1$, $q_\ell=2a_\ell-1$; $r=-c$.

        Source: Yaida, footnote 2. The first layer differs because its fan-in is no width.
        """
        offsets = (0, *(1,) * (self.depth - 1))
        p = tuple(2 * (a + b) - o for a, b, o in zip(self.a, self.b, offsets, strict=True))
        q = tuple(2 * a - o for a, o in zip(self.a, offsets, strict=True))
        return Strategy(p, q, -self.c, self.name)

    def equivalent(self, other: ABC) -> bool:
        """Whether the two differ by a gauge only."""
        return self.to_strategy().equivalent(other.to_strategy())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ABC):
            return NotImplemented
        return (self.a, self.b, self.c) == (other.a, other.b, other.c)

    def __hash__(self) -> int:
        return hash((self.a, self.b, self.c))

    def __repr__(self) -> str:
        return f"ABC(a={_text(self.a)}, b={_text(self.b)}, c={self.c})"


def _text(values: tuple[Fraction, ...]) -> str:
    return f"({', '.join(str(v) for v in values)})"
