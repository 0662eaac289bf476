"""Models of today's kinds, trained at a base and wider: planned and carried, and carried without a plan.

python benchmarks/trained_kinds.py                     # what results/trained_kinds.json lacks, and the page's table
python benchmarks/trained_kinds.py --again delta       # these anew
python benchmarks/trained_kinds.py --page              # only the page, from the numbers

Each kind is written twice where it needs a factor in its code: as the plan asks for it, and as people write it. The
learning rate is the best of a grid at the base, on seeds that are not used again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "tests"), str(HERE.parent / "src")]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from trained_kinds_cases import KINDS, Kind  # noqa: E402

RESULTS, PAGE = HERE / "results" / "trained_kinds.json", HERE.parent / "docs" / "trained_kinds.md"
SEEDS, SEARCHED = 5, 3
Found = dict[str, Any]


def trained(kind: Kind, arm: str, sizes: Mapping[str, int], lr: float, seed: int) -> float:
    """The mean loss over the second half of the steps; infinite where it diverges."""
    torch.manual_seed(seed)
    build = kind.build if arm == "planned" else kind.plain or kind.build
    model = build(**sizes)
    optimizers = kind.optimizers(arm, kind.plan(), model, dict(sizes), lr)
    generator, late = torch.Generator().manual_seed(seed), list[float]()
    for step in range(kind.steps):
        value = kind.loss(model, kind.batch(generator))
        if not torch.isfinite(value):
            return float("inf")
        model.zero_grad()
        value.backward()
        for one in optimizers:
            one.step()
        if step >= kind.steps // 2:
            late.append(float(value.detach()))
    return float(np.mean(late))


def searched(kind: Kind) -> dict[float, float]:
    """The mean loss at the base by the learning rate: powers of 2 until the best has neighbours on both sides."""
    known: dict[float, float] = {}

    def at(power: float) -> float:
        if power not in known:
            runs = [
                trained(kind, "planned", kind.base, 2.0**power, 100 + s) for s in range(SEARCHED)
            ]
            known[power] = float(np.mean(runs))
        return known[power]

    best = kind.start
    while min(at(best - 1), at(best + 1)) < at(best) and -13 < best < 2:
        best += 1 if at(best + 1) < at(best - 1) else -1
    return dict(sorted(known.items()))


def measured(kind: Kind) -> Found:
    """Losses by arm, of seeds that the search has not seen."""
    begun, grid = time.process_time(), searched(kind)
    power = min(grid, key=grid.__getitem__)

    def losses(arm: str, sizes: Mapping[str, int]) -> list[float]:
        return [trained(kind, arm, sizes, 2.0**power, seed) for seed in range(SEEDS)]

    return {
        "base": dict(kind.base), "wide": dict(kind.wide), "steps": kind.steps, "log2_rate": power,
        "grid": {str(k): v for k, v in grid.items()}, "at_base": losses("planned", kind.base),
        "planned": losses("planned", kind.wide), "plain": losses("plain", kind.wide), "changed": kind.changed,
        "seconds": round(time.process_time() - begun, 1),
    }  # fmt: skip


def shown(losses: list[float]) -> str:
    """Their mean with its standard error."""
    x = np.array([np.inf if v is None else v for v in losses], float)
    if not np.isfinite(x).all():
        return f"diverges ({int((~np.isfinite(x)).sum())} of {len(x)})"
    digits = 3 if x.mean() >= 0.05 else 5
    return f"{x.mean():.{digits}f} ± {x.std(ddof=1) / len(x) ** 0.5:.{digits}f}"


def sizes_of(sizes: Mapping[str, int]) -> str:
    """Sizes in a cell."""
    return ", ".join(str(n) if name == "width" else f"{n} {name}" for name, n in sizes.items())


def page(found: Mapping[str, Found]) -> str:
    """The whole page."""
    better = [k for k, f in found.items() if _beyond(f["at_base"], f["planned"])]
    worse = [k for k, f in found.items() if _beyond(f["planned"], f["at_base"])]
    ahead = [k for k, f in found.items() if _beyond(f["plain"], f["planned"])]
    behind = [k for k, f in found.items() if _beyond(f["planned"], f["plain"])]
    rows = [
        " | ".join(
            [
                f"| {name}",
                sizes_of(f["base"]),
                sizes_of(f["wide"]),
                f"2^{f['log2_rate']:g}",
                *(shown(f[a]) for a in ("at_base", "planned", "plain")),
                f"{f['changed']} |",
            ]
        )
        for name, f in found.items()
    ]
    said = (
        f"Of {len(found)} kinds, planned and carried, {len(better)} lose less at the larger width than at the "
        f"base, beyond two standard errors{_listed(worse, 'more')}. Beside the plain network at the same rate "
        f"{len(ahead)} lose less{_listed(behind, 'more')}."
    )
    head = (HERE / "trained_kinds_head.md").read_text()
    table = [
        "| kind | base | wide | rate | base | wide, planned | wide, plain | plain is |",
        "|---|---|---|---|---|---|---|---|",
        *rows,
    ]
    lacking = [name for name in KINDS if name not in found]
    rest = ["", f"Not run: {'; '.join(lacking)}."] if lacking else []
    return "\n".join([head, said, "", *table, *rest]) + "\n"


def _beyond(one: list[float], other: list[float]) -> bool:
    """Whether the first is larger by more than two standard errors of the difference."""
    a, b = (
        np.array([1e9 if v is None or not np.isfinite(v) else v for v in x]) for x in (one, other)
    )
    error = float(np.hypot(a.std(ddof=1), b.std(ddof=1))) / len(a) ** 0.5
    return bool(a.mean() - b.mean() > 2 * error)


def _listed(names: list[str], what: str) -> str:
    if not names:
        return f", and none loses {what}"
    return f", and {len(names)} lose{'s' * (len(names) == 1)} {what} ({', '.join(names)})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="kinds; all by default")
    parser.add_argument("--again", action="store_true", help="also what was found before")
    parser.add_argument("--page", action="store_true", help="write the page from the numbers")
    given = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, Found] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name, kind in KINDS.items():
        wanted = not given.page and (not given.names or name in given.names)
        if wanted and (given.again or name not in found):
            found[name] = measured(kind)
            ordered = {k: found[k] for k in KINDS if k in found}
            RESULTS.write_text(json.dumps(ordered, indent=1).replace("Infinity", "null") + "\n")
            print(
                name, *(shown(found[name][a]) for a in ("at_base", "planned", "plain")), flush=True
            )
    PAGE.write_text(page({k: found[k] for k in KINDS if k in found}))


if __name__ == "__main__":
    main()
