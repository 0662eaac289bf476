r"""Second derivatives at kinks, where they are densities: covariances of them with products of activations.

A derivative by parts of $\sigma(z_a)\sigma(z_b)$ has $[\sigma'](\kappa)\,\delta(z_a-\kappa)\,\sigma(z_b)$ in it at
each kink $\kappa$, and
$$\mathrm{Cov}[\delta(z_a-\kappa)\sigma_b,\sigma_c\sigma_d]=p_a(\kappa)\,\mathbb E\big[\sigma_b\,(\sigma_c\sigma_d
-\langle\sigma_c\sigma_d\rangle)\,\big|\,z_a=\kappa\big].$$

Source: derived.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int

from scalewise.activations import Activation
from scalewise.gaussian.spi import joint_rule
from scalewise.theory.flow._layer import POINTS, SCRAMBLES

Labels = Int[np.ndarray, " _pair"]


def densities(
    sigma: Activation,
    K: Float[np.ndarray, "label label"],
    first: tuple[Labels, Labels],
    second: tuple[Labels, Labels],
    means: Float[np.ndarray, " _pair"],
) -> Float[np.ndarray, "_pair _estimate _other"]:
    r"""The covariances of the densities of $\sigma''_a\sigma_b$ with $\sigma_c\sigma_d$, over all kinks.

    Args:
        sigma: The activation.
        K: Covariances of the preactivations.
        first: Labels $a$ and $b$ of each pair.
        second: Labels $c$ and $d$.
        means: $\langle\sigma_c\sigma_d\rangle$.
    """
    bent, beside = first
    c, d = second
    total = np.zeros((len(bent), SCRAMBLES, len(c)))
    for a in np.unique(bent):
        rows = np.flatnonzero(bent == a)
        variance = float(K[a, a])
        if variance == 0.0:
            continue
        rho = K[:, a] / variance
        left = K - np.outer(rho, K[a])
        rule = joint_rule(0.5 * (left + left.T), smooth=False, points=POINTS, scrambles=SCRAMBLES)
        for kink in sigma.kinks:
            if not kink.slope_jump:
                continue
            height = kink.slope_jump * density(kink.location, variance)
            for scramble, (nodes, weights) in enumerate(rule.nodes()):
                values = sigma(nodes + (rho * kink.location)[:, None])
                both = values[c] * values[d] - means[:, None]
                total[rows, scramble] += height * (values[beside[rows]] * weights) @ both.T
    return total


def density(kappa: float, variance: float) -> float:
    """The density of a Gaussian number of this variance at a kink."""
    return math.exp(-(kappa**2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
