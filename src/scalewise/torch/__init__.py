"""Plans for models of PyTorch: what `scalewise.plan` decides, read from modules and written to them."""

from scalewise._extras import require

require("torch", for_="`scalewise.torch`", extra="torch")

from scalewise.plan.spi import check_transfer as check_transfer
from scalewise.plan.spi import tune as tune
from scalewise.torch._applied import TorchPlan as TorchPlan
from scalewise.torch._audit import audit as audit
from scalewise.torch._critical import critical as critical
from scalewise.torch._curvature import curvature as curvature
from scalewise.torch._exporters import to_megatron as to_megatron
from scalewise.torch._exporters import to_torchtitan as to_torchtitan
from scalewise.torch._nano import to_modded_nanogpt as to_modded_nanogpt
from scalewise.torch._nano import to_muon_package as to_muon_package
from scalewise.torch._nano import to_nanochat as to_nanochat
from scalewise.torch._plan import load as load
from scalewise.torch._plan import plan as plan
from scalewise.torch._reading import network as network
from scalewise.torch._signals import signals as signals
from scalewise.torch._tangents import tangents as tangents
from scalewise.torch._trainers import optimizer_for as optimizer_for
from scalewise.torch._trainers import trainer_optimizer as trainer_optimizer
from scalewise.torch._trainers import undecayed as undecayed
