"""What a strategy is asked to satisfy: each condition is a function of its exponents."""

from __future__ import annotations

from fractions import Fraction

from scalewise._checked import checked
from scalewise.scaling._exponents import Strategy

_HALF = Fraction(1, 2)


@checked
def is_meta_critical(strategy: Strategy) -> bool:
    r"""True if hidden preactivations of a `strategy` neither grow nor vanish with the width: $p_{\ell<L}=0$.

    Source: Yaida (3.3). $p_L$ is free and called $s$, (3.4).
    """
    return all(p == 0 for p in strategy.p[:-1])


@checked
def has_equivalent_rates(strategy: Strategy) -> bool:
    r"""True if each layer contributes to the NTK of a `strategy` at the same order: $q_{\ell+1}=p_{\ell+1}+q_\ell$.

    Source: Yaida (3.11), the meta-principle of learning-rate equivalence.
    """
    p, q = strategy.p, strategy.q
    return all(q[i + 1] == p[i + 1] + q[i] for i in range(strategy.depth - 1))


@checked
def learns_at_finite_rate(strategy: Strategy) -> bool:
    r"""True if the output layer's part of $\eta\hat H$ of a `strategy` is of order one in the width: $r=q_L$.

    With `has_equivalent_rates` all of $\eta\hat H$ is.

    Source: Yaida (3.14).
    """
    return strategy.r == strategy.q[-1]


@checked
def metaparameter_of(strategy: Strategy) -> Fraction | None:
    r"""$s$ if the `strategy` is a member of the meta-principled family up to a gauge, else ``None``.

    Example:
        >>> from scalewise.scaling import metaparameter_of, mup, standard, uniform
        >>> metaparameter_of(mup(depth=3)), metaparameter_of(uniform("1/8", depth=3))
        (Fraction(1, 1), Fraction(3, 4))
        >>> metaparameter_of(standard(depth=3)) is None
        True
    """
    s = strategy.p[-1]
    conditions = (is_meta_critical, has_equivalent_rates, learns_at_finite_rate)
    return s if 0 <= s <= 1 and all(condition(strategy) for condition in conditions) else None


def _readout(strategy: Strategy) -> Fraction:
    """Power by which the last weights shrink beyond 1/n: by an update or, if that is larger, at initialisation."""
    return min(strategy.q[-1] - strategy.r, (strategy.p[-1] - 1) * _HALF)


@checked
def feature_learning(strategy: Strategy) -> Fraction:
    r"""$1+\min_{\ell<L}(q_\ell-r)+\min(q_L-r,\frac{p_L-1}2)$: zero where a `strategy` learns features.

    Positive: features of the last hidden layer move by a vanishing power of the width. Negative: they
    blow up. It is Yang and Hu's $r$, the least of `maximal_updates`; on the family $\frac{1-s}2$.

    Source: Yaida, footnote 15, after Yang & Hu. It is known to us with $\frac{p_L+1}2$ in the minimum; that
        number vanishes with ours where the last weights move at least as fast as they start, but is not the
        exponent of an update ($1-s$ on the family), and would deny feature learning under a slow readout.
    """
    return min(maximal_updates(strategy))


@checked
def maximal_updates(strategy: Strategy) -> tuple[Fraction, ...]:
    r"""$1+(q_\ell-r)+\min(q_L-r,\frac{p_L-1}2)$ of each hidden layer: zero where a `strategy` updates it maximally.

    These are the exponents $r_\ell$ that `update_exponents` derives from $A$ and $U$; on the family
    $\frac{1-s}2$.

    Source: Yaida, footnote 15, after Yang & Hu; see `feature_learning` for the sign in the minimum.
    """
    return tuple(1 + q - strategy.r + _readout(strategy) for q in strategy.q[:-1])


@checked
def maximal_initialisation(strategy: Strategy) -> Fraction:
    r"""$\frac{p_L+1}2+\min_{\ell<L}(q_\ell-r)+\min(q_L-r,\frac{p_L-1}2)$: zero at maximal initialisation.

    Of a `strategy`, it is $A+r-1$ of Yang and Hu, the power by which moving features fail to move the outputs
    through the first last weights; zero on the whole family.

    Source: Yaida, footnote 15, after Yang & Hu; see `feature_learning` for the sign in the minimum, with
        which it would be zero at $s=1$ only, against Theorem M.4.
    """
    return (strategy.p[-1] - 1) * _HALF + feature_learning(strategy)
