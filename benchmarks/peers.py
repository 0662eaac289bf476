"""Layer by layer beside neural-tangents: kernels, times and memory of either side, and the page of them.

    python benchmarks/peers_environment.py        # once
    python benchmarks/peers.py [row row ...] [--peers-python PATH]

Each row runs in a process of its own on one processor with one thread, in float64. Rows that are not named keep
their numbers. Writes results/neural_tangents.json and results/neural_tangents.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import truth
from peers_environment import FOLDER, python_in
from peers_more_rows import ROWS
from peers_page import load, save, write
from peers_rows import B_STD, STORED, W_STD, Row, relative
from run import THREADS

HERE = Path(__file__).parent
LETTERS = ("K", "Theta")


def main() -> None:
    """Measure the rows that are named, all of them by default."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = os.environ.get("SCALEWISE_PEERS_PYTHON", str(python_in(FOLDER)))
    parser.add_argument("rows", nargs="*", help="names of rows; all of them by default")
    parser.add_argument("--peers-python", default=default, help="also SCALEWISE_PEERS_PYTHON")
    options = parser.parse_args()
    names = options.rows or list(ROWS)
    with tempfile.TemporaryDirectory() as folder:
        _side(options.peers_python, "theirs", folder, names)
        _side(sys.executable, "ours", folder, names)
        found, failed = {}, []
        for name in names:
            try:
                found[name] = _row(name, Path(folder))
            except RuntimeError as error:
                failed.append(str(error))
    kept = {name: row for name, row in load().items() if name in ROWS} | found
    ordered = {name: kept[name] for name in ROWS if name in kept}
    save(ordered)
    write(ordered)
    if failed:
        raise SystemExit("\n".join(failed))


def _side(python: str, side: str, folder: str, names: Sequence[str]) -> None:
    environment = {
        **os.environ,
        **dict.fromkeys(THREADS, "1"),
        "JAX_PLATFORMS": "cpu",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    one = min(os.sched_getaffinity(0))
    command = [python, str(HERE / "peers_one.py"), side, folder, *names]
    subprocess.run(
        command,
        check=True,
        env=environment,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, [one]),
    )


def _row(name: str, folder: Path) -> dict[str, Any]:
    """What is kept of a row: texts, differences, costs, and the kernels of the first inputs."""
    row, number = ROWS[name], list(ROWS).index(name)
    jobs = {
        job: json.loads(path.read_text())
        for job in ("ours", "theirs", "truth")
        if (path := folder / f"{number}-{job}.json").exists()
    }
    own, its = jobs["ours"], jobs["theirs"]
    if "error" in own or ("error" in its) != row.refused or "error" in jobs.get("truth", {}):
        told = {job: one.get("error", "computed")[:200] for job, one in jobs.items()}
        raise RuntimeError(f"{name}: {told}")
    kept: dict[str, Any] = {"theirs": row.theirs, "ours": row.ours, "cost": _costs(own, its)}
    if row.refused:
        return kept | {"refusal": its["error"].splitlines()[0]}
    true = jobs.get("truth", its)
    if row.known:
        K, Theta = truth.hidden_layer(row.x(), row.known, C_W=W_STD**2, C_b=B_STD**2)
        true = {"K": K, "Theta": Theta}
    return kept | _differences(row, own, its, true)


def _costs(own: dict[str, Any], its: dict[str, Any]) -> dict[str, dict[str, float]]:
    sides = {"ours": own, "theirs": its}
    return {
        side: {key: float(f"{found[key]:.3g}") for key in ("first", "again", "megabytes")}
        for side, found in sides.items()
        if "error" not in found
    }


def _differences(
    row: Row, own: dict[str, Any], its: dict[str, Any], true: dict[str, Any]
) -> dict[str, Any]:
    """From the truth, which is theirs where nothing else is known to be; and what the daily tests compare with."""
    kept: dict[str, Any] = {"difference": {}, "kernels": {}}
    for letter in LETTERS if row.ntk else LETTERS[:1]:
        apart = {"ours": _largest(own[letter], true[letter])}
        if row.truth or row.known:
            apart["theirs"] = _largest(its[letter], true[letter])
        if row.drawn:
            sizes = relative(np.add(true[letter], own[f"{letter} error"]), true[letter])
            apart["stated error"] = float(f"{np.max(sizes):.2g}")
        kept["difference"][letter] = apart
        kept["kernels"][letter] = np.asarray(true[letter])[:STORED, :STORED].tolist()
    return kept


def _largest(one: Any, other: Any) -> float | None:
    """The greatest relative difference; ``None`` where a number is missing."""
    largest = float(np.max(relative(one, other)))
    return None if np.isnan(largest) else float(f"{largest:.2g}")


if __name__ == "__main__":
    main()
