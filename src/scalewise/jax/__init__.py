"""Plans for models of jax: plain trees, Equinox modules, Flax NNX modules and Linen's variables."""

from scalewise._extras import require

require("jax", for_="`scalewise.jax`", extra="jax")

from scalewise.jax._curvature import curvature
from scalewise.jax._plan import JaxPlan, load, plan
from scalewise.jax._proof import check_transfer, tune
from scalewise.jax._tangents import tangents

__all__ = ["JaxPlan", "check_transfer", "curvature", "load", "plan", "tangents", "tune"]
