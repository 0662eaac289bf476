"""Deliberate breaks of every recursion and every estimator, and a runner that shows each one caught.

    make mutants                                    all of them; killed, the same again goes on
    python tests/mutants.py V G1                    those whose name starts so
    python tests/mutants.py --sample 10 --seed 3    ten at random; without a seed, other ones every time

Each mutant is a replacement in one file; one of the tests named with it must then fail. The lists are in
`tests/breaks`; `tests/test_mutants.py` checks on every run that they still fit the sources; `mutant_runs.py` tries
them. A run of all writes docs/mutants.md, and keeps what it knows in .mutants.json: a mutant is run again when
its file, its tests or itself have changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pkgutil
import random
import sys
import tempfile
import time
from collections import Counter
from importlib import import_module

import breaks
from breaks import Mutant
from mutant_runs import CORES, PACKAGE, ROOT, Runs

KNOWN = ROOT / ".mutants.json"
RECORD = ROOT / "docs" / "mutants.md"
MUTANTS: tuple[Mutant, ...] = tuple(
    mutant
    for name in sorted(module.name for module in pkgutil.iter_modules(breaks.__path__))
    for mutant in import_module(f"breaks.{name}").MUTANTS
)


def digest(mutant: Mutant) -> str:
    """Of all that a verdict depends on, but what the broken file and the tests import."""
    parts = [repr(mutant), (PACKAGE / mutant.file).read_text()]
    parts += [(ROOT / test.partition("::")[0]).read_text() for test in mutant.tests]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def known() -> dict[str, bool]:
    """Of mutants run before, by digest, whether they survived."""
    return json.loads(KNOWN.read_text()) if KNOWN.exists() else {}


def keep(survived: dict[str, bool]) -> None:
    """Write what is known, so that a run that is killed loses nothing."""
    part = KNOWN.with_suffix(".part")
    part.write_text(json.dumps(survived, indent=0))
    part.replace(KNOWN)


def record(survived: dict[str, bool], last: str) -> str:
    """What is known of all mutants, as a page: counts by room, the survivors, and the last run."""
    verdicts = {m: survived.get(digest(m)) for m in MUTANTS}
    rooms = Counter(m.file.split("/")[0].removesuffix(".py") for m in MUTANTS)
    lines = [
        "# Mutants",
        "",
        "Every mutant is a formula broken on purpose; a test must see it. Made by `make mutants`.",
        "",
        "| room | mutants | caught | survived | not run |",
        "|---|---|---|---|---|",
    ]
    for room in [*sorted(rooms), ""]:
        own = [
            v
            for m, v in verdicts.items()
            if m.file.split("/")[0].removesuffix(".py") == room or not room
        ]
        counts = [len(own), own.count(False), own.count(True), own.count(None)]
        lines.append(f"| {room or 'all'} | " + " | ".join(map(str, counts)) + " |")
    alive = [f"- {m.name} (`{m.file}`)" for m, v in verdicts.items() if v]
    lines += ["", "Survivors:", "", *alive] if alive else ["", "No mutant that was run survived."]
    return "\n".join([*lines, "", last]) + "\n"


def main(words: list[str]) -> int:
    """Run the mutants; exit status 1 unless every one is caught."""
    parser = argparse.ArgumentParser(prog="python tests/mutants.py")
    parser.add_argument("prefixes", nargs="*", help="first letters of names; without them, all")
    parser.add_argument("--sample", type=int, help="how many of them, at random")
    parser.add_argument("--seed", type=int, help="of the sample")
    parser.add_argument("--afresh", action="store_true", help="each in a process of its own")
    options = parser.parse_args(words)
    chosen = [m for m in MUTANTS if m.name.startswith(tuple(options.prefixes or [""]))]
    if not chosen:
        print(f"No mutant has a name that starts with {' or '.join(options.prefixes)}.")
        return 1
    if options.sample is not None:
        seed = random.randrange(10**6) if options.seed is None else options.seed
        chosen = random.Random(seed).sample(chosen, min(options.sample, len(chosen)))
        print(f"{len(chosen)} mutants at random; --seed {seed} takes the same again.")
    start, survived = time.monotonic(), known()
    whole = not options.prefixes and options.sample is None
    # As the files are now, whatever becomes of them meanwhile.
    keys = {m: digest(m) for m in chosen}
    new = [m for m, key in keys.items() if not (whole and key in survived)]
    for mutant in new:
        survived.pop(keys[mutant], None)

    def tell(mutant: Mutant, alive: bool | None) -> None:
        word = {True: "SURVIVED", False: "caught", None: "not run"}[alive]
        print(f"{word:10}{mutant.name}", flush=True)
        if alive is not None:
            survived[keys[mutant]] = alive
            keep(survived)

    runs = Runs(new, tell, afresh=options.afresh)
    with tempfile.TemporaryDirectory() as folder:
        # All that the runs leave is here; what a break leaves as it was is compiled once.
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        os.environ["JAX_COMPILATION_CACHE_DIR"] = os.path.join(folder, "jax")
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
        os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
        if new:
            runs.go()
    minutes = (time.monotonic() - start) / 60
    last = (
        f"{len(new)} mutants run in {minutes:.1f} minutes on {CORES} cores, "
        f"{runs.new_processes} of them in processes of their own."
    )
    if whole:
        RECORD.write_text(record(survived, f"The last run: {last}"))
    caught = sum(survived.get(key) is False for key in keys.values())
    print(f"{caught} of {len(chosen)} mutants caught; {last}")
    return int(caught < len(chosen))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
