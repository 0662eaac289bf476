"""Plans for models of PyTorch: what `scalewise.plan` decides, read from modules and written to them."""

from scalewise._extras import require

require("torch", for_="`scalewise.torch`", extra="torch")

from scalewise.torch._plan import TorchPlan, load, plan
from scalewise.torch._proof import check_transfer
from scalewise.torch._tangents import tangents
from scalewise.torch._tune import tune

__all__ = ["TorchPlan", "check_transfer", "load", "plan", "tangents", "tune"]
