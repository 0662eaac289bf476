"""Lazy matrices against real ones at equal error, at great width, and on the job of a published solver.

    python benchmarks/lazy_matrices.py [equal | steps | great | solver]

CPU time of one thread, the least of several tries in turns. `equal`: two hidden layers, tanh, maximal updates,
batch 4, 10 steps, width 4096 real against the lazy width of the same root-mean-square error; `steps`: the same
at 50 steps; `great`: one run of 10^6 particles and 20 steps with its peak memory; `solver`: three hidden layers,
20 steps, 4 samples, where a public solver of the same limit takes 31 CPU seconds for a loss within 0.010 of a
wide network (its cost as published).
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import resource
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np

from scalewise.limits import SGD, Architecture, Finite, Lazy, train
from scalewise.scaling import mup
from scalewise.tasks import Task

INPUTS = np.random.default_rng(0).normal(size=(4, 5))
INPUTS = (INPUTS * 1.5 / np.linalg.norm(INPUTS, axis=0)).T
TASK = Task(INPUTS[:4], np.array([1.0, -1.0, 1.0, -1.0]), test_inputs=INPUTS[4:])
NET = Architecture(mup(depth=3), "tanh")
PUBLISHED = 31.0


def timed(net, task, eta, steps, on):
    """Outputs of every replica, and CPU milliseconds of one."""
    start = time.process_time()
    found = train(net, task, SGD(eta), steps=steps, on=on)
    return found, 1e3 * (time.process_time() - start) / on.replicas


def error(logits, truth):
    """Root-mean-square error of one run and its standard error."""
    squares = ((logits - truth) ** 2).mean(axis=(1, 2, 3))
    rms = squares.mean() ** 0.5
    return rms, squares.std() / len(squares) ** 0.5 / 2 / rms


def equal(steps: int = 10, eta: float = 0.8, runs: int = 64, many: int = 16) -> None:
    """Error and cost of real and of lazy widths, timed in turns."""
    spread = {"antithetic": True, "spread": True}
    great = Lazy(65536, replicas=many, seed=99, compression=1e-3, **spread)
    truth = train(NET, TASK, SGD(eta), steps=steps, on=great).logits.values
    sem = float((truth.std(axis=0, ddof=1) / len(truth) ** 0.5).max())
    print(f"limit known to {sem:.5f}", flush=True)
    truth = truth.mean(axis=0)
    jobs: dict[str, Any] = {
        "real 4096": Finite(4096),
        "real 4096, float32": Finite(4096, dtype=np.float32),
    }
    jobs["lazy 4096"] = Lazy(4096, replicas=8)
    jobs["lazy 4096, antithetic"] = Lazy(4096, replicas=8, antithetic=True)
    for width in (512, 1024, 2048):
        jobs[f"lazy {width}, antithetic, spread"] = Lazy(
            width, replicas=8, compression=None if steps < 20 else 1e-2, **spread
        )
    least = dict.fromkeys(jobs, float("inf"))
    for _ in range(6):
        for name, on in jobs.items():
            least[name] = min(least[name], timed(NET, TASK, eta, steps, on)[1])
    for name, on in jobs.items():
        # Real networks differ by no more than rounding between the types: errors of the faster one.
        if name == "real 4096":
            print(f"{name:34s} {least[name]:8.1f} ms CPU", flush=True)
            continue
        seeds = range(1, 1 + runs // on.replicas)
        logits = [
            train(NET, TASK, SGD(eta), steps=steps, on=replace(on, seed=s)).logits for s in seeds
        ]
        rms, bar = error(np.concatenate(logits), truth)
        print(
            f"{name:34s} {least[name]:8.1f} ms CPU   rms error {rms:.5f} +- {bar:.5f}", flush=True
        )


def great() -> None:
    """A million particles."""
    on = Lazy(10**6, antithetic=True, dtype=np.float32)
    found, cost = timed(NET, TASK, 0.8, 20, on)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"10^6 particles in single precision, 20 steps: {cost / 1e3:.1f} s CPU, peak {peak:.2f} GB"
    )
    print(f"loss {found.loss_mean.values.round(5).tolist()}")


def solver() -> None:
    """Three hidden layers at T = 20, P = 4."""
    net, task = Architecture(mup(depth=4), "tanh"), Task(INPUTS[:4], TASK.targets)
    truth = train(
        net, task, SGD(0.2), steps=20, on=Lazy(32768, replicas=4, seed=9)
    ).loss_mean.values
    for width in (1024, 4096):
        found, cost = timed(net, task, 0.2, 20, Lazy(width, replicas=10, antithetic=True))
        seconds = cost / 1e3
        one = found.logits.values
        loss = ((one - task.targets) ** 2).sum(axis=-1).mean(axis=-1) / 2
        gap = float(np.abs(loss - truth).max(axis=1).mean())
        print(
            f"lazy {width}: {seconds:.3f} s CPU, largest gap of the loss {gap:.4f} on average; "
            f"{PUBLISHED / seconds:.0f} times less than published"
        )


if __name__ == "__main__":
    jobs = {
        "equal": equal,
        "steps": lambda: equal(50, 0.1, 24, 8),
        "great": great,
        "solver": solver,
    }
    for name in sys.argv[1:] or jobs:
        print(f"-- {name}")
        jobs[name]()
