r"""Powers of width and depth of what is observed at the output, for any strategy it can be said of.

Hidden layers do not notice a strategy with $p_{\ell<L}=0$: only the last weights carry $n^{-p_L/2}$, and
each learning rate its $n^{r-q_\ell}$. A differential is a sum of products of last-layer weights, one
learning rate for each contraction; so its power of $n$ under any strategy is its power under
neural-tangent scaling plus what these factors bring, maximised over the layers the contractions may
stand for. With $u=\max_{\ell<L}(r-q_\ell)-p_L$ for hidden layers and $v=r-q_L$ for the last one (both 0 on
the family), that is what the functions below return.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from scalewise._checked import Count, checked
from scalewise._readable import readable
from scalewise._words import refuse_name
from scalewise.scaling._conditions import is_meta_critical
from scalewise.scaling._exponents import Strategy

OBSERVED = ("z", "eta_ntk", "z_eta2_dntk", "eta3_ddntk_I", "eta3_ddntk_II")


@checked
@dataclass(frozen=True)
@readable
class Order:
    r"""$O(n^{\text{width}}L^{\text{depth}})$, exact exponents.

    Args:
        width: Power of $n$.
        depth: Power of $L$ of the dimensionless combination, at criticality with learning rates that
            are equivalent across depth; ``None`` where the sources make no statement.
    """

    width: Fraction
    depth: Fraction | None

    def __str__(self) -> str:
        depth = "" if self.depth in (None, 0) else f" L^{self.depth}"
        return f"O(n^{self.width}{depth})"


@checked
def observable_order(strategy: Strategy, observable: str) -> Order:
    r"""Power of width and depth of an observable of the output under a strategy.

    On the family: $z\sim n^{-s/2}$, $\eta\hat H\sim1$, $\mathbb E[z\,\eta^2\widehat{dH}]\sim L/n$,
    $\mathbb E[\eta^3\widehat{dd_{I,II}H}]\sim L/n^{1-s}$. In general, with
    $u=\max_{\ell<L}(r-q_\ell)-p_L$ and $v=r-q_L$,
    $\eta\hat H\sim n^{\max(u,v)}$, $z\,\eta^2\widehat{dH}\sim n^{-1+u+\max(u,v)}$,
    $\eta^3\widehat{dd_IH}\sim n^{-1+p_L+2u+\max(u,v)}$ and
    $\eta^3\widehat{dd_{II}H}\sim n^{-1+p_L+u+2\max(u,v)}$.

    Args:
        strategy: Any strategy with $p_{\ell<L}=0$.
        observable: ``"z"`` (root mean square), ``"eta_ntk"``, ``"z_eta2_dntk"``, ``"eta3_ddntk_I"`` or
            ``"eta3_ddntk_II"`` (means).

    Returns:
        Exact exponents at leading order. The power of $L$ is known where all layers contribute at the
        same order of $n$, else ``None``.

    Raises:
        ValueError: If the observable is unknown, or hidden preactivations scale with the width: what
            then happens depends on the activation.

    Source: Yaida (3.2), (3.7), (4.3), (4.6), (4.9) on the family; other strategies derived.

    Example:
        >>> from scalewise.scaling import meta, observable_order, standard
        >>> str(observable_order(meta("1/2", depth=8), "eta3_ddntk_I"))
        'O(n^-1/2 L^1)'
        >>> str(observable_order(standard(depth=8), "eta_ntk"))
        'O(n^1)'
    """
    if observable not in OBSERVED:
        refuse_name("observable", observable, OBSERVED)
    u, v = _hidden_and_last(strategy)
    p, top = strategy.p[-1], max(u, v)
    width, depth = {
        "z": (-p / 2, 0),
        "eta_ntk": (top, 0),
        "z_eta2_dntk": (-1 + u + top, 1),
        "eta3_ddntk_I": (-1 + p + 2 * u + top, 1),
        "eta3_ddntk_II": (-1 + p + u + 2 * top, 1),
    }[observable]
    known = observable == "z" or _balanced(strategy)
    return Order(Fraction(width), Fraction(depth) if known else None)


@checked
def differential_order(strategy: Strategy, k: Count) -> Order:
    r"""Power of the $k$-th differential $\eta^kd_I^{k-1}H$ of the output; with a factor $z$ for even $k$.

    On the family, odd $k=2m+1$: $\mathbb E[\eta^kd_I^{k-1}H]=O(n^{-m(1-s)})=O(\gamma^m)$; even $k=2m$:
    $\mathbb E[z\,\eta^kd_I^{k-1}H]=O(n^{-m(1-s)-s})$. Every type with $k$ contractions has the same
    power on the family; off it the one of type I is returned.

    Args:
        strategy: Any strategy with $p_{\ell<L}=0$.
        k: Number of contractions, at least 1: 1 is the NTK, 2 the dNTK, 3 the ddNTK.

    Returns:
        Exact exponents. The power of $L$ is that of `observable_order` up to $k=3$; beyond, the source
        treats one hidden layer only, and it is ``None``.

    Raises:
        ValueError: If `k` is below 1, or hidden preactivations scale with the width.

    Source: Yaida (A15), (A17); other strategies derived from (A9), (A13).

    Example:
        >>> from scalewise.scaling import differential_order, meta
        >>> [str(differential_order(meta("1/2", depth=2), k).width) for k in (1, 2, 3, 4, 5)]
        ['0', '-1', '-1/2', '-3/2', '-1']
    """
    u, v = _hidden_and_last(strategy)
    m, p = Fraction(k // 2), strategy.p[-1]
    own = -m + p * (m if k % 2 else m - 1)
    depth = {1: 0, 2: 1, 3: 1}.get(k) if _balanced(strategy) else None
    return Order(own + (k - 1) * u + max(u, v), None if depth is None else Fraction(depth))


def _hidden_and_last(strategy: Strategy) -> tuple[Fraction, Fraction]:
    if not is_meta_critical(strategy):
        layer = next(i for i, p in enumerate(strategy.p, 1) if p != 0)
        raise ValueError(
            f"The strategy scales the initialisation of hidden layer {layer} with the width "
            f"(p_{layer} = {strategy.p[layer - 1]}): its preactivations grow or vanish, and what follows "
            "depends on the activation. Exponents are given for strategies with p = 0 below the last "
            "layer."
        )
    u = max(strategy.r - q for q in strategy.q[:-1]) - strategy.p[-1]
    return u, strategy.r - strategy.q[-1]


def _balanced(strategy: Strategy) -> bool:
    """True if all layers contribute at the same order of the width."""
    u, v = _hidden_and_last(strategy)
    return u == v and len(set(strategy.q[:-1])) == 1
