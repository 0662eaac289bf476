r"""Residual networks and one input: vertex and NLO metric from tables and covariances of two layers, at any depth.

A skip connection lets a neuron remember itself: at infinite width its path through the layers is a Gaussian process
with covariance $\gamma^{\ell-k}K^{(k)}$ between layers $k\le\ell$. With $\xi^{(k)}[F]$ the fluctuation of the
average of $F(z^{(k)}_i)$ over the neurons of a layer,
$\delta K^{(\ell)}=\sum_{k<\ell}g_{\ell k}\,\xi^{(k)}[\sigma^2]$, $A=n\,\mathrm{Cov}[\delta K,\delta K]$,
$V=A+2\beta$ and $\chi_\parallel=C_Wg'+\gamma^2$,
$$A^{(\ell+1)}=\chi_\parallel^2A^{(\ell)}+2C_W\chi_\parallel\sum_{k<\ell}g_{\ell k}\,c_{\ell k}
  +C_W^2c_{\ell\ell},\qquad c_{\ell k}=\mathrm{Cov}[\sigma^2(z^{(\ell)}),\sigma^2(z^{(k)})],$$
$$\beta^{(\ell+1)}=\gamma^2\big[\chi_\parallel\beta^{(\ell)}+2C_Wg'(K^{(\ell)})^2\big],\qquad
G^{\{1\}(\ell+1)}=\chi_\parallel G^{\{1\}(\ell)}+\tfrac{C_W}2\Big[g''A^{(\ell)}
  +\sum_{k<\ell}g_{\ell k}\,\mathrm{Cov}[(\sigma^2)''(z^{(\ell)}),\sigma^2(z^{(k)})]\Big].$$

Source: derived; for a linear activation, and for every activation at $\gamma=0$, it is PDLT (B.26), (5.109) and
(5.110).
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.gaussian import (
    SHAKES,
    Estimate,
    line_rule,
    shaken,
    two_input_covariances,
    with_shakes,
)
from scalewise.networks import Network
from scalewise.theory._tables._line_moments import preactivation_names
from scalewise.theory._tables._line_table import estimates_of, line_table

Layers = Float[np.ndarray, "layer ..."]
Alone = Float[np.ndarray, " layer"]
_CURVED = ((2, 0, 0, 0), (1, 1, 0, 0))
Expectations = dict[tuple[str, int], np.ndarray]


def one_input(net: Network, K: Float[np.ndarray, "layer 1 1"]) -> dict[str, tuple[Layers, Layers]]:
    r"""$V$, and $G^{\{1\}}$ where the activation is continuous, with their errors, by letter."""
    values, errors = _expectations(net, K[:, :, 0])
    runs = [_recursion(net, K[:, 0, 0], values)]
    for seed in range(SHAKES):
        moved = {
            key: shaken(value, errors[key], (seed, place))
            for place, (key, value) in enumerate(values.items())
        }
        runs.append(_recursion(net, K[:, 0, 0], moved))
    V, G1 = (with_shakes([run[place][None] for run in runs]) for place in (0, 1))
    found = {"V": [part.reshape(-1, 1, 1, 1, 1) for part in V]}
    if net.activation.is_continuous:
        found["G1"] = [part.reshape(-1, 1, 1) for part in G1]
    return {letter: (value, error) for letter, (value, error) in found.items()}


def _expectations(
    net: Network, K: Float[np.ndarray, "layer 1"]
) -> tuple[Expectations, Expectations]:
    """By name and layer: of the layer from tables, and those that it has with each layer below; their errors."""
    sigma = net.activation
    table = estimates_of(line_table(sigma, preactivation_names(sigma)), K)
    values, errors = (
        {(name, m): entry for name, of_all in known.items() for m, entry in enumerate(of_all)}
        for known in table
    )
    remembered = memory(net)
    for m in range(1, net.depth - 1):
        seen = np.flatnonzero(remembered[:m, m])
        if not seen.size:
            continue
        early = K[seen, 0]
        late, cross = np.full(seen.size, K[m, 0]), remembered[seen, m] * early
        found = {"own": two_input_covariances(sigma, (late, early, cross), [_SQUARES])[_SQUARES]}
        if sigma.is_continuous:
            found["curved"] = own_past(sigma, late, early, cross)
        for name, estimate in found.items():
            values[name, m], errors[name, m] = np.zeros((2, m))
            values[name, m][seen], errors[name, m][seen] = estimate.value, estimate.error
    return values, errors


_SQUARES = ((0, 0, 0, 0), 0b1100)  # Cov[σ²(z_a), σ²(z_b)]


def _recursion(
    net: Network, K: Float[np.ndarray, " layer"], E: Expectations
) -> Float[np.ndarray, "2 layer"]:
    r"""$V$ and $G^{\{1\}}$."""
    g, out = np.zeros(0), np.zeros((2, net.depth))
    A, beta, G1 = 0.0, 0.0, 0.0
    for m in range(net.depth - 1):
        C_W, skip, n = net.C_W[m + 1], net.skips[m + 1] ** 2, net.widths[m + 1]
        slope, bend, spread = (float(E[name, m][0]) for name in ("g1", "g2", "vss"))
        own, curved = (E.get((name, m), 0 * g) for name in ("own", "curved"))
        chi = skip + C_W * slope
        G1 = chi * G1 + C_W * (0.5 * bend * A + float(g @ curved) / n)
        A = chi**2 * A + C_W * (2 * chi * float(g @ own) + C_W * spread) / n
        beta = skip * (chi * beta + 2 * C_W * slope * K[m] ** 2 / n)
        g = np.append(chi * g, C_W)
        out[:, m + 1] = n * (A + 2 * beta), n * G1
    return out


def memory(net: Network) -> Float[np.ndarray, "layer later"]:
    r"""The product of the $\gamma$ between two layers; 0 below the diagonal, 1 on it."""
    out = np.eye(net.depth)
    for later in range(1, net.depth):
        out[:later, later] = out[:later, later - 1] * net.skips[later]
    return out


def own_past(sigma: Activation, late: Alone, early: Alone, cross: Alone) -> Estimate:
    r"""$\mathrm{Cov}[(\sigma\sigma''+\sigma'\sigma')(z_\ell),\sigma^2(z_k)]$ of one input, late and early."""
    wanted = [(family, 0b1100) for family in _CURVED]
    curved, sloped = two_input_covariances(sigma, (late, early, cross), wanted).values()
    kinks = np.array([_kinks_of_one(sigma, *at) for at in zip(late, early, cross, strict=True)])
    return Estimate(curved.value + sloped.value + kinks, curved.error + sloped.error, "covariance")


def _density(kappa: float, variance: float) -> float:
    return math.exp(-(kappa**2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)


def _kinks_of_one(sigma: Activation, late: float, early: float, cross: float) -> float:
    r"""$\mathrm{Cov}[[\sigma']\,\delta_\kappa(z)\,\sigma(z),\sigma^2(z_k)]$, summed over kinks."""
    total = 0.0
    for kink in sigma.kinks:
        kappa = kink.location
        factor = kink.slope_jump * _density(kappa, late) * float(sigma(np.array([kappa]))[0])
        if factor:
            z, w = line_rule(np.array(early), sigma.split_points, 4)
            centre = cross / late * kappa
            splits = [point - centre for point in sigma.split_points]
            y, v = line_rule(np.array(early - cross**2 / late), splits, 4)
            total += factor * float(v @ sigma(centre + y) ** 2 - w @ sigma(z) ** 2)
    return total
