"""Side by side with the peer: fresh processes in turn, the same threads, CPU seconds and memory.

python benchmarks/run.py [--cases tanh gelu] [--rounds 5] [--cores 2] [--peers-python PATH]

The table goes into docs/speed.md and benchmarks/README.md, where the cases that were not run keep their rows.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import table
import truth
from cases import CASES, Case
from core_environment import FOLDER as CORE_FOLDER
from peers_environment import FOLDER, python_in

HERE = Path(__file__).parent
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC")
SIDES = ("ours", "core", "peer")
CORE = ("kernel", "rectangle")  # what takes no extra

Record = dict[str, Any]


def main() -> None:
    options = _options()
    pythons = {
        "ours": sys.executable,
        "core": options.core_python,
        "peer": options.peers_python,
    }
    for side, script in (("core", "core_environment.py"), ("peer", "peers_environment.py")):
        if not Path(pythons[side]).exists():
            print(f"There is no {pythons[side]}, which {script} makes. The others follow.")
            del pythons[side]
    for name in options.cases:
        case = CASES[name]
        has = {"ours": True, "core": case.kind in CORE, "peer": bool(case.peer)}
        sides = [side for side in SIDES if side in pythons and has[side]]
        with tempfile.TemporaryDirectory() as folder:
            row = _measure(case, {s: pythons[s] for s in sides}, options, Path(folder))
        print(table.row(case, row), flush=True)
        if options.write:
            rows = table.load() | {name: row}
            table.save(rows)
            table.write(rows)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = os.environ.get("SCALEWISE_PEERS_PYTHON", str(python_in(FOLDER)))
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--rounds", type=int, default=5, help="fresh processes for each side")
    parser.add_argument("--repeats", type=int, default=2, help="repeated calls in each process")
    parser.add_argument("--cores", type=int, default=2, help="processors each side may use")
    parser.add_argument("--peers-python", default=default, help="also SCALEWISE_PEERS_PYTHON")
    parser.add_argument("--core-python", default=str(python_in(CORE_FOLDER)))
    parser.add_argument("--no-write", dest="write", action="store_false", help="print only")
    return parser.parse_args()


def _measure(
    case: Case, pythons: dict[str, str], options: argparse.Namespace, folder: Path
) -> Record:
    runs: dict[str, list[Record]] = {side: [] for side in pythons}
    for _ in range(options.rounds):
        for side, python in pythons.items():
            runs[side].append(_child(side, python, case, options, folder / f"{side}.npz"))
    row: Record = {"conditions": _conditions(options)}
    for side, records in runs.items():
        row[side] = {
            "first": _spread([r["cpu"][0] for r in records]),
            "repeated": _spread([min(r["cpu"][1:]) for r in records]),
            "megabytes": max(r["peak_mb"] for r in records),
            "dask": records[0]["dask"],
        }
    if "peer" in runs:
        pairs = list(zip(runs["peer"], runs["ours"], strict=True))
        row["ratio"] = {
            "first": _spread([theirs["cpu"][0] / own["cpu"][0] for theirs, own in pairs]),
            "repeated": _spread([min(t["cpu"][1:]) / min(o["cpu"][1:]) for t, o in pairs]),
        }
    row.update(_judge(case, {s: dict(np.load(folder / f"{s}.npz")) for s in pythons}))
    return row


def _spread(values: Sequence[float]) -> list[float]:
    """Smallest, median and largest; of neighbours in time, so that both sides of a ratio met one load."""
    return [float(f"{v:.4g}") for v in (min(values), float(np.median(values)), max(values))]


def _child(side: str, python: str, case: Case, options: argparse.Namespace, out: Path) -> Record:
    script = HERE / ("peers_neural_tangents.py" if side == "peer" else "ours.py")
    cores = str(options.cores)
    environment = {
        **os.environ,
        **dict.fromkeys(THREADS, cores),
        "JAX_PLATFORMS": "cpu",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    command = [python, str(script), case.name, str(options.repeats), str(out)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, preexec_fn=_pin(options.cores)
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def _pin(cores: int) -> Callable[[], None] | None:
    """Thread pools size themselves by the processors they may use, so both sides get the same."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    return lambda: os.sched_setaffinity(0, allowed)


def _judge(case: Case, found: dict[str, dict[str, np.ndarray]]) -> Record:
    """Errors against the truth, or the difference of the two sides, by kind of case."""
    if case.kind in CORE:
        errors = {s: truth.errors(case, a["kernel"], a["ntk"]) for s, a in found.items()}
        return {
            "error": {s: {"kernel": _short(e[0]), "ntk": _short(e[1])} for s, e in errors.items()}
        }
    if "peer" not in found:
        return {}
    ours, peer = found["ours"], found["peer"]
    if case.kind == "ntk":
        scale = np.max(np.abs(peer["ntk"]))
        return {"difference": _short(np.max(np.abs(ours["ntk"] - peer["ntk"])) / scale)}
    judged: Record = {}
    for name in ("kernel", "ntk"):
        sem = np.hypot(ours[f"{name}_sem"], peer[f"{name}_sem"])
        z = (ours[name] - peer[name]) / sem
        judged[f"{name}_rms_z"] = _short(np.sqrt(np.mean(z**2)))
        # Error bars of equal numbers of networks: what a network is worth to either side.
        spread = ours[f"{name}_sem"] ** 2 / peer[f"{name}_sem"] ** 2
        judged[f"{name}_variance_ratio"] = _short(np.median(spread))
    return judged


def _short(value: Any) -> float:
    return float(f"{float(value):.2g}")


def _conditions(options: argparse.Namespace) -> Record:
    """What else there is to say of a row. The load after it holds its own processes, one or two."""
    return {
        "cores": options.cores,
        "rounds": options.rounds,
        "processor": platform.machine(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
    }


if __name__ == "__main__":
    main()
