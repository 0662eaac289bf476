r"""Training of a network at a finite width, real or lazy, and at infinite width."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr

from scalewise._threads import blas_threads_for
from scalewise.limits._checks import kind, whole
from scalewise.limits._noise import generator, normal
from scalewise.limits._real import RealMatrix, check_memory
from scalewise.limits._tolerance import standard_error, until_known
from scalewise.limits.backends import Backend, Finite, Infinite, Lazy
from scalewise.limits.mlp._descent import SGD
from scalewise.limits.mlp._lazily import lazy_runs
from scalewise.limits.mlp._network import Network, Powers, powers
from scalewise.limits.mlp._run import Records, Run, Start
from scalewise.limits.mlp._task import Task

__all__ = ["real_seeds", "train"]


def train(
    net: Network,
    task: Task,
    sgd: SGD,
    *,
    steps: int,
    on: Backend,
    every: int = 1,
    decoupled: bool = False,
    features: int = 0,
    draws: bool = False,
) -> xr.Dataset:
    r"""Train a network under its strategy: outputs, loss and feature kernels over time.

    $$f_t=\kappa\langle\hat W_t,x^L_t\rangle,\qquad W^\ell_t=W^\ell_0-\eta\vartheta_\ell\sum_{s<t,\mu}
    \frac{dh^\ell_{s\mu}x^{\ell-1\top}_{s\mu}}{n}\chi_{s\mu},\qquad
    \hat W_t=\iota\hat W_0-\upsilon\eta\sum_{s<t,\mu}\chi_{s\mu}x^L_{s\mu}$$
    with the powers of `Powers`: at width $n$ this is plain gradient descent; at $n=\infty$ the powers are 0 or 1
    and the matrices those of the limit.

    Args:
        net: The network.
        task: Samples and loss.
        sgd: The descent.
        steps: How many, at least 0.
        on: `finite(n)`, `lazy(width)` (equal in law to a real network of that width), or `infinite(tolerance)`:
            the limit, with as many particles as the tolerance asks for; in the kernel regime, where there are
            none, as many draws of the initial outputs (pairs of opposite ones if `antithetic`).
        every: Record every so many steps, and the last.
        decoupled: Gradients are carried back through independent copies of the initial matrices.
        features: Record so many coordinates of every hidden layer, of the first replica.
        draws: Return the outputs of every replica too.

    Returns:
        Dataset over (time, layer, sample, output), test inputs after training samples: ``logits``, ``loss``,
        ``feature_kernel`` ($\langle x^\ell,x^\ell\rangle$), means over replicas with ``_sem`` beside them where
        there are two or more.

    Raises:
        ValueError: If training diverges (the step is named), a count is out of range, or the tolerance is out of
            reach at the memory allowed; in the kernel regime at infinite width also if weights decay or
            `features` are asked for.
        TypeError: If `net`, `task`, `sgd` or `on` is another kind of thing.

    Source: Yang & Hu, *Tensor Programs IV*, N.3-N.5 and F.1, F.2, without increments; N.31 where $r>0$.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits import Network, SGD, Task, infinite, train
        >>> from scalewise.scaling import mup
        >>> net, task = Network(mup(depth=2), "tanh"), Task(np.ones((1, 1)), np.ones(1))
        >>> found = train(net, task, SGD(1.0), steps=1, on=infinite(0.005))
        >>> bool(abs(found.logits.values[1, 0, 0] - 0.7082) < 0.02)
        True
    """
    kind("net", net, {Network: "a Network of `scalewise.limits`"})
    kind("task", task, {Task: "a Task of `scalewise.limits`"})
    kind("sgd", sgd, {SGD: "SGD(eta)"})
    kind("on", on, {Finite: "finite(n)", Lazy: "lazy(width)", Infinite: "infinite(tolerance)"})
    for name, value, least in (("steps", steps, 0), ("every", every, 1), ("features", features, 0)):
        whole(name, value, least)

    def found(backend: Finite | Lazy, n: float | int) -> Records:
        at = powers(net.strategy, n)
        length = (steps, every, features)
        with blas_threads_for(), np.errstate(over="ignore", invalid="ignore"):
            if isinstance(backend, Finite):
                return finite_runs(net, task, sgd, at, backend, decoupled, length)
            return lazy_runs(net, task, sgd, at, backend, decoupled, length)

    if isinstance(on, Infinite):
        if net.strategy.classify().r > 0:
            # Imported here: the kernel regime is told in terms of networks and tasks.
            from scalewise.limits.kernel_training import kernel_limit

            length = (steps, every, features)
            records, used = kernel_limit(net, task, sgd, on, length=length, decoupled=decoupled)
        else:
            size = len(task.inputs) + len(task.test_inputs)
            rows = 4 * size * (steps + 1) * max(net.hidden_layers - 1, 1)
            records, used = _to_tolerance(on, rows, lambda b: found(b, math.inf))
        return _dataset(net, task, records, used, features, draws, math.inf)
    return _dataset(net, task, found(on, on.width), on, features, draws, on.width)


def finite_runs(
    net: Network,
    task: Task,
    sgd: SGD,
    at: Powers,
    on: Finite,
    decoupled: bool,
    length: tuple[int, int, int],
) -> Records:
    """All seeds at once."""
    draw, matrices = real_seeds(net, on, decoupled)
    widths = net.widths(on.width)
    start = _initial(net, task, widths, draw)
    run = Run(net, task, sgd, powers=at, matrices=matrices, start=start, keep_tests=True)
    return run.train(*length)


def real_seeds(
    net: Network, on: Finite, decoupled: bool = False
) -> tuple[Callable[..., np.ndarray], list[RealMatrix]]:
    """What draws standard normal arrays for all seeds at once, and the matrices between hidden layers."""
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


def _initial(
    net: Network, task: Task, widths: tuple[int, ...], draw: Callable[..., np.ndarray]
) -> Start:
    outputs = task.targets.shape[1]
    first = draw(task.inputs.shape[1], widths[0])
    last = draw(outputs, widths[-1])
    sizes = (*widths, outputs)
    biases = [draw(n) if has else None for n, has in zip(sizes, net.has_biases, strict=True)]
    return Start(widths, first, last, biases)


def _to_tolerance(on: Infinite, rows: int, run: Callable[[Lazy], Records]) -> tuple[Records, Lazy]:
    def found(backend: Lazy) -> tuple[Records, float]:
        records = run(backend)
        return records, float(standard_error(np.stack(records.logits, axis=1)).max())

    instead = "Raise `tolerance`, `memory` or `replicas`, or take fewer steps"
    return until_known(on, rows, found, held=f"{rows} rows of numbers", instead=instead)


def _dataset(
    net: Network,
    task: Task,
    records: Records,
    on: Finite | Lazy,
    features: int,
    draws: bool,
    n: float | int,
) -> xr.Dataset:
    stacked: dict[str, tuple[tuple[str, ...], np.ndarray, str]] = {
        "logits": (("time", "sample", "output"), np.stack(records.logits, axis=1), "f_t"),
        "loss": (("time",), np.stack(records.loss, axis=1), "L_t"),
        "feature_kernel": (
            ("time", "layer", "sample", "sample_1"),
            np.stack(records.kernel, axis=1),
            "<x^l, x^l>",
        ),
    }
    variables: dict[str, Any] = {}
    for name, (dims, values, symbol) in stacked.items():
        variables[name] = (dims, values.mean(axis=0), {"symbol": symbol, "units": "dimensionless"})
        if len(values) > 1:
            variables[f"{name}_sem"] = (dims, standard_error(values))
    if draws:
        variables["logits_draws"] = (("replica", "time", "sample", "output"), stacked["logits"][1])
    if features:
        own = np.stack([values[0] for values in records.features])
        variables["features"] = (("time", "layer", "sample", "coordinate"), own)
    return xr.Dataset(
        variables,
        coords={
            "time": records.time,
            "layer": np.arange(1, net.hidden_layers + 1),
            "is_test": (
                "sample",
                np.arange(len(task.inputs) + len(task.test_inputs)) >= len(task.inputs),
            ),
        },
        attrs={
            "width": float(n),
            "particles": on.width,
            "replicas": on.replicas,
            "seed": on.seed,
            "strategy": str(net.strategy),
            "activation": str(net.activation),
            "activation_digest": net.activation.digest(),
            "loss": task.loss.name,
        },
    )
