"""What the theory costs: every tensor of finite width, V of many inputs, and very deep single-input flows.

Each case runs in a process of its own; the first call includes whatever tables have to be filled.

python benchmarks/price_of_theory.py [--cases all-tensors many-inputs deep]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
GOALS = {
    "all-tensors": "under 30 s, then under 3 s",
    "many-inputs": "under 60 s and 8 GB",
    "deep": "under 5 s",
}
ASKED = {
    "all-tensors": "all observables, 8 inputs, 32 layers, tanh",
    "many-inputs": "V of 64 inputs, 8 layers, tanh",
    "deep": "every tensor of one input, 100 000 layers, tanh",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=list(GOALS), default=list(GOALS))
    parser.add_argument("--child", choices=list(GOALS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measured(arguments.child)))
        return
    rows = []
    for case in arguments.cases:
        command = [sys.executable, __file__, "--child", case]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        rows.append({"case": case, **json.loads(output.splitlines()[-1])})
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "price_of_theory.json").write_text(json.dumps(rows, indent=1) + "\n")
    text = "\n".join([*HEADING, *map(line, rows)]) + "\n"
    (RESULTS / "price_of_theory.md").write_text(text)
    print(text)


def measured(case: str) -> dict[str, Any]:
    """Seconds and CPU seconds of the first and of a repeated call; memory; accuracy."""
    call, accuracy = CASES[case]()
    times = []
    result: Any = None
    for _ in range(2):
        wall, cpu = time.perf_counter(), time.process_time()
        result = call()
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return {
        "wall": [t[0] for t in times],
        "cpu": [t[1] for t in times],
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "accuracy": accuracy(result),
    }


def all_tensors() -> tuple[Callable[[], Any], Callable[[Any], float]]:
    import scalewise as sw

    x = np.random.default_rng(0).normal(size=(8, 16))
    net = sw.MLP(32, 100, "tanh", input_dim=16, output_dim=1).at_criticality()
    return lambda: sw.predict(net, x, observables="all"), worst_error


def many_inputs() -> tuple[Callable[[], Any], Callable[[Any], float]]:
    import scalewise as sw

    x = np.random.default_rng(0).normal(size=(64, 64))
    net = sw.MLP(8, 100, "tanh", input_dim=64, output_dim=1).at_criticality()
    return lambda: sw.predict(net, x, observables="four_point_vertex"), worst_error


def deep() -> tuple[Callable[[], Any], Callable[[Any], float]]:
    import scalewise as sw
    from scalewise.theory.deep import asymptotics
    from scalewise.theory.single import single_input_flow

    net = sw.MLP(100_000, 100, "tanh", input_dim=1, output_dim=1).at_criticality()
    net = net.with_equivalent_learning_rates()
    limit = asymptotics("tanh").coefficients["nu"]

    def from_asymptote(flow: Any) -> float:
        """How far V/(l K²) still is from 2/3."""
        return abs(float(flow.V[-1, 0] / flow.K[-1, 0] ** 2) / net.depth / limit - 1)

    return lambda: single_input_flow(net, np.ones((1, 1))), from_asymptote


def worst_error(theory: Any) -> float:
    """The largest error bar of any layer over the largest entry of that layer."""
    worst = 0.0
    for name in theory.data_vars:
        if f"{name}_error" in theory:
            error, value = theory[f"{name}_error"].values, theory[name].values
            axes = tuple(range(1, value.ndim))
            scale = np.maximum(np.abs(value).max(axis=axes), np.finfo(float).tiny)
            worst = max(worst, float((error.max(axis=axes) / scale)[1:].max()))
    return worst


CASES = {"all-tensors": all_tensors, "many-inputs": many_inputs, "deep": deep}
HEADING = [
    "| case | what is asked | s, first / again | CPU s, first / again | MB | error | goal |",
    "|---|---|---|---|---|---|---|",
]


def line(row: dict[str, Any]) -> str:
    case = row["case"]
    wall, cpu = (" / ".join(f"{t:.3g}" for t in row[key]) for key in ("wall", "cpu"))
    cells = (case, ASKED[case], wall, cpu, f"{row['megabytes']:.0f}", f"{row['accuracy']:.0e}")
    return "| " + " | ".join((*cells, GOALS[case])) + " |"


if __name__ == "__main__":
    main()
