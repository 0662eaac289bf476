"""The zoo: models of other libraries planned and verified, each in a process of its own, and their table.

python benchmarks/zoo_environment.py            # once: the libraries
python benchmarks/zoo.py                        # plan and verify what results/zoo.json lacks, and write the page
python benchmarks/zoo.py --again Llama GPT-2    # these models anew
python benchmarks/zoo.py --only-plan            # nothing is trained
python benchmarks/zoo.py --page                 # only the page, from the numbers
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from peers_environment import python_in
from zoo_environment import FOLDER
from zoo_page import write

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "zoo.json"
Found = dict[str, Any]


def _lines(python: Path, *arguments: str) -> Iterator[Any]:
    """What `zoo_one.py` says in the environment of the zoo, as it says it."""
    threads = {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    }
    environment = (
        os.environ | threads | {"PYTHONPATH": str(HERE.parent / "src"), "HF_HUB_OFFLINE": "1"}
    )
    command = [str(python), str(HERE / "zoo_one.py"), *arguments]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if line.startswith(('["', '{"')):
                yield json.loads(line)


def _load() -> dict[str, Found]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def _save(found: dict[str, Found], order: Collection[str]) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    ordered = {k: found[k] for k in order if k in found}
    RESULTS.write_text(json.dumps(ordered, indent=1) + "\n")


def _wanted(key: str, names: Collection[str]) -> bool:
    return not names or key in names or key.partition("/")[2] in names


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", help="models, as Llama or transformers/Llama; all by default"
    )
    parser.add_argument("--again", action="store_true", help="also what was found before")
    parser.add_argument("--only-plan", action="store_true")
    parser.add_argument("--page", action="store_true", help="write the page from the numbers")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each model and verb")
    parser.add_argument(
        "--python", type=Path, default=python_in(FOLDER), help="of the environment of the zoo"
    )
    given = parser.parse_args()
    found = _load()
    if not given.page:
        zoo = next(_lines(given.python, "list", "0"))
        todo = sorted(
            (k for k in zoo if _wanted(k, given.names)), key=lambda k: not zoo[k]["everyday"]
        )
        for verb in ("plan",) if given.only_plan else ("plan", "verify"):
            fit = [
                k for k in todo if verb == "plan" or "tensors" in found.get(k, {}).get("plan", {})
            ]
            lacking = [k for k in fit if given.again or verb not in found.get(k, {})]
            for key, said in (
                _lines(given.python, verb, str(given.limit), *lacking) if lacking else ()
            ):
                found[key] = {**found.get(key, {}), **zoo[key], verb: said}
                _save(found, list(zoo))
                print(key, verb, json.dumps(said)[:300], flush=True)
    write(found)


if __name__ == "__main__":
    main()
