"""Real networks beside the theory of their training: what it needs of them."""

from scalewise._extras import require

require("jax", "zarr", for_="Real networks (`scalewise.training.dynamics.networks`)", extra="nets")

from scalewise.training.dynamics.networks._state import features_of as features_of
from scalewise.training.dynamics.networks._state import state_of as state_of
