"""How large is the order in 1/n that a comparison neglects, in units of what is stated for it?

`compare` allows a fluctuation to be off by the relative variance of the metric times the size of its dimension.
Here ensembles of narrow networks tell how much of that is used: the largest deviation of an entry from its
leading order in the last layer, over the stated bias, with its standard error. Activations are critical where they
can be; two of them are a user's own.

python benchmarks/neglected_orders.py [--activation tanh gelu] [--depths 3 4 8] [--width 32] [--networks 600]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import scalewise as sw
from scalewise.observables import OBSERVABLES, exists

RESULTS = Path(__file__).parent / "results"
INPUTS = np.array([[1.0, -0.4, 0.3, 0.9], [0.2, 0.8, -0.9, 0.1]])
OWN = {
    "z / sqrt(1 + z²)": lambda: sw.activation(lambda z: z / jnp.sqrt(1 + z**2), name="algebraic"),
    "z + sin²(z) / 2": lambda: sw.activation(lambda z: z + jnp.sin(z) ** 2 / 2, name="snake"),
}
ACTIVATIONS = ("tanh", "sin", "erf", "gelu", "softplus", "sigmoid", "relu", *OWN)
NAMES = tuple(n for n, row in OBSERVABLES.items() if not row.own_scale and not row.corrects)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--activation", nargs="+", choices=ACTIVATIONS, default=ACTIVATIONS)
    parser.add_argument("--depths", nargs="+", type=int, default=[3, 4, 8])
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--networks", type=int, default=600)
    given = parser.parse_args()
    path = RESULTS / "neglected_orders.json"
    rows: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    for name in given.activation:
        for depth in given.depths:
            rows[f"{name}, {depth}"] = row = used(name, depth, given.width, given.networks)
            print(name, depth, row, flush=True)
            path.write_text(json.dumps(rows, indent=1) + "\n")
    text = "\n".join(table(rows)) + "\n"
    (RESULTS / "neglected_orders.md").write_text(text)
    print(text)


def used(name: str, depth: int, width: int, networks: int) -> dict[str, Any]:
    """The share of the stated bias that each observable uses, with its standard error."""
    net = network(name, depth, width)
    names = [n for n in NAMES if exists(OBSERVABLES[n], net.activation)]
    theory = sw.at_width(sw.predict(net, INPUTS, observables=names))
    found = sw.measure(net, INPUTS, networks=networks, seed=1, observables=names, progress=False)
    row: dict[str, Any] = {"epsilon": round(float(theory.expansion_parameter[-1]), 4)}
    for n in names:
        bias, error = theory[f"{n}_bias"].values[-1], 0.0
        if f"{n}_error" in theory:
            error = theory[f"{n}_error"].values[-1]
        share = np.abs(found[n].values[-1] - theory[n].values[-1]) / bias
        sem = np.hypot(found[f"{n}_sem"].values[-1], error) / bias
        worst = np.unravel_index(share.argmax(), share.shape)
        row[n] = [round(float(share[worst]), 3), round(float(sem[worst]), 3)]
    return row


def network(name: str, depth: int, width: int) -> sw.Network:
    """Critical, or with C_b = 0, C_W = 1 if the activation has no critical point."""
    own = OWN[name]() if name in OWN else name
    critical = sw.criticality(own)
    point = {"C_b": 0.0, "C_W": 1.0}
    if critical.C_W is not None and critical.C_b is not None:
        point = {"C_b": critical.C_b, "C_W": critical.C_W}
    rates: Any = {"lambda_b": (0.3,) * depth, "lambda_W": (0.7,) * depth}
    return sw.MLP(depth, width, own, input_dim=4, output_dim=2, **point, **rates)


def table(rows: dict[str, Any]) -> Sequence[str]:
    symbols = [OBSERVABLES[n].symbol.split("_")[0] for n in NAMES]
    lines = [
        "| activation | depth | ε | " + " | ".join(symbols) + " |",
        "|---" * (3 + len(NAMES)) + "|",
    ]
    for key, row in rows.items():
        name, depth = key.rsplit(", ", 1)
        cells = [f"{row[n][0]:.2f} ± {row[n][1]:.2f}" if n in row else "–" for n in NAMES]
        lines.append(f"| {name} | {depth} | {row['epsilon']:.2f} | " + " | ".join(cells) + " |")
    beyond = [
        f"{key}, {n}: {row[n][0] - 4 * row[n][1]:.2f}"
        for key, row in rows.items()
        for n in NAMES
        if n in row and row[n][0] - 4 * row[n][1] > 1
    ]
    lines += ["", f"{len(beyond)} entries beyond what is stated by four standard errors."]
    return [*lines, *beyond]


if __name__ == "__main__":
    main()
