"""Every tensor of one input to any depth, its layers' shares, and nearby inputs."""

from scalewise.theory.single._layer_contributions import (
    gradient_norms,
    ntk_layer_contributions,
)
from scalewise.theory.single._perturbations import (
    NearbyInputs,
    assemble,
    interpolation_variance,
    nearby_expectation,
    nearby_inputs_flow,
    project,
    robustness,
)
from scalewise.theory.single._single_input import (
    SingleInputFlow,
    single_input_flow,
    single_input_vertex,
)

__all__ = [
    "NearbyInputs",
    "SingleInputFlow",
    "assemble",
    "gradient_norms",
    "interpolation_variance",
    "nearby_expectation",
    "nearby_inputs_flow",
    "ntk_layer_contributions",
    "project",
    "robustness",
    "single_input_flow",
    "single_input_vertex",
]
