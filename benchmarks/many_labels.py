"""Order 1/n of networks of many labels: CPU time, memory, and the largest error beside the largest entry.

    python benchmarks/many_labels.py [--rows row ...]     # --rows 16 24 32 40: how memory grows, two minutes

Each row in a fresh process on one processor with one thread. Rows that are not named keep their numbers. Writes
results/many_labels.json, results/many_labels.md and a table of docs/speed.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from clock import peak_megabytes

HERE = Path(__file__).parent
NUMBERS, PAGE = (HERE / "results" / f"many_labels.{kind}" for kind in ("json", "md"))
SPEED = HERE.parent / "docs" / "speed.md"
BEGIN, END = (
    "<!-- many labels: written by benchmarks/many_labels.py -->",
    "<!-- end of many labels -->",
)


@dataclass(frozen=True)
class Row:
    """One call.

    Args:
        asked: What it is.
        letters: Which tensors.
        images: How many.
        size: Positions along each axis.
        seconds: The goal, if there is one.
        within: Likewise, of the largest error beside the largest entry.
        megabytes: Likewise, if there is one.
    """

    asked: str
    letters: str
    images: int
    size: int
    seconds: float | None = None
    within: float | None = None
    megabytes: float | None = None

    def call(self) -> Any:
        """The prediction, of two convolutions of tanh and a global pool."""
        import scalewise as sw

        layers = (sw.Conv(3), "tanh") * 2
        shape = (self.size, self.size, 3)
        own: dict[str, Any] = {"C_b": 0.1, "C_W": 1.5, "lambda_b": 0.5, "lambda_W": 1.0}
        net = sw.Network(
            *layers, sw.GlobalAvgPool(), sw.Dense(1), width=64, input_shape=shape, **own
        )
        x = np.random.default_rng(0).normal(size=(self.images, *shape))
        return sw.predict(net, x, observables=self.letters.split(", "))

    def errors(self, found: Any) -> dict[str, float]:
        """By letter the largest error beside the largest entry."""
        import scalewise as sw

        names = {row.letter: name for name, row in sw.OBSERVABLES.items()}
        shares = {}
        for letter in self.letters.split(", "):
            # An image at a time: of many, numbers are made as they are read.
            value, error = (
                max(
                    np.abs(found[names[letter] + end].isel(sample=a).values).max()
                    for a in range(self.images)
                )
                for end in ("", "_error")
            )
            shares[letter] = float(error / value)
        return shares


ROWS = {
    "ten": Row("8 x 8 pooled, all pairs", "V, A, B, D, F", 10, 8, 20, 0.01),
    "hundred": Row("8 x 8 pooled, all pairs", "V, A, B, D, F", 100, 8, 180, 0.01, 4096),
    "large": Row("32 x 32 pooled", "V, D, A", 4, 32, 120, 0.01),
    "shifts": Row("8 x 8 pooled, mean shifts", "G1, H1", 10, 8, 120, 0.03),
}

# The same at more and more positions: by how much memory grows with labels.
GROWTH = {str(size): Row(f"{size} x {size} pooled", "V", 4, size) for size in (16, 24, 32, 40)}
ROWS |= GROWTH


def child(name: str) -> dict[str, Any]:
    """CPU and other seconds of a call, memory beyond the imports, and errors."""
    import scalewise  # noqa: F401

    before, start, wall = peak_megabytes(), time.process_time(), time.monotonic()
    found = ROWS[name].call()
    spent = {"seconds": time.process_time() - start, "wall": time.monotonic() - wall}
    errors = ROWS[name].errors(found)  # all numbers are read, which is no part of the call
    return spent | {"megabytes": peak_megabytes() - before, "errors": errors}


def main() -> None:
    """Measure the rows that are named, all of them by default."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", choices=[*ROWS], default=[*ROWS])
    parser.add_argument("--page", action="store_true", help="written anew from the numbers")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(options.child)))
        return
    known = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}
    for name in [] if options.page else options.rows:
        known[name] = _process(name)
        NUMBERS.write_text(json.dumps(known, indent=1) + "\n")
        print(_line(name, known), flush=True)
    write(known)
    if known.keys() >= GROWTH.keys():
        print(_grown(known))


def _process(name: str) -> dict[str, Any]:
    from run import THREADS

    environment = {**os.environ, **dict.fromkeys(THREADS, "1"), "JAX_PLATFORMS": "cpu"}
    output = subprocess.run(
        [sys.executable, __file__, "--child", name],
        check=True,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    assert output is not None
    return json.loads(output.splitlines()[-1])


TITLE = "# Order 1/n of networks of many labels\n\n"
HEAD = """`predict` of a network of two convolutions (3 x 3, tanh), a global pool and a dense layer, by read-outs
carried back: float64, one thread, one call in a fresh process. Labels are images times positions. The error is the
largest stated standard error of a tensor beside its largest entry, the worst of the tensors.

| network | tensors | images, labels | goal | CPU s | MB | error | |
|---|---|---|---|---|---|---|---|
"""


TAIL = """Of 100 images V alone took 145 s and 4002 MB before the tensors shared the factors of their exact parts.
Each number that symmetry leaves is kept once, and of many images it is read where it is asked for. Above 2048
labels numbers have single precision, 1e-6 of a tensor, and 1024 units are drawn."""


def write(known: dict[str, Any]) -> None:
    """The page, and the same between the marks of docs/speed.md."""
    PAGE.write_text(TITLE + (table := render(known)))
    text = SPEED.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    SPEED.write_text(f"{before}{BEGIN}\n{table}{END}{after}")


def render(known: dict[str, Any]) -> str:
    """What is written."""
    lines = [_line(name, known) for name in ROWS if name in known]
    told = [TAIL, _grown(known)] if known.keys() >= GROWTH.keys() else [TAIL]
    parts = ["\n".join(lines), *told, "`python benchmarks/many_labels.py` measures again.\n"]
    return HEAD + "\n\n".join(parts)


def _grown(known: dict[str, Any]) -> str:
    """The power of the labels that memory grows as, a sentence."""
    labels = [row.images * row.size**2 for row in GROWTH.values()]
    memory = [known[name]["megabytes"] for name in GROWTH]
    slope = np.polyfit(np.log(labels), np.log(memory), 1)[0]
    last = np.log(memory[-1] / memory[-2]) / np.log(labels[-1] / labels[-2])
    return (
        f"From {labels[0]} to {labels[-1]} labels of four images memory grows as their power {slope:.2f}, and\n"
        f"between the last two as the power {last:.2f}: their square at most, and never their fourth power, as of\n"
        "arrays over pairs of pairs."
    )


def _line(name: str, known: dict[str, Any]) -> str:
    row, found = ROWS[name], known[name]
    worst = max(found["errors"].values())
    goal, met = [], []
    if row.seconds is not None:
        goal.append(f"{row.seconds:g} s")
        met.append(f"time {_met(found['seconds'] <= row.seconds)}")
    if row.within is not None:
        goal.append(f"{100 * row.within:g} %")
        met.append(f"error {_met(worst <= row.within)}")
    if row.megabytes is not None:
        goal.append(f"{row.megabytes:g} MB")
        met.append(f"memory {_met(found['megabytes'] <= row.megabytes)}")
    cells = (
        row.asked, row.letters, f"{row.images}, {row.images * row.size**2}", ", ".join(goal),
        f"{found['seconds']:.3g}", f"{found['megabytes']:.0f}", f"{100 * worst:.2g} %", ", ".join(met),
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _met(met: bool) -> str:
    return "met" if met else "missed"


if __name__ == "__main__":
    main()
