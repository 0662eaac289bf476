"""Does a scale bear its claims? Every number of an experiment, judged at many seeds.

A claim at a scale is one that the scale bears at nineteen seeds of twenty. This runs experiments of the gallery
with one seed after another, keeps what each gave, and counts how often each number agrees. Numbers of theory are
the same at every seed and need one run; so are shares and counts that are always full.

python benchmarks/claims_by_seeds.py --experiment omniglot_maml six_point --seeds 20
python benchmarks/claims_by_seeds.py --table-only

The same command again goes on where it was stopped. Results: results/claims_by_seeds.json and .md.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from scipy.stats import norm

from scalewise.experiments.catalogue import EXPERIMENTS, experiment, reason_to_skip

RESULTS = Path(__file__).parent / "results"
BORNE = 0.95  # the share of seeds at which a claim has to hold
FIRST_SEED, STRIDE = 1000, 1000  # far apart: some experiments count on from their seed
HEADING = (
    "| experiment | number | expected | found | spread | sem | allowance | seeds | agree | margin |",
    "|---|---|---|---|---|---|---|---|---|---|",
)


def main() -> None:
    given = arguments()
    path = RESULTS / "claims_by_seeds.json"
    known = read(path)
    for name in [] if given.table_only else given.experiment:
        missing = reason_to_skip(experiment(name))
        if missing is not None:
            print(f"{name} is left out. {missing}")
            continue
        for seed in seeds_of(name, given.seeds):
            if str(seed) in known.get(given.scale, {}).get(name, {}):
                continue
            run = judged(name, given.scale, seed)
            known = read(path)  # another may have written meanwhile
            known.setdefault(given.scale, {}).setdefault(name, {})[str(seed)] = run
            RESULTS.mkdir(exist_ok=True)
            path.write_text(json.dumps(known, indent=1) + "\n")
            print(f"{name}, seed {seed}: {run['seconds']:.1f} s", flush=True)
    table = rows(known.get(given.scale, {}))
    text = "\n".join([*HEADING, *map(line, table), "", *summary(table)]) + "\n"
    (RESULTS / "claims_by_seeds.md").write_text(text)
    print(text)


def read(path: Path) -> dict[str, Any]:
    """What was kept: by scale, experiment and seed."""
    return json.loads(path.read_text()) if path.is_file() else {}


def arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--experiment", nargs="+", choices=EXPERIMENTS, default=list(EXPERIMENTS), metavar="NAME"
    )
    parser.add_argument("--seeds", type=int, default=20, help="how many runs of each")
    parser.add_argument("--scale", choices=("small", "usual"), default="usual")
    parser.add_argument("--table-only", action="store_true", help="run nothing")
    return parser.parse_args()


def seeds_of(name: str, count: int) -> list[int | None]:
    """The seeds to run; one run without a seed for an experiment that draws nothing."""
    if "seed" not in {field.name for field in fields(experiment(name).Config)}:
        return [None]
    return [FIRST_SEED + STRIDE * k for k in range(count)]


def judged(name: str, scale: str, seed: int | None) -> dict[str, Any]:
    """Run an experiment once and write down its numbers."""
    one = experiment(name)
    config = one.Config() if scale == "usual" else one.Config.small()
    if seed is not None:
        config = replace(config, seed=seed)
    start = time.process_time()
    found = one.numbers(one.run(config))
    return {
        "seconds": round(time.process_time() - start, 2),
        "numbers": [
            [n.what, *map(float, (n.expected, n.found, n.sem, n.allowance)), n.agrees]
            for n in found
        ],
    }


def rows(known: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for every number of every experiment."""
    table = []
    for name in (name for name in EXPERIMENTS if name in known):
        columns: dict[str, list[Any]] = {}
        for run in known[name].values():
            for what, *rest in run["numbers"]:
                columns.setdefault(what, []).append(rest)
        table += [row_of(name, what, found) for what, found in columns.items()]
    return table


def row_of(name: str, what: str, runs: Sequence[Any]) -> dict[str, Any]:
    expected, found, sem, allowance = (mean([run[i] for run in runs]) for i in range(4))
    spread = math.sqrt(mean([(run[1] - found) ** 2 for run in runs]))
    fixed = spread <= 1e-9 * max(abs(found), 1e-300) and sem == 0
    room = 4 * sem + allowance
    return {
        "experiment": name,
        "what": what,
        "expected": expected,
        "found": found,
        "spread": spread,
        "sem": sem,
        "allowance": allowance,
        "seeds": len(runs),
        "agree": sum(bool(run[4]) for run in runs),
        # How much of the room is used, and what is left in standard deviations of a run.
        "used": abs(found - expected) / room if room else float(found != expected),
        "fixed": fixed,
        "borne": borne(runs, sem, allowance),
    }


def borne(runs: Sequence[Any], sem: float, allowance: float) -> float:
    """The probability that the next seed agrees: counted, or of one run by its standard error."""
    if len(runs) > 1 or sem == 0:
        return mean([float(run[4]) for run in runs])
    expected, found = runs[0][:2]
    deviation, room = abs(found - expected), 4 * sem + allowance
    spread = math.sqrt(2) * sem  # of another run about this one
    return float(norm.cdf((room - deviation) / spread) - norm.cdf((-room - deviation) / spread))


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def line(row: dict[str, Any]) -> str:
    cells = [row["experiment"], row["what"].replace("|", "¦")]
    cells += [f"{row[key]:.4g}" for key in ("expected", "found", "spread", "sem", "allowance")]
    agree = f"{row['agree']}, always the same" if row["fixed"] else f"{row['agree']}"
    cells += [str(row["seeds"]), agree, f"{row['used']:.2f}"]
    return "| " + " | ".join(cells) + " |"


def summary(table: Sequence[dict[str, Any]]) -> list[str]:
    """What is not borne, by name."""
    fixed = sum(row["fixed"] for row in table)
    failing = [row for row in table if row["borne"] < BORNE]
    return [
        f"{len(table)} numbers, {fixed} of them the same at every seed; `margin` is the mean deviation as a "
        "share of four standard errors and the allowance.",
        "",
        f"{len(failing)} hold at fewer than nineteen seeds of twenty.",
        *[f"- {row['experiment']}: {row['what']}: {row['borne']:.2f}" for row in failing],
    ]


if __name__ == "__main__":
    main()
