"""Working names of this room for the other rooms of scalewise; users have no need of them."""

# Products of two fields: logits of an attention, their softmax, and what it makes of its values.
from scalewise.reading._attending import softmax as softmax

# An initialisation that keeps sizes through every layer, branch and read-out of a model that was read.
from scalewise.reading._critical import CriticalInit as CriticalInit
from scalewise.reading._critical import factors_of as factors_of
from scalewise.reading._critical import proposals as proposals

# Functions of entries that stand at the same place, of one field, of several, and of numbers.
from scalewise.reading._entrywise import Operand as Operand
from scalewise.reading._entrywise import Plain as Plain
from scalewise.reading._entrywise import entrywise as entrywise

# Entries: every number that a model computes has one, and whatever only moves numbers moves these instead.
from scalewise.reading._fields import Entries as Entries
from scalewise.reading._fields import Input as Input
from scalewise.reading._fields import UnreadError as UnreadError
from scalewise.reading._fields import Weight as Weight

# What a user gives in place of a module that is not understood: layers of ours.
from scalewise.reading._given import GivenLayers as GivenLayers
from scalewise.reading._given import layers_of as layers_of
from scalewise.reading._given import replaced as replaced

# An array of entries by sample, position and channel.
from scalewise.reading._grids import MixedSamplesError as MixedSamplesError

# The law of a parameter: from numbers that are spread evenly over it, or from its entries alone.
from scalewise.reading._laws import law_of as law_of

# Sums of entries times parameters: random layers of any kind.
from scalewise.reading._linear import convolved as convolved
from scalewise.reading._linear import embedded as embedded
from scalewise.reading._linear import is_weight as is_weight

# Matrix products of entries: with parameters, with numbers, and of two fields with each other.
from scalewise.reading._products import contracted as contracted

# From passes of a model to its network, and proof that the network computes what the model does.
from scalewise.reading._read import Pass as Pass
from scalewise.reading._read import ReadModel as ReadModel
from scalewise.reading._read import in_a_row as in_a_row
from scalewise.reading._read import network_from as network_from
from scalewise.reading._read import read_model as read_model

# What has been read of a model so far, and entries as fields of their own.
from scalewise.reading._reader import ModelReader as ModelReader
from scalewise.reading._reader import ParameterLaw as ParameterLaw

# A model that was read, as a layer: the verbs of the builder that it calls, one after another.
from scalewise.reading._steps import tokens as tokens

# Sums of entries times numbers: pools, graphs, averages over positions and channels, norms, maxima.
from scalewise.reading._sums import normed as normed
from scalewise.reading._sums import pooled as pooled
from scalewise.reading._sums import reduced as reduced
