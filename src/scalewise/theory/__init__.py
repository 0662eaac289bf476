"""What the theory says of a network at initialisation: exact recursions, no randomness."""

from scalewise.theory._predict import predict
from scalewise.theory.angles import (
    AngleFlow,
    angle_flow,
    crossover_depth,
    deep_angle,
    deep_ntk_angle,
    kernel_angle,
)
from scalewise.theory.asymptotics import Asymptotics, asymptotics, leading_forms
from scalewise.theory.correlators import dntk_correlation, ntk_correlation
from scalewise.theory.insertions import (
    stochastic_metric,
    weight_generating_function,
    weight_moments,
)
from scalewise.theory.interlayer import InterlayerCovariance, interlayer_covariance
from scalewise.theory.layer_contributions import gradient_norms, ntk_layer_contributions
from scalewise.theory.neuron_tensors import (
    four_preactivations,
    mean_first_ddntk,
    mean_second_ddntk,
    ntk_with_ntk,
    preactivation_with_dntk,
    preactivations_with_ntk,
)
from scalewise.theory.perturbations import (
    NearbyInputs,
    assemble,
    interpolation_variance,
    nearby_expectation,
    nearby_inputs_flow,
    project,
    robustness,
)
from scalewise.theory.ratios import finite_width_ratios, output_scale
from scalewise.theory.scaling_ansatz import (
    ScalingFit,
    fit_scaling,
    normalised_exponents,
    relevance,
)
from scalewise.theory.single_input import SingleInputFlow, single_input_flow

__all__ = [
    "AngleFlow",
    "Asymptotics",
    "InterlayerCovariance",
    "NearbyInputs",
    "ScalingFit",
    "SingleInputFlow",
    "angle_flow",
    "assemble",
    "asymptotics",
    "crossover_depth",
    "deep_angle",
    "deep_ntk_angle",
    "dntk_correlation",
    "finite_width_ratios",
    "fit_scaling",
    "four_preactivations",
    "gradient_norms",
    "interlayer_covariance",
    "interpolation_variance",
    "kernel_angle",
    "leading_forms",
    "mean_first_ddntk",
    "mean_second_ddntk",
    "nearby_expectation",
    "nearby_inputs_flow",
    "normalised_exponents",
    "ntk_correlation",
    "ntk_layer_contributions",
    "ntk_with_ntk",
    "output_scale",
    "preactivation_with_dntk",
    "preactivations_with_ntk",
    "predict",
    "project",
    "relevance",
    "robustness",
    "single_input_flow",
    "stochastic_metric",
    "weight_generating_function",
    "weight_moments",
]
