"""What the theory says of a network at initialisation: exact recursions, no randomness."""

from scalewise.theory._predict import predict
from scalewise.theory.asymptotics import Asymptotics, asymptotics, leading_forms
from scalewise.theory.scaling_ansatz import (
    ScalingFit,
    fit_scaling,
    normalised_exponents,
    relevance,
)
from scalewise.theory.single_input import (
    SingleInputFlow,
    gradient_norms,
    ntk_layer_contributions,
    single_input_flow,
)

__all__ = [
    "Asymptotics",
    "ScalingFit",
    "SingleInputFlow",
    "asymptotics",
    "fit_scaling",
    "gradient_norms",
    "leading_forms",
    "normalised_exponents",
    "ntk_layer_contributions",
    "predict",
    "relevance",
    "single_input_flow",
]
