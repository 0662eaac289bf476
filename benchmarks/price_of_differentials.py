"""What a contraction of dNTK and ddNTKs costs: directional derivatives against nested Jacobians.

One network, four inputs, one vector of outputs on each leg, all combinations of the inputs; each side in
a fresh process, CPU seconds of a compiled call and the largest resident set above that of the imports.
A pass is one forward and backward sweep of the same network over the same four inputs. Then ensembles:
CPU seconds of 10 000 networks, compilation included, and the standard error of each tensor.

python benchmarks/price_of_differentials.py [--networks 10000]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
from clock import peak_megabytes

import scalewise as sw
from scalewise.nets import Parameters, empirical_ddntk, empirical_dntk, init_weights

RESULTS = Path(__file__).parent / "results"
CASES = {"ours": (4, 8, 12, 128, 1024), "jacobians": (4, 8, 12)}
INPUTS, DEPTH, PEAK = 4, 3, "peak_mb"
STATISTICS = ["ntk_A", "ntk_B", "ntk_D", "ntk_F"]
DIFFERENTIALS = ["dntk_P", "dntk_Q", "ddntk_R", "ddntk_S", "ddntk_T", "ddntk_U"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", type=int, default=10_000)
    parser.add_argument("--child", nargs=2, metavar=("SIDE", "WIDTH"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(one_network(options.child[0], int(options.child[1]))))
        return
    rows = [child(side, width) for side, widths in CASES.items() for width in widths]
    exact = {r["width"]: r["values"] for r in rows if r["side"] == "jacobians"}
    for row in rows:
        values = row.pop("values")
        if row["side"] == "ours" and row["width"] in exact:
            row["difference"] = float(np.max(np.abs(np.subtract(values, exact[row["width"]]))))
    ensembles = [
        ensemble(4, STATISTICS, options.networks),
        ensemble(3, DIFFERENTIALS, options.networks),
    ]
    RESULTS.mkdir(exist_ok=True)
    record = {"one_network": rows, "ensembles": ensembles}
    (RESULTS / "price_of_differentials.json").write_text(json.dumps(record, indent=1) + "\n")
    lines = [*HEADING, *map(line, rows), "", *ENSEMBLES, *map(ensemble_line, ensembles)]
    (RESULTS / "price_of_differentials.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def child(side: str, width: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", side, str(width)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def one_network(side: str, width: int) -> dict[str, Any]:
    """dH, dd_I and dd_II for four inputs, float64."""
    net = sw.MLP(DEPTH, width, "tanh", input_dim=INPUTS, output_dim=2, C_b=0.1, C_W=1.4)
    x = np.random.default_rng(0).standard_normal((INPUTS, INPUTS))
    parameters = init_weights(net, 1, dtype="float64")
    v = np.array([[0.6, -0.8]])
    before = peak_megabytes()
    if side == "ours":
        calls = [
            lambda: (empirical_dntk(net, parameters, x, [v] * 3),),
            lambda: empirical_ddntk(net, parameters, x, [v] * 4),
        ]
    else:
        calls = [jacobians(net, parameters, x, v)]
    found = [part for call in calls for part in call()]
    row = {"side": side, "width": width, "parameters": net.parameters}
    row["cpu"] = sum(fastest(call) for call in calls)
    row[PEAK] = peak_megabytes() - before
    row["pass_cpu"] = fastest(one_pass(net, parameters, x))
    row["passes"] = row["cpu"] / row["pass_cpu"]
    row["values"] = np.concatenate([np.asarray(a).ravel() for a in found]).tolist()
    return row


def outputs(shaped: Any, x: Any) -> Any:
    s = x
    for w, b in zip(shaped.weights[:-1], shaped.biases[:-1], strict=True):
        s = jnp.tanh(s @ w.T + b)
    return s @ shaped.weights[-1].T + shaped.biases[-1]


def jacobians(
    net: sw.Network, parameters: Parameters, x: np.ndarray, v: np.ndarray
) -> Callable[[], Any]:
    """The definitions, with all first, second and third derivatives by parameters written out."""
    n = net.widths
    rates = Parameters(
        tuple(
            np.full(w.shape, r / m)
            for w, r, m in zip(parameters.weights, net.lambda_W, n, strict=False)
        ),
        tuple(np.full(b.shape, r) for b, r in zip(parameters.biases, net.lambda_b, strict=True)),
    )
    with jax.enable_x64(True):
        flat, shaped = jax.flatten_util.ravel_pytree(parameters)
        lam = jax.flatten_util.ravel_pytree(rates)[0]

    def f(p: Any) -> Any:
        return outputs(shaped(p), x) @ v[0]

    @jax.jit
    def contract(p: Any) -> Any:
        first = jax.jacrev(f)
        second = jax.jacfwd(first)
        J, H, T = first(p) * lam, second(p), jax.jacfwd(second)(p)
        dH = jnp.einsum("apq,bp,cq->abc", H, J, J)
        dd_first = jnp.einsum("apqr,bp,cq,dr->abcd", T, J, J, J)
        dd_second = jnp.einsum("apr,bqr,r,cp,dq->abcd", H, H, lam, J, J)
        return dH, dd_first, dd_second

    def call() -> Any:
        with jax.enable_x64(True):
            return [np.asarray(a) for a in contract(flat)]

    return call


def one_pass(net: sw.Network, parameters: Parameters, x: np.ndarray) -> Callable[[], Any]:
    """Forward and backward over the inputs, down to the gradient by every parameter."""
    sweep = jax.jit(jax.value_and_grad(lambda p: jnp.sum(outputs(p, x) ** 2)))

    def call() -> Any:
        with jax.enable_x64(True):
            return jax.block_until_ready(sweep(parameters))

    return call


def fastest(call: Callable[[], Any], repeats: int = 5) -> float:
    """CPU seconds of a compiled call, over enough calls to be measured."""
    call()
    seconds = []
    for _ in range(repeats):
        start, calls = time.process_time(), 0
        while time.process_time() - start < 0.1:
            call()
            calls += 1
        seconds.append((time.process_time() - start) / calls)
    return min(seconds)


def ensemble(depth: int, names: list[str], networks: int) -> dict[str, Any]:
    """Two inputs, width 32."""
    net = sw.MLP(
        depth, 32, "tanh", input_dim=2, output_dim=1, C_b=0.1, C_W=1.4, lambda_b=0.5, lambda_W=1.1
    )
    x = np.array([[1.0, 0.5], [-0.2, 0.8]])
    start = time.process_time()
    result = sw.measure(net, x, networks=networks, observables=names, progress=False)
    first = time.process_time() - start
    sw.measure(net, x, networks=networks, observables=names, progress=False)
    again = time.process_time() - start - first
    relative = {n: rms(result[f"{n}_sem"].values[-1]) / rms(result[n].values[-1]) for n in names}
    row = {"depth": depth, "networks": networks, "first_cpu": first, "repeat_cpu": again}
    return {**row, "relative_error": relative}


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


HEADING = [
    "| side | width | parameters | CPU s | passes | MB above imports | largest difference |",
    "|---|---|---|---|---|---|---|",
]
ENSEMBLES = [
    "| depth | networks | CPU s, first / repeated | relative standard error in the last layer |",
    "|---|---|---|---|",
]


def line(row: dict[str, Any]) -> str:
    difference = f"{row['difference']:.0e}" if "difference" in row else "–"
    return (
        f"| {row['side']} | {row['width']} | {row['parameters']} | {row['cpu']:.2g} "
        f"| {row['passes']:.0f} | {row[PEAK]:.0f} | {difference} |"
    )


def ensemble_line(row: dict[str, Any]) -> str:
    errors = ", ".join(f"{n.split('_')[1]} {e:.1%}" for n, e in row["relative_error"].items())
    return (
        f"| {row['depth']} | {row['networks']} | {row['first_cpu']:.2g} / {row['repeat_cpu']:.2g} "
        f"| {errors} |"
    )


if __name__ == "__main__":
    main()
