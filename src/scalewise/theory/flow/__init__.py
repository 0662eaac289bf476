"""Kernel and NTK, layer by layer, for many inputs, and how large the terms of finite width can be."""

from scalewise.theory.flow._every_node import NodeKernels as NodeKernels
from scalewise.theory.flow._every_node import every_node as every_node
from scalewise.theory.flow._every_node import is_drawn as is_drawn
from scalewise.theory.flow._every_node import pairs_of as pairs_of
from scalewise.theory.flow._expansion import expansion_parameter as expansion_parameter
from scalewise.theory.flow._expansion import pair_vertex as pair_vertex
from scalewise.theory.flow._expansion import pairs_to_watch as pairs_to_watch
from scalewise.theory.flow._kernel_flow import KernelFlow as KernelFlow
from scalewise.theory.flow._kernel_flow import kernel_flow as kernel_flow
from scalewise.theory.flow._natural_size import natural_sizes as natural_sizes
