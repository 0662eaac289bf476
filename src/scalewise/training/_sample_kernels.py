"""Kernels of the last layer, or of some layers, between samples: the pairs that are wanted and no others.

An input that is repeated has the same entries to the last bit, so that what is singular is seen to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise.networks import Network
from scalewise.networks.spi import check_inputs
from scalewise.theory.spi import PairSet, kernels_on

BOTH = ("kernel", "ntk")


def between(
    net: Network,
    x: Any,
    y: Any = None,
    kinds: Sequence[str] = BOTH,
    *,
    layers: Sequence[int] | None = None,
) -> list[Float[np.ndarray, "layer sample other"]]:
    """Each sample of `x` with each of `y`, or of `x` where that is not given; an array for each of `kinds`.

    Args:
        net: The network; its widths play no part.
        x: (samples, features).
        y: (others, features).
        kinds: ``"kernel"``, ``"ntk"`` or both.
        layers: Which, counted from 1; the last alone if ``None``.

    Raises:
        ValueError: If inputs do not fit the network, the NTK is asked of an activation that jumps, or a kernel
            overflows.
    """
    x = check_inputs(net, x)
    if y is not None and not len(y):
        return [np.empty((1 if layers is None else len(layers), len(x), 0)) for _ in kinds]
    pairs = PairSet.between(x, None if y is None else check_inputs(net, y))
    different = list(dict.fromkeys(kinds))
    found = kernels_on(net, pairs, different, layers=layers)
    return [found[different.index(kind)] for kind in kinds]


def in_turn(net: Network, x: Any, y: Any, kind: str) -> Float[np.ndarray, " sample"]:
    """One kernel of the last layer, of each sample of `x` with that in the same place of `y`."""
    if not len(x):
        return np.empty(0)
    x, y = (check_inputs(net, v) for v in (x, y))
    return kernels_on(net, PairSet.in_turn(x, y), [kind])[0][0]
