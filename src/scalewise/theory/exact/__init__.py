"""What is known exactly: linear networks, and every differential of one hidden layer."""

from scalewise.theory.exact._differentials import (
    mean_shallow_differential,
    shallow_differential,
    sigma_derivative,
)
from scalewise.theory.exact._linear_networks import (
    connected_linear_correlator,
    cumulants,
    double_scaling_moment,
    linear_correlator,
    linear_vertex,
    metric_moments,
    observable_covariance,
    pairing_factor,
)

__all__ = [
    "connected_linear_correlator",
    "cumulants",
    "double_scaling_moment",
    "linear_correlator",
    "linear_vertex",
    "mean_shallow_differential",
    "metric_moments",
    "observable_covariance",
    "pairing_factor",
    "shallow_differential",
    "sigma_derivative",
]
