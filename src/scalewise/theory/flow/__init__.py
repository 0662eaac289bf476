"""Kernels, NTK and the tensors of finite width, layer by layer, for many inputs."""

from scalewise.theory.flow._expansion import (
    expansion_parameter,
    pair_vertex,
    pairs_to_watch,
)
from scalewise.theory.flow._kernel_flow import (
    KernelFlow,
    kernel_flow,
)
from scalewise.theory.flow._natural_size import natural_sizes
from scalewise.theory.flow._tensor_flow import tensor_flow

__all__ = [
    "KernelFlow",
    "expansion_parameter",
    "kernel_flow",
    "natural_sizes",
    "pair_vertex",
    "pairs_to_watch",
    "tensor_flow",
]
