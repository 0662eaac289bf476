r"""How hyperparameters scale with the width: exact exponents, two notations, one gauge.

A strategy multiplies the initialisation variances of layer $\ell$ by $n^{-p_\ell}$, its learning rates by
$n^{-q_\ell}$ and the global learning rate by $n^r$. The notation $a_\ell b_\ell c$ of tensor programs
says the same in other coordinates. Shifting all $q_\ell$ and $r$ together changes no update: that is the
gauge, and two strategies that differ by it are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from scalewise._checked import checked
from scalewise._readable import readable
from scalewise.scaling._exact import Depth, Exponent, Exponents, check_rows


@checked
@dataclass(frozen=True)
@readable
class LayerExponents:
    r"""The exponents of one layer: $p$ of its variances, $q$ and `q_bias` of its learning rates.

    Args:
        p: Exponent of the initialisation variances.
        q: Exponent of the learning rate of the weights, their factor $1/n_{\ell-1}$ aside.
        q_bias: Exponent of the learning rate of the biases.
    """

    p: Fraction
    q: Fraction
    q_bias: Fraction


@checked
@dataclass(frozen=True)
@readable
class Strategy:
    r"""The exponents $p_\ell,q_\ell,r$ of a hyperparameter scaling strategy.

    $$\mathbb E[b_ib_j]=n^{-p_\ell}C_b\delta_{ij},\quad
    \mathbb E[W_{ij}W_{kl}]=n^{-p_\ell}\tfrac{C_W}{n_{\ell-1}}\delta_{ik}\delta_{jl},\quad
    \lambda\to n^{-q_\ell}\lambda,\quad \eta=n^r\eta_0.$$

    All zero is the neural-tangent scaling. Make a known one with `ntk`, `mup`, `mean_field`, `meta`.

    The weights of layers $\ell\ge2$ have their learning rates divided by a width besides, biases have not:
    so both contribute to the NTK at the same order. With `plain_biases` the biases of a layer have the very
    learning rate of its weights, and from the second layer on hardly move.

    Args:
        p: $p_1,\dots,p_L$, exponents of the initialisation variances.
        q: $q_1,\dots,q_L$, exponents of the learning rates of the layers.
        r: Exponent of the global learning rate.
        name: For messages and figures; it plays no part in equality.
        plain_biases: Whether weights and biases of a layer share one learning rate, as they do where an
            optimiser knows one for all parameters.

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
    name: str = field(default="", compare=False)
    plain_biases: bool = False
    _such_as = "scaling.mup()"

    def __init__(
        self,
        p: Exponents,
        q: Exponents,
        r: Exponent,
        name: str = "",
        *,
        plain_biases: bool = False,
    ) -> None:
        first, second = check_rows(p=p, q=q)
        vars(self).update(p=first, q=second, r=r, name=name, plain_biases=plain_biases)

    @property
    def depth(self) -> int:
        r"""$L$, the number of weight layers."""
        return len(self.p)

    @property
    def q_bias(self) -> tuple[Fraction, ...]:
        r"""Exponents of the learning rates of the biases: $q_\ell$; plain ones have $q_\ell+1$ for $\ell\ge2$.

        A plain bias lacks what the weights of its layer have: a learning rate divided by their fan-in, which
        is a width from the second layer on.

        Example:
            >>> from scalewise.scaling import mup, standard
            >>> mup().q_bias == mup().q, standard().q_bias == (0, 0, 0)
            (True, True)
        """
        if not self.plain_biases:
            return self.q
        return (self.q[0], *(q + 1 for q in self.q[1:]))

    def _layer(self, i: int) -> LayerExponents:
        return LayerExponents(self.p[i], self.q[i], self.q_bias[i])

    @property
    def first(self) -> LayerExponents:
        """Exponents of the layer that sees the inputs."""
        return self._layer(0)

    @property
    def hidden(self) -> LayerExponents:
        """Exponents of every layer between the first and the last, where these agree.

        Raises:
            ValueError: If they differ, or there is none.
        """
        if self.depth == 2:
            raise ValueError(
                f"The strategy {self} has two layers, the first and the last, and so no exponents for "
                "hidden layers between. Make it with depth=3."
            )
        layers = {self._layer(i): i + 1 for i in range(self.depth - 2, 0, -1)}
        if len(layers) > 1:
            one, other = sorted(layers.values())[:2]
            raise ValueError(
                f"The strategy {self} has no one set of exponents for its hidden layers: layers {one} and "
                f"{other} differ. Give layers 2 to L-1 the same exponents."
            )
        return next(iter(layers))

    @property
    def last(self) -> LayerExponents:
        """Exponents of the layer that makes the outputs."""
        return self._layer(self.depth - 1)

    @checked
    def at_depth(self, depth: Depth) -> Strategy:
        r"""This strategy for another depth: the exponents of its hidden layers, repeated.

        Args:
            depth: $L$, at least 2.

        Raises:
            ValueError: If `depth` is below 2, or the exponents of hidden layers are needed or dropped and
                they differ or there are none.

        Example:
            >>> from scalewise.scaling import mup
            >>> mup().at_depth(5) == mup(depth=5)
            True
        """
        if depth == self.depth:
            return self
        hidden = self.hidden
        p = (self.p[0], *(hidden.p,) * (depth - 2), self.p[-1])
        q = (self.q[0], *(hidden.q,) * (depth - 2), self.q[-1])
        return Strategy(p, q, self.r, self.name, plain_biases=self.plain_biases)

    @checked
    def gauge(self, g: Exponent) -> Strategy:
        r"""This strategy written otherwise: $q_\ell\to q_\ell+g$, $r\to r+g$.

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
        q = tuple(q + g for q in self.q)
        return Strategy(self.p, q, self.r + g, self.name, plain_biases=self.plain_biases)

    def canonical(self) -> Strategy:
        r"""The member of the gauge orbit with $q_1=0$."""
        return self.gauge(-self.q[0])

    @checked
    def equivalent(self, other: Strategy) -> bool:
        """True if it differs from the `other` by a gauge only: same networks, same training.

        Example:
            >>> from scalewise.scaling import mean_field, mup
            >>> mup(depth=4) == mean_field(depth=4), mup(depth=4).equivalent(mean_field(depth=4))
            (False, True)
        """
        return self.canonical() == other.canonical()

    def to_abc(self) -> ABC:
        r"""This strategy as $a_\ell,b_\ell,c$; inverse of `ABC.to_strategy`.

        Source: Yaida, footnote 2, with the bare inverse width of layers $\ell\ge2$ put into $a_\ell$.
        """
        half = Fraction(1, 2)
        offsets = (Fraction(0), *(Fraction(1),) * (self.depth - 1))
        a = tuple(half * (o + q) for o, q in zip(offsets, self.q, strict=True))
        b = tuple(half * (p - q) for p, q in zip(self.p, self.q, strict=True))
        return ABC(a, b, -self.r, self.name, plain_biases=self.plain_biases)

    def __repr__(self) -> str:
        plain = _plain_biases_shown(self.plain_biases)
        return f"Strategy(p={_text(self.p)}, q={_text(self.q)}, r={self.r}{plain})"

    def __str__(self) -> str:
        return self.name or repr(self)


@checked
@dataclass(frozen=True)
@readable
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
        plain_biases: As for `Strategy`: whether the biases of a layer have the learning rate of its
            weights, which in these letters is the multiplier $a_\ell$. Without it their multiplier is
            $a_\ell-\frac12$ from the second layer on.

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
    name: str = field(default="", compare=False)
    plain_biases: bool = False

    def __init__(
        self,
        a: Exponents,
        b: Exponents,
        c: Exponent,
        name: str = "",
        *,
        plain_biases: bool = False,
    ) -> None:
        first, second = check_rows(a=a, b=b)
        vars(self).update(a=first, b=second, c=c, name=name, plain_biases=plain_biases)

    @property
    def depth(self) -> int:
        r"""$L$, the number of weight layers."""
        return len(self.a)

    @checked
    def gauge(self, theta: Exponent) -> ABC:
        r"""$a_\ell\to a_\ell+\theta$, $b_\ell\to b_\ell-\theta$, $c\to c-2\theta$: the same training.

        Holds for gradient descent, with or without momentum; an adaptive optimiser breaks it.

        Source: Yang & Hu (13); it is Yaida (2.8) with $g=2\theta$.
        """
        t = theta
        a, b = tuple(a + t for a in self.a), tuple(b - t for b in self.b)
        return ABC(a, b, self.c - 2 * t, self.name, plain_biases=self.plain_biases)

    def to_strategy(self) -> Strategy:
        r"""$p_1=2a_1+2b_1$, $p_\ell=2a_\ell+2b_\ell-1$; $q_1=2a_1$, $q_\ell=2a_\ell-1$; $r=-c$.

        Source: Yaida, footnote 2. The first layer differs because its fan-in is not a width.
        """
        offsets = (0, *(1,) * (self.depth - 1))
        p = tuple(2 * (a + b) - o for a, b, o in zip(self.a, self.b, offsets, strict=True))
        q = tuple(2 * a - o for a, o in zip(self.a, offsets, strict=True))
        return Strategy(p, q, -self.c, self.name, plain_biases=self.plain_biases)

    @checked
    def equivalent(self, other: ABC) -> bool:
        """True if it differs from the `other` by a gauge only."""
        return self.to_strategy().equivalent(other.to_strategy())

    def __repr__(self) -> str:
        plain = _plain_biases_shown(self.plain_biases)
        return f"ABC(a={_text(self.a)}, b={_text(self.b)}, c={self.c}{plain})"


@checked
def pqr(
    p: Exponents, q: Exponents, r: Exponent, *, name: str = "pqr", plain_biases: bool = False
) -> Strategy:
    r"""A strategy from $p_\ell,q_\ell,r$: a `Strategy`.

    The arguments, `name` and `plain_biases` included, are those of `Strategy`.

    Example:
        >>> from scalewise.scaling import classify, pqr
        >>> classify(pqr((0, 0, "1/2"), (0, 0, "1/2"), "1/2")).s
        Fraction(1, 2)
    """
    return Strategy(p, q, r, name, plain_biases=plain_biases)


@checked
def abc(
    a: Exponents, b: Exponents, c: Exponent, *, name: str = "abc", plain_biases: bool = False
) -> Strategy:
    r"""A strategy from $a_\ell,b_\ell,c$: `ABC` turned into a `Strategy`.

    Of the arguments `ABC` tells `a`, `b` and `c`, and `Strategy` `name` and `plain_biases`.

    Example:
        >>> from scalewise.scaling import abc, mup
        >>> abc(("-1/2", 0, "1/2"), ("1/2", "1/2", "1/2"), 0) == mup()
        True
    """
    return ABC(a, b, c, name, plain_biases=plain_biases).to_strategy()


def _plain_biases_shown(plain_biases: bool) -> str:
    return ", plain_biases=True" if plain_biases else ""


def _text(values: tuple[Fraction, ...]) -> str:
    return f"({', '.join(str(v) for v in values)})"
