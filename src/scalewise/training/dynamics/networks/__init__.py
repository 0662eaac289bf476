"""Real networks beside the theory of their training: what it needs of them, and Newton updates."""

from scalewise._extras import require

require("jax", "zarr", for_="Real networks (`scalewise.training.dynamics.networks`)", extra="nets")

from scalewise.training.dynamics.networks._newton import (
    newton_update,
    trained_parameters,
    two_step_newton,
)
from scalewise.training.dynamics.networks._state import features_of, outputs_of, state_of

__all__ = [
    "features_of",
    "newton_update",
    "outputs_of",
    "state_of",
    "trained_parameters",
    "two_step_newton",
]
