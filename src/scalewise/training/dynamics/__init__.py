"""Training at finite width, network by network: outputs, NTK and dNTK move together.

Nothing here knows parameters; `scalewise.training.dynamics.networks` does.
"""

from scalewise.training.dynamics._evolution import effective_dynamics as effective_dynamics
from scalewise.training.dynamics._evolution import effective_step as effective_step
from scalewise.training.dynamics._free import FreeTheory as FreeTheory
from scalewise.training.dynamics._free import free_theory as free_theory
from scalewise.training.dynamics._interacting import damping_force as damping_force
from scalewise.training.dynamics._interacting import dynamical_dntk as dynamical_dntk
from scalewise.training.dynamics._interacting import interacting_outputs as interacting_outputs
from scalewise.training.dynamics._interacting import interaction_ntk as interaction_ntk
from scalewise.training.dynamics._newton import leap as leap
from scalewise.training.dynamics._newton import newton_tensor as newton_tensor
from scalewise.training.dynamics._newton import tuned_newton_tensor as tuned_newton_tensor
from scalewise.training.dynamics._newton import two_step_outputs as two_step_outputs
from scalewise.training.dynamics._state import NetworkState as NetworkState
from scalewise.training.dynamics._state import Targets as Targets
from scalewise.training.dynamics._trained import TensorWeights as TensorWeights
from scalewise.training.dynamics._trained import force_sum as force_sum
from scalewise.training.dynamics._trained import trained_ntk as trained_ntk
from scalewise.training.dynamics._trained import trained_outputs as trained_outputs
