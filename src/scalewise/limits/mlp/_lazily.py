"""Training on lazily revealed matrices: what is drawn, space by space, and one run after another."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from scalewise.limits._lazy import LazyMatrix
from scalewise.limits._noise import Noise, generator, normal
from scalewise.limits.backends import Lazy
from scalewise.limits.mlp._descent import SGD
from scalewise.limits.mlp._network import Network, Powers
from scalewise.limits.mlp._run import Records, Run, Start
from scalewise.limits.mlp._task import Task

__all__ = ["lazy_runs"]

# Beyond so many dimensions a net of points is hardly more even than chance.
_DIMENSIONS = 64


def lazy_runs(
    net: Network,
    task: Task,
    sgd: SGD,
    at: Powers,
    on: Lazy,
    decoupled: bool,
    length: tuple[int, int, int],
) -> Records:
    """One replica after another; each with its own stream."""
    widths = net.widths(on.width)
    task = _within_span(task)
    rows = (len(task.inputs) + len(task.test_inputs)) * (length[0] + 1)
    found = []
    for k in range(on.replicas):
        stream = generator((on.seed, k))
        noise = _noise(net, task, on, stream)
        matrices = [
            LazyMatrix(
                n_out,
                n_in,
                seed=stream,
                sigma=math.sqrt(c),
                tolerance=on.compression,
                dtype=on.dtype,
                capacity=min(rows, 256),
                decoupled=decoupled,
                noise=(noise[layer], noise[layer - 1]),
            )
            for layer, (n_in, n_out, c) in enumerate(
                zip(widths, widths[1:], net.C_W[1:], strict=False), 1
            )
        ]
        start = _start(net, task, on, noise, stream)
        keep = on.remember_tests
        run = Run(net, task, sgd, powers=at, matrices=matrices, start=start, keep_tests=keep)
        found.append(run.train(*length))
    parts = ("logits", "loss", "kernel", "features")
    return Records(
        found[0].time,
        *(
            [np.stack(values) for values in zip(*(getattr(r, part) for r in found), strict=True)]
            for part in parts
        ),
    )


def _within_span(task: Task) -> Task:
    """Inputs by their coordinates on the principal axes of all inputs, where these are fewer than features.

    The first layer is looked at, and moves, in their span alone, and has the same law there.
    """
    together = np.concatenate([task.inputs, task.test_inputs])
    if together.shape[1] <= len(together):
        return task
    axes, sizes, _ = np.linalg.svd(together, full_matrices=False)
    within, taught = axes * sizes, len(task.inputs)
    moved = dataclasses.replace
    return moved(task, inputs=within[:taught], test_inputs=within[taught:])


def _noise(net: Network, task: Task, on: Lazy, stream: np.random.Generator) -> list[Noise]:
    """What draws over each hidden space: spread, if asked for, until the first step is taken."""
    widths = net.widths(on.width)
    batch = len(task.inputs) if task.batches is None else task.batches.shape[1]
    looks = len(task.inputs) + len(task.test_inputs)
    below = [task.inputs.shape[1], *(looks for _ in widths[1:])]
    above = [*(batch for _ in widths[1:]), task.targets.shape[1]]
    return [
        Noise(
            stream,
            n,
            spread=min(b + a + has, _DIMENSIONS) if on.spread else 0,
            paired=on.antithetic and layer == len(widths) - 1,
        )
        for layer, (n, b, a, has) in enumerate(
            zip(widths, below, above, net.has_biases, strict=False)
        )
    ]


def _start(
    net: Network, task: Task, on: Lazy, noise: list[Noise], stream: np.random.Generator
) -> Start:
    widths, outputs = net.widths(on.width), task.targets.shape[1]

    def draw(layer: int, rows: int) -> np.ndarray:
        found = np.empty((rows, widths[layer]), on.dtype)
        noise[layer].fill(found)
        return found

    first, last = draw(0, task.inputs.shape[1]), draw(-1, outputs)
    biases: list[np.ndarray | None] = [
        draw(layer, 1)[0] if has else None for layer, has in enumerate(net.has_biases[:-1])
    ]
    biases.append(None)
    if net.has_biases[-1]:
        biases[-1] = np.empty(outputs, on.dtype)
        normal(stream, biases[-1])
    if on.antithetic:
        # Opposite read-outs on the two halves of the last space, everything else in it equal.
        half = widths[-1] // 2
        np.negative(last[:, half:], out=last[:, half:])
    return Start(widths, first, last, biases)
