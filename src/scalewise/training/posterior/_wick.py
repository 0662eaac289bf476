r"""Averages by Wick's theorem: of the part of a neuron's change that is quadratic in its preactivation.

By Price's theorem the second chaos of $\sigma_a\sigma_b$ is the change that $z_az_b-K_{ab}$ in place of a change
of the kernel would make, so that a neuron's $\Delta=Q+\text{rest}$ with $Q$ the push of $zz^T-K$, and both are
uncorrelated, entry by entry. Averages of two factors $\Delta$ are those of two $Q$, by Wick's theorem, and those of
two rests. The first are matrix products; they are what cancels in means and evidence, and sampled they would bury
them.

With $c=\alpha u$, $B=\beta\,{\rm diag}(u)$, $G=\alpha^T{\rm diag}(u)$, $P=BK$ and squares $K^2$ entry by entry,

$$(Qu)_a=c_ad_a+z_a(Bz)_a-\langle\cdot\rangle+(Gd)_a .$$

In $\langle QSQ\rangle$ sums over $u$ with $\sum uu^T=S$ are matrix products, but for $\sum_uP\circ P^T$. Of that,
the part $bb^T$ of $\beta$, $b=\beta1/\sqrt{1^T\beta1}$, that all samples share is one too, and the little that is
left, $R=\beta-bb^T$, which is positive as well, takes one product for each $u$.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from jaxtyping import Float

from scalewise.training.posterior._neurons import Push

Matrix = Float[np.ndarray, "sample sample"]


def learned(Q: Push, Y: Float[np.ndarray, "some some"]) -> Matrix:
    r"""$\langle q\,(zz^T-K)\rangle=KWK$ for $q=\frac12\sum Y_{ab}Q_{ab}$."""
    K = Q.means[:, : len(Y)]
    return K @ Q.weights(Y) @ K.T


def weight_variance(Q: Push, Y: Float[np.ndarray, "some some"]) -> float:
    r"""$\langle q^2\rangle=\frac12{\rm tr}\,WKWK$ for the same $q$."""
    A = slice(len(Y))
    WK = Q.weights(Y) @ Q.means[A, A]
    return float(0.5 * np.einsum("ab,ba->", WK, WK))


def products(
    Q: Push, u: Float[np.ndarray, " train"], v: Float[np.ndarray, " train"] | None = None
) -> Matrix:
    r"""$\langle Qu\,(Qv)^T\rangle$ on all samples, $v=u$ unless it is given."""
    A, K, square = Q.point.train, Q.means, Q.means**2
    c, _, G, P = left = _acting(Q, u)
    d, E, H, R = left if v is None else _acting(Q, v)
    GS = G @ square[A]
    KP = K * P
    crossed = c[:, None] * (K * R.T + (H @ square[A]).T) + (KP + GS) * d
    crossed += KP[:, A] @ H.T + G @ (K * R)[:, A].T
    found = crossed + c[:, None] * square * d + GS[:, A] @ H.T
    return 2 * found + K * (P[:, A] @ E.T) + P * R.T


def squares(
    Q: Push, probes: Iterable[Float[np.ndarray, "train probe"]]
) -> Iterator[Float[np.ndarray, "sample sample"]]:
    r"""$\langle QSQ\rangle$ on all samples, by some $v$ after others, each with $\sum vv^T=S$ on average."""
    A, S = Q.point.train, Q.point.S
    K, alpha, beta, back = Q.means[:, A], Q.alpha[:, A], Q.beta[:, A], Q.alpha[A]
    F, M = alpha @ S, S * K[A]
    half = Q.means * ((F * K) @ beta.T) + (F * K**2 + K * (beta @ M)) @ back
    QSQ = half + half.T + (F @ alpha.T) * Q.means**2 + back.T @ (M * K[A]) @ back
    QSQ = 2 * QSQ + Q.means * (beta @ M @ beta.T)
    b = beta.sum(axis=1)
    total = b[A].sum()
    b = b / np.sqrt(total) if total > 0 else np.zeros(len(K))
    R, bKS = beta - np.outer(b, b[A]), K @ (b[A, None] * S)
    bR = b * ((R * bKS) @ K.T)
    QSQ += bR + bR.T + np.outer(b, b) * ((bKS * b[A]) @ K.T)
    for some in probes:
        found = QSQ.copy()
        for v in some.T:
            P = (R * v) @ K.T
            found += P * P.T
        yield found


def _acting(Q: Push, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """$c$, $B$, $G$ and $P$ of a vector."""
    A = Q.point.train
    B = Q.beta[:, A] * u
    return Q.alpha[:, A] @ u, B, Q.alpha[A].T * u, B @ Q.means[A]


def after_inverse(Q: Push, u: Float[np.ndarray, " train"]) -> Float[np.ndarray, " sample"]:
    r"""$\langle QSQu\rangle$ on all samples."""
    A, S = Q.point.train, Q.point.S
    K, alpha, beta = Q.means[:, A], Q.alpha[:, A], Q.beta[:, A]
    own = K[A]
    c, B, G = alpha[A] @ u, beta[A] * u, Q.alpha[A, A].T * u
    KB, SK = K @ B.T, S * own
    E = 2 * (K**2 * c + K * KB + K**2 @ G.T)
    found = ((alpha @ S) * E).sum(axis=1) + Q.alpha[A].T @ (S * E[A]).sum(axis=1)
    found += ((beta @ SK) * (2 * K * c + KB)).sum(axis=1)
    found += ((beta @ (S * KB[A] + 2 * (S @ G) * own)) * K).sum(axis=1)
    return found
