"""The NTK of models of one's own beside the two ways of PyTorch's tutorial: CPU time, memory, and differences.

    python benchmarks/own_ntk.py [--rows row ...]

Each way of each row in a fresh process on one processor with one thread, in float32. Rows that are not named keep
their numbers. Writes results/own_ntk.json and results/own_ntk.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from clock import peak_megabytes
from own_ntk_models import ROWS, WAYS

HERE = Path(__file__).parent
NUMBERS, PAGE = (HERE / "results" / f"own_ntk.{kind}" for kind in ("json", "md"))
ROUNDS, OFTEN = (
    3,
    ("ours", "contraction"),
)  # in turn; of these the least time counts, the others run once
SHOWN = 3  # samples whose NTK all ways are compared by


def child(name: str, way: str) -> dict[str, Any]:
    """CPU seconds of a call, memory beyond the imports and the model, and a corner of the NTK."""
    import torch

    import scalewise.torch  # noqa: F401

    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    row = ROWS[name]
    model, x = row.make().eval(), row.inputs(row.samples)
    scale = 1.0
    if way == "products":
        x, scale = x[: row.few], (row.samples / row.few) ** 2
    with torch.no_grad():
        model(x[:1])
    torch.func.vmap(torch.func.grad(torch.sin))(torch.ones(2))  # imports what the first call does
    before, start = peak_megabytes(), time.process_time()
    H = WAYS[way](model, x, row.outputs)
    seconds = time.process_time() - start
    megabytes = peak_megabytes() - before
    corner = H[:SHOWN, :SHOWN].ravel().tolist()
    return {"seconds": scale * seconds, "scaled": scale, "megabytes": megabytes, "corner": corner}


def main() -> None:
    """Measure the rows that are named, all of them by default."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", choices=[*ROWS], default=[*ROWS])
    parser.add_argument("--ways", nargs="+", choices=[*WAYS], default=[*WAYS])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of ours and the contraction")
    parser.add_argument("--page", action="store_true", help="written anew from the numbers")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(*options.child)))
        return
    known = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}
    for name in [] if options.page else options.rows:
        ways = [way for way in options.ways if way in ("ours", *ROWS[name].others)]
        found: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
        for turn in range(options.rounds):
            for way in ways if turn == 0 else [way for way in ways if way in OFTEN]:
                found[way].append(_process(name, way))
        best = {
            way: min(runs, key=lambda run: run.get("seconds", np.inf))
            for way, runs in found.items()
        }
        known[name] = known.get(name, {}) | best
        NUMBERS.write_text(json.dumps(known, indent=1) + "\n")
        print(_line(name, known[name]), flush=True)
    PAGE.write_text(HEAD + "\n".join(_line(n, known[n]) for n in ROWS if n in known) + TAIL)


def _process(name: str, way: str) -> dict[str, Any]:
    from run import THREADS

    environment = {**os.environ, **dict.fromkeys(THREADS, "1")}
    output = subprocess.run(
        [sys.executable, __file__, "--child", name, way],
        check=False,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    if output.returncode or not output.stdout:
        return {"failed": output.returncode}
    return json.loads(output.stdout.splitlines()[-1])


HEAD = """# The NTK of a model of one's own

`scalewise.torch.tangents` with its budget of 1 GiB beside the two ways of PyTorch's tutorial on neural tangent
kernels (`torch.func`: Jacobians of all samples, contracted; products of the NTK with vectors, pair by pair), and
beside gradients of one output of one sample at a time. float32, one thread, one call in a fresh process, CPU
seconds and megabytes beyond the model and imports; in brackets, how often ours goes into it. Products were timed
on a few samples and scaled by the number of pairs, which is what they grow as. Ours and the contraction ran three
times in turn (of 100 images once), and the least time counts, since the machine is shared. The last column is the
largest difference of an entry from that of the others, relative to the largest entry, over three samples.

| NTK | samples | ours | Jacobian contraction | products | autograd | differs by |
|---|---|---|---|---|---|---|
"""
TAIL = "\n\n`python benchmarks/own_ntk.py` measures again.\n"


def _line(name: str, found: dict[str, Any]) -> str:
    row, own = ROWS[name], found["ours"]
    cells = [row.asked, str(row.samples), f"{own['seconds']:.3g} s, {own['megabytes']:.0f} MB"]
    apart = []
    for way in ("contraction", "products", "autograd"):
        other = found.get(way)
        if other is None or "failed" in other:
            cells.append("–" if other is None else "out of memory")
            continue
        ratio = f"{other['seconds']:.3g} s ({other['seconds'] / own['seconds']:.2g})"
        scaled = other["scaled"] != 1
        memory = f"{other['megabytes']:.0f} MB"
        memory += "" if scaled else f" ({other['megabytes'] / max(1, own['megabytes']):.2g})"
        cells.append(f"{ratio}{', of few:' if scaled else ','} {memory}")
        apart.append(_apart(own["corner"], other["corner"]))
    cells.append(f"{max(apart):.1g}" if apart else "–")
    return "| " + " | ".join(cells) + " |"


def _apart(one: list[float], other: list[float]) -> float:
    a, b = np.array(one), np.array(other)
    return float(np.abs(a - b).max() / np.abs(b).max())


if __name__ == "__main__":
    main()
