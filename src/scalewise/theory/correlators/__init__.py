"""Correlators of any observable with the NTK, weight insertions, tensors by neurons and layers."""

from scalewise.theory.correlators._correlators import (
    dntk_correlation,
    ntk_correlation,
)
from scalewise.theory.correlators._insertions import (
    stochastic_metric,
    weight_generating_function,
    weight_moments,
)
from scalewise.theory.correlators._interlayer import (
    InterlayerCovariance,
    interlayer_covariance,
)
from scalewise.theory.correlators._nearly_gaussian import (
    intralayer_covariance,
    nearly_gaussian_expectation,
)
from scalewise.theory.correlators._neuron_tensors import (
    four_preactivations,
    mean_first_ddntk,
    mean_second_ddntk,
    ntk_with_ntk,
    preactivation_with_dntk,
    preactivations_with_ntk,
)

__all__ = [
    "InterlayerCovariance",
    "dntk_correlation",
    "four_preactivations",
    "interlayer_covariance",
    "intralayer_covariance",
    "mean_first_ddntk",
    "mean_second_ddntk",
    "nearly_gaussian_expectation",
    "ntk_correlation",
    "ntk_with_ntk",
    "preactivation_with_dntk",
    "preactivations_with_ntk",
    "stochastic_metric",
    "weight_generating_function",
    "weight_moments",
]
