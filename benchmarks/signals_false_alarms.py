"""Is `signals` silent where nothing is wrong, and does it name what is? Many draws of each model, three widths.

Each draw is reported alone, as somebody sees it who gives one model: that is where chance matters most. The tenth
mistake is an optimizer, which is not drawn.

python benchmarks/signals_false_alarms.py --seeds 20

Models: tests/signal_models.py and tests/signal_designs.py. Results: results/signals_false_alarms.json and .md. Ten
minutes on one core.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tests"))

import torch

import scalewise as sw
from signal_designs import DESIGNS, SUBTLE
from signal_models import DEEP, RIGHT, WRONG, Case

RESULTS = Path(__file__).parent / "results"
WIDTHS = (32, 64, 128)


def main() -> None:
    parser = argparse.ArgumentParser(description="Findings of signals over draws")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rows", nargs="+", help="models that are drawn anew; others keep theirs")
    asked = parser.parse_args()
    store = RESULTS / "signals_false_alarms.json"
    known = json.loads(store.read_text()) if asked.rows and store.exists() else []
    kept = {(r["kind"], r["model"], r["width"]): r for r in known if r["model"] not in asked.rows}
    warnings.filterwarnings("ignore")
    groups = (
        ("wrong", WRONG), ("wrong", SUBTLE), ("right", RIGHT), ("right", DESIGNS), ("right, deep", DEEP),
    )  # fmt: skip
    found = [
        kept.get((kind, name, width)) or row(kind, name, case, width, asked.seeds)
        for kind, cases in groups
        for name, case in cases.items()
        for width in WIDTHS
    ]
    store.write_text(json.dumps(found, indent=1) + "\n")
    lines = ["| | model | width | draws | findings | CPU s each |", "|---|---|---|---|---|---|"]
    for own in found:
        told = ", ".join(f"{k}: {v}" for k, v in own["findings"].items()) or "none"
        lines.append(
            f"| {own['kind']} | {own['model']} | {own['width']} | {own['draws']} | {told} | {own['seconds']:.2f} |"
        )
    (RESULTS / "signals_false_alarms.md").write_text("\n".join(lines) + "\n")


def row(kind: str, name: str, case: Case, width: int, seeds: int) -> dict[str, Any]:
    build, batch = case
    count: Counter[str] = Counter()
    begun = time.process_time()
    for seed in range(seeds):
        torch.manual_seed(seed)
        report = sw.torch.signals(build(width), batch, theory=False)
        count.update(f.mistake for f in report.findings)
    seconds = (time.process_time() - begun) / seeds
    print(kind, name, width, dict(count), f"{seconds:.2f}", flush=True)
    return {
        "kind": kind, "model": name, "width": width, "draws": seeds, "findings": dict(count),
        "seconds": round(seconds, 3),
    }  # fmt: skip


if __name__ == "__main__":
    main()
