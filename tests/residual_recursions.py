"""Recursions of residual networks for one input, as printed and with the whole memory: oracles.

Every pair of layers by two-dimensional quadrature, the derivative of a kink by differences.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.critical import susceptibilities
from scalewise.gaussian import pair_moment, single_moment
from scalewise.networks._network import Network

Layers = Float[np.ndarray, " layer"]
STEP = 1e-4  # of the derivative with respect to a variance, where a kink forbids the other way


def remembered(net: Network, K1: float) -> tuple[Layers, Layers, Layers]:
    r"""K, V and G1 of one input from K1, with the whole memory of the neurons."""
    sigma = net.activation
    n, K, propagated = net.widths, [K1], np.zeros(0)
    A, beta, G1 = 0.0, 0.0, 0.0
    out = [(K[0], 0.0, 0.0)]
    for m in range(net.depth - 1):
        C_b, C_W, skip = net.C_b[m + 1], net.C_W[m + 1], net.skips[m + 1] ** 2
        second, fourth, slope, bend = curve(sigma, K[m])
        chi = skip + C_W * slope
        past = np.array(K[:m])
        with_past = past * [np.prod(net.skips[k + 1 : m + 1]) for k in range(m)]
        seen = with_past != 0
        own = np.zeros(m)
        curved = np.zeros(m)
        if seen.any():
            B, C = past[seen], with_past[seen]
            own[seen] = covariance(sigma, K[m], B, C)
            curved[seen] = curvature(sigma, K[m], B, C)
        own, curved = own / n[m + 1], curved / n[m + 1]
        G1 = chi * G1 + 0.5 * C_W * (4 * bend * A + float(propagated @ curved))
        A = chi**2 * A + 2 * C_W * chi * float(propagated @ own)
        A += C_W**2 * (fourth - second**2) / n[m + 1]
        beta = skip * (chi * beta + 2 * C_W * slope * K[m] ** 2 / n[m + 1])
        propagated = np.append(chi * propagated, C_W)
        K.append(C_b + C_W * second + skip * K[m])
        out.append((K[-1], n[m + 1] * (A + 2 * beta), n[m + 1] * G1))
    kernel, vertex, metric = np.array(out).T
    return kernel, vertex, metric


def printed(net: Network, K1: float) -> tuple[Layers, Layers, Layers]:
    r"""The same as PDLT prints it: only the quadratic part of sigma^2 is remembered.

    $$V^{(\ell+1)}=C_W^2\big[\langle\sigma^4\rangle-\langle\sigma^2\rangle^2\big]
      +\chi_\parallel^2V^{(\ell)}+4\gamma^2(\chi_\parallel-\gamma^2)(K^{(\ell)})^2,\qquad
      G^{\{1\}(\ell+1)}=\chi_\parallel G^{\{1\}(\ell)}+\tfrac12C_Wg''V^{(\ell)}$$
    PDLT (B.26), (B.15); $G^{\{1\}}$ from (5.110) with the shifted $\chi_\parallel$.
    """
    sigma = net.activation
    n, K, V, G1 = net.widths, K1, 0.0, 0.0
    out = [(K, V, G1)]
    for m in range(net.depth - 1):
        C_b, C_W, skip = net.C_b[m + 1], net.C_W[m + 1], net.skips[m + 1] ** 2
        r = n[m + 1] / n[m] if m else 1.0
        second, fourth, slope, bend = curve(sigma, K)
        chi = skip + C_W * slope
        G1 = r * (chi * G1 + 2 * C_W * bend * V)
        V = r * chi**2 * V + C_W**2 * (fourth - second**2) + 4 * skip * (chi - skip) * K**2
        K = C_b + C_W * second + skip * K
        out.append((K, V, G1))
    kernel, vertex, metric = np.array(out).T
    return kernel, vertex, metric


def curve(sigma: Activation, K: float) -> tuple[float, float, float, float]:
    r"""$\langle\sigma^2\rangle$, $\langle\sigma^4\rangle$, $g'$ and $g''/4$."""
    second, fourth = (float(single_moment(sigma, K, (0,) * m).value) for m in (2, 4))
    z2, z4 = (float(single_moment(sigma, K, (0, 0), power=m).value) for m in (2, 4))
    bend = (z4 / K**2 - 6 * z2 / K + 3 * second) / (16 * K**2)
    return second, fourth, float(susceptibilities(sigma, K, 1.0)[0]), bend


def covariance(sigma: Activation, A: float, B: np.ndarray, C: np.ndarray) -> np.ndarray:
    product = pair_moment(sigma, A, B, C, (0, 0), (0, 0)).value
    return product - single_moment(sigma, A, (0, 0)).value * single_moment(sigma, B, (0, 0)).value


def curvature(sigma: Activation, A: float, B: np.ndarray, C: np.ndarray) -> np.ndarray:
    r"""$\mathrm{Cov}[(\sigma^2)''(z_a),\sigma^2(z_b)]$, for kinks in the sense of distributions."""
    if any(kink.location for kink in sigma.kinks) or float(sigma(np.zeros(1))[0]):
        # By Price's theorem it is twice a derivative with respect to the variance of z_a.
        high, low = (covariance(sigma, A * (1 + s * STEP), B, C) for s in (1, -1))
        return (high - low) / (STEP * A)
    products = [pair_moment(sigma, A, B, C, pq, (0, 0)).value for pq in ((1, 1), (0, 2))]
    means = [single_moment(sigma, A, pq).value for pq in ((1, 1), (0, 2))]
    return 2 * (sum(products) - sum(means) * single_moment(sigma, B, (0, 0)).value)
