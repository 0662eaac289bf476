"""Kernels of large networks with positions beside neural-tangents, and ensembles of them beside plain JAX.

    python benchmarks/peers_environment.py        # once
    python benchmarks/large_fields.py [--rows row ...] [--processes 5] [--peers-python PATH]

Both sides in turn, each time in a fresh process on one processor with one thread, in float64 (ensembles in
float32). Rows that are not named keep their numbers. Writes results/large_fields.json,
results/large_fields.md and a table of docs/speed.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from clock import peak_megabytes
from peers_environment import FOLDER, python_in
from peers_rows import B_STD, W_STD, graph

HERE = Path(__file__).parent
NUMBERS, PAGE = (HERE / "results" / f"large_fields.{kind}" for kind in ("json", "md"))
SPEED = HERE.parent / "docs" / "speed.md"
BEGIN, END = (
    "<!-- large fields: written by benchmarks/large_fields.py -->",
    "<!-- end of large fields -->",
)
SIDES = ("theirs", "ours")
COPIED = 1 << 25  # numbers
NETWORKS, FEWER = 1000, 100  # by ours, and by the plain program, whose time is in proportion
Call = Callable[[], list[float]]


@dataclass(frozen=True)
class Row:
    """One network.

    Args:
        asked: What it is.
        goal: The largest share of their CPU time that was set beforehand.
        inputs: How many.
        shape: Of an input.
        theirs: Their layers, as text that their side evaluates.
        ours: Ours.
        layers: Activations.
        labels: Pairs of labels of two inputs, at most.
        scaled: How many inputs were meant to be measured, if more.
    """

    asked: str
    goal: float
    inputs: int
    shape: tuple[int, ...]
    theirs: str
    ours: str
    layers: int
    labels: int
    scaled: int | None = None

    def x(self) -> np.ndarray:
        """Inputs of a fixed draw."""
        return np.random.default_rng(0).standard_normal((self.inputs, *self.shape))

    @property
    def pairs(self) -> float:
        """Pairs of labels of different pairs of inputs, times layers."""
        return self.inputs * (self.inputs + 1) / 2 * self.labels * self.layers


def _convolutions(theirs: str, ours: str, depth: int, behind: str) -> tuple[str, str]:
    step = f'Conv(9, (3, 3), padding="SAME"), {theirs}, '
    return step * depth + f"{behind}, Dense(1)", f"Conv(3), {ours}, " * depth + f"{behind}, Dense(1)"  # fmt: skip


_BLOCK = (
    "Dense(9), FanOut(2), "
    "parallel(Identity(), serial(LayerNorm(eps=1e-5), GlobalSelfAttention(9, 9, 9, 3, **STD))), "
    "FanInSum(), FanOut(2), parallel(Identity(), serial(LayerNorm(eps=1e-5), Dense(9), Gelu(), Dense(9))), "
    "FanInSum(), LayerNorm(eps=1e-5), GlobalAvgPool(), Dense(1)",
    "Dense(), Skip(LayerNorm(), Attention(heads=3, tied=True, C_b=0, lambda_b=0)), "
    'Skip(LayerNorm(), Dense(), "gelu", Dense()), LayerNorm(), GlobalAvgPool(), Dense(1)',
)
_GRAPH = (
    "Aggregate(1), Dense(9), Relu(), " * 5 + "GlobalAvgPool(), Dense(1)",
    'Aggregate(graph(20)), Dense(), "relu", ' * 5 + "GlobalAvgPool(), Dense(1)",
)
_TANH = ("ElementwiseNumerical(jnp.tanh, deg=25)", '"tanh"')
IMAGE, SMALL = (32, 32, 3), (8, 8, 3)
ROWS = {
    "pooled": Row("3 x 3, ReLU, depth 10, global pooling", 1 / 3, 3, IMAGE,
        *_convolutions("Relu()", '"relu"', 10, "GlobalAvgPool()"), 10, 1 << 20, 20),
    "flat": Row("3 x 3, ReLU, depth 10, no pooling", 1 / 3, 60, IMAGE,
        *_convolutions("Relu()", '"relu"', 10, "Flatten()"), 10, 1 << 10, 500),
    "tanh": Row("3 x 3, tanh, depth 5, no pooling", 1 / 20, 32, SMALL,
        *_convolutions(*_TANH, 5, "Flatten()"), 5, 64),
    "graph": Row("graphs of 20 nodes, ReLU, depth 5", 1 / 3, 200, (20, 5), *_GRAPH, 5, 400),
    "attention": Row("attention block, tied, 1/d, 64 positions", 1.0, 50, (64, 8), *_BLOCK, 1, 64 * 64),
}  # fmt: skip
ENSEMBLE = "ensemble"


def theirs(row: Row) -> Call:
    """Their kernel function, compiled by its first call."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from neural_tangents import stax

    own = {"W_std": W_STD, "b_std": B_STD}
    names = {name: getattr(stax, name) for name in dir(stax) if not name.startswith("_")}
    names |= {name: partial(getattr(stax, name), **own) for name in ("Dense", "Conv")}
    stds = ("W_key_std", "W_value_std", "W_query_std", "W_out_std")
    names |= {"jnp": jnp, "STD": dict.fromkeys(stds, W_STD)}
    x, kernel_fn = row.x(), eval(f"serial({row.theirs})", names)[2]
    given = {}
    if "Aggregate" in row.theirs:
        once = jnp.broadcast_to(graph(20).T, (len(x), 20, 20))
        given = {"pattern": (once, once)}
    run = jax.jit(lambda x: kernel_fn(x, None, ("nngp", "ntk"), **given))

    def call() -> list[float]:
        found = jax.block_until_ready(run(x))
        return [float(found.nngp.sum()), float(found.ntk.sum())]

    return call


def ours(row: Row) -> Call:
    """`scalewise.predict`."""
    import scalewise as sw
    from scalewise.networks import layers as known

    names = {name: getattr(known, name) for name in dir(known) if not name.startswith("_")}
    own = {"C_W": W_STD**2, "lambda_W": W_STD**2, "C_b": B_STD**2, "lambda_b": B_STD**2}
    stack = eval(f"[{row.ours}]", {**names, "graph": graph})
    net, x = sw.Network(*stack, input_shape=row.shape, width=9, **own), row.x()

    def call() -> list[float]:
        found = sw.predict(net, x, observables=["kernel", "ntk"], layers=net.depth)
        return [float(found[name].values.sum()) for name in ("kernel", "ntk")]

    return call


def measured_ensemble() -> Call:
    """`scalewise.measure` of 1,000 networks on two images."""
    import scalewise as sw

    layers = [sw.Conv(3), "relu"] * 3 + [sw.Conv(3), "relu", sw.GlobalAvgPool(), sw.Dense(1)]
    net = sw.Network(*layers, input_shape=SMALL, width=64, C_W=2.0)
    x = np.random.default_rng(0).standard_normal((2, *SMALL))

    def call() -> list[float]:
        found = sw.measure(net, x, networks=NETWORKS, observables=["kernel", "ntk"], progress=False)
        return [float(found[name].values[-1, 0, 0]) for name in ("kernel", "ntk")]

    return call


def plain_ensemble() -> Call:
    """A program that one would write: draw, run, differentiate, `vmap` over networks, 50 at a time."""
    import jax
    import jax.numpy as jnp

    x = jnp.asarray(np.random.default_rng(0).standard_normal((2, *SMALL)), jnp.float32)
    sizes = [(3, 3, 3, 64), *[(3, 3, 64, 64)] * 3, (64, 1)]

    def run(weights: list[Any], x: Any) -> Any:
        for w in weights[:-1]:
            z = jax.lax.conv_general_dilated(
                x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = jax.nn.relu(z * np.sqrt(2 / np.prod(w.shape[:-1])))
        return x.mean(axis=(1, 2)) @ weights[-1] * np.sqrt(2 / 64)

    def of_one(key: Any) -> Any:
        keys = jax.random.split(key, len(sizes))
        weights = [jax.random.normal(k, size) for k, size in zip(keys, sizes, strict=True)]
        y, slopes = run(weights, x)[:, 0], jax.jacrev(lambda w: run(w, x)[:, 0])(weights)
        ntk = sum((g.reshape(2, -1) @ g.reshape(2, -1).T for g in slopes), jnp.zeros((2, 2)))
        return jnp.outer(y, y), ntk

    some = jax.jit(lambda keys: jax.tree.map(lambda a: a.sum(0), jax.vmap(of_one)(keys)))

    def call() -> list[float]:
        keys = jax.random.split(jax.random.key(0), FEWER).reshape(FEWER // 50, 50)
        parts = [some(part) for part in keys]
        return [float(sum(part[k][0, 0] for part in parts) / FEWER) for k in range(2)]

    return call


def child(side: str, name: str) -> dict[str, Any]:
    """CPU seconds of the first call and of a repeated one, memory beyond the imports, and sums of what is found."""
    if name == "copy":
        return {"copy": _copy()}
    if name == ENSEMBLE:
        call = measured_ensemble() if side == "ours" else plain_ensemble()
    else:
        call = {"ours": ours, "theirs": theirs}[side](ROWS[name])
    before, seconds, found = peak_megabytes(), [], []
    for _ in range(2):
        start = time.process_time()
        found = call()
        seconds.append(time.process_time() - start)
    memory = peak_megabytes() - before
    return {"first": seconds[0], "again": seconds[1], "megabytes": memory, "found": found}


def _copy() -> float:
    """Seconds for a number that is read and written, of an array that no cache holds."""
    a, b = np.ones(COPIED), np.ones(COPIED)
    seconds = []
    for _ in range(5):
        start = time.process_time()
        np.copyto(a, b)
        seconds.append(time.process_time() - start)
    return min(seconds) / COPIED


def main() -> None:
    """Measure the rows that are named, all of them by default."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = os.environ.get("SCALEWISE_PEERS_PYTHON", str(python_in(FOLDER)))
    parser.add_argument("--rows", nargs="+", choices=[*ROWS, ENSEMBLE], default=[*ROWS, ENSEMBLE])
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--peers-python", default=default, help="also SCALEWISE_PEERS_PYTHON")
    parser.add_argument("--page", action="store_true", help="written anew from the numbers")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(*options.child)))
        return
    known = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}
    if options.page:
        write(known)
        return
    for name in options.rows:
        runs: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
        for _ in range(options.processes):
            for side in SIDES:
                plain = side == "ours" or name == ENSEMBLE
                python = sys.executable if plain else options.peers_python
                runs[side].append(_process(python, side, name))
        known[name] = {side: _least(found) for side, found in runs.items()}
        known["copy"] = _process(sys.executable, "ours", "copy")["copy"]
        NUMBERS.write_text(json.dumps(known, indent=1) + "\n")
        write(known)
        print(_line(name, known) if name in ROWS else _ensemble(known), flush=True)


def _process(python: str, side: str, name: str) -> dict[str, Any]:
    from run import THREADS  # their side does not have what it needs

    environment = {**os.environ, **dict.fromkeys(THREADS, "1"), "JAX_PLATFORMS": "cpu"}
    one = min(os.sched_getaffinity(0))
    output = subprocess.run(
        [python, __file__, "--child", side, name],
        check=True,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, [one]),
    ).stdout
    return json.loads(output.splitlines()[-1])


def _least(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The least of each number of several processes."""
    keys = ("first", "again", "megabytes")
    least = {key: float(f"{min(run[key] for run in runs):.3g}") for key in keys}
    return {**least, "found": runs[0]["found"], "processes": len(runs)}


TITLE = "# Kernels of large networks with positions\n\n"
HEAD = """`predict` of K and Theta of the read-out beside neural-tangents 0.6.5 with jax 0.4.36, compiled, in
float64 on one processor. CPU seconds are the least of fresh processes of both sides in turn, on a shared machine:
of the first call, which compiles on their side, and of a repeated one. Memory is the largest resident set beyond
the imports. Ratios are ours to theirs, and a goal is that of repeated calls. Sums of K and Theta differ by less
than 1e-6, except for tanh, where theirs is a quadrature of degree 25. The last two columns are nanoseconds for a
pair and a layer: of our repeated call, and of a plain copy of K and Theta, once, of arrays that no cache holds.

| network | inputs | goal | theirs, s: first, again | ours | ratio, first | again | MB, theirs / ours | ns | copy |
|---|---|---|---|---|---|---|---|---|---|
"""


def write(known: dict[str, Any]) -> None:
    """The page, and the same between the marks of docs/speed.md."""
    PAGE.write_text(TITLE + (table := render(known)))
    text = SPEED.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    SPEED.write_text(f"{before}{BEGIN}\n{table}{END}{after}")


def render(known: dict[str, Any]) -> str:
    """What is written."""
    lines = [_line(name, known) for name in ROWS if name in known]
    lines += [
        "",
        "Pairs are those of labels, inputs at positions, over all different pairs of inputs.",
    ]
    lines += ["", _ensemble(known)] if ENSEMBLE in known else []
    return HEAD + "\n".join([*lines, "", "`python benchmarks/large_fields.py` measures again.", ""])


def _line(name: str, known: dict[str, Any]) -> str:
    row, (its, own) = ROWS[name], (known[name][side] for side in SIDES)
    apart = max(abs(a / b - 1) for a, b in zip(own["found"], its["found"], strict=True))
    if apart > 1e-6 and name != "tanh":
        raise RuntimeError(f"{name}: sides differ by {apart:.1e}")
    inputs = f"{row.inputs} of {' x '.join(map(str, row.shape))}"
    if row.scaled:
        inputs += f" (scaled down from {row.scaled})"
    ratios = [own[key] / its[key] for key in ("first", "again")]
    cells = (
        row.asked, inputs, f"{row.goal:.2g}: {'met' if ratios[1] <= row.goal else 'missed'}",
        *(f"{side['first']:.3g}, {side['again']:.3g}" for side in (its, own)),
        *(f"{ratio:.2g}" for ratio in ratios), f"{its['megabytes']:.0f} / {own['megabytes']:.0f}",
        f"{1e9 * own['again'] / row.pairs:.0f}", f"{2e9 * known['copy']:.1f}",
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _ensemble(known: dict[str, Any]) -> str:
    plain, own = (known[ENSEMBLE][side] for side in SIDES)
    return (
        f"`measure` of {NETWORKS} convolutional networks (8 x 8, width 64, depth 4, two images), K and Theta, in "
        f"float32: {own['first']:.3g} and {own['again']:.3g} CPU s, first and again, {own['megabytes']:.0f} MB. A "
        "plain program of JAX that draws, runs and differentiates networks without biases under `vmap`, 50 at a "
        "time: "
        f"{plain['first']:.3g} and {plain['again']:.3g} CPU s for {FEWER} of them, {plain['megabytes']:.0f} MB."
    )


if __name__ == "__main__":
    main()
