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
from scalewise.theory.layer_contributions import gradient_norms, ntk_layer_contributions
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
    "NearbyInputs",
    "ScalingFit",
    "SingleInputFlow",
    "angle_flow",
    "assemble",
    "asymptotics",
    "crossover_depth",
    "deep_angle",
    "deep_ntk_angle",
    "finite_width_ratios",
    "fit_scaling",
    "gradient_norms",
    "interpolation_variance",
    "kernel_angle",
    "leading_forms",
    "nearby_expectation",
    "nearby_inputs_flow",
    "normalised_exponents",
    "ntk_layer_contributions",
    "output_scale",
    "predict",
    "project",
    "relevance",
    "robustness",
    "single_input_flow",
]
