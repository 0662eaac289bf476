"""Correlators of any observable with the NTK, weight insertions, tensors by neurons and layers."""

from scalewise.theory.correlators._correlators import dntk_correlation as dntk_correlation
from scalewise.theory.correlators._correlators import ntk_correlation as ntk_correlation
from scalewise.theory.correlators._insertions import stochastic_metric as stochastic_metric
from scalewise.theory.correlators._insertions import (
    weight_generating_function as weight_generating_function,
)
from scalewise.theory.correlators._insertions import weight_moments as weight_moments
from scalewise.theory.correlators._interlayer import interlayer_covariance as interlayer_covariance
from scalewise.theory.correlators._nearly_gaussian import (
    intralayer_covariance as intralayer_covariance,
)
from scalewise.theory.correlators._nearly_gaussian import (
    nearly_gaussian_expectation as nearly_gaussian_expectation,
)
from scalewise.theory.correlators._neuron_tensors import neuron_tensor as neuron_tensor
