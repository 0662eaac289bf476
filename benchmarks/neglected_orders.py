"""How large is the order in 1/n that a comparison neglects, in units of what is stated for it?

`compare` allows an observable to be off by a small parameter, of the metric and of each NTK that it is made of,
times a size of its kind. Here ensembles of narrow networks tell how much of that is used: the largest deviation of
an entry from its leading order over the stated bias, with its standard error, in the last layer of perceptrons and
in every layer of networks of other kinds. Activations of perceptrons are critical where they can be; two are a
user's own.

python benchmarks/neglected_orders.py [--activation tanh gelu] [--depths 3 4] [--kinds recurrent] [--networks 2000]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import scalewise as sw
from scalewise.experiments._twelve_networks import (
    ENDS,
    GRAPH,
    NETWORKS,
    RATES,
    RING,
    STREAM,
    inputs_of,
)
from scalewise.observables import OBSERVABLES

RESULTS = Path(__file__).parent / "results"
INPUTS = np.array([[1.0, -0.4, 0.3, 0.9], [0.2, 0.8, -0.9, 0.1]])
OWN = {
    "z / sqrt(1 + z²)": lambda: sw.activation(lambda z: z / jnp.sqrt(1 + z**2), name="algebraic"),
    "z + sin²(z) / 2": lambda: sw.activation(lambda z: z + jnp.sin(z) ** 2 / 2, name="snake"),
}
ACTIVATIONS = ("tanh", "sin", "erf", "gelu", "softplus", "sigmoid", "relu", *OWN)
NAMES = tuple(n for n, row in OBSERVABLES.items() if not row.corrects)


def _of(*layers: Any, shape: Any, **rates: Any) -> sw.Network:
    return sw.Network(*layers, input_shape=shape, width=32, **(rates or RATES))


# By name, of networks that are not perceptrons: what makes each.
KINDS: dict[str, Callable[[], sw.Network]] = {
    **{name: made for name, (kind, made) in NETWORKS.items() if kind != "plain"},
    "deep circular convolution": lambda: _of(*(RING, "tanh") * 3, *ENDS, shape=(6, 2)),
    "deep graph": lambda: _of(*(GRAPH, sw.Dense(), "tanh") * 3, *ENDS, shape=(5, 2)),
    "deep LayerNorm": lambda: _of(
        *(sw.Dense(), sw.LayerNorm(0.1), "tanh") * 3, sw.Dense(1), shape=3
    ),
    "pooled recurrent": lambda: _of(sw.Recurrent("tanh"), *ENDS, shape=(3, 2)),
    "recurrent of usual rates": lambda: sw.Network(
        sw.Recurrent("tanh"), *ENDS, input_shape=(3, 2), width=32
    ),
    "recurrent, gelu": lambda: _of(sw.Recurrent("gelu", last=True), sw.Dense(1), shape=(3, 2)),
    "recurrent, five steps": lambda: _of(
        sw.Recurrent("tanh", last=True), sw.Dense(1), shape=(5, 2)
    ),
    "two recurrent layers": lambda: sw.Network(
        sw.Recurrent("tanh"),
        sw.Recurrent("tanh", last=True),
        sw.Dense(2),
        input_shape=(3, 2),
        width=32,
    ),
    "convolution, recurrent": lambda: _of(
        sw.Conv(3), "tanh", sw.Recurrent("tanh", last=True), sw.Dense(1), shape=(4, 2)
    ),
    "tied depth, four times": lambda: _of(
        sw.Dense(), "tanh", sw.Shared(sw.Dense(), "tanh", times=4), sw.Dense(1), shape=3
    ),
    "tied stream": lambda: _of(
        sw.Dense(),
        sw.Shared(sw.Skip("tanh", sw.Dense()), times=3),
        *("tanh", sw.Dense(1)),
        shape=3,
        **STREAM,
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--activation", nargs="*", choices=ACTIVATIONS, default=ACTIVATIONS)
    parser.add_argument("--depths", nargs="+", type=int, default=[3, 4])
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS)
    parser.add_argument("--width", type=int, default=24)
    parser.add_argument("--networks", type=int, default=2000)
    given = parser.parse_args()
    path = RESULTS / "neglected_orders.json"
    rows: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    for name in given.activation:
        for depth in given.depths:
            net = network(name, depth, given.width)
            add(rows, path, name, used(net, INPUTS, given.networks)[-1:])
    for name in given.kinds:
        net = KINDS[name]().at_width(given.width)
        add(rows, path, name, used(net, inputs_of(net), given.networks))
    text = "\n".join(table(rows)) + "\n"
    (RESULTS / "neglected_orders.md").write_text(text)
    print(text)


def add(rows: dict[str, Any], path: Path, name: str, found: Sequence[dict[str, Any]]) -> None:
    """The rows of one network, a layer each, told and kept."""
    for row in found:
        rows[key := f"{name}, {row['layer']}"] = row
        print(key, row, flush=True)
    path.write_text(json.dumps(rows, indent=1) + "\n")


def used(net: sw.Network, inputs: np.ndarray, networks: int) -> list[dict[str, Any]]:
    """The share of the stated bias that each observable uses, with its standard error, in layers that have one."""
    names = [n for n in NAMES if not OBSERVABLES[n].obstacle_of(net)]
    theory = sw.at_width(sw.predict(net, inputs, observables=names))
    found = sw.measure(net, inputs, networks=networks, seed=1, observables=names, progress=False)
    rows = []
    exact = int(theory.expansion_parameter.attrs["exact_layers"])
    for at, layer in enumerate(theory.layer.values.tolist()):
        if layer <= exact:
            continue
        small = theory.expansion_parameter, theory.ntk_expansion_parameter
        epsilon, of_ntk = (round(float(parameter[at]), 4) for parameter in small)
        row: dict[str, Any] = {"layer": layer, "epsilon": epsilon, "epsilon_ntk": of_ntk}
        for n in names:
            bias, error = theory[f"{n}_bias"].values[at], 0.0
            if f"{n}_error" in theory:
                error = theory[f"{n}_error"].values[at]
            share = np.abs(found[n].values[at] - theory[n].values[at]) / bias
            sem = np.hypot(found[f"{n}_sem"].values[at], error) / bias
            worst = np.unravel_index((share - 4 * sem).argmax(), share.shape)
            row[n] = [round(float(share[worst]), 3), round(float(sem[worst]), 3)]
        rows.append(row)
    return rows


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
        "| network | layer | ε | ε of the NTK | " + " | ".join(symbols) + " |",
        "|---" * (4 + len(NAMES)) + "|",
    ]
    for key, row in rows.items():
        cells = [f"{row[n][0]:.2f} ± {row[n][1]:.2f}" if n in row else "–" for n in NAMES]
        small = f"{row['epsilon']:.2f} | {row['epsilon_ntk']:.2f}"
        lines.append(
            f"| {key.rsplit(', ', 1)[0]} | {row['layer']} | {small} | " + " | ".join(cells) + " |"
        )
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
