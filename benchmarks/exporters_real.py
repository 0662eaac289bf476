"""Exported plans in the real classes of other people's trainers: what a step does to every parameter.

pip install --no-deps --target PACKAGES torchtitan megatron-core tyro spmd_types docstring_parser typeguard
python benchmarks/exporters_real.py --packages PACKAGES --repositories REPOSITORIES [names of rows]

`REPOSITORIES` holds clones of nanochat, modded-nanogpt, Muon, Megatron-LM and Emerging-Optimizers, bare or not. A
row runs in a process of its own. A parameter's learning rate, weight decay and epsilon are read off steps that the
real optimizer takes, at the base and at the target, and their ratio is held against the plan's factors.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "exporters.json"
# A row: what it needs of the packages, and which repositories it reads, with the folders and files wanted.
ROWS: dict[str, tuple[bool, dict[str, tuple[str, ...]]]] = {
    "torchtitan": (True, {}),
    "megatron": (True, {}),
    "megatron-muon": (
        False,
        {"Megatron-LM": ("megatron/core",), "Emerging-Optimizers": ("emerging_optimizers",)},
    ),
    "nanochat": (False, {"nanochat": ("nanochat",)}),
    "modded-nanogpt": (False, {"modded-nanogpt": ("train_gpt.py",)}),
    "muon-package": (False, {"Muon": ("muon.py",)}),
    "trainer": (False, {}),
    "trainer-muon": (False, {}),
    "accelerate": (False, {}),
    "lightning": (False, {}),
}


# The release that Megatron's newest commit is written for.
_AT = {"Emerging-Optimizers": "v0.4.0"}


def _unpacked(repository: Path, wanted: tuple[str, ...], folder: Path) -> str:
    """The wanted files of a repository's newest commit, or of a release, and that commit."""
    git, at = ["git", "-C", str(repository)], _AT.get(repository.name, "HEAD")
    packed = subprocess.run([*git, "archive", at, *wanted], check=True, capture_output=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    said = [*git, "log", "-1", "--format=%h %cs", at]
    return subprocess.run(said, check=True, capture_output=True, text=True).stdout.strip()


def _row(name: str, packages: Path | None, repositories: Path | None) -> dict[str, Any]:
    needs, read = ROWS[name]
    if (needs and packages is None) or (read and repositories is None):
        return {"left_out": "needs --packages" if needs else "needs --repositories"}
    with tempfile.TemporaryDirectory() as folder:
        commits = {r: _unpacked(Path(repositories or "."), w, Path(folder)) for r, w in ()}
        for repository, wanted in read.items():
            commits[repository] = _unpacked(
                Path(str(repositories), repository), wanted, Path(folder)
            )
        path = [str(HERE.parent / "src"), *([str(packages)] if needs else []), folder]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path), "TORCHDYNAMO_DISABLE": "1"}
        command = [sys.executable, "-W", "ignore", str(HERE / "exporters_one.py"), name, folder]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return {"failed": done.stderr.strip().splitlines()[-3:], "commits": commits}
    return json.loads(lines[-1]) | {"commits": commits}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *ROWS], default=[])
    parser.add_argument("--packages", type=Path)
    parser.add_argument("--repositories", type=Path)
    asked = parser.parse_args()
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in asked.names or ROWS:
        found[name] = _row(name, asked.packages, asked.repositories)
        print(name, json.dumps(found[name]), flush=True)
        RESULTS.write_text(json.dumps({n: found[n] for n in ROWS if n in found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
