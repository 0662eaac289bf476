"""The action of the preactivations, its running couplings, and how many numbers a theory takes."""

from scalewise.theory.action._complexity import finite_width_couplings as finite_width_couplings
from scalewise.theory.action._complexity import finite_width_numbers as finite_width_numbers
from scalewise.theory.action._complexity import functions_in_a_model as functions_in_a_model
from scalewise.theory.action._complexity import infinite_width_numbers as infinite_width_numbers
from scalewise.theory.action._complexity import numbers_at_order as numbers_at_order
from scalewise.theory.action._complexity import parameters_of_a_model as parameters_of_a_model
from scalewise.theory.action._complexity import random_labelings as random_labelings
from scalewise.theory.action._couplings import action as action
from scalewise.theory.action._couplings import action_expectation as action_expectation
from scalewise.theory.action._couplings import couplings as couplings
from scalewise.theory.action._couplings import marginalise as marginalise
from scalewise.theory.action._couplings import metric_and_vertex as metric_and_vertex
from scalewise.theory.action._single_input_couplings import action_cumulants as action_cumulants
from scalewise.theory.action._single_input_couplings import nlo_couplings as nlo_couplings
from scalewise.theory.action._single_input_couplings import quadratic_coupling as quadratic_coupling
from scalewise.theory.action._single_input_couplings import quartic_coupling as quartic_coupling
from scalewise.theory.action._single_input_couplings import (
    running_quadratic_coupling as running_quadratic_coupling,
)
from scalewise.theory.action._single_input_couplings import sextic_coupling as sextic_coupling
from scalewise.theory.action._single_input_couplings import six_point_vertex as six_point_vertex
