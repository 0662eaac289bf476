"""Kernel learning in pieces: linear models and their dual, single steps, two nearby inputs, Bayesian rates."""

from scalewise.training.kernels._hidden import hidden_update as hidden_update
from scalewise.training.kernels._linear_models import feature_kernel as feature_kernel
from scalewise.training.kernels._linear_models import fit_features as fit_features
from scalewise.training.kernels._linear_models import gaussian_kernel as gaussian_kernel
from scalewise.training.kernels._linear_models import kernel_machine as kernel_machine
from scalewise.training.kernels._linear_models import last_layer_features as last_layer_features
from scalewise.training.kernels._priors import bayes_rates as bayes_rates
from scalewise.training.kernels._priors import decay_of_prior as decay_of_prior
from scalewise.training.kernels._star_polation import star_polation as star_polation
from scalewise.training.kernels._steps import generalised_loss as generalised_loss
from scalewise.training.kernels._steps import giant_leap as giant_leap
from scalewise.training.kernels._steps import outputs_of as outputs_of
from scalewise.training.kernels._steps import parameter_step as parameter_step
from scalewise.training.kernels._steps import two_step_newton as two_step_newton
from scalewise.training.kernels._steps import weight_decay_tensor as weight_decay_tensor
