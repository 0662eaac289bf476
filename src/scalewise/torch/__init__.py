"""Plans for models of PyTorch: what `scalewise.plan` decides, read from modules and written to them."""

from scalewise._extras import require

require("torch", for_="`scalewise.torch`", extra="torch")

from scalewise.torch._curvature import curvature
from scalewise.torch._plan import TorchPlan, load, plan
from scalewise.torch._tangents import tangents

__all__ = ["TorchPlan", "curvature", "load", "plan", "tangents"]
