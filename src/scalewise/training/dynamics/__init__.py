"""Training at finite width, network by network: outputs, NTK and dNTK move together.

Nothing here knows parameters; `scalewise.training.dynamics.networks` does.
"""

from scalewise.training.dynamics._evolution import effective_dynamics, effective_step
from scalewise.training.dynamics._free import FreeTheory, free_theory
from scalewise.training.dynamics._interacting import (
    damping_force,
    dynamical_dntk,
    interacting_outputs,
    interaction_ntk,
)
from scalewise.training.dynamics._newton import (
    leap,
    newton_tensor,
    tuned_newton_tensor,
    two_step_outputs,
)
from scalewise.training.dynamics._state import NetworkState, Targets
from scalewise.training.dynamics._trained import (
    Projectors,
    force_sum,
    trained_ntk,
    trained_outputs,
)

__all__ = [
    "FreeTheory",
    "NetworkState",
    "Projectors",
    "Targets",
    "damping_force",
    "dynamical_dntk",
    "effective_dynamics",
    "effective_step",
    "force_sum",
    "free_theory",
    "interacting_outputs",
    "interaction_ntk",
    "leap",
    "newton_tensor",
    "trained_ntk",
    "trained_outputs",
    "tuned_newton_tensor",
    "two_step_outputs",
]
