"""Working names of this room for the other rooms of scalewise; users have no need of them."""

# What flows back through a network by NumPy: from slopes by the field of a node to slopes by what it reads.
from scalewise.networks._backward import back as back
from scalewise.networks._backward import by_weights as by_weights

# How layers become a program: the verbs that they call, and what is known of each field meanwhile.
from scalewise.networks._builder import Builder as Builder
from scalewise.networks._builder import Layer as Layer

# A network as random layers that read activations of Gaussian preactivations: their labels, and what mixes them.
from scalewise.networks._course import CourseStep as CourseStep
from scalewise.networks._course import Form as Form
from scalewise.networks._course import NetworkCourse as NetworkCourse
from scalewise.networks._course import course as course
from scalewise.networks._course import kind as kind

# What is known of a field while a network is built, and what layers ask of it before they read it.
from scalewise.networks._field import Field as Field

# What a node without weights makes of the fields that it reads, as arrays of any library.
from scalewise.networks._forward import among as among
from scalewise.networks._forward import attention as attention
from scalewise.networks._forward import entering as entering
from scalewise.networks._forward import fixed_fields as fixed_fields
from scalewise.networks._forward import forward as forward
from scalewise.networks._forward import gathered as gathered
from scalewise.networks._forward import logits_of as logits_of
from scalewise.networks._forward import mean_of as mean_of
from scalewise.networks._forward import places_seen as places_seen
from scalewise.networks._forward import seen as seen
from scalewise.networks._forward import slopes_of_logits as slopes_of_logits

# Inputs and kernels that a network can take; the others are refused before anything is computed.
from scalewise.networks._inputs import check_inputs as check_inputs
from scalewise.networks._inputs import check_kernels as check_kernels
from scalewise.networks._inputs import digest_of as digest_of
from scalewise.networks._inputs import refuse_laws_at_inputs as refuse_laws_at_inputs
from scalewise.networks._inputs import refuse_zero_inputs as refuse_zero_inputs

# Laws of weights: what a network remembers of them at order 1/n is their fourth cumulant.
from scalewise.networks._laws import LAWS as LAWS
from scalewise.networks._laws import NORMAL as NORMAL

# Numbers of the layers: how they are given, and read off a program; and numbers as the theory takes them.
from scalewise.networks._layers import Numbers as Numbers
from scalewise.networks._layers import Width as Width
from scalewise.networks._layers import Widths as Widths

# Networks of fully connected layers by their numbers, with and without skip connections.
from scalewise.networks._mlp import AnyPerceptron as AnyPerceptron
from scalewise.networks._mlp import Plain as Plain

# A network of any layers: a value that becomes a program.
from scalewise.networks._network import AnyNetwork as AnyNetwork
from scalewise.networks._network import Shape as Shape

# The nodes that programs are made of: what they read, by number, and what a table calls them.
from scalewise.networks._nodes import Attend as Attend
from scalewise.networks._nodes import Concat as Concat
from scalewise.networks._nodes import Draw as Draw
from scalewise.networks._nodes import Drop as Drop
from scalewise.networks._nodes import Hyperparameters as Hyperparameters
from scalewise.networks._nodes import Max as Max
from scalewise.networks._nodes import Mix as Mix
from scalewise.networks._nodes import Node as Node
from scalewise.networks._nodes import Normalise as Normalise
from scalewise.networks._nodes import Pointwise as Pointwise
from scalewise.networks._nodes import PositionMap as PositionMap
from scalewise.networks._nodes import Product as Product
from scalewise.networks._nodes import Read as Read
from scalewise.networks._nodes import Stack as Stack
from scalewise.networks._nodes import Sum as Sum
from scalewise.networks._nodes import Weigh as Weigh

# Products of gradients by the weights of random layers, from what enters them and what flows back.
from scalewise.networks._products import Side as Side
from scalewise.networks._products import by_all_weights as by_all_weights

# A network as a program: nodes in the order in which they are computed, each a field of channels at sites.
from scalewise.networks._program import Program as Program

# What a layer does along an axis of positions: the site matrices $B_\tau$, as slices or entry by entry.
from scalewise.networks._sites import IDENTITY as IDENTITY
from scalewise.networks._sites import Matrix as Matrix
from scalewise.networks._sites import Piece as Piece
from scalewise.networks._sites import Taps as Taps
from scalewise.networks._sites import Window as Window

# A network with weights: parameters layer by layer, and the fields computed with them, as arrays of any library.
from scalewise.networks._weights import ArrayShape as ArrayShape
from scalewise.networks._weights import Parameters as Parameters
from scalewise.networks._weights import Weights as Weights
from scalewise.networks._weights import bare as bare
from scalewise.networks._weights import by_node as by_node
from scalewise.networks._weights import check_shapes as check_shapes
from scalewise.networks._weights import fields as fields
from scalewise.networks._weights import in_groups as in_groups
from scalewise.networks._weights import last_entering as last_entering
from scalewise.networks._weights import rates_of as rates_of
from scalewise.networks._weights import refuse_masks as refuse_masks
from scalewise.networks._weights import shapes_of as shapes_of
from scalewise.networks._weights import times as times

# Layers of graphs: each position gathers from others by a fixed matrix.
from scalewise.networks.layers._aggregate import columns as columns

# Random layers: independent weights, at each position alone or for the positions of a window.
from scalewise.networks.layers._dense import Random as Random

# Layers that act entry by entry: activations, with whatever stands for one, and dropout.
from scalewise.networks.layers._entrywise import LayerLike as LayerLike
from scalewise.networks.layers._entrywise import layer_of as layer_of
