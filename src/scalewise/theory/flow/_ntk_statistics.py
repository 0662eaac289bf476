r"""Fluctuations of the NTK, and its mean beyond the infinite width, layer to layer.

With $\widehat\Omega_{12}=\lambda_W\sigma_1\sigma_2+C_W\Theta_{12}\sigma'_1\sigma'_2$, $r=n_\ell/n_{\ell-1}$ and
$\partial X\!\cdot T$ for what a change $T$ of the metric does to the expectation of $X$,
$$D'_{1234}=C_W\big[\mathrm{Cov}(\sigma_1\sigma_2,\widehat\Omega_{34})
  +r\,\partial(\sigma_1\sigma_2)\,\partial\widehat\Omega_{34}\!\cdot V
  +rC_W\langle\sigma'_3\sigma'_4\rangle\,\partial(\sigma_1\sigma_2)\!\cdot D\big]$$
$$A'_{(12)(34)}=\mathrm{Cov}(\widehat\Omega_{12},\widehat\Omega_{34})
  +r\,\partial\widehat\Omega_{12}\,\partial\widehat\Omega_{34}\!\cdot V
  +rC_W^2\langle\sigma'_1\sigma'_2\rangle\langle\sigma'_3\sigma'_4\rangle A_{(12)(34)}
  +rC_W\big[\langle\sigma'_3\sigma'_4\rangle\,\partial\widehat\Omega_{12}\!\cdot D_{\cdot\cdot34}
  +(12\leftrightarrow34)\big]$$
$$F'_{1324}=C_W^2\big[\langle\sigma_1\sigma_2\sigma'_3\sigma'_4\rangle\Theta_{34}
  +r\sum_{\gamma,\delta}\langle\partial_\gamma(\sigma_1\sigma'_3)\rangle
  \langle\partial_\delta(\sigma_2\sigma'_4)\rangle F_{\gamma3\delta4}\big]$$
$$B'_{1324}=C_W^2\big[\langle\sigma'_1\sigma'_2\sigma'_3\sigma'_4\rangle\Theta_{12}\Theta_{34}
  +r\langle\sigma'_1\sigma'_3\rangle\langle\sigma'_2\sigma'_4\rangle B_{1324}\big]$$
$$H^{\{1\}\prime}_{12}=r\,\lambda_WX[\sigma_1\sigma_2]+rC_W\big[\langle\sigma'_1\sigma'_2\rangle H^{\{1\}}_{12}
  +\Theta_{12}X[\sigma'_1\sigma'_2]+\partial(\sigma'_1\sigma'_2)\!\cdot D_{\cdot\cdot12}
  +\sum_{\gamma,\delta}\langle\partial_\gamma\partial_\delta(\sigma'_1\sigma'_2)\rangle
  F_{\gamma1\delta2}\big],$$
$X[\cdot]=\partial(\cdot)\!\cdot G^{\{1\}}+\tfrac12\partial\partial(\cdot)\!\cdot V$. All start from 0 in layer 1.

Source: PDLT (8.77), (8.97), (8.79), (8.89) in the inverse-free form that integration by parts gives;
$H^{\{1\}}$ follows from (8.59), (8.71), (4.113), and for one input is PDLT's single-input theory.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from scalewise.theory.flow._layer import Expectations, Tensor

Matrix = Float[np.ndarray, "sample sample"]


def next_D(
    layer: Expectations,
    D: Tensor,
    V: Tensor,
    *,
    C_W: float,
    lambda_W: float,
    Theta: Matrix,
    r: float,
) -> Tensor:
    r"""$D_{1234}$ of the next layer; preactivation² times NTK. $r=n_\ell/n_{\ell-1}$, 1 for the first layer."""
    source = lambda_W * layer.covariance((0, 0, 0, 0))
    source = source + C_W * Theta * layer.covariance((0, 0, 1, 1))
    through_V = _omega_pushed(
        layer, swapped(layer.pushed(0, 0, V)), C_W=C_W, lambda_W=lambda_W, Theta=Theta
    )
    carried = C_W * layer.M(1, 1) * layer.pushed(0, 0, D)
    return C_W * (source + r * (swapped(through_V) + carried))


def next_A(
    layer: Expectations,
    A: Tensor,
    V: Tensor,
    D: Tensor,
    *,
    C_W: float,
    lambda_W: float,
    Theta: Matrix,
    r: float,
) -> Tensor:
    r"""$A_{(12)(34)}$ of the next layer from $V$, $D$ and $A$ of this one; NTK²."""
    pp = layer.M(1, 1)
    rates = {"C_W": C_W, "lambda_W": lambda_W, "Theta": Theta}
    mixed = lambda_W * C_W * layer.covariance((0, 0, 1, 1)) * Theta
    source = (
        lambda_W**2 * layer.covariance((0, 0, 0, 0))
        + mixed
        + swapped(mixed)
        + C_W**2 * layer.covariance((1, 1, 1, 1)) * Theta[:, :, None, None] * Theta
    )
    through_V = _omega_pushed(layer, swapped(_omega_pushed(layer, V, **rates)), **rates)
    through_D = C_W * pp * _omega_pushed(layer, D, **rates)
    carried = C_W**2 * pp[:, :, None, None] * pp * A
    return source + r * (through_V + carried + through_D + swapped(through_D))


def next_F(layer: Expectations, F: Tensor, *, C_W: float, Theta: Matrix, r: float) -> Tensor:
    r"""$F_{1324}$ of the next layer, stored in the order 1, 3, 2, 4; preactivation² times NTK."""
    source = np.einsum("eabcd,cd->eacbd", layer.four((0, 0, 1, 1)), Theta)
    half = slide(F, layer.M(1, 1), layer.M(0, 2))
    return C_W**2 * (source + r * swapped(slide(swapped(half), layer.M(1, 1), layer.M(0, 2))))


def next_B(layer: Expectations, B: Tensor, *, C_W: float, Theta: Matrix, r: float) -> Tensor:
    r"""$B_{1324}$ of the next layer, stored in the order 1, 3, 2, 4; NTK²."""
    pp = layer.M(1, 1)
    source = np.einsum("eabcd,ab,cd->eacbd", layer.four((1, 1, 1, 1)), Theta, Theta)
    return C_W**2 * (source + r * pp[:, :, None, None] * pp * B)


def next_H1(
    layer: Expectations,
    H1: Float[np.ndarray, "_estimate sample sample"],
    G1: Float[np.ndarray, "_estimate sample sample"],
    *,
    V: Tensor,
    D: Tensor,
    F: Tensor,
    C_W: float,
    lambda_W: float,
    Theta: Matrix,
    r: float,
) -> Float[np.ndarray, "_estimate sample sample"]:
    r"""$H^{\{1\}}$ of the next layer from $V,D,F$, $G^{\{1\}}$ and $H^{\{1\}}$ of this one; NTK."""

    def corrected(p: int) -> np.ndarray:
        return layer.pushed(p, p, G1[..., None, None])[..., 0, 0] + 0.5 * layer.bent(p, p, V)

    through_D = np.einsum("eabab->eab", layer.pushed(1, 1, D))
    through_F = (
        layer.M(3, 1) * np.einsum("eaaab->eab", F)
        + layer.M(2, 2) * (np.einsum("eaabb->eab", F) + np.einsum("ebaab->eab", F))
        + layer.M(1, 3) * np.einsum("ebabb->eab", F)
    )
    inner = layer.M(1, 1) * H1 + Theta * corrected(1) + through_D + through_F
    return r * (lambda_W * corrected(0) + C_W * inner)


def swapped(T: Tensor) -> Tensor:
    """First pair of indices and second pair exchanged."""
    return T.transpose(0, 3, 4, 1, 2)


def slide(T: Tensor, first: Matrix, second: Matrix) -> Tensor:
    r"""One leg handed on: $T_{ac\cdot\cdot}\mapsto f_{ac}T_{ac\cdot\cdot}+s_{ac}T_{cc\cdot\cdot}$.

    The leg $a$ of $T$ is carried by $z_a$ or by $z_c$; $f$ and $s$ are the expectations of the factor
    differentiated with respect to the one and to the other.
    """
    same = np.einsum("eccbd->ecbd", T)
    return first[:, :, None, None] * T + second[:, :, None, None] * same[:, None]


def _omega_pushed(
    layer: Expectations, T: Tensor, *, C_W: float, lambda_W: float, Theta: Matrix
) -> Tensor:
    r"""$\partial\widehat\Omega\!\cdot T$ on the first two indices."""
    slopes = (C_W * Theta)[:, :, None, None] * layer.pushed(1, 1, T)
    return lambda_W * layer.pushed(0, 0, T) + slopes
