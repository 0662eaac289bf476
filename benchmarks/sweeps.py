"""What a sweep costs beside its cells.

    python benchmarks/sweeps.py [overhead | workers | memory | cluster]

`overhead`: CPU time of cells of a second in a sweep, kept in a folder, over the same calls in a loop;
`workers`: cells that compute, on two workers against one, and against this process; `memory`: peak memory of
the process that asks, for 10^3 to 10^5 cells of a few bytes on two workers, a process of its own for each;
`cluster`: from the cost of a cell of the gallery's phase diagrams, measured here, how long they would take on
10^4 cores, and how large they could be. Without a word, all of them. What was found: results/sweeps.md.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
import xarray as xr

from scalewise.sweeps import sweep


def busy(seed: int, seconds: float) -> xr.Dataset:
    """As many products of matrices as fill so many CPU seconds."""
    rng, start = np.random.default_rng(seed), time.process_time()
    x = rng.normal(size=(200, 200)) / 15
    while time.process_time() - start < seconds:
        x = np.tanh(x @ x + 0.1)
    return xr.Dataset({"mean": x.mean(), "kernel": (("a", "b"), x[:50, :50])})


def small(seed: int) -> xr.Dataset:
    return xr.Dataset({"value": float(seed)})


def overhead(cells: int = 20) -> list[str]:
    """CPU time of this process in a loop and in a sweep, in turns."""
    alone, inside = [], []
    for _ in range(3):
        start = time.process_time()
        for seed in range(cells):
            busy(seed, 1.0)
        alone.append(time.process_time() - start)
        with tempfile.TemporaryDirectory() as folder:
            begun = time.process_time()
            sweep(
                lambda seed: busy(seed, 1.0),
                {"seed": range(cells)},
                store=f"{folder}/run",
                client=0,
            )
            inside.append(time.process_time() - begun)
    ratios = [b / a - 1 for a, b in zip(alone, inside, strict=True)]
    return [
        f"Overhead of {cells} cells of one CPU second, kept in a folder, over the same calls in a "
        f"loop: {100 * np.median(ratios):.1f} % of CPU time ({', '.join(f'{100 * r:.1f}' for r in ratios)})."
    ]


def workers(cells: int = 40, seconds: float = 0.5) -> list[str]:
    """Wall time on this process, one worker and two, the start of workers apart."""
    from distributed import Client, LocalCluster

    found = {}
    grid = {"seed": range(cells), "seconds": [seconds]}
    start = time.perf_counter()
    sweep(busy, grid, client=0)
    found["this process"] = time.perf_counter() - start
    for count in (1, 2):
        with (
            LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster) as client,
        ):
            sweep(busy, {"seed": range(count), "seconds": [0.01]}, client=client)  # imports
            start = time.perf_counter()
            sweep(busy, grid, client=client)
            found[f"{count} worker{'s' * (count > 1)}"] = time.perf_counter() - start
    told = ", ".join(f"{name} {taken:.1f} s" for name, taken in found.items())
    return [
        f"{cells} cells of {seconds} CPU seconds on two cores: {told}; two workers are "
        f"{found['1 worker'] / found['2 workers']:.2f} times as fast as one."
    ]


def peak(cells: int) -> None:
    """In a process of its own: many small cells on two workers, kept in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        sweep(small, {"seed": range(cells)}, store=f"{folder}/run", client=2, progress=False)
        taken = time.perf_counter() - start
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, taken)


def memory() -> list[str]:
    rows = ["| cells | peak MB | cells per second |", "|---|---|---|"]
    for cells in (10**3, 10**4, 10**5):
        child = subprocess.run(
            [sys.executable, __file__, "peak", str(cells)],
            capture_output=True,
            text=True,
            check=True,
        )
        megabytes, taken = map(float, child.stdout.split())
        rows.append(f"| 10^{round(np.log10(cells))} | {megabytes:.0f} | {cells / taken:.0f} |")
    return [
        "Peak memory of the process that asks, cells of one number, two workers, kept in a folder:",
        "",
        *rows,
    ]


def cluster() -> list[str]:
    """Phase diagrams are cells of one network each: width, depth and s."""
    from scalewise.experiments import phase_diagram

    start = time.process_time()
    dataset = phase_diagram.run(phase_diagram.Config())
    taken = time.process_time() - start
    points = max(v.size for v in dataset.data_vars.values())
    cores, rate = 10**4, 100
    hour = cores * 3600 / (taken / points)
    return [
        f"The phase diagram of the gallery has {points} points and takes {taken:.2f} CPU seconds, "
        f"{1e3 * taken / points:.2f} ms each: it needs no cluster. The process that asks takes some {rate} "
        f"cells in a second, so a cell must hold {cores / rate / (taken / points):.1e} points to keep 10^4 "
        f"cores busy, which in an hour draw {hour:.0e} points."
    ]


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["peak"]:
        peak(int(words[1]))
    else:
        parts = {f.__name__: f for f in (overhead, workers, memory, cluster)}
        for name in words or parts:
            print("\n".join(parts[name]()), flush=True)
