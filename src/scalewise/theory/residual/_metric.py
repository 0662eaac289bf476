r"""The metric of a residual network beyond infinite width, for several inputs.

In the notation of `_vertex`, $G^{\{1\}}$ of a pair $(a,b)$ of inputs depends on those two alone, because
$g_{\ell k}$ takes $\xi_{aa},\xi_{ab},\xi_{bb}$ to $\delta K_{aa},\delta K_{ab},\delta K_{bb}$. The new terms are
$$\mathrm{Cov}\big[\big(\tfrac12\sigma''_a\sigma_b,\;\sigma'_a\sigma'_b,\;\tfrac12\sigma_a\sigma''_b\big)^{(\ell)},\;
  \big(\sigma_a\sigma_a,\;\sigma_a\sigma_b,\;\sigma_b\sigma_b\big)^{(k)}\big],$$
over the four variables $z_a,z_b$ of the two layers, with covariance $\gamma^{\ell-k}K^{(k)}$ between them. A
kink of $\sigma$ leaves the density of $z_a$ there times a covariance given that it is there.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.gaussian import Estimate, combined, joint_rule, line_rule, two_input_covariances
from scalewise.networks._perceptron import Perceptron
from scalewise.theory.flow._layer import POINTS, SCRAMBLES, Layer
from scalewise.theory.flow._pairs import (
    FIRST,
    SECOND,
    Pairs,
    curvature,
    jacobian,
    moments_on_pairs,
    values_of,
)
from scalewise.theory.residual._vertex import Runs, memory, response

Samples = Float[np.ndarray, "layer sample sample"]
Layers = Float[np.ndarray, " layer"]
_FAMILIES = ((2, 0, 0, 0), (1, 1, 0, 0))


def drift(net: Perceptron, K: Samples, pairs: Pairs, runs: Runs) -> tuple[Samples, Samples]:
    r"""$G^{\{1\}}$ and its error, from what fluctuates, as `fluctuations` found it."""
    G1, G1_error = np.zeros_like(K), np.zeros_like(K)
    remembered, size = memory(net), pairs.first.size
    fluctuating = [[(np.zeros((1, size, size)),) * 2], *runs]
    metric, slips = np.zeros((1, size)), np.zeros(size)
    g: list[np.ndarray] = []  # g_(l k) of each earlier layer k, over pairs and pairs
    for m in range(net.depth - 1):
        C_W, n = net.C_W[m + 1], net.widths[m + 1]
        M = values_of(moments_on_pairs(net.activation, K[m], pairs, (*FIRST, *SECOND)))
        P = response(net, m + 1, jacobian(M, pairs), pairs)
        own, doubt = np.zeros(size), np.zeros(size)
        for k in range(m):
            if remembered[k, m]:
                layers = K[m], remembered[k, m] * K[k], K[k]
                value, error = _pasts(net.activation, layers, pairs, g[k])
                own, doubt = own + value / n, doubt + error / n
        bent, *others = [0.5 * curvature(M, pairs, A) for _, A in fluctuating[m]]
        moved = [np.abs(other[0] - combined(bent)[0]) for other in others]
        doubt = doubt + 3 * np.max(moved, axis=0, initial=0.0)
        metric = metric @ P.T + C_W * (bent + own)
        slips = np.abs(P @ slips) + C_W * doubt
        g = [P @ one for one in g] + [C_W * np.eye(size)]
        value, error = combined(metric)
        G1[m + 1] = pairs.two_legs(n * value)
        G1_error[m + 1] = pairs.two_legs(n * (error + slips + 1e-12 * np.abs(value)))
    return G1, G1_error


def own_past(sigma: Activation, late: Layers, early: Layers, cross: Layers) -> Estimate:
    r"""$\mathrm{Cov}[(\sigma\sigma''+\sigma'\sigma')(z_\ell),\sigma^2(z_k)]$ of one input, late and early."""
    wanted = [(family, 0b1100) for family in _FAMILIES]
    curved, sloped = two_input_covariances(sigma, (late, early, cross), wanted).values()
    kinks = np.array([_kinks_of_one(sigma, *at) for at in zip(late, early, cross, strict=True)])
    return Estimate(curved.value + sloped.value + kinks, curved.error + sloped.error, "covariance")


def _pasts(
    sigma: Activation,
    layers: tuple[np.ndarray, np.ndarray, np.ndarray],
    pairs: Pairs,
    g: Float[np.ndarray, "pair pair"],
) -> tuple[Float[np.ndarray, " pair"], Float[np.ndarray, " pair"]]:
    """What a neuron's own values in an earlier layer do to its metric, for every pair of inputs."""
    late, cross, early = layers
    values, errors = np.zeros((2, pairs.first.size))
    for place, (a, b) in enumerate(zip(pairs.first, pairs.second, strict=True)):
        two = [a] if a == b else [a, b]
        at = np.ix_(two, two)
        joint = np.block([[late[at], cross[at]], [cross[at].T, early[at]]])
        triple = [pairs.index[a, a]] if a == b else [pairs.index[a, a], place, pairs.index[b, b]]
        here = g[np.ix_(triple, triple)]
        cov, slip = covariances_of_layers(sigma, joint)
        values[place], noise = combined(np.einsum("gd,egd->e", here, cov))
        errors[place] = noise + np.sum(np.abs(here) * slip)
    return values, errors


def covariances_of_layers(
    sigma: Activation, joint: np.ndarray
) -> tuple[Float[np.ndarray, "_estimate late early"], Float[np.ndarray, "late early"]]:
    r"""$\mathrm{Cov}[\partial_\gamma(\sigma_a\sigma_b),(\sigma\sigma)_\delta]$ of one or two inputs in two layers.

    `joint` is the covariance of the variables of the later layer and of the earlier one.
    """
    if len(joint) == 2:
        one = own_past(sigma, *(np.array([joint[at]]) for at in ((0, 0), (1, 1), (0, 1))))
        return one.value[:, None, None], one.error[:, None]
    layer = Layer(sigma, joint)
    curved, sloped = (layer.covariance(family) for family in _FAMILIES)
    curved_error, sloped_error = (
        layer.of_family(family)["covariance"].error for family in _FAMILIES
    )
    c, d = np.array([2, 2, 3]), np.array([2, 3, 3])
    rows = [0.5 * curved[:, 0, 1, c, d], sloped[:, 0, 1, c, d], 0.5 * curved[:, 1, 0, c, d]]
    slips = [curved_error[0, 1, c, d], sloped_error[0, 1, c, d], curved_error[1, 0, c, d]]
    at_a, at_b = _kinks_of_two(sigma, joint, 0), _kinks_of_two(sigma, joint, 1)
    rows[0], rows[2] = rows[0] + 0.5 * at_a, rows[2] + 0.5 * at_b
    most = max(len(row) for row in rows)
    return (
        np.stack([np.broadcast_to(row, (most, 3)) for row in rows], axis=1),
        np.array(slips),
    )


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


def _kinks_of_two(
    sigma: Activation, joint: np.ndarray, bent: int
) -> Float[np.ndarray, "_estimate early"]:
    r"""$\mathrm{Cov}[[\sigma']\,\delta_\kappa(z_a)\,\sigma(z_b),(\sigma\sigma)_\delta]$, summed over kinks.

    $z_a$ is the one of the two later variables that is `bent`.
    """
    total = np.zeros((1, 3))
    others = [i for i in range(4) if i != bent]
    rho = joint[others, bent] / joint[bent, bent]
    left = joint[np.ix_(others, others)] - np.outer(rho, joint[bent, others])
    M = Layer(sigma, joint[2:, 2:]).M(0, 0)
    means = np.array([M[0, 0], M[0, 1], M[1, 1]])
    rule = joint_rule(0.5 * (left + left.T), smooth=False, points=POINTS, scrambles=SCRAMBLES)
    for kink in sigma.kinks:
        if not kink.slope_jump:
            continue
        found = []
        for nodes, weights in rule.nodes():
            late, first, second = sigma(nodes + (rho * kink.location)[:, None])
            early = np.stack([first * first, first * second, second * second])
            found.append((late * weights) @ (early - means[:, None]).T)
        total = total + kink.slope_jump * _density(kink.location, joint[bent, bent]) * np.array(
            found
        )
    return total
