"""Training of one hidden layer as methods of the one loop: units that move, and outputs under constant kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalewise.gaussian.spi import kernel_map
from scalewise.limits._loop import Recorded, RunCourse
from scalewise.limits.shallow._kernels import expectations
from scalewise.limits.shallow._particles import UnitParticles
from scalewise.limits.shallow._reference import LimitUnits, Reference
from scalewise.limits.shallow._scaling import LimitDynamics
from scalewise.tasks import Loss, Task
from scalewise.tasks.spi import LOSSES

# The logistic loss, and what is left of it where outputs diverge (+1) or vanish (-1), in units of their own order.
# Source: Golikov (69), (70). His (18), (19) leave out the label.
LOSS_OF_ORDER = {
    0: LOSSES["logistic"],
    1: Loss(
        lambda f, y: np.maximum(-y * f, 0.0).sum(axis=-1),
        lambda f, y: -y * (f * y < 0),
        "logistic, of large outputs",
    ),
    -1: Loss(
        lambda f, y: (-y * f / 2).sum(axis=-1),
        lambda f, y: -y * np.full_like(f, 0.5),
        "logistic, of small outputs",
    ),
}


@dataclass(frozen=True, kw_only=True)
class ShallowJob(RunCourse):
    """A network of one hidden layer that is trained, at finite or infinite width."""

    reference: Reference  # its constants
    kernels: bool = False  # whether diagonals of the tangent kernels are recorded

    def remedy(self, t: int) -> str:
        """The rates after the first step, the outputs before it."""
        if t:
            return "training diverged. Lower `rate_a` and `rate_w` of the reference."
        return (
            "outputs overflow before training. Scale the inputs or `sigma` of the reference down."
        )


class BatchSums:
    r"""Errors at infinite width: the loss sees $g$ until something was learned, $\tilde f$ from then on.

    A network that has every sample of its first steps right where only signs count has not moved:
    $\tilde f$ is still 0 and it is the sign of $g$ that decides.
    """

    def __init__(self, task: Task, g: np.ndarray, dynamics: LimitDynamics) -> None:
        self._targets, self._g = task.targets, g
        self._first, self._later = LOSS_OF_ORDER[dynamics.first], LOSS_OF_ORDER[dynamics.later]
        self._awake = np.zeros(len(g), dtype=bool)

    def errors(self, f: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Slopes of the mean loss at these samples, shaped like their outputs."""
        y = self._targets[rows]
        awake = self._awake.reshape(-1, *(1,) * (f.ndim - 1))
        return np.where(awake, self._later.slopes(f, y), self._first.slopes(self._g[:, rows], y))

    def learned(self, errors: np.ndarray) -> None:
        """A step was taken from these errors."""
        self._awake |= errors.any(axis=tuple(range(1, errors.ndim)))


class UnitDescent:
    r"""Outputs $F\sum_r\hat a_r\phi$ of units that move, of networks or as particles of a limit.

    A step gives the outputs that the next look asks for, while each block of units is in the cache. `added` stands
    beside the sum and does not move; `seen` are the errors of a limit, ``None`` for networks, whose loss sees their
    outputs.
    """

    def __init__(
        self,
        job: ShallowJob,
        particles: UnitParticles,
        units: LimitUnits,
        *,
        added: np.ndarray,
        seen: BatchSums | None = None,
    ) -> None:
        self.job, self.seen, self.added = job, seen, added
        self.particles, self.units = particles, units
        self._t, self._times = 0, set(job.times)
        self._all = self._rows = self._have = np.arange(len(job.task.inputs))
        self._sums = particles.outputs(slice(None))
        x = job.task.all_inputs
        self._squares = np.einsum("ij,ij->i", x, x)[:, None]

    def look(self, chosen: np.ndarray | None, watched: bool) -> Recorded:
        """Outputs, and diagonals of the kernels if they are wanted."""
        self._rows = rows = self._all if chosen is None else chosen
        taught = self._outputs(self._sums[np.searchsorted(self._have, rows)], rows)
        errors = None if self.seen is None else self.seen.errors(taught, rows)
        if not watched:
            return Recorded(taught, errors=errors)
        sums = np.concatenate([self._sums, self.particles.test_outputs()])
        kernel = self._kernels() if self.job.kernels else None
        return Recorded(taught, self._outputs(sums, slice(None)), kernel, errors=errors)

    def step(self, errors: np.ndarray) -> None:
        """Step both weights from the same state, and give the outputs that come next."""
        (rows_a, chi_a), (rows_w, chi_w) = _halves(self._rows, errors)
        self._t += 1
        chosen = self.job.task.batch(self._t)
        if chosen is None or self._t in self._times:
            self._have = self._all
        else:
            self._have = np.unique(chosen)
        self._sums = self.particles.step(
            (rows_a, -self.units.rate_a * chi_a), (rows_w, -self.units.rate_w * chi_w), self._have
        )
        if self.seen is not None:
            self.seen.learned(errors)

    def _outputs(self, sums: np.ndarray, rows: np.ndarray | slice) -> np.ndarray:
        """(replica, ..., sample, output) from sums (..., sample, replica)."""
        return self.units.output * _replicas_first(sums) + self.added[:, rows]

    def _kernels(self) -> np.ndarray:
        K_a, K_w = self.particles.kernels()
        both = (self.units.kernel_a * K_a, self.units.kernel_w * self._squares * K_w)
        return np.stack(both).transpose(2, 0, 1)


class ConstantKernels:
    """Outputs that move by constant kernels: samples step by step, test inputs from the summed errors."""

    def __init__(
        self, job: ShallowJob, begin: np.ndarray, seen: BatchSums, dynamics: LimitDynamics
    ) -> None:
        self.job, self.seen = job, seen
        reference, x, samples = job.reference, job.task.all_inputs, len(job.task.inputs)
        value, dots = expectations(reference, x, len(x), slice(0, samples))
        dots *= x @ x[:samples].T
        factor = reference.sigma**2 * reference.width
        by_a, by_w = float(dynamics.by_a), float(dynamics.by_w)
        self._step_a = -factor * (by_a * reference.rate_a) * value
        self._step_w = -factor * (by_w * reference.rate_w) * dots
        self._both = self._step_a[:samples] + self._step_w[:samples]
        K = np.einsum("ij,ij->i", x, x)
        moments = kernel_map(reference.phi, K, slope=True)
        assert moments.diagonal_slope is not None
        self._kernel = factor * np.stack(
            [by_a * moments.diagonal, by_w * moments.diagonal_slope * K]
        )
        self._begin = begin[..., 0].T
        self._f = self._begin[:samples]
        self._alpha, self._omega = np.zeros_like(self._f), np.zeros_like(self._f)
        self._all = self._rows = np.arange(samples)

    def look(self, chosen: np.ndarray | None, watched: bool) -> Recorded:
        """Outputs, and diagonals of the kernels if they are wanted."""
        self._rows = rows = self._all if chosen is None else chosen
        taught = _replicas_first(self._f[rows])
        errors = self.seen.errors(taught, rows)
        if not watched:
            return Recorded(taught, errors=errors)
        n = len(self._all)
        tests = self._begin[n:] + self._step_a[n:] @ self._alpha + self._step_w[n:] @ self._omega
        logits = _replicas_first(np.concatenate([self._f, tests]))
        kernel = np.stack([self._kernel] * len(logits)) if self.job.kernels else None
        return Recorded(taught, logits, kernel, errors=errors)

    def step(self, errors: np.ndarray) -> None:
        """Step both kernels from the same outputs."""
        (rows_a, chi_a), (rows_w, chi_w) = _halves(self._rows, errors)
        self._alpha[rows_a] += chi_a
        self._omega[rows_w] += chi_w
        if rows_a is self._all:
            self._f = self._f + self._both @ chi_a
        else:
            n = len(self._all)
            moved_a = self._step_a[:n, rows_a] @ chi_a
            self._f = self._f + moved_a + self._step_w[:n, rows_w] @ chi_w
        self.seen.learned(errors)


def _replicas_first(values: np.ndarray) -> np.ndarray:
    """(replica, ..., sample, output) from (..., sample, replica)."""
    return values.transpose(-1, *range(values.ndim - 1))[..., None]


def _halves(
    rows: np.ndarray, errors: np.ndarray
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Samples and errors (sample, replica) of last weights and of first weights."""
    chi = errors[..., 0].transpose(*range(1, errors.ndim - 1), 0)
    if rows.ndim == 1:
        return (rows, chi), (rows, chi)
    return (rows[0], chi[0]), (rows[1], chi[1])
