r"""The metric of a residual network beyond infinite width, for several inputs.

In the notation of `residual`, $G^{\{1\}}$ of a pair $(a,b)$ of inputs depends on those two alone, because
$g_{\ell k}$ takes $\xi_{aa},\xi_{ab},\xi_{bb}$ to $\delta K_{aa},\delta K_{ab},\delta K_{bb}$. The new terms are
$$\mathrm{Cov}\big[\big(\tfrac12\sigma''_a\sigma_b,\;\sigma'_a\sigma'_b,\;\tfrac12\sigma_a\sigma''_b\big)^{(\ell)},\;
  \big(\sigma_a\sigma_a,\;\sigma_a\sigma_b,\;\sigma_b\sigma_b\big)^{(k)}\big],$$
over the four variables $z_a,z_b$ of the two layers, with covariance $\gamma^{\ell-k}K^{(k)}$ between them. A
kink of $\sigma$ leaves the density of $z_a$ there times a covariance given that it is there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.gaussian import combined, joint_rule, line_rule
from scalewise.networks import Network
from scalewise.networks._inputs import check_inputs
from scalewise.theory.flow._layer import POINTS, SCRAMBLES, Layer
from scalewise.theory.flow._pairs import (
    FIRST,
    SECOND,
    Pairs,
    curvature,
    moments_on_pairs,
    values_of,
)
from scalewise.theory.residual._residual import (
    memory,
    metric_jacobian,
    residual_fluctuations,
    residual_kernels,
)

__all__ = ["ResidualMetric", "covariances_of_layers", "drift", "residual_metric"]

Samples = Float[np.ndarray, "layer sample sample"]
_FAMILIES = ((2, 0, 0, 0), (1, 1, 0, 0))


@dataclass(frozen=True)
class ResidualMetric:
    r"""The metric of a residual network at order 1 and at order $1/n$.

    Args:
        K: Kernel, preactivation².
        G1: $G^{\{1\}}$, coefficient of $1/n_{\ell-1}$, preactivation².
        G1_error: Its estimated numerical error.
    """

    K: Samples
    G1: Samples
    G1_error: Samples


def residual_metric(net: Network, x: Any) -> ResidualMetric:
    r"""$G^{\{1\}}$ of a residual network on given inputs, with the whole memory of the neurons.

    Args:
        net: The residual network; its activation is continuous.
        x: Inputs (samples, features). Each pair of inputs takes a four-dimensional expectation for
            every pair of layers.

    Returns:
        The metric: rtol 1e-9 for one input; for two what the product rule, or samples where there are
        kinks, give, with an error bar.

    Raises:
        ValueError: If the inputs do not fit, the activation jumps, or the kernel explodes or vanishes.

    Source: derived as PDLT (4.115) with the memory of `residual`; for one input it is
    `residual_single_input`, and at $\gamma=0$ PDLT (4.115).

    Example:
        >>> import scalewise as sw
        >>> from scalewise.networks import ResidualMLP
        >>> from scalewise.theory.residual import residual_metric
        >>> net = ResidualMLP(3, 50, "sin", gamma=[0, 0.7, 0.7], input_dim=2, output_dim=50)
        >>> residual_metric(net, [[1.0, 0.2], [0.9, 0.9]]).G1[2].round(4)
        array([[-0.1003, -0.0915],
               [-0.0915, -0.1013]])
    """
    sigma = net.activation
    if not sigma.is_continuous:
        raise ValueError(
            f"The metric at order 1/n does not exist for a residual network of {sigma.name!r}, which "
            "jumps: choose a continuous activation."
        )
    inputs = check_inputs(net, x, skips=True)
    pairs = Pairs.of(len(inputs))
    K, _ = residual_kernels(net, inputs)
    return ResidualMetric(K, *drift(net, K, pairs, residual_fluctuations(net, K, pairs)))


def drift(
    net: Network, K: Samples, pairs: Pairs, runs: list[list[tuple[np.ndarray, np.ndarray]]]
) -> tuple[Samples, Samples]:
    r"""$G^{\{1\}}$ and its error.

    Args:
        net: The residual network.
        K: Its kernel.
        pairs: Of its inputs.
        runs: What fluctuates, as `residual_fluctuations` found it.
    """
    sigma = net.activation
    G1, G1_error = np.zeros_like(K), np.zeros_like(K)
    remembered, size = memory(net), pairs.first.size
    fluctuating = [None, *runs]
    metric, slips = np.zeros((1, size)), np.zeros(size)
    response: list[np.ndarray] = []  # g_(l k) of each earlier layer k, over pairs and pairs
    for m in range(net.depth - 1):
        C_W, skip, n = net.C_W[m + 1], net.skips[m + 1] ** 2, net.widths[m + 1]
        moments = moments_on_pairs(sigma, K[m], pairs, (*FIRST, *SECOND))
        M = values_of(moments)

        def push(delta: np.ndarray, C_W: float = C_W, skip: float = skip, M=M) -> np.ndarray:
            return C_W * metric_jacobian(M, pairs, delta) + skip * delta

        own, doubt = np.zeros(size), np.zeros(size)
        for k in range(m):
            if remembered[k, m]:
                layers = K[m], remembered[k, m] * K[k], K[k]
                value, error = _own_past(sigma, layers, pairs, response[k])
                own, doubt = own + value / n, doubt + error / n
        bent = [np.zeros((1, size))]
        if (here := fluctuating[m]) is not None:
            bent = [0.5 * curvature(M, pairs, A) for _, A in here]
            doubt = doubt + 3 * np.max(
                [np.abs(b[0] - combined(bent[0])[0]) for b in bent[1:]], axis=0
            )
        metric = push(metric[:, :, None])[..., 0] + C_W * (bent[0] + own)
        slips = np.abs(push(slips[None, :, None])[0, :, 0]) + C_W * doubt
        response = [push(g[None])[0] for g in response] + [C_W * np.eye(size)]
        value, error = combined(metric)
        G1[m + 1] = pairs.two_legs(n * value)
        G1_error[m + 1] = pairs.two_legs(n * (error + slips + 1e-12 * np.abs(value)))
    return G1, G1_error


def _own_past(
    sigma: Activation,
    layers: tuple[np.ndarray, np.ndarray, np.ndarray],
    pairs: Pairs,
    response: Float[np.ndarray, "pair pair"],
) -> tuple[Float[np.ndarray, " pair"], Float[np.ndarray, " pair"]]:
    """What a neuron's own values in an earlier layer do to its metric, for every pair of inputs."""
    late, cross, early = layers
    values, errors = np.zeros((2, pairs.first.size))
    for place, (a, b) in enumerate(zip(pairs.first, pairs.second, strict=True)):
        two = [a] if a == b else [a, b]
        at = np.ix_(two, two)
        joint = np.block([[late[at], cross[at]], [cross[at].T, early[at]]])
        triple = [pairs.index[a, a]] if a == b else [pairs.index[a, a], place, pairs.index[b, b]]
        g = response[np.ix_(triple, triple)]
        cov, slip = covariances_of_layers(sigma, joint)
        values[place], noise = combined(np.einsum("gd,egd->e", g, cov))
        errors[place] = noise + np.sum(np.abs(g) * slip)
    return values, errors


def covariances_of_layers(
    sigma: Activation, joint: np.ndarray
) -> tuple[Float[np.ndarray, "_estimate late early"], Float[np.ndarray, "late early"]]:
    r"""$\mathrm{Cov}[\partial_\gamma(\sigma_a\sigma_b),(\sigma\sigma)_\delta]$ of one or two inputs in two layers.

    Args:
        sigma: The activation.
        joint: Covariance of the variables of the later layer and of the earlier one.
    """
    layer = Layer(sigma, joint)
    curved, sloped = (layer.covariance(family) for family in _FAMILIES)
    curved_error, sloped_error = (
        layer.of_family(family)["covariance"].error for family in _FAMILIES
    )
    half = len(joint) // 2
    if half == 1:
        value = curved[:, 0, 0, 1, 1] + sloped[:, 0, 0, 1, 1] + _kinks_of_one(sigma, joint)
        error = curved_error[0, 0, 1, 1] + sloped_error[0, 0, 1, 1]
        return value[:, None, None], np.full((1, 1), error)
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


def _kinks_of_one(sigma: Activation, joint: np.ndarray) -> float:
    r"""$\mathrm{Cov}[[\sigma']\,\delta_\kappa(z)\,\sigma(z),\sigma^2(z_k)]$, summed over kinks."""
    total, (late, cross, early) = 0.0, (joint[0, 0], joint[0, 1], joint[1, 1])
    z, w = line_rule(np.array(early), sigma.split_points, 4)
    mean = float(w @ sigma(z) ** 2)
    for kink in sigma.kinks:
        kappa = kink.location
        factor = kink.slope_jump * _density(kappa, late) * float(sigma(np.array([kappa]))[0])
        if factor:
            centre = cross / late * kappa
            splits = [point - centre for point in sigma.split_points]
            y, v = line_rule(np.array(early - cross**2 / late), splits, 4)
            total += factor * (float(v @ sigma(centre + y) ** 2) - mean)
    return total


def _kinks_of_two(
    sigma: Activation, joint: np.ndarray, bent: int
) -> Float[np.ndarray, "_estimate early"]:
    r"""$\mathrm{Cov}[[\sigma']\,\delta_\kappa(z_a)\,\sigma(z_b),(\sigma\sigma)_\delta]$, summed over kinks.

    Args:
        sigma: The activation.
        joint: As for `covariances_of_layers`.
        bent: Which of the two later variables is $z_a$.
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
