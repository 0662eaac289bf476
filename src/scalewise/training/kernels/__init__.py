"""Kernel learning in pieces: linear models and their dual, single steps, two nearby inputs, Bayesian rates."""

from scalewise.training.kernels._hidden import HiddenUpdate, hidden_update
from scalewise.training.kernels._linear_models import (
    feature_kernel,
    fit_features,
    gaussian_kernel,
    kernel_machine,
    last_layer_features,
)
from scalewise.training.kernels._priors import bayes_rates, decay_of_prior
from scalewise.training.kernels._star_polation import star_polation
from scalewise.training.kernels._steps import (
    Step,
    generalised_loss,
    giant_leap,
    outputs_of,
    parameter_step,
    two_step_newton,
    weight_decay_tensor,
)

__all__ = [
    "HiddenUpdate",
    "Step",
    "bayes_rates",
    "decay_of_prior",
    "feature_kernel",
    "fit_features",
    "gaussian_kernel",
    "generalised_loss",
    "giant_leap",
    "hidden_update",
    "kernel_machine",
    "last_layer_features",
    "outputs_of",
    "parameter_step",
    "star_polation",
    "two_step_newton",
    "weight_decay_tensor",
]
