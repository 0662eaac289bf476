r"""Training of real networks of width $n$, all seeds side by side."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from scalewise.limits._loop import Job, Records, descend
from scalewise.limits._network import Architecture, powers
from scalewise.limits._noise import generator, normal
from scalewise.limits._on import Finite
from scalewise.limits._real import RealMatrix, check_memory
from scalewise.limits.methods._dense import DenseMethod, InitialWeights

Draw = Callable[..., np.ndarray]


def train_real(job: Job, on: Finite) -> Records:
    """Train the replicas, networks of one width."""
    at = powers(job.net.strategy, on.width)
    draw, matrices = real_seeds(job.net, on, job.decoupled)
    start = real_start(job, on, draw)
    return descend(
        DenseMethod(job, powers=at, matrices=matrices, start=start, keep_tests=True), job
    )


def real_seeds(
    net: Architecture, on: Finite, decoupled: bool = False
) -> tuple[Draw, list[RealMatrix]]:
    """Function that draws standard normal arrays for all seeds at once, and the matrices between hidden layers."""
    streams = [generator((on.seed, k)) for k in range(on.replicas)]
    widths = net.widths(on.width)
    pairs = sum(n_in * n_out for n_in, n_out in pairwise(widths))
    check_memory(on.width, on.replicas, (1 + decoupled) * pairs, on.dtype)

    def draw(*shape: int) -> np.ndarray:
        found = np.empty((len(streams), *shape), on.dtype)
        for own, stream in zip(found, streams, strict=True):
            normal(stream, own)
        return found

    matrices = [
        RealMatrix(
            n_out, n_in, streams=streams, sigma=math.sqrt(c), dtype=on.dtype, decoupled=decoupled
        )
        for n_in, n_out, c in zip(widths, widths[1:], net.C_W[1:], strict=False)
    ]
    return draw, matrices


def real_start(job: Job, on: Finite, draw: Draw) -> InitialWeights:
    """First and last weights and biases, drawn in this order."""
    net, outputs = job.net, job.task.targets.shape[1]
    widths = net.widths(on.width)
    first = draw(job.task.inputs.shape[1], widths[0])
    last = draw(outputs, widths[-1])
    sizes = (*widths, outputs)
    biases = [draw(n) if has else None for n, has in zip(sizes, net.has_biases, strict=True)]
    return InitialWeights.from_normal(net, powers(net.strategy, on.width), first, last, biases)
