r"""What a strategy does to training at great width: stable or not, and which kind of limit.

Everything follows from how the last weights shrink, $n^{-A}$ at initialisation and $n^{-U}$ by their updates,
and from how little each hidden layer is moved by an update of its weights, $n^{-r_\ell}$. Here $\ell=L$ is the
last of $L$ weight layers; the source counts $L$ hidden layers and calls that one $L+1$.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import accumulate

from scalewise._checked import checked
from scalewise._readable import readable
from scalewise.scaling._conditions import metaparameter_of
from scalewise.scaling._exponents import Strategy
from scalewise.scaling.shallow import Region, coordinates, region

_HALF = Fraction(1, 2)
_POWERS = {Fraction(0): "/n", Fraction(1): ""}  # of the width in gamma, where they are whole


class Regime(StrEnum):
    """Kind of training at infinite width."""

    UNSTABLE = "unstable"
    TRIVIAL = "trivial"
    KERNEL = "kernel regime"
    GP = "GP limit"
    FEATURES = "feature learning"


@checked
def readout_exponents(strategy: Strategy) -> tuple[Fraction, Fraction]:
    r"""$A=a_L+b_L$ and $U=2a_L+c$: how the last weights of a `strategy` shrink with the width.

    $$W^{(L)}_0=\Theta(n^{-A}),\quad\Delta W^{(L)}=\Theta(n^{-U});\qquad
    A=\tfrac{p_L+1}2,\quad U=q_L+1-r.$$

    Returns:
        $(A,U)$, exact and the same in every gauge.

    Source: Yang & Hu, Definition N.5; the right-hand forms derived.

    Example:
        >>> from scalewise.scaling import mup, readout_exponents
        >>> readout_exponents(mup()) == (1, 1)
        True
    """
    return (strategy.p[-1] + 1) * _HALF, strategy.q[-1] + 1 - strategy.r


@checked
def update_exponents(strategy: Strategy) -> tuple[Fraction, ...]:
    r"""$r_\ell$ of each hidden layer of a `strategy`: an update moves its preactivations by $n^{-r_\ell}$.

    $$\Delta W^{(\ell)}x^{(\ell-1)}=\Theta(n^{-r_\ell}),\qquad
    r_\ell=\min(A,U)+c-1+2a_\ell+\delta_{\ell1}=\min(A,U)+q_\ell-r.$$

    A gradient reaches a hidden layer through the last weights, $n^{-\min(A,U)}$ once these have moved; the
    sum over the width that an update is multiplied with balances the fan-in that $q_\ell$ leaves out. In the
    very first step only the first last weights are there, and $A$ stands for the minimum.

    Returns:
        $r_1,\dots,r_{L-1}$, exact and the same in every gauge. 0 is a maximal update; below 0 it blows up.
        On the family each is $\frac{1-s}2$. `maximal_updates` says the same in the letters of another text.
        Biases move their layer as the weights do, or by $1/n$ of that
        where they are plain.

    Source: Yang & Hu, Definition 3.1, N.5, Proposition E.2; in $p,q,r$ derived. The source's $L$ is ours less 1.

    Example:
        >>> from scalewise.scaling import ntk, standard, update_exponents
        >>> [str(r) for r in update_exponents(ntk())], [str(r) for r in update_exponents(standard())]
        (['1/2', '1/2'], ['0', '-1'])
    """
    least = min(readout_exponents(strategy))
    return tuple(least + q - strategy.r for q in strategy.q[:-1])


@checked
@dataclass(frozen=True)
@readable
class Classification:
    r"""Training under a strategy at great width: its exponents, its regime, and the reasons.

    Args:
        strategy: What was classified.
        A: $a_L+b_L$, how the last weights start: $n^{-A}$.
        U: $2a_L+c$, how they are updated: $n^{-U}$.
        r_l: $r_1,\dots,r_{L-1}$, see `update_exponents`.
        init_stable: Whether preactivations are of order one and outputs not above it, at initialisation.
        stable: Whether that stays so in training.
        nontrivial: Whether stable, and outputs move at order one.
        regime: The kind of limit.
        reasons: Why, in whole sentences; for an unstable strategy each inequality it violates.
        s: Metaparameter where the strategy is a member of that family, else ``None``.
        gamma: The scale $L/n^{1-s}$ of representation learning as text, for a member of the family.
        region: With one hidden layer and rates that are equivalent, where the strategy lies in the plane of
            `shallow`; ``None`` outside its band of dynamical stability too.
    """

    strategy: Strategy
    A: Fraction
    U: Fraction
    r_l: tuple[Fraction, ...]
    init_stable: bool
    stable: bool
    nontrivial: bool
    regime: Regime
    reasons: tuple[str, ...]
    s: Fraction | None
    gamma: str | None
    region: Region | None

    @property
    def r(self) -> Fraction:
        r"""$\min_{\ell<L}r_\ell$: the features of the last hidden layer move by $n^{-r}$."""
        return min(self.r_l)

    @property
    def updated_maximally(self) -> tuple[bool, ...]:
        r"""For each hidden layer, whether updates of its weights move it at order one, $r_\ell=0$."""
        return tuple(self.stable and r == 0 for r in self.r_l)

    @property
    def readout_updated_maximally(self) -> bool:
        """True if updates of the last weights move the outputs at order one, $U=1$."""
        return self.stable and self.U == 1

    @property
    def readout_initialised_maximally(self) -> bool:
        """True if the first last weights pass moving features on to the outputs, $A+r=1$."""
        return self.stable and self.A + self.r == 1

    @property
    def uniform_update(self) -> bool:
        r"""True if every hidden layer is moved by the same power of the width: $r_\ell=r$."""
        return self.stable and len(set(self.r_l)) == 1

    @property
    def is_maximal(self) -> bool:
        """True if everything is maximal: only maximal-update scaling is, up to a gauge."""
        readout = self.readout_updated_maximally and self.readout_initialised_maximally
        return readout and all(self.updated_maximally)

    @property
    def initial_gp(self) -> bool:
        r"""True if initial outputs are a Gaussian process that does not vanish: $A=\frac12$."""
        return self.init_stable and self.A == _HALF

    @property
    def first_learning_layer(self) -> int | None:
        """The first hidden layer, from 1, whose features move at order one; the later ones follow."""
        learning = (i for i, own in enumerate(self.updated_maximally, 1) if own)
        return next(learning, None)

    @property
    def feature_powers(self) -> tuple[Fraction, ...]:
        r"""Powers of $n$ by which the features of the hidden layers move: $-\min_{m\le\ell}r_m$."""
        return tuple(-r for r in accumulate(self.r_l, min))

    @property
    def initial_output_power(self) -> Fraction:
        r"""Power of $n$ of the outputs at initialisation, $\frac12-A$."""
        return _HALF - self.A

    @property
    def output_powers(self) -> tuple[Fraction, Fraction]:
        r"""Powers of $n$ by which outputs move: through $\Delta W^{(L)}$, $1-U$; through the features, $1-A-r$.

        The features move along the first last weights where the gradient came through these. Where updates
        are larger, $U<A$, only a part $n^{U-A}$ of the motion does, and the rest adds up at random: the second
        power is $-A-r+\max(1+U-A,\frac12)$ then (derived; no verdict depends on it).
        """
        along = max(1 - max(self.A - self.U, Fraction(0)), _HALF)
        return 1 - self.U, along - self.A - self.r

    def __str__(self) -> str:
        return str(self.regime) if not self.stable else f"{self.regime}, stable"


@checked
def classify(strategy: Strategy) -> Classification:
    r"""Stable or not, trivial or not, and the regime, from the exponents alone.

    Stable at initialisation: $a_1+b_1=0$, $a_\ell+b_\ell=\frac12$ for $1<\ell<L$, $A\ge\frac12$. Stable: besides,
    $r\ge0$, $U\ge1$, $A+r\ge1$. Nontrivial: $U=1$ or $A+r=1$. Then $r=0$ is feature learning and $r>0$ the kernel
    regime; where only the last layer learns ($U=1$, $A+r>1$) that is the GP limit, with the NNGP kernel.

    Args:
        strategy: Of any depth from 2; as it is for another, with `Strategy.at_depth`.

    Returns:
        A `Classification`; exact.

    Source: Yang & Hu, Theorems N.6, N.8, N.12, N.13, Propositions E.2, E.4, Theorem E.5, Definition M.1. They are
        for gradient descent and activations such as tanh; a linear network can be in both regimes at once.

    Example:
        >>> from scalewise.scaling import classify, mup, standard
        >>> str(classify(mup())), classify(mup()).gamma
        ('feature learning, stable', 'L')
        >>> print(classify(standard()).reasons[0])
        Updates of layer 2 blow up: r_2 = -1 is below 0.
    """
    A, U = readout_exponents(strategy)
    r_l = update_exponents(strategy)
    at_start = _unstable_at_start(strategy, A)
    violated = (*at_start, *_unstable_in_training(A, U, r_l))
    stable, r = not violated, min(r_l)
    nontrivial = stable and 1 in (U, A + r)
    s = metaparameter_of(strategy)
    if not stable:
        regime = Regime.UNSTABLE
    elif not nontrivial:
        regime = Regime.TRIVIAL
    elif r == 0:
        regime = Regime.FEATURES
    else:
        regime = Regime.KERNEL if A + r == 1 else Regime.GP
    return Classification(
        strategy=strategy,
        A=A,
        U=U,
        r_l=r_l,
        init_stable=not at_start,
        stable=stable,
        nontrivial=nontrivial,
        regime=regime,
        reasons=violated or _why_stable(A, U, r_l, regime),
        s=s,
        gamma=None if s is None else "L" + _POWERS.get(s, f"/n^({1 - s})"),
        region=_region(strategy),
    )


def _unstable_at_start(strategy: Strategy, A: Fraction) -> tuple[str, ...]:
    found = []
    for i, p in enumerate(strategy.p[:-1], 1):
        if p != 0:
            fate = "grow" if p < 0 else "vanish"
            found.append(
                f"Preactivations of layer {i} {fate} at initialisation: "
                f"a_{i} + b_{i} = {(p + (i > 1)) / 2} must be {'1/2' if i > 1 else '0'} (p_{i} = {p})."
            )
    if A < _HALF:
        found.append(f"Outputs blow up at initialisation: A = {A} is below 1/2.")
    return tuple(found)


def _unstable_in_training(A: Fraction, U: Fraction, r_l: tuple[Fraction, ...]) -> tuple[str, ...]:
    r = min(r_l)
    found = [
        f"Updates of layer {i} blow up: r_{i} = {own} is below 0."
        for i, own in enumerate(r_l, 1)
        if own < 0
    ]
    if U < 1:
        found.append(f"Updates of the last layer blow up the outputs: U = {U} is below 1.")
    if A + r < 1:
        found.append(f"Moving features blow up the outputs: A + r = {A + r} is below 1.")
    return tuple(found)


def _why_stable(
    A: Fraction, U: Fraction, r_l: tuple[Fraction, ...], regime: Regime
) -> tuple[str, ...]:
    r = min(r_l)
    least = r_l.index(r) + 1
    found = [f"Stable: r = {r} is not below 0, and neither U = {U} nor A + r = {A + r} below 1."]
    if regime is Regime.TRIVIAL:
        found.append(f"Outputs do not move: U = {U} and A + r = {A + r} are both above 1.")
    else:
        movers = ["updates of the last layer (U = 1)"] * (U == 1)
        movers += ["moving features (A + r = 1)"] * (A + r == 1)
        found.append(f"Outputs move at order one by {' and by '.join(movers)}.")
    if r == 0:
        found.append(f"Features move at order one from layer {least} on: r_{least} = 0.")
    else:
        found.append(f"Features do not move: the least r_l, of layer {least}, is {r} and above 0.")
    return tuple(found)


def _region(strategy: Strategy) -> Region | None:
    if strategy.depth != 2 or strategy.p[0] != 0:
        return None
    q_sigma, rate_a, rate_w = coordinates(strategy)
    if rate_a != rate_w or not -_HALF <= q_sigma + rate_a <= 0:
        return None
    return region(q_sigma, rate_a)
