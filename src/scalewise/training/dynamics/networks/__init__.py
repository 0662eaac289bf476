"""Real networks beside the theory of their training: what it needs of them."""

from scalewise._extras import require

require("jax", "zarr", for_="Real networks (`scalewise.training.dynamics.networks`)", extra="nets")

from scalewise.training.dynamics.networks._state import features_of, state_of

__all__ = ["features_of", "state_of"]
