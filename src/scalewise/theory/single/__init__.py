"""Every tensor of one input to any depth, its layers' shares, and nearby inputs."""

from scalewise.theory.single._layer_contributions import gradient_norms as gradient_norms
from scalewise.theory.single._layer_contributions import (
    ntk_layer_contributions as ntk_layer_contributions,
)
from scalewise.theory.single._perturbations import NearbyInputs as NearbyInputs
from scalewise.theory.single._perturbations import assemble as assemble
from scalewise.theory.single._perturbations import interpolation_variance as interpolation_variance
from scalewise.theory.single._perturbations import nearby_expectation as nearby_expectation
from scalewise.theory.single._perturbations import nearby_inputs_flow as nearby_inputs_flow
from scalewise.theory.single._perturbations import project as project
from scalewise.theory.single._perturbations import robustness as robustness
from scalewise.theory.single._single_input import SingleInputFlow as SingleInputFlow
from scalewise.theory.single._single_input import single_input_flow as single_input_flow
from scalewise.theory.single._single_input import single_input_vertex as single_input_vertex
