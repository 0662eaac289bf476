r"""What a tensor is to the width of the network: the role that decides how it scales.

A role is a statement about which of the two sides of a tensor grows with the width: the side that is
summed over (fan-in) and the side that it writes to (fan-out). It is decided from the kind of module
that owns the tensor, never from its shape alone: a `Linear` from 10 features to n and an `Embedding` of
10 words share a shape pattern with its transpose.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from scalewise._checked import Must


class Role(StrEnum):
    """Relation of a tensor to the width.

    | role | fan-in | fan-out | examples |
    |---|---|---|---|
    | `input` | fixed | grows | first layer, embedding, up-projection of a bottleneck |
    | `hidden` | grows | grows | a matrix between hidden layers |
    | `output` | grows | fixed | the readout to logits |
    | `bottleneck` | grows | fixed | a matrix to a fixed number of units inside the network |
    | `vector` | none | grows | hidden biases, gains and shifts of norms, one number per neuron |
    | `fixed` | fixed | fixed | output bias, a scalar gain, anything that no width touches |
    """

    INPUT = "input"
    HIDDEN = "hidden"
    OUTPUT = "output"
    BOTTLENECK = "bottleneck"
    VECTOR = "vector"
    FIXED = "fixed"


class Layer(StrEnum):
    """Layer whose exponents of a strategy a tensor takes: the first, a hidden or the last one."""

    FIRST = "first"
    HIDDEN = "hidden"
    LAST = "last"


class Kind(StrEnum):
    """Use that the module which owns a tensor makes of it."""

    MATRIX = "matrix"  # sums over the fan-in axes
    LOOKUP = "lookup"  # picks a row: the fan-in axis is an index, nothing is summed
    BIAS = "bias"  # added to what a matrix of the same module returns
    GAIN = "gain"  # per-neuron gain or shift of a norm or an activation
    UNKNOWN = "unknown"  # a bare parameter: its module says nothing about its axes


_Name = Annotated[str, Must("the name of a role", lambda name: name in set(Role))]
# A role, or a role and the axes that are summed over.
RoleSpec = _Name | tuple[_Name, int] | tuple[_Name, tuple[int, ...]]
