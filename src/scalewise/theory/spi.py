"""Working names of this room for the other rooms of scalewise; users have no need of them."""

# Every expectation over one Gaussian preactivation that the single-input recursions need.
from scalewise.theory._tables._line_moments import preactivation_names as preactivation_names

# Single-input expectations as piecewise Chebyshev series in $\log K$.
from scalewise.theory._tables._line_table import LineTable as LineTable
from scalewise.theory._tables._line_table import line_table as line_table

# Tensors with their neurons: from the letters of the theory to whole expectations.
from scalewise.theory.correlators._neuron_tensors import pairings as pairings

# Covariances of all fields of a network on a few inputs: of random layers, and of what stands between them.
from scalewise.theory.flow._every_node import NodeKernels as NodeKernels
from scalewise.theory.flow._every_node import every_node as every_node
from scalewise.theory.flow._every_node import is_drawn as is_drawn
from scalewise.theory.flow._every_node import pairs_of as pairs_of

# The kernel $K$ and the NTK $\Theta$ of a network, for many inputs at once.
from scalewise.theory.flow._kernel_flow import kernels_on as kernels_on

# Gaussian expectations of one layer over all inputs, each computed once.
from scalewise.theory.flow._layer import Family as Family
from scalewise.theory.flow._layer import LayerExpectations as LayerExpectations

# Sets of pairs of inputs: each with each, a rectangle of two sets, a list; in tiles that fit the cache.
from scalewise.theory.flow._pair_sets import PairSet as PairSet

# Expectations over unordered pairs of inputs: what a tensor that is symmetric in two pairs is made of.
from scalewise.theory.flow._pairs import FIRST as FIRST
from scalewise.theory.flow._pairs import SECOND as SECOND
from scalewise.theory.flow._pairs import UnorderedPairs as UnorderedPairs
from scalewise.theory.flow._pairs import moments_on_pairs as moments_on_pairs

# Inputs through a network at infinite width: each with itself first, then pairs, tile by tile or a few rows.
from scalewise.theory.flow._passing import kernel_strips as kernel_strips

# Deep networks: expectations of few layers, and those of the layers between by interpolation.
from scalewise.theory.flow._trajectory import LayerEstimates as LayerEstimates
from scalewise.theory.flow._trajectory import Parts as Parts

# Jets of a network, and the tensors of the literature as pairs of pairs of them.
from scalewise.theory.order._jets import TENSORS as TENSORS
from scalewise.theory.order._jets import Pair as Pair
from scalewise.theory.order._jets import charge as charge
from scalewise.theory.order._jets import standard as standard
from scalewise.theory.order._jets import standard_pair as standard_pair
from scalewise.theory.order._jets import symmetries as symmetries

# Tensors of the last layer in estimates that belong together, of any network: whole arrays or single units.
from scalewise.theory.order._runs import as_arrays as as_arrays
from scalewise.theory.order._runs import runs_of as runs_of
from scalewise.theory.order._runs import untold as untold

# The tensors of finite width of fully connected layers, at every layer with their errors.
from scalewise.theory.order._tensor_flow import tensor_runs as tensor_runs

# All tensors of order 1/n of a network, layer by layer, with what they need to have errors.
from scalewise.theory.order._tensors import ALIKE as ALIKE
from scalewise.theory.order._tensors import in_parts as in_parts

# The one rule: what the averages of a layer of jets are, and how they answer to a change of the layer below.
from scalewise.theory.order._terms import Change as Change
from scalewise.theory.order._terms import Expectation as Expectation
from scalewise.theory.order._terms import Noise as Noise
from scalewise.theory.order._terms import curvature as curvature
from scalewise.theory.order._terms import features as features
from scalewise.theory.order._terms import noise as noise
from scalewise.theory.order._terms import response as response
from scalewise.theory.order._terms import sources as sources
from scalewise.theory.order._terms import wanted as wanted
