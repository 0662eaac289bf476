"""Entropy and mutual information of neurons, and the depth that carries most of it."""

from scalewise.theory.information._aspect_ratio import (
    optimal_aspect_ratio,
    optimal_depth,
    optimal_information,
    vertex_growth,
)
from scalewise.theory.information._discrete_information import (
    boltzmann_distribution,
    cross_entropy,
    entropy,
    kl_divergence,
    mutual_information,
    tripartite_information,
)
from scalewise.theory.information._information import (
    conditional_variance,
    entropy_correction,
    finite_width_entropy,
    finite_width_mutual_information,
    finite_width_tripartite_information,
    gaussian_entropy,
    gaussian_mutual_information,
    two_input_mutual_information,
)

__all__ = [
    "boltzmann_distribution",
    "conditional_variance",
    "cross_entropy",
    "entropy",
    "entropy_correction",
    "finite_width_entropy",
    "finite_width_mutual_information",
    "finite_width_tripartite_information",
    "gaussian_entropy",
    "gaussian_mutual_information",
    "kl_divergence",
    "mutual_information",
    "optimal_aspect_ratio",
    "optimal_depth",
    "optimal_information",
    "tripartite_information",
    "two_input_mutual_information",
    "vertex_growth",
]
