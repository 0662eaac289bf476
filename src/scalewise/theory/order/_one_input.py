"""The tensors of one input alone as `predict` returns them: from tables, with errors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from scalewise.gaussian import SHAKES, shaken, with_shakes
from scalewise.networks import Network
from scalewise.observables import of_letter
from scalewise.theory._tables._line_moments import preactivation_names
from scalewise.theory._tables._line_table import estimates_of, line_table
from scalewise.theory.order._jets import TENSORS
from scalewise.theory.order._terms import wanted
from scalewise.theory.single._single_input import refuse_overflow, tensors_from

KNOWN_OF_ONE = TENSORS.keys()


def one_input(
    net: Network, K: Float[np.ndarray, "layer 1 1"], letters: Sequence[str]
) -> dict[str, tuple[Float[np.ndarray, "layer ..."], Float[np.ndarray, "layer ..."]]]:
    """Tensors, out of `KNOWN_OF_ONE`, at every layer and their numerical errors, by letter.

    Those whose expectations the tables do not hold are left out. With axes for two or four samples; rtol 1e-10 of
    the terms of each recursion.
    """
    alone = K[:, 0]
    # What V and G1 need has a table of its own, and is read off it whatever else is asked for.
    moments, errors = estimates_of(
        line_table(net.activation, preactivation_names(net.activation)), alone
    )
    if wanted(tuple(letters)).has_tangents:
        every = estimates_of(line_table(net.activation), alone)
        moments, errors = every[0] | moments, every[1] | errors
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        runs = [tensors_from(net, alone, moments, letters=letters)]
        for seed in range(SHAKES):
            moved = {
                name: shaken(value, errors[name], (seed, place), alike=1)
                for place, (name, value) in enumerate(moments.items())
            }
            runs.append(tensors_from(net, alone, moved, letters=letters))
    out = {}
    for letter in runs[0].keys() & {*letters}:
        refuse_overflow(net, letter, runs[0][letter])
        value, error = with_shakes([run[letter][None] for run in runs])
        shape = (net.depth, *(1,) * of_letter(letter).legs)
        out[letter] = value.reshape(shape), error.reshape(shape)
    return out
