"""Model-agnostic meta-learning with one hidden layer, at any width, in the limit, and with kernels."""

from scalewise.limits.maml._gram import GramNet as GramNet
from scalewise.limits.maml._gram import adapted_outputs as adapted_outputs
from scalewise.limits.maml._gram import gram_net as gram_net
from scalewise.limits.maml._gram import step as step
from scalewise.limits.maml._kernels import KernelModel as KernelModel
from scalewise.limits.maml._kernels import ReluGP as ReluGP
from scalewise.limits.maml._kernels import ReluNTK as ReluNTK
from scalewise.limits.maml._kernels import kernel_adapted_outputs as kernel_adapted_outputs
from scalewise.limits.maml._kernels import kernel_model as kernel_model
from scalewise.limits.maml._kernels import kernel_outputs as kernel_outputs
from scalewise.limits.maml._kernels import kernel_step as kernel_step
from scalewise.limits.maml._stability import bias_response as bias_response
from scalewise.limits.maml._tasks import Maml as Maml
from scalewise.limits.maml._tasks import Tasks as Tasks
from scalewise.limits.maml._tasks import accuracies as accuracies
