"""The loop that finite networks and their limits share: outputs, derivatives of the loss, a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import expit

from scalewise.limits._checks import is_whole, kind, precision
from scalewise.limits.shallow._particles import Particles
from scalewise.limits.shallow._task import Reference, Task

__all__ = [
    "Trace",
    "Units",
    "as_dataset",
    "check_outputs",
    "check_run",
    "check_seeds",
    "loss_slope",
    "recorded",
    "run_particles",
]


def loss_slope(f: np.ndarray, y: np.ndarray, order: int) -> np.ndarray:
    r"""$\partial\ell/\partial f=-y/(1+e^{fy})$, or what is left of it where $f$ is of another order than 1.

    Args:
        f: Outputs in units of their own order.
        y: Labels, +1 or -1.
        order: 0 for outputs of order one; +1 where they diverge, $-y\,[fy<0]$; -1 where they vanish, $-y/2$.

    Source: Golikov (69), (70). His (18), (19) leave out the label.
    """
    if order > 0:
        return -y * (f * y < 0)
    return -y * (expit(-f * y) if order == 0 else np.full_like(f, 0.5))


@dataclass(frozen=True)
class Units:
    r"""What stands before the sums of a network or a limit.

    $$f=F\sum_r\hat a_r\phi,\quad\Delta\hat a=-R_a\nabla\ell\,\phi,\quad\Delta\hat w=-R_w\nabla\ell\,\hat a\phi'x$$

    Args:
        output: $F$.
        rate_a: $R_a$.
        rate_w: $R_w$.
        kernel_a: Before $\sum\phi\phi$ in $K_a$.
        kernel_w: Before $\sum\hat a^2\phi'\phi'\,x\cdot x'$ in $K_w$.
    """

    output: float
    rate_a: float
    rate_w: float
    kernel_a: float
    kernel_w: float


@dataclass
class Trace:
    """What a run writes down: at each recorded step outputs (input, seed), and kernels if wanted."""

    steps: tuple[int, ...]
    outputs: list[np.ndarray]
    kernels: list[tuple[np.ndarray, np.ndarray]]


def recorded(steps: int, record: Sequence[int] | None) -> tuple[int, ...]:
    """Steps to write down, in order; all of them for ``None``."""
    wanted = tuple(range(steps + 1)) if record is None else _counts(record)
    if not wanted or wanted[0] < 0 or wanted[-1] > steps:
        raise ValueError(
            f"`record` must name steps from 0 to {steps}, at least one; got {_few(record)}."
        )
    return wanted


def _counts(values: Any) -> tuple[int, ...]:
    """Whole numbers in order; none if they are something else."""
    some: list[Any] = list(values) if isinstance(values, Iterable) else [None]
    return tuple(sorted({int(k) for k in some})) if all(is_whole(k) for k in some) else ()


def _few(values: Any) -> Any:
    return list(values)[:8] if isinstance(values, Sequence) and len(values) > 8 else repr(values)


def check_seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """Seeds as they are, or the first so many."""
    given: Any = seeds
    if is_whole(given):
        found = tuple(range(int(given)))
    else:
        some: list[Any] = list(given) if isinstance(given, Iterable) else [None]
        found = tuple(int(s) for s in some) if all(is_whole(s) for s in some) else ()
    if not found or min(found) < 0:
        raise ValueError(
            f"`seeds` must be a number of seeds or distinct seeds from 0 on; got {_few(seeds)}."
        )
    return found


def check_run(task: Any, reference: Any, dtype: Any = np.float64) -> None:
    """Refuse what is no task, no reference network, or no type to compute in."""
    kind("task", task, {Task: "a Task of `scalewise.limits.shallow`"})
    kind("reference", reference, {Reference: "a Reference of `scalewise.limits.shallow`"})
    precision(dtype)


def check_outputs(step: int, *outputs: np.ndarray) -> None:
    """Refuse outputs that have overflown."""
    if not all(np.isfinite(f).all() for f in outputs):
        raise ValueError(
            f"Outputs overflow after step {step}: the rates are too large for these inputs, and the "
            "training diverges. Take smaller `rate_a` and `rate_w`."
            if step
            else "Outputs overflow before training. Scale the inputs or `Reference.sigma` down."
        )


def run_particles(
    task: Task,
    particles: Particles,
    units: Units,
    slope: Callable[[int, np.ndarray, np.ndarray, np.ndarray], np.ndarray],
    *,
    steps: int,
    record: tuple[int, ...],
    kernels: bool,
) -> Trace:
    r"""Train, and write down $F\sum_r\hat a_r\phi$ of samples and probes.

    Args:
        task: What is learned.
        particles: The units; they are moved.
        units: Factors.
        slope: Derivative of the loss from the step, its outputs $F\sum\hat a\phi$ (row, seed), rows and labels.
        steps: Number of steps.
        record: At which to write down.
        kernels: Whether diagonals of the kernels are written down too.
    """
    everything = np.arange(len(task.inputs))
    labels = np.asarray(task.labels, dtype=np.float64)
    size = np.einsum("ij,ij->i", task.all_inputs, task.all_inputs)[:, None]
    trace = Trace(record, [], [])
    have = everything
    f = units.output * particles.outputs(slice(None))
    for k in range(steps + 1):
        if k in record:
            trace.outputs.append(np.concatenate([f, units.output * particles.probe_outputs()]))
            check_outputs(k, trace.outputs[-1])
            if kernels:
                K_a, K_w = particles.kernels()
                trace.kernels.append((units.kernel_a * K_a, units.kernel_w * size * K_w))
                check_outputs(k, *trace.kernels[-1])
        if k == steps:
            break
        rows_a, rows_w = task.rows(k)
        chi_w = chi_a = _at(slope, k, f, rows_a, have, labels)
        if rows_w is not rows_a:
            chi_w = _at(slope, k, f, rows_w, have, labels)
        have = everything if k + 1 in record or k + 1 == steps else _union(*task.rows(k + 1))
        f = units.output * particles.step(
            (rows_a, -units.rate_a / rows_a.size * chi_a),
            (rows_w, -units.rate_w / rows_w.size * chi_w),
            have,
        )
        check_outputs(k + 1, f)
    return trace


def _at(slope: Any, k: int, f: np.ndarray, rows: Any, have: Any, labels: Any) -> np.ndarray:
    here = f if rows.size == len(f) and rows is have else f[np.searchsorted(have, rows)]
    return slope(k, here, rows, labels[rows, None])


def _union(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return one if one is other and np.all(one[1:] > one[:-1]) else np.union1d(one, other)


def as_dataset(
    task: Task,
    seeds: tuple[int, ...],
    trace: Trace,
    variables: dict[str, Any],
    attrs: dict[str, Any],
) -> xr.Dataset:
    """Arrays of (step, input, seed) or (input, seed) as a Dataset of (step, seed, input)."""
    samples, total = len(task.inputs), len(task.all_inputs)
    data = {}
    for name, value in variables.items():
        array = np.swapaxes(np.asarray(value), -1, -2)
        data[name] = (("step", "seed", "input")[-array.ndim :], array)
    roles = np.where(np.arange(total) < samples, "sample", "probe")
    coordinates = {
        "step": list(trace.steps),
        "seed": list(seeds),
        "input": np.arange(total),
        "role": ("input", roles),
    }
    return xr.Dataset(data, coordinates, attrs)
