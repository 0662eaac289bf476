"""Plans for models of PyTorch: what `scalewise.plan` decides, read from modules and written to them."""

from scalewise._extras import require

require("torch", for_="`scalewise.torch`", extra="torch")

from scalewise.torch._audit import audit
from scalewise.torch._curvature import curvature
from scalewise.torch._plan import TorchPlan, load, plan
from scalewise.torch._proof import check_transfer
from scalewise.torch._tangents import tangents
from scalewise.torch._trainers import optimizer_for, overrides, trainer_optimizer, undecayed
from scalewise.torch._tune import tune

__all__ = [
    "TorchPlan",
    "audit",
    "check_transfer",
    "curvature",
    "load",
    "optimizer_for",
    "overrides",
    "plan",
    "tangents",
    "trainer_optimizer",
    "tune",
    "undecayed",
]
