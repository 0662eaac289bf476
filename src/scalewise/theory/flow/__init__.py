"""Kernel and NTK, layer by layer, for many inputs, and how large the terms of finite width can be."""

from scalewise.theory.flow._expansion import expansion_parameter as expansion_parameter
from scalewise.theory.flow._expansion import pair_vertex as pair_vertex
from scalewise.theory.flow._expansion import pairs_to_watch as pairs_to_watch
from scalewise.theory.flow._kernel_flow import KernelFlow as KernelFlow
from scalewise.theory.flow._kernel_flow import kernel_flow as kernel_flow
from scalewise.theory.flow._natural_size import natural_sizes as natural_sizes
from scalewise.theory.flow._natural_size import ntk_variance as ntk_variance
from scalewise.theory.flow._natural_size import of_one_input as of_one_input
