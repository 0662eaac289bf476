"""Networks and programs at infinite width, and at any finite one by the same text."""

from scalewise.limits import learning, linear, maml, shallow, words
from scalewise.limits._descent import SGD
from scalewise.limits._kernel_regime import (
    LayerKernels,
    initial_kernel,
    layer_kernels,
    limit_kernel,
    motion_kernel,
)
from scalewise.limits._lazy import LazyMatrix
from scalewise.limits._network import Network, WidthPowers, powers
from scalewise.limits._on import Exact, Finite, Infinite, Kernel, Lazy, Printed
from scalewise.limits._train import TrainingError, train
from scalewise.limits.program import run

__all__ = [
    "SGD",
    "Exact",
    "Finite",
    "Infinite",
    "Kernel",
    "LayerKernels",
    "Lazy",
    "LazyMatrix",
    "Network",
    "Printed",
    "TrainingError",
    "WidthPowers",
    "initial_kernel",
    "layer_kernels",
    "learning",
    "limit_kernel",
    "linear",
    "maml",
    "motion_kernel",
    "powers",
    "run",
    "shallow",
    "train",
    "words",
]
