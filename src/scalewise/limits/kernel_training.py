r"""Training in the kernel regime at infinite width: gradient descent of a constant kernel.

$$f_{t+1}(\xi)=f_t(\xi)-\frac\eta P\sum_\mu\Theta(\xi,\xi_\mu)\,\chi_{t\mu}$$
Nothing is sampled but the initial outputs, a Gaussian process if $A=\frac12$ and 0 else; there are no particles.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from scalewise.limits._checks import kind, table, whole
from scalewise.limits._noise import generator
from scalewise.limits._tolerance import standard_error
from scalewise.limits.backends import Infinite, Lazy
from scalewise.limits.kernel_regime import (
    Kernel,
    initial_kernel,
    layer_kernels,
    limit_kernel,
)
from scalewise.limits.mlp import SGD, Network, Task
from scalewise.limits.mlp._run import Records

__all__ = ["kernel_limit", "train_kernel"]


def train_kernel(
    net: Network,
    task: Task,
    sgd: SGD,
    *,
    steps: int,
    every: int = 1,
    start: Any = None,
    replicas: int = 1,
    seed: int = 0,
) -> xr.Dataset:
    r"""Train a network of infinite width in the kernel regime: outputs and loss over time, no weights.

    $$g_t=\tfrac1P\chi_t\min(1,c/\lVert g\rVert),\quad v_t=\mu v_{t-1}-\eta\,\Theta g_t,\quad f_{t+1}=f_t+v_t,\qquad
      \lVert g\rVert^2=\tfrac1{P^2}\chi_t^\top\Theta\chi_t$$
    Initial outputs are drawn jointly for all inputs where they do not vanish; given them, nothing is random.

    Args:
        net: The network, in a strategy with $r>0$.
        task: Samples, watched inputs, batches (single samples included) and any loss.
        sgd: The descent; no weight decay.
        steps: How many, at least 0.
        every: Record every so many steps, and the last.
        start: $f_0$ of training samples, then test inputs: ``(samples, outputs)`` or
            ``(replicas, samples, outputs)``. By default drawn from `initial_kernel`.
        replicas: How many independent draws of $f_0$; with `start`, its own number counts.
        seed: Of the draws, at least 0.

    Returns:
        Dataset over (replica, time, sample, output): ``logits``, ``loss`` over (replica, time), ``kernel`` and
        ``initial_kernel`` over (sample, sample_1). Exact given the kernel, of rtol 1e-10.

    Raises:
        ValueError: If features move, weights decay (the kernel would shrink with them), a count is out of range,
            `start` has another shape or is not finite, or training diverges (the step is named).

    Source: TP4 Theorem N.31, N.34 (where $f_0\to0$ is meant), N.4.1; momentum and clipping derived.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits import Network, SGD, Task, train_kernel
        >>> from scalewise.scaling import ntk
        >>> task = Task(np.eye(1), np.ones(1))
        >>> found = train_kernel(Network(ntk(depth=2), "relu"), task, SGD(0.5), steps=2, start=[[0.0]])
        >>> found.logits.values.ravel().round(12).tolist()
        [0.0, 0.5, 0.75]
    """
    for name, value, least in (("steps", steps, 0), ("every", every, 1),
                               ("replicas", replicas, 1), ("seed", seed, 0)):  # fmt: skip
        whole(name, value, least)
    kind("net", net, {Network: "a Network of `scalewise.limits`"})
    kind("task", task, {Task: "a Task of `scalewise.limits`"})
    kind("sgd", sgd, {SGD: "SGD(eta)"})
    refuse_decay(sgd)
    X = np.concatenate([task.inputs, task.test_inputs])
    theta, K = limit_kernel(net, X), initial_kernel(net, X)
    shape = (len(X), task.targets.shape[1])
    f = drawn_outputs(K, (replicas, *shape), seed) if start is None else _given(start, shape)
    time, logits = descent(theta, f, task, sgd, (steps, every))
    return _dataset(net, task, time, logits, (theta, K))


def kernel_limit(
    net: Network,
    task: Task,
    sgd: SGD,
    on: Infinite,
    *,
    length: tuple[int, int, int],
    decoupled: bool,
) -> tuple[Records, Lazy]:
    r"""What `train` gives at infinite width where features do not move: as many draws of $f_0$ as are asked for.

    A replica is a draw of the initial outputs or, with `antithetic`, the mean over a draw and its opposite: for
    the square loss that is the mean over all of them.

    Args:
        net: The network, in a strategy with $r>0$.
        task: As for `train`.
        sgd: As for `train`; no weight decay.
        on: Infinite width.
        length: How many steps, every how many to record, and how many coordinates of features: 0.
        decoupled: As for `limit_kernel`.

    Returns:
        Records with replicas in front, two of them for feature kernels, which do not vary; and how many replicas
        there were of no particles.

    Raises:
        ValueError: If weights decay, coordinates are asked for, training diverges, or the tolerance is out of
            reach.
    """
    refuse_decay(sgd)
    steps, every, coordinates = length
    if coordinates:
        raise ValueError(
            "`features` are coordinates of particles, and the kernel regime has none at infinite width; got "
            f"{coordinates}. Set it to 0, or take a finite or lazy width."
        )
    X = np.concatenate([task.inputs, task.test_inputs])
    theta, K = limit_kernel(net, X, decoupled=decoupled), initial_kernel(net, X)
    shape = (len(X), task.targets.shape[1])
    largest = int(on.memory / (8 * 2 * math.prod(shape) * (steps // every + 3)))
    replicas = on.replicas
    while True:
        if replicas > largest:
            raise ValueError(
                f"A standard error of {on.tolerance:g} is out of reach at the memory allowed, {on.memory:.2g} "
                f"bytes: it asks for {replicas} draws of the initial outputs, and {largest} fit. Raise "
                "`tolerance` or `memory`, or take fewer steps."
            )
        f = drawn_outputs(K, (replicas, *shape), on.seed)
        signs = (1, -1) if on.antithetic else (1,)
        runs = [descent(theta, sign * f, task, sgd, (steps, every)) for sign in signs]
        logits = np.mean([found for _, found in runs], axis=0)
        worst = float(standard_error(logits).max())
        if worst <= on.tolerance:
            break
        replicas = math.ceil(replicas * max((1.2 * worst / on.tolerance) ** 2, 2))
    time, losses = runs[0][0], [_losses(task, found) for _, found in runs]
    features = np.broadcast_to(layer_kernels(net, X).features[1:], (2, net.hidden_layers, *K.shape))
    records = Records(
        time,
        list(logits.swapaxes(0, 1)),
        list(np.mean(losses, axis=0).T),
        [features] * len(time),
        [],
    )
    return records, replace(on.at(on.start), width=0, replicas=replicas)


def _losses(task: Task, logits: np.ndarray) -> np.ndarray:
    """Mean over the samples: (replica, time)."""
    y = task.targets
    return task.loss.value(logits[:, :, : len(y)], y).mean(axis=-1)


def descent(
    theta: Kernel, f: np.ndarray, task: Task, sgd: SGD, length: tuple[int, int]
) -> tuple[list[int], np.ndarray]:
    """Times that are recorded, and outputs at them: (replica, time, sample, output)."""
    steps, every = length
    time, logits = [], []
    v = np.zeros_like(f)
    for t in range(steps + 1):
        if not np.isfinite(f).all():
            raise ValueError(
                f"Outputs are not finite at step {t}: training diverged. Lower `eta` (it is {sgd.eta})."
            )
        if t % every == 0 or t == steps:
            time.append(t)
            logits.append(f)
        if t < steps:
            with np.errstate(over="ignore", invalid="ignore"):
                v = sgd.momentum * v + _change(theta, f, task, sgd, t)
                f = f + v
    return time, np.stack(logits, axis=1)


def _change(theta: np.ndarray, f: np.ndarray, task: Task, sgd: SGD, t: int) -> np.ndarray:
    """What one step adds to all outputs."""
    chosen = task.batch(t)
    rows = np.arange(len(task.inputs)) if chosen is None else np.asarray(chosen, dtype=np.intp)
    errors = task.loss.gradient(f[:, rows], task.targets[rows]) / len(rows)
    if sgd.clip is not None:
        square = np.einsum("rio,ij,rjo->r", errors, theta[np.ix_(rows, rows)], errors)
        norm = np.sqrt(np.maximum(square, 0.0))
        errors = errors * (sgd.clip / np.maximum(norm, sgd.clip))[:, None, None]
    return -sgd.eta * (theta[:, rows] @ errors)


def drawn_outputs(K: np.ndarray, shape: tuple[int, int, int], seed: int) -> np.ndarray:
    """Outputs with covariance K over the samples, independent over replicas and outputs."""
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    # One stream for all: more draws go on where fewer left off.
    return root @ generator(seed).standard_normal(shape)


def _given(start: Any, shape: tuple[int, int]) -> np.ndarray:
    f = table("start", start)
    if f.ndim not in (2, 3) or f.shape[-2:] != shape or not f.size:
        raise ValueError(
            f"`start` must have shape {shape}, samples then test inputs by outputs, or one such table for each "
            f"replica; got {f.shape}."
        )
    return f if f.ndim == 3 else f[None]


def refuse_decay(sgd: SGD) -> None:
    """The kernel of weights that decay is not constant."""
    if sgd.weight_decay:
        raise ValueError(
            "Weight decay shrinks the initial weights and the kernel with them, so no constant kernel is the "
            f"limit; got weight_decay = {sgd.weight_decay}. Set it to 0, or train at a finite width."
        )


def _dataset(
    net: Network, task: Task, time: list[int], logits: np.ndarray, kernels: tuple[Any, Any]
) -> xr.Dataset:
    loss = _losses(task, logits)
    square = ("sample", "sample_1")
    units = {"units": "dimensionless"}
    return xr.Dataset(
        {
            "logits": (("replica", "time", "sample", "output"), logits, units | {"symbol": "f_t"}),
            "loss": (("replica", "time"), loss, units | {"symbol": "L_t"}),
            "kernel": (square, kernels[0], units | {"symbol": "Theta"}),
            "initial_kernel": (square, kernels[1], units | {"symbol": "K^(L+1)"}),
        },
        coords={
            "time": time,
            "is_test": ("sample", np.arange(logits.shape[2]) >= len(task.targets)),
        },
        attrs={
            "width": math.inf,
            "strategy": str(net.strategy),
            "activation": str(net.activation),
            "activation_digest": net.activation.digest(),
            "regime": str(net.strategy.classify().regime),
            "loss": task.loss.name,
        },
    )
