"""Networks trained by `measure_training` beside a plain trainer: gradients of vmapped networks, one program.

    python benchmarks/training.py [--networks 1000] [--width 64] [--steps 100]

Both train the same networks of depth 3 on 5 inputs. results/training.md holds CPU seconds, with what is compiled
and without it. The package also draws ten times as many networks for its control, and looks at all of them;
``control=None`` is the plain trainer's own work. The last column is the standard error of the mean output.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import jax.numpy as jnp
import numpy as np

import scalewise as sw
from scalewise.training import GradientDescent

RATE = 0.05
PAGE = Path(__file__).parent / "results" / "training.md"
HEAD = """# Networks that are trained, beside a plain trainer

{networks} networks of width {width}, depth 3, tanh, {steps} steps of descent on 5 inputs; CPU seconds of the first
call and of the same again; the standard error of the mean output. Made by `python benchmarks/training.py`.

| trainer | first | again | standard error |
|---|---|---|---|
"""


def plain(net: sw.Network, task: sw.Task, networks: int, steps: int) -> Callable[[], np.ndarray]:
    """Outputs of trained networks on the tests, as one writes it."""
    x, y = (jnp.asarray(a, jnp.float32) for a in (task.inputs, task.targets))
    tests, n = jnp.asarray(task.test_inputs, jnp.float32), net.widths

    def forward(layers, x):
        for w, b in layers[:-1]:
            x = jnp.tanh(x @ w.T + b)
        return x @ layers[-1][0].T + layers[-1][1]

    def step(layers, _):
        slopes = jax.grad(lambda p: 0.5 * ((forward(p, x) - y) ** 2).sum())(layers)
        moved = [
            (w - RATE / m * u, b - RATE * v)
            for (w, b), (u, v), m in zip(layers, slopes, n, strict=False)
        ]
        return moved, None

    def one(key):
        layers = [
            (jax.random.normal(k, (m, below)) / below**0.5, jnp.zeros(m))
            for k, below, m in zip(jax.random.split(key, len(n) - 1), n, n[1:], strict=False)
        ]
        layers, _ = jax.lax.scan(step, layers, None, length=steps)
        return forward(layers, tests)

    run = jax.jit(jax.vmap(one))
    return lambda: np.asarray(run(jax.random.split(jax.random.key(0), networks)))


def main() -> None:
    """Time both."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("networks", 1000), ("width", 64), ("steps", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    x = np.random.default_rng(0).standard_normal((7, 3))
    task = sw.Task(x[:5], x[:5, :1], test_inputs=x[5:], test_targets=x[5:, :1])
    net = sw.MLP(3, given.width, "tanh", input_dim=3, output_dim=1)
    algorithm = GradientDescent(RATE, given.steps)

    def ours(control: str | None) -> Callable[[], np.ndarray]:
        def call() -> np.ndarray:
            found = sw.measure_training(
                net, task, algorithm, networks=given.networks, control=control, progress=False
            )
            return found.output_mean_sem.values

        return call

    cases = {
        "plain": plain(net, task, given.networks, given.steps),
        "control=None": ours(None),
        "control='free'": ours("free"),
        "control='linear'": ours("linear"),
    }
    lines = []
    for name, call in cases.items():
        seconds = []
        for _ in range(2):
            start = time.process_time()
            found = call()
            seconds.append(time.process_time() - start)
        sem = found.std(axis=0).max() / len(found) ** 0.5 if name == "plain" else found.max()
        lines.append(f"| {name} | {seconds[0]:.2f} | {seconds[1]:.2f} | {sem:.2e} |")
        print(lines[-1], flush=True)
    PAGE.write_text(HEAD.format(**vars(given)) + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
