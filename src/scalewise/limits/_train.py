r"""The verb `train`: a network under its strategy, at a finite width and at infinite width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from scalewise._checked import Count, Index, checked
from scalewise._labelled import dataset
from scalewise._threads import blas_threads_for
from scalewise.limits._descent import SGD
from scalewise.limits._loop import FINISHED, Job, Records
from scalewise.limits._network import Architecture
from scalewise.limits._on import Exact, Finite, Infinite, Kernel, Lazy
from scalewise.limits._tolerance import standard_error
from scalewise.limits.methods._coefficients import train_coefficients
from scalewise.limits.methods._kernel import LogitKernels, train_draws, train_kernel
from scalewise.limits.methods._lazy import train_lazy, train_particles
from scalewise.limits.methods._real import train_real
from scalewise.scaling import classify
from scalewise.tasks import Task

On = Finite | Lazy | Infinite | Exact | Kernel


class TrainingError(ValueError):
    """A run that diverged or missed its tolerance.

    Attributes:
        found: The Dataset of what was computed before.
    """

    def __init__(self, message: str, found: xr.Dataset) -> None:
        super().__init__(message)
        self.found = found


@checked
def train(
    net: Architecture,
    task: Task,
    sgd: SGD,
    *,
    steps: Index,
    on: On,
    every: Count | Sequence[Index] = 1,
    decoupled: bool = False,
    features: Index = 0,
    throw: bool = True,
) -> xr.Dataset:
    r"""Train a network under its strategy: outputs, loss and feature kernels over time.

    $$f_t=\kappa\langle\hat W_t,x^L_t\rangle,\qquad W^\ell_t=W^\ell_0-\eta\vartheta_\ell\sum_{s<t,\mu}
    \frac{dh^\ell_{s\mu}x^{\ell-1\top}_{s\mu}}{n}\chi_{s\mu},\qquad
    \hat W_t=\iota\hat W_0-\upsilon\eta\sum_{s<t,\mu}\chi_{s\mu}x^L_{s\mu}$$
    with the powers of `WidthPowers`: at width $n$ this is plain gradient descent; at $n=\infty$ the powers are 0
    or 1 and the matrices those of the limit.

    Args:
        net: The network.
        task: Samples and loss.
        sgd: The descent.
        steps: How many, at least 0.
        on: `Finite(n)`; `Lazy(width)`, equal in law to a real network of that width; `Infinite(tolerance)`, the
            limit with as many particles as the tolerance asks for; `Exact()`, the limit of a linear network
            whose features move; `Kernel()`, the limit in the kernel regime from given or drawn outputs.
        every: Record every so many steps, and the last; or exactly the steps of a list.
        decoupled: Gradients are carried back through independent copies of the initial matrices.
        features: Record so many coordinates of every hidden layer, of the first replica.
        throw: Raise if training diverges or the tolerance is missed. If ``False`` the Dataset holds what there
            is up to then, and ``attrs["status"]`` says why it ended.

    Returns:
        Dataset over (replica, time, sample, output), test inputs after training samples: ``logits``, ``loss``,
        ``feature_kernel`` ($\langle x^\ell,x^\ell\rangle$, with dimensions layer, sample and sample_1); of each the
        mean over replicas, ``<name>_mean``, and with two or more replicas its standard error, ``<name>_sem``.
        In the kernel regime at infinite width also ``kernel`` ($\Theta$) and ``initial_kernel``, and of the feature
        kernels, which are exact and stand still, only ``feature_kernel_mean``. ``attrs["status"]`` is
        ``"finished"`` or a sentence.

    Raises:
        ValueError: If a count is out of range; if `on` does not serve the network, its strategy or the descent.
        TrainingError: A ValueError, if training diverges (the step is named) or the tolerance is out of reach at
            the memory allowed; its ``found`` is the Dataset up to then.
        TypeError: If `net`, `task`, `sgd` or `on` is another kind of thing.

    Source: Yang & Hu, *Tensor Programs IV*, N.3-N.5 and F.1, F.2, without increments; N.31 where $r>0$.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits import Infinite, Architecture, SGD, train
        >>> from scalewise.tasks import Task
        >>> from scalewise.scaling import mup
        >>> net, task = Architecture(mup(depth=2), "tanh"), Task(np.ones((1, 1)), np.ones(1))
        >>> found = train(net, task, SGD(1.0), steps=1, on=Infinite(0.005))
        >>> bool(abs(found.logits_mean.values[1, 0, 0] - 0.7082) < 0.02)
        True
    """
    job = Job(
        net=net,
        task=task,
        sgd=sgd,
        steps=steps,
        every=every,
        features=features,
        decoupled=decoupled,
    )
    with blas_threads_for(), np.errstate(over="ignore", invalid="ignore"):
        records, extra, attrs = _run(job, on)
        found = _dataset(job, records, extra, attrs)
    if throw and found.attrs["status"] != FINISHED:
        raise TrainingError(found.attrs["status"], found)
    return found


def _run(job: Job, on: On) -> tuple[Records, LogitKernels | None, dict[str, Any]]:
    """Records that a method leaves, the kernels of the kernel regime, and attributes that describe the run."""
    if isinstance(on, Finite):
        return train_real(job, on), None, {"width": float(on.width), "seed": on.seed}
    if isinstance(on, Lazy):
        attrs = {"width": float(on.width), "particles": on.width, "seed": on.seed}
        return train_lazy(job, on, on.width), None, attrs
    if isinstance(on, Exact):
        return train_coefficients(job), None, {"width": math.inf}
    if isinstance(on, Kernel):
        records, kernels = train_kernel(job, on)
        return records, kernels, {"width": math.inf, "seed": on.seed}
    attrs = {"width": math.inf, "seed": on.seed, "tolerance": on.tolerance}
    if classify(job.net.strategy).r > 0:
        records, missed, kernels = train_draws(job, on)
    else:
        (records, attrs["particles"], missed), kernels = train_particles(job, on), None
    if records.status == FINISHED and missed:
        records.status = missed
    return records, kernels, attrs


def _dataset(
    job: Job, records: Records, kernels: LogitKernels | None, attrs: dict[str, Any]
) -> xr.Dataset:
    net, task = job.net, job.task
    square = ("sample", "sample_1")
    variables: dict[str, Any] = {}
    for part, name, dims, symbol in (
        ("logits", "logits", ("sample", "output"), "f_t"),
        ("loss", "loss", (), "L_t"),
        ("kernel", "feature_kernel", ("layer", *square), "<x^l, x^l>"),
    ):
        if getattr(records, part):
            variables |= over_replicas(name, ("time", *dims), records.stacked(part), symbol)
    if kernels is not None:
        still = np.broadcast_to(kernels.features, (len(records.time), *kernels.features.shape))
        variables |= {
            "kernel": (square, kernels.theta, _attributes("Theta")),
            "initial_kernel": (square, kernels.initial, _attributes("K^(L+1)")),
            "feature_kernel_mean": (("time", "layer", *square), still, _attributes("<x^l, x^l>")),
        }
    if records.coordinates:
        own = records.stacked("coordinates")[0]
        variables["features"] = (("time", "layer", "sample", "coordinate"), own)
    samples = len(task.inputs) + len(task.test_inputs)
    return dataset(
        variables,
        coords={
            "time": records.time,
            "layer": np.arange(1, net.hidden_layers + 1),
            "is_test": ("sample", np.arange(samples) >= len(task.inputs)),
        },
        attrs={
            **attrs,
            "replicas": len(records.logits[0]) if records.logits else 0,
            "strategy": str(net.strategy),
            "regime": str(classify(net.strategy).regime),
            "activation": str(net.activation),
            "activation_digest": net.activation.digest(),
            "loss": task.loss.name,
            "status": records.status,
        },
    )


def over_replicas(
    name: str, dims: tuple[str, ...], values: np.ndarray, symbol: str
) -> dict[str, Any]:
    """A variable with replicas in front, its mean over them, and where there are two or more its error."""
    found = {
        name: (("replica", *dims), values, _attributes(symbol)),
        f"{name}_mean": (dims, values.mean(axis=0), _attributes(symbol)),
    }
    if len(values) > 1:
        found[f"{name}_sem"] = (dims, standard_error(values), _attributes(f"error of {symbol}"))
    return found


def _attributes(symbol: str) -> dict[str, str]:
    return {"symbol": symbol, "units": "dimensionless"}
