"""Side by side with the peer: fresh processes in turn, the same threads, CPU seconds and memory.

python benchmarks/run.py [--cases tanh gelu] [--rounds 3] [--cores 2] [--peers-python PATH]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import truth
from cases import CASES, Case
from peers_environment import FOLDER, python_in

HERE = Path(__file__).parent
RESULTS = HERE / "results"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC")
SIDES = ("ours", "peer")

Record = dict[str, Any]


def main() -> None:
    options = _options()
    pythons = {"ours": sys.executable, "peer": options.peers_python}
    if not Path(options.peers_python).exists():
        print(f"No peer at {options.peers_python}: run peers_environment.py. Ours alone follows.")
        del pythons["peer"]
    rows = []
    for name in options.cases:
        case = CASES[name]
        sides = [s for s in SIDES if s in pythons and (s == "ours" or case.peer)]
        with tempfile.TemporaryDirectory() as folder:
            row = _measure(case, {s: pythons[s] for s in sides}, options, Path(folder))
        print(_line(row), flush=True)
        rows.append(row)
    record = {"machine": _machine(options), "rows": rows}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "latest.json").write_text(json.dumps(record, indent=1) + "\n")
    table = "\n".join([*_heading(), *map(_line, rows)]) + "\n"
    (RESULTS / "table.md").write_text(table)
    print("\n" + table)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = os.environ.get("SCALEWISE_PEERS_PYTHON", str(python_in(FOLDER)))
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--rounds", type=int, default=3, help="fresh processes for each side")
    parser.add_argument("--repeats", type=int, default=3, help="repeated calls in each process")
    parser.add_argument("--cores", type=int, default=2, help="processors each side may use")
    parser.add_argument("--peers-python", default=default, help="also SCALEWISE_PEERS_PYTHON")
    return parser.parse_args()


def _measure(
    case: Case, pythons: dict[str, str], options: argparse.Namespace, folder: Path
) -> Record:
    runs: dict[str, list[Record]] = {side: [] for side in pythons}
    for _ in range(options.rounds):
        for side, python in pythons.items():
            runs[side].append(_child(side, python, case, options, folder / f"{side}.npz"))
    row: Record = {"case": case.name, "goal": case.goal, "asked": case.peer}
    for side, records in runs.items():
        row[side] = {
            # The smallest of several: everything else a machine does can only add to it.
            "first_cpu": min(r["cpu"][0] for r in records),
            "repeat_cpu": min(t for r in records for t in r["cpu"][1:]),
            "first_wall": min(r["wall"][0] for r in records),
            "repeat_wall": min(t for r in records for t in r["wall"][1:]),
            "peak_mb": max(r["peak_mb"] for r in records),
            "imports_mb": max(r["imports_mb"] for r in records),
            "runs": records,
        }
    if "peer" in row:
        for key in ("first_cpu", "repeat_cpu", "first_wall", "repeat_wall"):
            row[f"ratio_{key}"] = row["peer"][key] / row["ours"][key]
    row.update(_judge(case, {s: dict(np.load(folder / f"{s}.npz")) for s in pythons}))
    return row


def _child(side: str, python: str, case: Case, options: argparse.Namespace, out: Path) -> Record:
    script = HERE / ("ours.py" if side == "ours" else "peers_neural_tangents.py")
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
    if case.kind == "kernel":
        errors = {s: truth.errors(case, a["kernel"], a["ntk"]) for s, a in found.items()}
        return {"error": {s: {"kernel": e[0], "ntk": e[1]} for s, e in errors.items()}}
    if "peer" not in found:
        return {}
    ours, peer = found["ours"], found["peer"]
    if case.kind == "ntk":
        scale = np.max(np.abs(peer["ntk"]))
        return {"difference": float(np.max(np.abs(ours["ntk"] - peer["ntk"])) / scale)}
    judged: Record = {}
    for name in ("kernel", "ntk"):
        sem = np.hypot(ours[f"{name}_sem"], peer[f"{name}_sem"])
        z = (ours[name] - peer[name]) / sem
        judged[f"{name}_rms_z"] = float(np.sqrt(np.mean(z**2)))
        # Error bars of equal numbers of networks: what a network is worth to either side.
        spread = ours[f"{name}_sem"] ** 2 / peer[f"{name}_sem"] ** 2
        judged[f"{name}_variance_ratio"] = float(np.median(spread))
    return judged


def _heading() -> list[str]:
    return [
        "| case | ours, CPU s | peer, CPU s | ratio | ours, MB | peer, MB | accuracy | goal |",
        "|---|---|---|---|---|---|---|---|",
    ]


def _line(row: Record) -> str:
    ours, peer = row["ours"], row.get("peer")

    def times(side: Record) -> str:
        return f"{side['first_cpu']:.3g} / {side['repeat_cpu']:.3g}"

    ratio = f"{row['ratio_first_cpu']:.3g} / {row['ratio_repeat_cpu']:.3g}" if peer else "–"
    cells = [
        row["case"],
        times(ours),
        times(peer) if peer else "–",
        ratio,
        f"{ours['peak_mb']:.0f}",
        f"{peer['peak_mb']:.0f}" if peer else "–",
        _accuracy(row),
        row["goal"],
    ]
    return "| " + " | ".join(cells) + " |"


def _accuracy(row: Record) -> str:
    if "error" in row:
        return "; ".join(
            f"{side} {e['kernel']:.0e}, NTK {e['ntk']:.0e}" for side, e in row["error"].items()
        )
    if "difference" in row:
        return f"sides differ by {row['difference']:.0e}"
    if "ntk_rms_z" in row:
        return (
            f"sides differ by {row['kernel_rms_z']:.2g} and {row['ntk_rms_z']:.2g} standard errors; "
            f"our variance is {row['kernel_variance_ratio']:.2g} and "
            f"{row['ntk_variance_ratio']:.2g} of theirs"
        )
    return "–"


def _machine(options: argparse.Namespace) -> Record:
    return {
        "cores": options.cores,
        "rounds": options.rounds,
        "repeats": options.repeats,
        "python": platform.python_version(),
        "processor": platform.machine(),
        "load_after": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


if __name__ == "__main__":
    main()
