"""Plans for models of jax: plain trees, Equinox modules, Flax NNX modules and Linen's variables."""

from scalewise._extras import require

require("jax", for_="`scalewise.jax`", extra="jax")

from scalewise.jax._applied import JaxPlan as JaxPlan
from scalewise.jax._audit import audit as audit
from scalewise.jax._curvature import curvature as curvature
from scalewise.jax._exported import muon_dimensions as muon_dimensions
from scalewise.jax._exported import to_partition as to_partition
from scalewise.jax._plan import load as load
from scalewise.jax._plan import plan as plan
from scalewise.jax._reading import network as network
from scalewise.jax._tangents import tangents as tangents
from scalewise.plan.spi import check_transfer as check_transfer
from scalewise.plan.spi import tune as tune
