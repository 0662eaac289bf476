"""The tensors of one input alone as `predict` returns them: from tables, with errors.

Only the tables are shared with `single_input_flow`; of two inputs and more nothing is. So each entry on one
input among several checks what stands here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from scalewise.gaussian import SHAKES, shaken, with_shakes
from scalewise.networks import MLP
from scalewise.theory._tables._line_moments import preactivation_names
from scalewise.theory._tables._line_table import estimates_of, line_table
from scalewise.theory.single._single_input import refuse_overflow, tensors_from

__all__ = ["one_input"]

_LEGS = {"G1": 2, "H1": 2}


def one_input(
    net: MLP, K: Float[np.ndarray, "layer 1 1"], letters: Sequence[str]
) -> dict[str, tuple[Float[np.ndarray, "layer ..."], Float[np.ndarray, "layer ..."]]]:
    """Tensors at every layer and their numerical errors, by letter.

    Args:
        net: The network.
        K: Its kernel.
        letters: Which tensors, out of `TENSORS`.

    Returns:
        With axes for two or four samples; rtol 1e-10 of each recursion's terms.

    Raises:
        ValueError: If an expectation does not converge, or a tensor asked for overflows.
    """
    alone = K[:, 0]
    low = preactivation_names(net.activation) if set(letters) <= {"V", "G1"} else None
    moments, errors = estimates_of(line_table(net.activation, low), alone)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        runs = [tensors_from(net, alone, moments)]
        for seed in range(SHAKES):
            moved = {
                name: shaken(value, errors[name], (seed, place), alike=1)
                for place, (name, value) in enumerate(moments.items())
            }
            runs.append(tensors_from(net, alone, moved))
    out = {}
    for letter in letters:
        refuse_overflow(net, letter, runs[0][letter])
        value, error = with_shakes([run[letter][None] for run in runs])
        shape = (net.depth, *(1,) * _LEGS.get(letter, 4))
        out[letter] = value.reshape(shape), error.reshape(shape)
    return out
