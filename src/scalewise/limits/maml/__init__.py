"""Model-agnostic meta-learning with one hidden layer, at any width, in the limit, and with kernels."""

from scalewise.limits.maml._gram import GramNet, adapted_outputs, gram_net, step
from scalewise.limits.maml._kernels import (
    KernelModel,
    ReluGP,
    ReluNTK,
    kernel_adapted_outputs,
    kernel_model,
    kernel_outputs,
    kernel_step,
)
from scalewise.limits.maml._stability import bias_response
from scalewise.limits.maml._tasks import Maml, Tasks, accuracies

__all__ = [
    "GramNet",
    "KernelModel",
    "Maml",
    "ReluGP",
    "ReluNTK",
    "Tasks",
    "accuracies",
    "adapted_outputs",
    "bias_response",
    "gram_net",
    "kernel_adapted_outputs",
    "kernel_model",
    "kernel_outputs",
    "kernel_step",
    "step",
]
