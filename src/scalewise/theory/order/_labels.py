"""Kernel and NTK of random layers between all of their labels."""

from __future__ import annotations

import numpy as np

from scalewise.networks.spi import Program
from scalewise.theory.flow._fields import Fields
from scalewise.theory.order._way import Kernels


def kernels_on_labels(program: Program, x: np.ndarray, last: int, *, ntk: bool) -> Kernels:
    """K, and Theta if it is wanted, of every random layer up to a node.

    Args:
        program: The nodes.
        x: (inputs, *positions, features).
        last: The node.
        ntk: Whether Theta is wanted.
    """
    crossed = [(True,) * len(positions) for positions in program.positions]
    fields, every = Fields(program, x, ntk, crossed), slice(0, len(x))
    draws, found = set(program.draws), {}
    for here, pair in fields.along(every, every, last):
        if here in draws:
            both = fields.matrices(pair, fields.places(here, every, every))
            found[here] = np.array(both.C), None if both.T is None else np.array(both.T)
    return found
