"""Working names of this room for the other rooms of scalewise; users have no need of them."""

# Where networks are drawn: a batch lies on all devices, each network whole on one of them.
from scalewise.nets._devices import filled as filled
from scalewise.nets._devices import generator as generator
from scalewise.nets._devices import on_host as on_host
from scalewise.nets._devices import spread as spread

# An ensemble in batches: as many networks at once as the memory allows, summed as they come.
from scalewise.nets._ensemble import LARGEST_BATCH as LARGEST_BATCH
from scalewise.nets._ensemble import LOST as LOST
from scalewise.nets._ensemble import Kind as Kind
from scalewise.nets._ensemble import NetworkEnsemble as NetworkEnsemble
from scalewise.nets._ensemble import Sums as Sums
from scalewise.nets._ensemble import first_activation as first_activation
from scalewise.nets._ensemble import refuse_overflow as refuse_overflow
from scalewise.nets._ensemble import run as run

# From several widths to infinite width: a polynomial in 1/n or its root, fitted with its error.
from scalewise.nets._extrapolate import check_widths as check_widths
from scalewise.nets._extrapolate import degree as degree
from scalewise.nets._extrapolate import extrapolation as extrapolation
from scalewise.nets._extrapolate import fit as fit

# Sums from which means, covariances and their standard errors are made, batch by batch.
from scalewise.nets._moments import MeanSums as MeanSums

# One real network: its parameters, and what activations it may have.
from scalewise.nets._networks import Dtype as Dtype
from scalewise.nets._networks import Seed as Seed
from scalewise.nets._networks import check_has_slope as check_has_slope
from scalewise.nets._networks import check_parameters as check_parameters
from scalewise.nets._networks import precision as precision
from scalewise.nets._networks import traced as traced

# One network of any layers with all its parameters in a row: its outputs, and its whole NTK.
from scalewise.nets._packed import Packed as Packed

# Really drawn networks of any layers: the program with weights, and what of a layer they are averaged over.
from scalewise.nets._program import DrawnProgram as DrawnProgram
from scalewise.nets._program import first_layer as first_layer
from scalewise.nets._program import sample_program as sample_program

# The random numbers of an ensemble: a stream for each network, drawn in one go.
from scalewise.nets._random import network_keys as network_keys

# Networks without weights: the exact law of one layer given the one below.
from scalewise.nets._sampler import draw_layers as draw_layers
from scalewise.nets._sampler import draw_numbers as draw_numbers
from scalewise.nets._sampler import first_factor as first_factor
from scalewise.nets._sampler import first_metric as first_metric
from scalewise.nets._sampler import metrics as metrics
from scalewise.nets._sampler import ranks as ranks
