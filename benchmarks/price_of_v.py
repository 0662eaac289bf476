"""What a prediction of the four-point vertex V saves: the ensemble that would know it as well.

The standard error of an ensemble falls as one over the root of the number of networks, so its size for
a given accuracy follows from one measured ensemble, and its cost from the slope between two sizes.

python benchmarks/price_of_v.py [--networks 2000]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import scalewise as sw

RESULTS = Path(__file__).parent / "results"
NAME = "four_point_vertex"
SAMPLES = (2, 8)
PROMISED = 1e-10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", type=int, default=2000)
    networks = parser.parse_args().networks
    rows = [price(samples, networks) for samples in SAMPLES]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "price_of_v.json").write_text(json.dumps(rows, indent=1) + "\n")
    text = "\n".join([*HEADING, *map(line, rows)]) + "\n"
    (RESULTS / "price_of_v.md").write_text(text)
    print(text)


def price(samples: int, networks: int) -> dict[str, Any]:
    """Predict and measure V in the last layer of the network of the demonstration."""
    x = sw.load_inputs("digits", samples=samples, seed=0)
    net = sw.MLP(16, 128, "tanh", input_dim=64, output_dim=10).at_criticality()

    def ensemble(size: int) -> Callable[[], Any]:
        return lambda: sw.measure(net, x, networks=size, observables=NAME, progress=False)

    predict_cpu, theory = fastest(lambda: sw.predict(net, x, observables=NAME), 3)
    ensemble(networks // 4)()  # compile
    few_cpu, _ = fastest(ensemble(networks // 4), 2)
    many_cpu, measured = fastest(ensemble(networks), 2)
    per_network = (many_cpu - few_cpu) / (networks - networks // 4)

    V = theory[NAME].values[-1]
    # Up to two inputs nothing is sampled, and the expectations are good to what they promise.
    accuracy = max(rms(theory[f"{NAME}_error"].values[-1]) / rms(V), PROMISED)
    sem = rms(measured[f"{NAME}_sem"].values[-1]) / rms(V)
    correction = float(theory.expansion_parameter[-1])
    row = {
        "samples": samples,
        "predict_cpu": predict_cpu,
        "per_network_cpu": per_network,
        "networks": networks,
        "ensemble_sem": sem,
    }
    for name, goal in (("coefficient", accuracy), ("finite_width", correction)):
        needed = networks * (sem / goal) ** 2
        row[name] = {
            "accuracy": goal,
            "networks": needed,
            "cpu": needed * per_network,
            "ratio": needed * per_network / predict_cpu,
        }
    return row


def fastest(call: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    seconds, result = [], None
    for _ in range(repeats):
        start = time.process_time()
        result = call()
        seconds.append(time.process_time() - start)
    return min(seconds), result


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


HEADING = [
    "| inputs | prediction, CPU s | to the accuracy of | relative | networks | CPU s | ratio |",
    "|---|---|---|---|---|---|---|",
]


def line(row: dict[str, Any]) -> str:
    lines = []
    words = {"coefficient": "the coefficient V", "finite_width": "1/n effects at width 128"}
    for name, what in words.items():
        r = row[name]
        lines.append(
            f"| {row['samples']} | {row['predict_cpu']:.2g} | {what} | {r['accuracy']:.1e} "
            f"| {r['networks']:.1e} | {r['cpu']:.1e} | {r['ratio']:.1e} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
