"""Deliberate breaks of every recursion and every estimator, and a runner that shows each one caught.

    make mutants                                    all of them; killed, the same again goes on
    python tests/mutants.py V G1                    those whose name starts so
    python tests/mutants.py --sample 10 --seed 3    ten at random; without a seed, other ones every time

Each mutant is a replacement in one file, made in a copy of the sources; the tests named with it must
then fail. The lists are in `tests/breaks`; `tests/test_mutants.py` checks on every run that they still
fit the sources. A run of all writes docs/mutants.md, and keeps what it knows in .mutants.json: a mutant is
run again when its file, its tests or itself have changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Lock

import pytest

from breaks import (
    Mutant,
    activations,
    correlators,
    criticality,
    deep,
    dntk,
    estimators,
    jax,
    laws,
    layers,
    learning_rate,
    limits_core,
    limits_kernel,
    limits_linear,
    limits_shallow,
    moments,
    note,
    ntk,
    one_input,
    plan,
    preactivation,
    scaling,
    sweeps,
    torch,
    training,
    two_inputs,
    verify,
)

ROOT = Path(__file__).resolve().parents[1]
KNOWN = ROOT / ".mutants.json"
RECORD = ROOT / "docs" / "mutants.md"
LONGEST = 300  # seconds of computing
# Imported once, then every run of tests starts from a copy of that process: most of a run is imports.
PRELOADED = [
    "numpy",
    "scipy.special",
    "scipy.optimize",
    "scipy.stats",
    "xarray",
    "jax.numpy",
    "torch",
    "pytest",
]
MUTANTS: tuple[Mutant, ...] = (
    *preactivation.MUTANTS,
    *ntk.MUTANTS,
    *dntk.MUTANTS,
    *layers.MUTANTS,
    *limits_linear.MUTANTS,
    *limits_core.MUTANTS,
    *limits_kernel.MUTANTS,
    *limits_shallow.MUTANTS,
    *learning_rate.MUTANTS,
    *one_input.MUTANTS,
    *plan.MUTANTS,
    *torch.MUTANTS,
    *two_inputs.MUTANTS,
    *deep.MUTANTS,
    *activations.MUTANTS,
    *correlators.MUTANTS,
    *laws.MUTANTS,
    *note.MUTANTS,
    *criticality.MUTANTS,
    *scaling.MUTANTS,
    *sweeps.MUTANTS,
    *jax.MUTANTS,
    *moments.MUTANTS,
    *estimators.MUTANTS,
    *verify.MUTANTS,
    *training.MUTANTS,
)


def run_tests(sources: Path, tests: tuple[str, ...]) -> int:
    """Exit status of the tests with the package taken from `sources`, in a process made for them."""
    # A break that makes the tests hang is noticed too: the alarm fails the test that runs.
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    sys.path.insert(0, str(sources))
    sys.dont_write_bytecode = True
    os.chdir(ROOT)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    options = ["-x", "-q", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib"]
    return int(pytest.main([*options, *tests]))


def _stop(*_: object) -> None:
    raise TimeoutError(f"no answer after {LONGEST} s")


def passes(sources: Path, tests: tuple[str, ...]) -> bool:
    """Whether the tests pass with the package taken from `sources`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    with ProcessPoolExecutor(1, mp_context=context) as process:
        status = process.submit(run_tests, sources, tests).result()
    if status not in (0, 1):
        raise SystemExit(f"{', '.join(tests)} did not run: exit status {status} of pytest.")
    return status == 0


def survives(mutant: Mutant) -> bool:
    """Whether the tests pass in spite of the break."""
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder)
        shutil.copytree(ROOT / "src" / "scalewise", sources / "scalewise")
        path = sources / "scalewise" / mutant.file
        text = path.read_text()
        if text.count(mutant.old) != 1:
            raise SystemExit(f"{mutant.name!r} does not fit {mutant.file} any more.")
        path.write_text(text.replace(mutant.old, mutant.new))
        return passes(sources, mutant.tests)


def digest(mutant: Mutant) -> str:
    """Of all that a verdict depends on, but what the broken file and the tests import."""
    parts = [repr(mutant), (ROOT / "src" / "scalewise" / mutant.file).read_text()]
    parts += [(ROOT / test.partition("::")[0]).read_text() for test in mutant.tests]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def known() -> dict[str, bool]:
    """Of mutants run before, by digest, whether they survived."""
    return json.loads(KNOWN.read_text()) if KNOWN.exists() else {}


def record(survived: dict[str, bool]) -> str:
    """What is known of all mutants, as a page: counts by room, and the survivors."""
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
    return "\n".join(lines) + "\n"


def run(keys: dict[Mutant, str], survived: dict[str, bool]) -> Iterable[tuple[Mutant, bool]]:
    """Run mutants, as many at a time as there are cores, and keep each verdict as it comes."""
    locks: dict[str, Lock] = defaultdict(Lock)
    whole: dict[str, bool] = {}

    def verdict(mutant: Mutant) -> bool:
        for test in mutant.tests:  # each once without any break, before it is believed
            with locks[test]:
                if test not in whole:
                    whole[test] = passes(ROOT / "src", (test,))
            if not whole[test]:
                raise SystemExit(f"{test} fails without any break; mend that first.")
        return survives(mutant)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        futures = {pool.submit(verdict, mutant): mutant for mutant in keys}
        try:
            for future in as_completed(futures):
                mutant = futures[future]
                survived[keys[mutant]] = future.result()
                part = KNOWN.with_suffix(".part")
                part.write_text(json.dumps(survived, indent=0))
                part.replace(KNOWN)
                yield mutant, future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def main(words: list[str]) -> int:
    """Run the mutants; exit status 1 if one survives."""
    parser = argparse.ArgumentParser(prog="python tests/mutants.py")
    parser.add_argument("prefixes", nargs="*", help="first letters of names; without them, all")
    parser.add_argument("--sample", type=int, help="how many of them, at random")
    parser.add_argument("--seed", type=int, help="of the sample")
    options = parser.parse_args(words)
    chosen = [m for m in MUTANTS if m.name.startswith(tuple(options.prefixes or [""]))]
    if not chosen:
        print(f"No mutant has a name that starts with {' or '.join(options.prefixes)}.")
        return 1
    if options.sample is not None:
        seed = random.randrange(10**6) if options.seed is None else options.seed
        chosen = random.Random(seed).sample(chosen, min(options.sample, len(chosen)))
        print(f"{len(chosen)} mutants at random; --seed {seed} takes the same again.")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    start, survived = time.monotonic(), known()
    whole = not options.prefixes and options.sample is None
    keys = {
        m: digest(m) for m in chosen
    }  # as the files are now, whatever becomes of them meanwhile
    new = {m: key for m, key in keys.items() if not (whole and key in survived)}
    with tempfile.TemporaryDirectory() as cache:
        # What a break leaves as it was is compiled once.
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", cache)
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        for mutant, alive in run(new, survived):
            print(f"{'SURVIVED' if alive else 'caught  '}  {mutant.name}", flush=True)
    if whole:
        RECORD.write_text(record(survived))
    minutes = (time.monotonic() - start) / 60
    alive = sum(survived[key] for key in keys.values())
    print(
        f"{len(chosen) - alive} of {len(chosen)} mutants caught; {len(new)} run in {minutes:.1f} minutes."
    )
    return int(alive > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
