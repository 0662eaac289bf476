"""Kernels, NTK and the tensors of finite width, layer by layer, for many inputs."""

from scalewise.theory.flow._expansion import expansion_parameter as expansion_parameter
from scalewise.theory.flow._expansion import pair_vertex as pair_vertex
from scalewise.theory.flow._expansion import pairs_to_watch as pairs_to_watch
from scalewise.theory.flow._kernel_flow import KernelFlow as KernelFlow
from scalewise.theory.flow._kernel_flow import kernel_flow as kernel_flow
from scalewise.theory.flow._natural_size import natural_sizes as natural_sizes
from scalewise.theory.flow._tensor_flow import tensor_flow as tensor_flow
