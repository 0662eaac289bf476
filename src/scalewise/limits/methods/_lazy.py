"""Training on lazily revealed matrices: what is drawn, space by space, and one run after another."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from scalewise.limits._lazy import LazyMatrix
from scalewise.limits._loop import Job, Records, descend, merged
from scalewise.limits._network import Architecture, WidthPowers, powers
from scalewise.limits._noise import ParticleNoise, generator, normal
from scalewise.limits._on import Infinite, Lazy
from scalewise.limits._tolerance import until_known
from scalewise.limits.methods._dense import DenseMethod, InitialWeights
from scalewise.tasks import Task

# Beyond so many dimensions a net of points is hardly more even than chance.
_DIMENSIONS = 64


def train_particles(job: Job, on: Infinite) -> tuple[Records, int, str]:
    """Train at infinite width: with more and more particles until the tolerance is met."""
    size = len(job.task.inputs) + len(job.task.test_inputs)
    rows = 4 * size * (job.steps + 1) * max(job.net.hidden_layers - 1, 1)

    def run(width: int) -> tuple[Records, float]:
        records = train_lazy(job, on.at(width), math.inf)
        return records, records.error

    return until_known(
        on,
        run,
        what="particles",
        start=on.start,
        bytes_each=8 * rows,
        held=f"{rows} vectors of each particle",
        instead="Raise `tolerance`, `memory` or `replicas`, or take fewer steps",
    )


def train_lazy(job: Job, on: Lazy, n: float | int) -> Records:
    """Train one replica after another, each with its own stream, under the powers of a width or of the limit."""
    net, task = job.net, _within_span(job.task)
    job, at, widths = replace(job, task=task), powers(net.strategy, n), _widths(net, on)
    rows = (len(task.inputs) + len(task.test_inputs)) * (job.steps + 1)
    found = []
    for k in range(on.replicas):
        stream = generator((on.seed, k))
        noise = _noise(job, on, stream)
        matrices = [
            LazyMatrix(
                n_out,
                n_in,
                seed=stream,
                sigma=math.sqrt(c),
                tolerance=on.compression,
                dtype=on.dtype,
                capacity=min(rows, 256),
                decoupled=job.decoupled,
                noise=(noise[layer], noise[layer - 1]),
            )
            for layer, (n_in, n_out, c) in enumerate(
                zip(widths, widths[1:], net.C_W[1:], strict=False), 1
            )
        ]
        start = _start(job, on, at, noise, stream)
        keep = on.remember_tests
        method = DenseMethod(job, powers=at, matrices=matrices, start=start, keep_tests=keep)
        found.append(descend(method, job))
    return merged(found, np.stack)


def _widths(net: Architecture, on: Lazy) -> tuple[int, ...]:
    """Particles of every hidden layer; those of the last in pairs where they are antithetic."""
    *rest, last = net.widths(on.width)
    return (*rest, last + last % 2 if on.antithetic else last)


def _within_span(task: Task) -> Task:
    """Inputs by their coordinates on the principal axes of all inputs, where these are fewer than features.

    The first layer is looked at, and moves, in their span alone, and has the same law there.
    """
    together = task.all_inputs
    if together.shape[1] <= len(together):
        return task
    axes, sizes, _ = np.linalg.svd(together, full_matrices=False)
    within, taught = axes * sizes, len(task.inputs)
    return replace(task, inputs=within[:taught], test_inputs=within[taught:])


def _noise(job: Job, on: Lazy, stream: np.random.Generator) -> list[ParticleNoise]:
    """Random numbers over each hidden space: spread, if asked for, until the first step is taken."""
    net, task, widths = job.net, job.task, _widths(job.net, on)
    batch = len(task.inputs) if task.batches is None else task.batches.shape[1]
    looks = len(task.inputs) + len(task.test_inputs)
    below = [task.inputs.shape[1], *(looks for _ in widths[1:])]
    above = [*(batch for _ in widths[1:]), task.targets.shape[1]]
    return [
        ParticleNoise(
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
    job: Job, on: Lazy, at: WidthPowers, noise: list[ParticleNoise], stream: np.random.Generator
) -> InitialWeights:
    net, task = job.net, job.task
    widths, outputs = _widths(net, on), task.targets.shape[1]

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
    return InitialWeights.from_normal(net, at, first, last, biases)
