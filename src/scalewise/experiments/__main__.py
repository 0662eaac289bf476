"""Run experiments and keep what they give: ``python -m scalewise.experiments --only six_point --out data``.

What takes hours is kept as it goes with ``--scale paper --store paper_runs``; the same again resumes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scalewise.experiments.catalogue import (
    EXPERIMENTS,
    PAPER_SCALE,
    experiment,
    reason_to_skip,
)
from scalewise.experiments.results import SCALES, judged, run_experiment
from scalewise.sweeps import SweepError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all experiments, or those named, and write ``<name>.json`` for each.

    Args:
        arguments: Of the command line.

    Returns:
        0, 1 if a number is not what it should be, 2 if something asked for cannot be used.
    """
    parser = argparse.ArgumentParser(
        prog="python -m scalewise.experiments", description="Run experiments and keep their data."
    )
    parser.add_argument(
        "--out", default="experiments", help="folder of the data, <name>.json for each"
    )
    parser.add_argument(
        "--scale",
        choices=SCALES,
        default="usual",
        help="small takes seconds; paper hours, for the experiments that have it",
    )
    parser.add_argument("--only", nargs="+", choices=EXPERIMENTS, help="some experiments")
    parser.add_argument(
        "--store", help="folder that keeps what is finished; the same again resumes"
    )
    parser.add_argument(
        "--cluster", help="address of a dask scheduler; without it, the cores of this machine"
    )
    given: Any = parser.parse_args(arguments)
    names = given.only or (PAPER_SCALE if given.scale == "paper" else EXPERIMENTS)
    wrong: list[str] = []
    try:
        folder = Path(given.out)
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"`--out` is the folder of the data, but {given.out!r} is a file.")
        for name in names:
            wrong += _kept(name, folder, given)
    except (ValueError, SweepError) as error:
        print(error, file=sys.stderr)
        return 2
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    print(folder)
    return 1 if wrong else 0


def _kept(name: str, folder: Path, given: Any) -> list[str]:
    """Run one experiment and write its data; what it found that should be otherwise."""
    reason = reason_to_skip(experiment(name))
    if reason is not None:
        print(f"{name} is left out. {reason}", file=sys.stderr)
        return []
    dataset = run_experiment(
        name, scale=given.scale, store=given.store, client=given.cluster, progress=_progress(name)
    )
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(dataset.to_dict(), default=float)
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    told = judged(name, dataset)
    right = len(told.numbers) - len(told.wrong)
    print(f"{name}: {right} of {len(told.numbers)} numbers agree", file=sys.stderr, flush=True)
    return told.wrong


def _progress(name: str) -> Callable[[int, int], None]:
    """Print a line for every hundredth part."""
    told = -1

    def tell(done: int, parts: int) -> None:
        nonlocal told
        if 100 * done // parts > told:
            told = 100 * done // parts
            print(f"{name}: {done} of {parts} parts done", file=sys.stderr, flush=True)

    return tell


if __name__ == "__main__":
    sys.exit(main())
