"""Powers of the width in one hidden layer, carried from step to step."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from scalewise._checked import Index, checked
from scalewise._readable import readable
from scalewise.scaling._exact import Exponent


@checked
@dataclass(frozen=True)
@readable
class StepPowers:
    r"""Powers of $n$ before a step, and by how much that step changes things.

    Args:
        a: Of the hatted output weights.
        w: Of the hatted input weights.
        f: Of the output.
        kernel_a: Of the part $K_a$ that the output weights have in the NTK.
        kernel_w: Of the part $K_w$ that the input weights have in it.
        change_a: Of $\Delta\hat a$ in this step.
        change_w: Of $\Delta\hat w$ in this step.
        change_f: Of $\Delta f$ in this step.
    """

    a: Fraction
    w: Fraction
    f: Fraction
    kernel_a: Fraction
    kernel_w: Fraction
    change_a: Fraction
    change_w: Fraction
    change_f: Fraction


@checked
def powers_after(
    k: Index, q_sigma: Exponent, q_tilde: Exponent, q_tilde_w: Exponent | None = None
) -> StepPowers:
    r"""Powers of the width after $k$ steps of gradient descent.

    From $q_a=q_w=0$ and $q_f=q_\sigma+\frac12$, each step brings
    $$q_{\Delta a}=\tilde q_a+q_\sigma+q_w,\qquad q_{\Delta w}=\tilde q_w+q_\sigma+q_a,\qquad
    q_{\Delta f}=q_\sigma+1+\max(q_{\Delta a}+q_w,\,q_a+q_{\Delta w},\,q_{\Delta a}+q_{\Delta w}),$$
    with $q_{K_a}=2q_\sigma+1+\tilde q_a+2q_w$ and $q_{K_w}=2q_\sigma+1+\tilde q_w+2q_a$ the first two of the three.
    What is there after a step has the larger of its power and that of its change. With equal rates and
    $q_\sigma+\tilde q\le0$ nothing moves by more than it has; above, weights grow by $n^{q_\sigma+\tilde q}$ in
    each step.

    Args:
        k: Number of steps done, at least 0.
        q_sigma: $q_\sigma$.
        q_tilde: $\tilde q$, or $\tilde q_a$ alone.
        q_tilde_w: $\tilde q_w$ where it is another.

    Returns:
        Exact powers, for an activation that grows linearly and derivatives of the loss of order one: samples
        whose margin grows with the width stop counting, and all follows those that are still wrong.

    Source: Golikov, Lemmas 1-3, which stop at first order in the learning rates; the product of both changes
        is ours. It counts where a step is larger than the weights.

    Example:
        >>> from scalewise.scaling.shallow import powers_after
        >>> [str(powers_after(k, "-1/2", 1, 0).a) for k in (0, 1, 2)]
        ['0', '1/2', '1/2']
    """
    q, rate_a = q_sigma, q_tilde
    rate_w = rate_a if q_tilde_w is None else q_tilde_w
    now = _powers(Fraction(0), Fraction(0), q + Fraction(1, 2), (q, rate_a, rate_w))
    for _ in range(k):
        now = _powers(
            max(now.a, now.change_a),
            max(now.w, now.change_w),
            max(now.f, now.change_f),
            (q, rate_a, rate_w),
        )
    return now


def _powers(
    a: Fraction, w: Fraction, f: Fraction, scaling: tuple[Fraction, Fraction, Fraction]
) -> StepPowers:
    q, rate_a, rate_w = scaling
    change_a, change_w = rate_a + q + w, rate_w + q + a
    kernel_a, kernel_w = 2 * q + 1 + rate_a + 2 * w, 2 * q + 1 + rate_w + 2 * a
    change_f = max(kernel_a, kernel_w, q + 1 + change_a + change_w)
    return StepPowers(
        a=a,
        w=w,
        f=f,
        kernel_a=kernel_a,
        kernel_w=kernel_w,
        change_a=change_a,
        change_w=change_w,
        change_f=change_f,
    )
