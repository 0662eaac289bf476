r"""How much draws of one width differ, by the theory: $V/nK^2$ of the outputs, where it takes a second or two."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from scalewise.networks import Network

_MOST = 512  # positions in all layers, whose pairs have a covariance


def spread_of_outputs(net: Network, x: np.ndarray) -> Iterator[str]:
    """A sentence; nothing of networks of which it takes longer, or is not known.

    Args:
        net: The model as a network.
        x: The inputs, as the network takes them; the first of them counts.

    Source: PDLT (5.128).
    """
    from scalewise.observables import OBSERVABLES  # who measures alone need not import these
    from scalewise.selection import told_by
    from scalewise.theory import predict

    program = net.program
    if net.depth not in net.layers_of_one_site or net.depth < 2:
        return
    if sum(math.prod(program.positions[k]) for k in program.layers) > _MOST:
        return
    told = told_by(net, 1, OBSERVABLES["four_point_vertex"], (net.depth,))
    if told.by not in ("whole", "carried"):
        return
    own = predict(net, x[:1], layers=net.depth, observables=["kernel", "four_point_vertex"])
    V, K = float(own.four_point_vertex.values.squeeze()), float(own.kernel.values.squeeze())
    if V > 0:
        spread = V / (net.widths[-2] * K * K)
        yield (
            f"By the theory the mean square of many outputs differs by {math.sqrt(spread):.0%} between draws of "
            f"this width (V/nK^2 = {spread:.2g})."
        )
