"""Deliberate breaks of the recursions, and a runner that shows each of them caught.

    make mutants              all of them
    python tests/mutants.py V G1        those whose name starts so

Each mutant is a replacement in one file, made in a copy of the sources; the tests named with it must
then fail. `tests/test_mutants.py` checks on every run that the list still fits the sources.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FLOW = "theory/kernel_flow.py"
LOW = "theory/preactivation.py"
MAP = "gaussian/_kernel_map.py"
GOLDEN = ("tests/theory",)


@dataclass(frozen=True)
class Mutant:
    """One break: in `file`, `old` (found exactly once) becomes `new`; one of `tests` must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = GOLDEN


MUTANTS = (
    Mutant("K: bias variance dropped off the diagonal", FLOW, "            K += net.C_b[i]\n", ""),
    Mutant(
        "K: weight variance of the layer below",
        FLOW,
        "            K *= net.C_W[i]\n",
        "            K *= net.C_W[i - 1]\n",
    ),
    Mutant(
        "K: input width forgotten",
        FLOW,
        "    K *= net.C_W[0] / net.input_dim\n",
        "    K *= net.C_W[0]\n",
    ),
    Mutant(
        "K: series cut one order short",
        MAP,
        "return max(2, int(np.searchsorted(-tail, -_SERIES_TOLERANCE)))",
        "return max(2, int(np.searchsorted(-tail, -_SERIES_TOLERANCE)) // 2)",
    ),
    Mutant(
        "K: angle term of ReLU with the wrong sign",
        MAP,
        "        sine *= self._beta\n",
        "        sine *= -self._beta\n",
    ),
    Mutant("Theta: forward term dropped", FLOW, "                Theta += work[0]\n", ""),
    Mutant(
        "Theta: rates of biases and weights swapped",
        FLOW,
        "np.multiply(K, net.lambda_W[i], out=work[0])",
        "np.multiply(K, net.lambda_b[i], out=work[0])",
    ),
    Mutant("Theta: weight variance dropped", FLOW, "                slope *= net.C_W[i]\n", ""),
    Mutant(
        "Theta: factor 2 in the derivative of the series",
        MAP,
        "            slope *= 2.0  # d p(c²)/dc\n",
        "",
    ),
    Mutant(
        "V: nothing handed on from the layer below",
        LOW,
        "    vertex *= r\n",
        "    vertex *= 0 * r\n",
    ),
    Mutant(
        "V: factor 2 in the source",
        LOW,
        "    vertex += source\n",
        "    vertex += 2 * source\n",
    ),
    Mutant("V: C_W for C_W²", LOW, "    vertex *= C_W**2\n", "    vertex *= C_W\n"),
    Mutant(
        "V: ratio of widths upside down",
        LOW,
        "    r = net.widths[layer] / net.widths[layer - 1] if layer > 1 else 1.0\n    C_W, J",
        "    r = net.widths[layer - 1] / net.widths[layer] if layer > 1 else 1.0\n    C_W, J",
    ),
    Mutant(
        "V: pushed through one leg only",
        LOW,
        "np.stack([J @ (J @ V).T for V in vertex])",
        "np.stack([J @ V for V in vertex])",
    ),
    Mutant(
        "V: Jacobian counts the first diagonal twice",
        LOW,
        "[0.5 * M[2, 0], M[1, 1]",
        "[1.0 * M[2, 0], M[1, 1]",
    ),
    Mutant(
        "V: Wick pairing with swapped legs",
        LOW,
        "wick += kernel[a][:, b] * kernel[b][:, a]",
        "wick += kernel[a][:, a] * kernel[b][:, b]",
    ),
    Mutant(
        "V: mean of the pair not subtracted",
        LOW,
        "exact = value - M[0, 0][rows] * M[0, 0][columns]",
        "exact = value",
    ),
    Mutant(
        "V: <s_a³ s_b> in the place of <s_a s_b³>",
        LOW,
        "(aa[b], ab, moment(1, 3))",
        "(aa[b], ab, moment(3, 1))",
    ),
    Mutant("G1: curvature without its half", LOW, "0.5 * _curvature(", "1.0 * _curvature("),
    Mutant("G1: nothing handed on", LOW, "C_W * r * (push + 0.5", "C_W * r * (0 * push + 0.5"),
    Mutant("G1: ratio of widths dropped", LOW, "metric = C_W * r * (", "metric = C_W * ("),
    Mutant("G1: fourth derivative twice", LOW, "0.25 * M[4, 0]", "0.50 * M[4, 0]"),
    Mutant("G1: cross term dropped", LOW, "        + M[3, 1] * V[:, aa, ab]\n", ""),
    Mutant(
        "G1: cross terms with swapped legs", LOW, "M[1, 3] * V[:, bb, ab]", "M[3, 1] * V[:, bb, ab]"
    ),
    Mutant(
        "G1: vertex of the wrong legs",
        LOW,
        "(V[:, ab, ab] + 0.5 * V[:, aa, bb])",
        "(V[:, aa, bb] + 0.5 * V[:, ab, ab])",
    ),
)


def passes(sources: Path, tests: tuple[str, ...]) -> bool:
    """Whether the tests pass with the package taken from `sources`."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    command += ["-o", "addopts=--import-mode=importlib", *tests]
    environment = {**os.environ, "PYTHONPATH": str(sources), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"The tests did not run:\n{done.stdout}{done.stderr}")
    return done.returncode == 0


def survives(mutant: Mutant) -> bool:
    """Whether the tests pass in spite of the break."""
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder)
        shutil.copytree(ROOT / "src" / "scalewise", sources / "scalewise")
        path = sources / "scalewise" / mutant.file
        path.write_text(path.read_text().replace(mutant.old, mutant.new))
        return passes(sources, mutant.tests)


def main(prefixes: list[str]) -> int:
    """Run the mutants; exit status 1 if one survives."""
    if not passes(ROOT / "src", GOLDEN):
        print("The tests fail without any break; mend that first.")
        return 1
    chosen = [m for m in MUTANTS if not prefixes or m.name.startswith(tuple(prefixes))]
    alive = []
    for mutant in chosen:
        survived = survives(mutant)
        print(f"{'SURVIVED' if survived else 'caught  '}  {mutant.name}", flush=True)
        alive += [mutant] if survived else []
    print(f"{len(chosen) - len(alive)} of {len(chosen)} mutants caught.")
    return int(bool(alive))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
