"""Kernel predictions and Gaussian processes beside neural-tangents, scikit-learn and tinygp, in one run.

    python benchmarks/peers_environment.py        # once: neural-tangents
    python benchmarks/learning_kernels.py [--nt-python ...] [--gp-python ...]

Every side runs in fresh processes on one processor with one thread, in float64; user and system time of the second
call of a process, in which nothing is compiled any more, and its largest resident set. neural-tangents is given its
kernels as arrays, scikit-learn and tinygp have a Gaussian kernel of their own; ours computes those of a network of
three layers as well. Writes results/learning_kernels.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
TRAIN, TESTS, FEATURES, NOISE = 2000, 500, 64, 0.1
TIMES = np.geomspace(1e-3, 1e3, 50)  # from before the first eigendirection to behind the last
PAGE = HERE / "results" / "learning_kernels.md"


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((TRAIN + TESTS, FEATURES)), rng.standard_normal((TRAIN, 1))


def ours(what: str, folder: Path) -> Callable[[], Any]:
    import scalewise as sw
    from scalewise.training import Bayes

    x, y = data()
    net = sw.MLP(3, 100, "erf", input_dim=FEATURES, output_dim=1, C_b=0.05, C_W=1.5)
    task = sw.Task(x[:TRAIN], y, test_inputs=x[TRAIN:])
    if what == "kernels":
        found = sw.predict(net, x, observables=["kernel", "ntk"], layers=net.depth)
        np.savez(folder / "kernels.npz", K=found.kernel.values[0], Theta=found.ntk.values[0])
        return lambda: sw.predict(net, x, observables=["kernel", "ntk"], layers=net.depth)
    if what == "times":
        names = ["output_mean", "output_covariance"]

        def call() -> Any:
            found = sw.predict_training(net, task, times=TIMES, observables=names)
            return found.output_mean.values[:, 0], found.output_covariance.values

        return call
    names = ["output_mean", "variance", "log_evidence"]
    return lambda: sw.predict_training(net, task, Bayes(NOISE), observables=names)


def neural_tangents(what: str, folder: Path) -> Callable[[], Any]:
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from neural_tangents import predict
    from neural_tangents._src.predict import _Kernel

    with np.load(folder / "kernels.npz") as file:
        K, Theta = jnp.asarray(file["K"]), jnp.asarray(file["Theta"])
    _, y = data()
    y = jnp.asarray(y)

    def kernel_fn(x1: Any, x2: Any, get: Any, **_: Any) -> Any:
        rows, columns = x1[:, 0], (x1 if x2 is None else x2)[:, 0]
        found = {"nngp": K[rows][:, columns], "ntk": Theta[rows][:, columns]}
        return found[get] if isinstance(get, str) else _Kernel(**{g: found[g] for g in get})

    places = jnp.arange(TRAIN + TESTS)[:, None]
    train, tests = places[:TRAIN], places[TRAIN:]
    # In its units a rate of y.size makes the sum of half squares.
    options = {"learning_rate": float(y.size)}

    def at(t: Any) -> Any:
        ensemble = predict.gradient_descent_mse_ensemble(kernel_fn, train, y, **options)
        return ensemble(t=t, x_test=tests, get="ntk", compute_cov=True)

    times = jnp.asarray(TIMES)
    if what == "one by one":

        def call() -> Any:
            ensemble = predict.gradient_descent_mse_ensemble(kernel_fn, train, y, **options)
            found = [ensemble(t=t, x_test=tests, get="ntk", compute_cov=True) for t in TIMES]
            return np.stack([f.mean[:, 0] for f in found]), np.stack([f.covariance for f in found])

        return call
    run = jax.jit(at) if what == "jitted" else at

    def together() -> Any:
        found = jax.block_until_ready(run(times))
        return np.asarray(found.mean)[..., 0], np.asarray(found.covariance)

    return together


def scikit_learn(what: str, folder: Path) -> Callable[[], Any]:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF

    x, y = data()

    def call() -> Any:
        kernel = RBF(np.sqrt(FEATURES))
        found = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None).fit(
            x[:TRAIN], y[:, 0]
        )
        return found.predict(x[TRAIN:], return_std=True), found.log_marginal_likelihood_value_

    return call


def tinygp(what: str, folder: Path) -> Callable[[], Any]:
    import jax

    jax.config.update("jax_enable_x64", True)
    from tinygp import GaussianProcess, kernels

    x, y = data()

    @jax.jit
    def run(x: Any, y: Any) -> Any:
        process = GaussianProcess(kernels.ExpSquared(np.sqrt(FEATURES)), x[:TRAIN], diag=NOISE)
        evidence, found = process.condition(y, x[TRAIN:])
        return evidence, found.mean, found.variance

    return lambda: jax.block_until_ready(run(x, y[:, 0]))


SIDES = {
    "ours": ours,
    "neural-tangents": neural_tangents,
    "scikit-learn": scikit_learn,
    "tinygp": tinygp,
}


def child(side: str, what: str, folder: Path) -> None:
    call = SIDES[side](what, folder)
    call()
    start = time.process_time()
    found = call()
    cpu = time.process_time() - start
    if what in {"times", "one by one", "together", "jitted"}:
        np.savez(folder / f"{side}-{what}.npz", mean=found[0], covariance=found[1][:, :50, :50])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1e6 if sys.platform == "darwin" else 1e3
    )
    print(json.dumps({"cpu": cpu, "peak_mb": peak}))


def timed(python: str, side: str, what: str, folder: Path, repeats: int) -> tuple[float, float]:
    """Median CPU seconds of fresh processes, and the largest memory."""
    one = {f"{lib}_NUM_THREADS": "1" for lib in ("OMP", "OPENBLAS", "MKL")}
    one["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    command = [python, __file__, "--child", side, what, str(folder)]
    if hasattr(os, "sched_setaffinity"):
        command = ["taskset", "-c", str(min(os.sched_getaffinity(0))), *command]
    found = []
    for _ in range(repeats):
        done = subprocess.run(
            command, env=os.environ | one, capture_output=True, text=True, check=False
        )
        if done.returncode:
            print(f"{side}, {what}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
            return float("nan"), float("nan")
        found.append(json.loads(done.stdout.strip().splitlines()[-1]))
    return statistics.median(f["cpu"] for f in found), max(f["peak_mb"] for f in found)


def page(rows: list[tuple[str, str, float, float]], apart: float) -> str:
    lines = [
        "# Kernel predictions and Gaussian processes, side by side",
        "",
        f"{TRAIN} training and {TESTS} test samples, {FEATURES} features; one thread, float64; CPU seconds of the",
        "second call of a process, median over processes. Made by `python benchmarks/learning_kernels.py`.",
        "",
        "| work | who | CPU s | peak MB |",
        "|---|---|---|---|",
        *(f"| {work} | {who} | {cpu:.2f} | {peak:.0f} |" for work, who, cpu, peak in rows),
        "",
        f"Largest difference of means and covariances from neural-tangents over all times: {apart:.1e}.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3], Path(sys.argv[4]))
        return
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--nt-python", default=str(HERE / ".venv-peers" / "bin" / "python"))
    arguments.add_argument("--gp-python", default=sys.executable)
    arguments.add_argument("--repeats", type=int, default=3)
    arguments.add_argument("--folder", type=Path, default=HERE / ".learning-kernels")
    given = arguments.parse_args()
    folder = given.folder
    folder.mkdir(exist_ok=True)
    both = "50 times, mean and covariance"
    process = "posterior mean, variance and evidence"
    plan = [
        ("kernels of 2500 inputs, contained in ours below", sys.executable, "ours", "kernels"),
        (both, sys.executable, "ours", "times"),
        (f"{both}, all at once", given.nt_python, "neural-tangents", "together"),
        (f"{both}, jitted", given.nt_python, "neural-tangents", "jitted"),
        (f"{both}, one after the other", given.nt_python, "neural-tangents", "one by one"),
        (process, sys.executable, "ours", "posterior"),
        (process, given.gp_python, "scikit-learn", "posterior"),
        (process, given.gp_python, "tinygp", "posterior"),
    ]
    rows = []
    for work, python, side, what in plan:
        rows.append((work, side, *timed(python, side, what, folder, given.repeats)))
        print(rows[-1], flush=True)
    with (
        np.load(folder / "ours-times.npz") as mine,
        np.load(folder / "neural-tangents-together.npz") as theirs,
    ):
        apart = max(float(np.abs(mine[k] - theirs[k]).max()) for k in ("mean", "covariance"))
    PAGE.write_text(page(rows, apart))


if __name__ == "__main__":
    main()
