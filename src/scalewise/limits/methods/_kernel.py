r"""Training in the kernel regime at infinite width: gradient descent of a constant kernel.

$$g_t=\tfrac1P\chi_t\min(1,c/\lVert g\rVert),\quad v_t=\mu v_{t-1}-\eta\,\Theta g_t,\quad f_{t+1}=f_t+v_t,\qquad
  \lVert g\rVert^2=\tfrac1{P^2}\chi_t^\top\Theta\chi_t$$
Nothing is sampled but the initial outputs, a Gaussian process if $A=\frac12$ and 0 else; there are no particles.

Source: TP4 Theorem N.31, N.34 (where $f_0\to0$ is meant), N.4.1; momentum and clipping derived.
"""

from __future__ import annotations

import numpy as np

from scalewise.limits._kernel_regime import (
    Square,
    initial_kernel,
    layer_kernels,
    limit_kernel,
)
from scalewise.limits._loop import Job, Recorded, Records, descend, merged
from scalewise.limits._noise import generator
from scalewise.limits._on import Infinite, Kernel
from scalewise.limits._tolerance import until_known


class LogitKernels:
    """The kernels of a network in the kernel regime: of its training, its initial outputs and its features."""

    def __init__(self, job: Job) -> None:
        _check_job(job)
        X = job.task.all_inputs
        self.theta = limit_kernel(job.net, X, decoupled=job.decoupled)
        self.initial = initial_kernel(job.net, X)
        self.features = layer_kernels(job.net, X).features[1:]

    def draws(self, replicas: int, outputs: int, seed: int) -> np.ndarray:
        """Initial outputs, (replica, sample, output)."""
        return drawn_outputs(self.initial, (replicas, len(self.initial), outputs), seed)


class KernelDescent:
    """Outputs of replicas under the descent of one kernel, which is over all inputs."""

    def __init__(self, job: Job, theta: Square, f: np.ndarray) -> None:
        self.job, self.theta, self.f = job, theta, f
        self._velocity = np.zeros_like(f)
        self._rows = np.arange(len(job.task.inputs))

    def look(self, chosen: np.ndarray | None, watched: bool) -> Recorded:
        """Outputs, which are all there is."""
        samples = len(self.job.task.inputs)
        self._rows = np.arange(samples) if chosen is None else np.asarray(chosen, dtype=np.intp)
        return Recorded(self.f[:, self._rows], self.f if watched else None)

    def step(self, errors: np.ndarray) -> None:
        """One step for all outputs."""
        rows, sgd = self._rows, self.job.sgd
        if sgd.clip is not None:
            square = np.einsum("rio,ij,rjo->r", errors, self.theta[np.ix_(rows, rows)], errors)
            norm = np.sqrt(np.maximum(square, 0.0))
            errors = errors * (sgd.clip / np.maximum(norm, sgd.clip))[:, None, None]
        change = -sgd.eta * (self.theta[:, rows] @ errors)
        self._velocity = sgd.momentum * self._velocity + change
        self.f = self.f + self._velocity


def train_kernel(job: Job, on: Kernel) -> tuple[Records, LogitKernels]:
    """Train from the initial outputs that are given, or from draws of them."""
    kernels, task = LogitKernels(job), job.task
    shape = (len(kernels.theta), task.targets.shape[1])
    f = kernels.draws(on.replicas, shape[1], on.seed) if on.start is None else on.start
    if f.shape[1:] != shape:
        raise ValueError(
            f"`start` must have shape {shape}, samples then test inputs by outputs, or one such table for each "
            f"replica; got {f.shape[1:]}."
        )
    return descend(KernelDescent(job, kernels.theta, f), job), kernels


def train_draws(job: Job, on: Infinite) -> tuple[Records, str, LogitKernels]:
    """Train at infinite width: from as many draws of the initial outputs as the tolerance asks for.

    A replica is a draw or, with `antithetic`, the mean over a draw and its opposite: for the square loss that is
    the mean over all of them.
    """
    kernels, outputs = LogitKernels(job), job.task.targets.shape[1]

    def run(replicas: int) -> tuple[Records, float]:
        f = kernels.draws(replicas, outputs, on.seed)
        signs = (1, -1) if on.antithetic else (1,)
        runs = [descend(KernelDescent(job, kernels.theta, sign * f), job) for sign in signs]
        records = merged(runs, lambda values: np.mean(values, axis=0))
        return records, records.error

    numbers = 2 * len(kernels.theta) * outputs * (len(job.times) + 2)
    records, _, missed = until_known(
        on,
        run,
        what="draws of the initial outputs",
        start=on.replicas,
        bytes_each=8 * numbers,
        held=f"{numbers} numbers of each draw",
        instead="Raise `tolerance` or `memory`, or take fewer steps",
    )
    return records, missed, kernels


def drawn_outputs(K: Square, shape: tuple[int, int, int], seed: int) -> np.ndarray:
    """Outputs with covariance K over the samples, independent over replicas and outputs."""
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    # One stream for all: more draws go on where fewer left off.
    return root @ generator(seed).standard_normal(shape)


def _check_job(job: Job) -> None:
    if job.sgd.weight_decay:
        raise ValueError(
            "Weight decay shrinks the initial weights and the kernel with them, so the limit does not have a "
            f"constant kernel; got weight_decay = {job.sgd.weight_decay}. Set it to 0, or train at a finite width."
        )
    if job.features:
        raise ValueError(
            "`features` are coordinates of particles, and the kernel regime has none at infinite width; got "
            f"{job.features}. Set it to 0, or take a finite or lazy width."
        )
