"""Deliberate breaks of every recursion and every estimator, and a runner that shows each one caught.

    make mutants                        all of them, as many at a time as there are cores
    python tests/mutants.py V G1        those whose name starts so

Each mutant is a replacement in one file, made in a copy of the sources; the tests named with it must
then fail. The lists are in `tests/breaks`; `tests/test_mutants.py` checks on every run that they still
fit the sources.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

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
    torch,
    two_inputs,
    verify,
)

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 300  # seconds
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
    *jax.MUTANTS,
    *moments.MUTANTS,
    *estimators.MUTANTS,
    *verify.MUTANTS,
)


def run_tests(sources: Path, tests: tuple[str, ...]) -> int:
    """Exit status of the tests with the package taken from `sources`, in a process made for them."""
    # A break that makes the tests hang is noticed too: the alarm fails the test that runs.
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(LONGEST)
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


def main(prefixes: list[str]) -> int:
    """Run the mutants; exit status 1 if one survives."""
    chosen = [m for m in MUTANTS if not prefixes or m.name.startswith(tuple(prefixes))]
    if not chosen:
        print(f"No mutant has a name that starts with {' or '.join(prefixes)}.")
        return 1
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    start = time.monotonic()
    alive = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        tests = sorted({test for m in chosen for test in m.tests})
        whole = pool.map(lambda test: passes(ROOT / "src", (test,)), tests)
        broken = [test for test, good in zip(tests, whole, strict=True) if not good]
        if broken:
            print(f"{', '.join(broken)} fail without any break; mend that first.")
            return 1
        for mutant, survived in zip(chosen, pool.map(survives, chosen), strict=True):
            print(f"{'SURVIVED' if survived else 'caught  '}  {mutant.name}", flush=True)
            alive += survived
    minutes = (time.monotonic() - start) / 60
    print(f"{len(chosen) - alive} of {len(chosen)} mutants caught in {minutes:.1f} minutes.")
    return int(alive > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
