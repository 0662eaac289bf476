"""The goals of learning beside what was measured: read off the pages of results/, written into two pages.

python benchmarks/learning_table.py    # after learning_kernels.py, learning_routes.py, posterior.py or training.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGES = (HERE.parent / "docs" / "speed.md", HERE / "README.md")
BEGIN = "<!-- learning: written by benchmarks/learning_table.py -->"
END = "<!-- end of learning -->"
HEAD = """| work | goal | ours | beside it | |
|---|---|---|---|---|"""
# Training samples, tests: CPU s and GB at most, for a relative error of 0.01.
ROUTES = {(50, 50): (60, 1.0), (100, 50): (300, 2.0), (200, 50): (900, 4.0)}
POSTERIORS = {250: (10, 500), 1000: (300, 2000)}  # CPU s and MB at most

Row = dict[str, str]

FOOT = """

CPU seconds of one core, on a shared machine; pages in `benchmarks/results`.
"""


def table(name: str) -> list[Row]:
    """The first table of a page of results; a name that comes twice is that of its first column."""
    path = RESULTS / f"{name}.md"
    rows: list[list[str]] = []
    for line in path.read_text().splitlines() if path.exists() else ():
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            break
    return [dict(zip(rows[0][::-1], row[::-1], strict=True)) for row in rows[2:]]


def render() -> str:
    """The whole text between the markers."""
    parts = (_kernels(), _posteriors(), _routes(), _ensembles())
    lines = [HEAD, *(f"| {' | '.join(row)} |" for part in parts for row in part)]
    return "\n".join(lines) + FOOT


def write() -> None:
    """The table into every page, between the markers."""
    for page in PAGES:
        text = page.read_text()
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        page.write_text(f"{before}{BEGIN}\n{render()}{END}{after}")


def shown(page: Path) -> str:
    """What stands between the markers of a page."""
    return page.read_text().split(BEGIN)[1].split(END)[0].removeprefix("\n")


def _said(met: bool) -> str:
    return "met" if met else "missed"


def _kernels() -> Iterator[tuple[str, ...]]:
    rows = table("learning_kernels")
    for work, goal, most, ratio in (
        ("50 times, mean and covariance", "5 s, a third of theirs", 5.0, 3.0),
        ("posterior mean, variance and evidence", "1 s, no slower", 1.0, 1.0),
    ):
        known = {row["who"]: [] for row in rows if row["work"].startswith(work)}
        for row in rows:
            if row["work"].startswith(work):
                known[row["who"]].append((float(row["CPU s"]), row["peak MB"]))
        if "ours" not in known:
            continue
        seconds, peak = min(known.pop("ours"))
        theirs = {who: min(found) for who, found in known.items()}
        best = min(cpu for cpu, _ in theirs.values())
        beside = ", ".join(f"{who} {cpu:g} s" for who, (cpu, _) in sorted(theirs.items()))
        verdict = f"time {_said(seconds <= most)}, ratio {best / seconds:.1f} {_said(best >= ratio * seconds)}"
        yield f"{work}: 2000 training samples", goal, f"{seconds:g} s, {peak} MB", beside, verdict


def _posteriors() -> Iterator[tuple[str, ...]]:
    known = {int(row["training samples"]): row for row in table("posterior")}
    for samples, (seconds, peak) in POSTERIORS.items():
        work, goal = f"Bayes at order 1/n, {samples} samples", f"{seconds} s, {peak} MB"
        if samples not in known:
            yield work, goal, "not on record", "", "open"
            continue
        row = known[samples]
        found = f"{row['CPU s']} s, {row['peak MB']} MB; mean within {row['error of the mean']}"
        verdict = f"time {_said(float(row['CPU s']) <= seconds)}, memory {_said(float(row['peak MB']) <= peak)}"
        yield work, goal, found, "", verdict


def _routes() -> Iterator[tuple[str, ...]]:
    known = {(int(row["train"]), int(row["tests"])): row for row in table("learning_routes")}
    for case in [*(case for case in known if case not in ROUTES), *ROUTES]:
        work = f"mean and covariance at order 1/n, {case[0]} + {case[1]}, depth 3"
        seconds, gigabytes = ROUTES.get(case, (0, 0.0))
        goal = f"{seconds} s, {gigabytes:g} GB, to 1 %" if seconds else ""
        if case not in known:
            yield work, goal, "not on record", "", "open"
            continue
        row = known[case]
        off = max(float(row[name].rstrip("%")) for name in ("mean", "covariance"))
        found = f"{row['CPU s']} s, {row['GiB']} GiB, to {row['mean']} and {row['covariance']}"
        cost = float(row["CPU s"]) <= seconds and float(row["GiB"]) * 1.074 <= gigabytes
        yield (
            work,
            goal,
            found,
            "",
            f"cost {_said(cost)}, 1 % {_said(off <= 0.01)}" if seconds else "",
        )


def _ensembles() -> Iterator[tuple[str, ...]]:
    work, goal = (
        "the mean shift at n = 128 to 2 %, digits 16 + 16",
        "1000 times cheaper than an ensemble",
    )
    prices = {row["control"]: row for row in table("learning_price")}
    if "none" in prices:
        plain, controlled = prices["none"], prices["linear"]
        beside = f"{float(plain['CPU s']):.0f} s, {float(controlled['CPU s']):.0f} s with control variates"
        verdict = _said(float(plain["ratio"]) >= 1000)
        found = (
            f"{plain['tiles, CPU s']} s, {plain['ratio']} and {controlled['ratio']} times cheaper"
        )
        yield work, goal, found, beside, verdict
    else:
        yield work, goal, "not on record", "", "open"
    known = {row["trainer"]: row for row in table("training")}
    work, goal = "1000 networks of width 64, 100 steps, 5 inputs", "3 s"
    if "control=None" not in known:
        yield work, goal, "not on record", "", "open"
        return
    ours, plain = known["control=None"], known["plain"]
    found = f"{ours['again']} s ({ours['first']} with compilation)"
    yield (
        work,
        goal,
        found,
        f"plain vmapped trainer {plain['again']} s",
        _said(float(ours["again"]) <= 3),
    )


if __name__ == "__main__":
    write()
