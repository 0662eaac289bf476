"""Lazy matrices against real ones at equal error, at great width, and on the job of a published solver.

    python benchmarks/lazy_matrices.py [equal | steps | great | solver]

CPU seconds of one thread. `equal`: two hidden layers, tanh, maximal updates, batch 4, 10 steps, width 4096 real
against the lazy width of the same root-mean-square error; `steps`: the same at 50 steps; `great`: one run of 10^6
particles and 20 steps with its peak memory; `solver`: three hidden layers, 20 steps, 4 samples, where a public
solver of the same limit takes 31 CPU seconds for a loss within 0.010 of a wide network (its cost as published).
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import resource
import sys
import time

import numpy as np

from scalewise.limits import SGD, Network, Task, finite, lazy, train
from scalewise.scaling import mup

INPUTS = np.random.default_rng(0).normal(size=(4, 5))
INPUTS = (INPUTS * 1.5 / np.linalg.norm(INPUTS, axis=0)).T
TASK = Task(INPUTS[:4], np.array([1.0, -1.0, 1.0, -1.0]), test_inputs=INPUTS[4:])
NET = Network(mup(depth=3), "tanh")
PUBLISHED = 31.0


def timed(net, task, eta, steps, on):
    """Outputs of every replica, and CPU seconds of one."""
    start = time.process_time()
    found = train(net, task, SGD(eta), steps=steps, on=on, draws=True)
    return found, (time.process_time() - start) / on.replicas


def equal(steps: int = 10, eta: float = 0.8, compression: float | None = None) -> None:
    """Error and cost of real and of lazy widths."""
    many = lazy(65536, replicas=8, antithetic=True, seed=99, compression=compression)
    truth = train(NET, TASK, SGD(eta), steps=steps, on=many).logits.values
    rows = [("real 4096", finite(4096, seed=k)) for k in range(4)]
    for width in (1024, 2048, 4096):
        for paired in (False, True):
            name = f"lazy {width}{', antithetic' if paired else ''}"
            on = lazy(width, replicas=40, antithetic=paired, compression=compression)
            rows.append((name, on))
    for name, on in rows:
        found, seconds = timed(NET, TASK, eta, steps, on)
        error = float(np.sqrt(((found.logits_draws.values - truth) ** 2).mean()))
        print(f"{name:24s} rms error {error:.5f}   {1e3 * seconds:8.1f} ms CPU", flush=True)


def great() -> None:
    """A million particles."""
    found, seconds = timed(NET, TASK, 0.8, 20, lazy(10**6, antithetic=True))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"10^6 particles, 20 steps: {seconds:.1f} s CPU, peak {peak:.2f} GB")
    print(f"loss {found.loss.values.round(5).tolist()}")


def solver() -> None:
    """Three hidden layers at T = 20, P = 4."""
    net, task = Network(mup(depth=4), "tanh"), Task(INPUTS[:4], TASK.targets)
    truth = train(net, task, SGD(0.2), steps=20, on=lazy(32768, replicas=4, seed=9)).loss.values
    for width in (1024, 4096):
        found, seconds = timed(net, task, 0.2, 20, lazy(width, replicas=10, antithetic=True))
        one = found.logits_draws.values
        loss = ((one - task.targets) ** 2).sum(axis=-1).mean(axis=-1) / 2
        gap = float(np.abs(loss - truth).max(axis=1).mean())
        print(
            f"lazy {width}: {seconds:.3f} s CPU, largest gap of the loss {gap:.4f} on average; "
            f"{PUBLISHED / seconds:.0f} times less than published"
        )


if __name__ == "__main__":
    jobs = {
        "equal": equal,
        "steps": lambda: equal(50, 0.1, 1e-3),
        "great": great,
        "solver": solver,
    }
    for name in sys.argv[1:] or jobs:
        print(f"-- {name}")
        jobs[name]()
