"""The action of the preactivations, its running couplings, and how many numbers a theory takes."""

from scalewise.theory.action._complexity import (
    finite_width_couplings,
    finite_width_numbers,
    functions_in_a_model,
    infinite_width_numbers,
    numbers_at_order,
    parameters_of_a_model,
    random_labelings,
)
from scalewise.theory.action._couplings import (
    action,
    action_expectation,
    couplings,
    marginalise,
    metric_and_vertex,
)
from scalewise.theory.action._single_input_couplings import (
    action_cumulants,
    nlo_couplings,
    quadratic_coupling,
    quartic_coupling,
    running_quadratic_coupling,
    sextic_coupling,
    six_point_vertex,
)

__all__ = [
    "action",
    "action_cumulants",
    "action_expectation",
    "couplings",
    "finite_width_couplings",
    "finite_width_numbers",
    "functions_in_a_model",
    "infinite_width_numbers",
    "marginalise",
    "metric_and_vertex",
    "nlo_couplings",
    "numbers_at_order",
    "parameters_of_a_model",
    "quadratic_coupling",
    "quartic_coupling",
    "random_labelings",
    "running_quadratic_coupling",
    "sextic_coupling",
    "six_point_vertex",
]
