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
from scalewise.theory.correlators._neuron_tensors import neuron_tensor

__all__ = [
    "InterlayerCovariance",
    "dntk_correlation",
    "interlayer_covariance",
    "intralayer_covariance",
    "nearly_gaussian_expectation",
    "neuron_tensor",
    "ntk_correlation",
    "stochastic_metric",
    "weight_generating_function",
    "weight_moments",
]
