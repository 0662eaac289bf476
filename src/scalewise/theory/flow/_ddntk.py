r"""Means $R$, $S$, $T$, $U$ of the two second differentials of the NTK, layer to layer.

With $\mathcal F[f,g]_{ab}=\sum_{\gamma,\delta}\langle\partial_\gamma f\rangle\langle\partial_\delta g\rangle
F_{\gamma a\delta b}$, $\lambda=\lambda_W$, $C=C_W$, $r=n_\ell/n_{\ell-1}$ and $\kappa=\langle\sigma''_1
\sigma''_2\sigma'_3\sigma'_4\rangle\Theta_{12}\Theta_{13}\Theta_{24}$,
$$R'_{0123}=\lambda C\langle\sigma''_0\sigma_1\sigma'_2\sigma'_3\rangle\Theta_{02}\Theta_{03}
  +C^2\langle\sigma'''_0\sigma'_1\sigma'_2\sigma'_3\rangle\Theta_{01}\Theta_{02}\Theta_{03}
  +rC\langle\sigma'_2\sigma'_3\rangle\big\{(\lambda\langle\sigma''_0\sigma_1\rangle
  +C\langle\sigma'''_0\sigma'_1\rangle\Theta_{01})(B_{0023}+P_{0230})
  +(\lambda\langle\sigma'_0\sigma'_1\rangle+C\langle\sigma''_0\sigma''_1\rangle\Theta_{01})P_{0231}
  +C\langle\sigma'_0\sigma'_1\rangle R_{0123}\big\}$$
$$S'_{1234}=C\lambda\langle\sigma'_1\sigma'_2\sigma'_3\sigma'_4\rangle\Theta_{13}\Theta_{24}+C^2\kappa
  +rC\langle\sigma'_3\sigma'_4\rangle\big\{(\lambda\langle\sigma'_1\sigma'_2\rangle
  +C\Theta_{12}\langle\sigma''_1\sigma''_2\rangle)B_{1234}+C\langle\sigma'_1\sigma'_2\rangle S_{1234}\big\}$$
$$T'_{1342}=\lambda^2\langle\sigma'_1\sigma'_2\sigma_3\sigma_4\rangle\Theta_{12}+C^2\kappa
  +r\,\mathcal F[X_{13},X_{24}]_{12}+\big\{C\lambda\langle\sigma'_1\sigma''_2\sigma_3\sigma'_4\rangle
  \Theta_{12}\Theta_{24}+rC\langle\sigma'_2\sigma'_4\rangle\,\mathcal Q_{24|13}\big\}
  +\big\{1\leftrightarrow2,3\leftrightarrow4\big\}+rC^2\langle\sigma'_1\sigma'_3\rangle
  \langle\sigma'_2\sigma'_4\rangle T_{1342}$$
$$U'_{1423}=C^2\kappa+rC^2\langle\sigma'_1\sigma'_4\rangle\langle\sigma'_2\sigma'_3\rangle U_{1423}$$
where $X_{13}=\lambda\sigma'_1\sigma_3+C\Theta_{13}\sigma''_1\sigma'_3$ and
$\mathcal Q_{24|13}=\sum_\gamma\langle\partial_\gamma X_{13}\rangle Q_{241\gamma}$. All start from 0. The
third derivative makes a kinked activation meaningless here.

Source: PDLT (∞.177), (∞.179)-(∞.181); the factors of $X$ gather what is printed term by term.
"""

from __future__ import annotations

import numpy as np

from scalewise.theory.flow._layer import Expectations, Tensor
from scalewise.theory.flow._ntk_statistics import Matrix, slide, swapped


def next_R(
    layer: Expectations,
    R: Tensor,
    B: Tensor,
    P: Tensor,
    *,
    C_W: float,
    lambda_W: float,
    Theta: Matrix,
    r: float,
) -> Tensor:
    r"""$R_{0123}$ of the next layer from $R$, $B$, $P$ of this one; NTK³ / preactivation²."""
    pp = layer.M(1, 1)
    source = lambda_W * C_W * np.einsum(
        "eabcd,ac,ad->eabcd", layer.four((2, 0, 1, 1)), Theta, Theta
    ) + C_W**2 * np.einsum(
        "eabcd,ab,ac,ad->eabcd", layer.four((3, 1, 1, 1)), Theta, Theta, Theta, optimize=True
    )
    on_0 = lambda_W * layer.M(2, 0) + C_W * layer.M(3, 1) * Theta
    on_1 = lambda_W * pp + C_W * layer.M(2, 2) * Theta
    inner = (
        np.einsum("ab,eaacd->eabcd", on_0, B)
        + np.einsum("ab,eacda->eabcd", on_0, P)
        + np.einsum("ab,eacdb->eabcd", on_1, P)
        + C_W * np.einsum("ab,eabcd->eabcd", pp, R)
    )
    return source + r * C_W * pp * inner


def next_S(
    layer: Expectations,
    S: Tensor,
    B: Tensor,
    *,
    C_W: float,
    lambda_W: float,
    Theta: Matrix,
    r: float,
) -> Tensor:
    r"""$S_{1234}$ of the next layer from $S$ and $B$ of this one; NTK³ / preactivation²."""
    pp = layer.M(1, 1)
    source = C_W * lambda_W * np.einsum(
        "eabcd,ac,bd->eabcd", layer.four((1, 1, 1, 1)), Theta, Theta
    ) + C_W**2 * _curvatures(layer, Theta)
    on_B = lambda_W * pp + C_W * Theta * layer.M(2, 2)
    inner = on_B[:, :, None, None] * B + C_W * pp[:, :, None, None] * S
    return source + r * C_W * pp * inner


def next_T(
    layer: Expectations,
    T: Tensor,
    F: Tensor,
    Q: Tensor,
    *,
    C_W: float,
    lambda_W: float,
    Theta: Matrix,
    r: float,
) -> Tensor:
    r"""$T_{1342}$ of the next layer, stored in that order, from $T$, $F$, $Q$; NTK³ / preactivation²."""
    pp = layer.M(1, 1)
    # X_13 differentiated: by z_3 and by z_1, as matrices over (3, 1).
    on_3 = lambda_W * pp + C_W * Theta * layer.M(2, 2)
    on_1 = (lambda_W * layer.M(2, 0) + C_W * Theta * layer.M(3, 1)).T
    through_F = swapped(slide(swapped(slide(F, on_3, on_1)), on_3, on_1))  # (3, 1, 4, 2)
    plain = lambda_W**2 * np.einsum("ecdab,ab->eacdb", layer.four((0, 0, 1, 1)), Theta)
    both = C_W**2 * np.einsum("eabcd->eacdb", _curvatures(layer, Theta))
    # Indices 1, 3, 4, 2 are a, c, d, b below; Q_(24 1 gamma) with gamma in {3, 1}.
    Q_slid = slide(Q.transpose(0, 4, 3, 1, 2), on_3, on_1)  # (3, 1, 2, 4)
    one = C_W * lambda_W * np.einsum(
        "ebcad,ab,bd->eacdb", layer.four((2, 0, 1, 1)), Theta, Theta, optimize=True
    ) + r * C_W * np.einsum("bd,ecabd->eacdb", pp, Q_slid)
    carried = C_W**2 * pp[:, :, None, None] * pp * T
    inner = np.einsum("ecadb->eacdb", through_F) + carried
    return plain + both + one + one.transpose(0, 4, 3, 2, 1) + r * inner


def next_U(layer: Expectations, U: Tensor, *, C_W: float, Theta: Matrix, r: float) -> Tensor:
    r"""$U_{1423}$ of the next layer, stored in that order; NTK³ / preactivation²."""
    pp = layer.M(1, 1)
    source = np.einsum("eabcd->eadbc", _curvatures(layer, Theta))
    return C_W**2 * (source + r * pp[:, :, None, None] * pp * U)


def _curvatures(layer: Expectations, Theta: Matrix) -> Tensor:
    r"""$\kappa_{1234}=\langle\sigma''_1\sigma''_2\sigma'_3\sigma'_4\rangle\Theta_{12}\Theta_{13}\Theta_{24}$."""
    return np.einsum(
        "eabcd,ab,ac,bd->eabcd", layer.four((2, 2, 1, 1)), Theta, Theta, Theta, optimize=True
    )
