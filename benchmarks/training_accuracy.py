"""Are the errors honest that `predict_training` states of its coefficients of 1/n?

Every case of `tests/accurate_coefficients.py` is predicted at two accuracies and held against an independent
quadrature of the expectations. The pull is the true error over the stated one, root mean squares over the entries
of an outcome; an honest error has pulls of about 1 at most.

Settings that were run before are kept, and are on the page with those of this run.

python benchmarks/training_accuracy.py [--settings "tanh plane" ...]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from scalewise.training import ExpansionWarning, GradientFlow, TwoStepNewton

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from accurate_coefficients import DAILY, OTHERS, Case, Pull, pulls, setting

RESULTS = Path(__file__).parent / "results"
ALGORITHMS = (GradientFlow(), GradientFlow(1.0), TwoStepNewton())
CASES = tuple(dict.fromkeys((*DAILY, *OTHERS)))
SHOWN = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--settings", nargs="+", default=[""], help="those whose label begins so")
    given = parser.parse_args()
    path = RESULTS / "training_accuracy.json"
    known: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    for case in CASES:
        if label(case).startswith(tuple(given.settings)):
            started = time.process_time()
            with warnings.catch_warnings():  # the width says nothing of the coefficients
                warnings.simplefilter("ignore", ExpansionWarning)
                found = [one._asdict() for one in pulls(*setting(case), ALGORITHMS)]
            seconds = round(time.process_time() - started, 1)
            known[label(case)] = {"cpu_seconds": seconds, "pulls": found}
            print(label(case), seconds, f"{max(Pull(**one).pull for one in found):.2f}", flush=True)
            path.write_text(json.dumps(known, indent=1) + "\n")
    rows = [
        (case, Pull(**one))
        for case in CASES
        if label(case) in known
        for one in known[label(case)]["pulls"]
    ]
    (RESULTS / "training_accuracy.md").write_text("\n".join(page(rows)) + "\n")


def label(case: Case) -> str:
    """How a setting is called by `--settings` and on the page."""
    return f"{case.activation} {case.kind} depth {case.depth} seed {case.seed}"


def page(rows: Sequence[tuple[Case, Pull]]) -> Iterator[str]:
    """The maximum, the worst of every outcome and activation, and the worst pulls one by one."""
    found = sorted(rows, key=lambda row: -row[1].pull)
    beyond = sum(one.pull > 1 for _, one in rows)
    ran = list(dict.fromkeys(label(case) for case, _ in rows))
    settings = f"{len(ran)} of {len(CASES)}"
    yield (
        f"{len(rows)} stated errors of coefficients of 1/n in {settings} settings, held against an "
        f"independent quadrature. The pull is the true error over the stated one. The largest is "
        f"{found[0][1].pull:.2f}; {beyond} are above 1."
    )
    yield from (
        "",
        "Largest pull, and largest stated error relative to the size of the coefficient:",
        "",
    )
    outcomes = list(dict.fromkeys(one.outcome for _, one in rows))
    yield "| activation, algorithm | " + " | ".join(outcomes) + " |"
    yield "|---" * (1 + len(outcomes)) + "|"
    for name, way in dict.fromkeys((case.activation, one.algorithm) for case, one in rows):
        cells = []
        for outcome in outcomes:
            own = [
                one
                for case, one in rows
                if (case.activation, one.algorithm, one.outcome) == (name, way, outcome)
            ]
            worst, stated = max(one.pull for one in own), max(one.stated for one in own)
            cells.append(f"{worst:.2f}, {stated:.1g}")
        yield f"| {name}, {way} | " + " | ".join(cells) + " |"
    yield from ("", f"The {SHOWN} largest pulls:", "")
    yield "| setting | algorithm | accuracy | outcome | stated error | true error | pull |"
    yield "|---|---|---|---|---|---|---|"
    for case, one in found[:SHOWN]:
        asked = "usual" if one.accuracy is None else f"{one.accuracy:g}"
        yield (
            f"| {label(case)} | {one.algorithm} | {asked} | {one.outcome} | {one.stated:.2g} | {one.true:.2g} | "
            f"{one.pull:.2f} |"
        )
    yield from ("", f"Settings that were run: {', '.join(ran)}.")


if __name__ == "__main__":
    main()
