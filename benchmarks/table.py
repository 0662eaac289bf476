"""The one table of speeds: kept as numbers, written as the same text into two pages.

python benchmarks/table.py    # writes it anew from the numbers
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cases import CASES, Case

HERE = Path(__file__).parent
NUMBERS = HERE / "results" / "speeds.json"
PAGES = (HERE.parent / "docs" / "speed.md", HERE / "README.md")
BEGIN = "<!-- speeds: written by benchmarks/run.py -->"
END = "<!-- end of speeds -->"

Row = dict[str, Any]


def load() -> dict[str, Row]:
    """The row of each case that was ever measured."""
    return json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}


def save(rows: dict[str, Row]) -> None:
    NUMBERS.parent.mkdir(exist_ok=True)
    ordered = {name: rows[name] for name in CASES if name in rows}
    NUMBERS.write_text(json.dumps(ordered, indent=1) + "\n")


def write(rows: dict[str, Row]) -> None:
    """The table into every page, between the markers."""
    for page in PAGES:
        text = page.read_text()
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        page.write_text(f"{before}{BEGIN}\n{render(rows)}{END}{after}")


def shown(page: Path) -> str:
    """What stands between the markers of a page."""
    return page.read_text().split(BEGIN)[1].split(END)[0].removeprefix("\n")


def render(rows: dict[str, Row]) -> str:
    """The whole text between the markers."""
    lines = [
        "| case | call | ours, CPU ms | theirs, CPU ms | ratio | MB, ours / theirs | accuracy | goal |",
        "|---|---|---|---|---|---|---|---|",
        *(row(CASES[name], rows[name]) for name in CASES if name in rows),
    ]
    return "\n".join(lines) + "\n\n" + _conditions(list(rows.values())) + "\n"


def row(case: Case, found: Row) -> str:
    """The first call and a repeated one; where no extra is needed, the first call without them too."""
    ours, peer = found["ours"], found.get("peer")
    memory = f"{ours['megabytes']:.0f} / " + (f"{peer['megabytes']:.0f}" if peer else "–")
    last = {"first": (memory, accuracy(found), goal(case, found)), "repeated": ("", "", "")}
    lines = []
    for call in ("first", "repeated"):
        times = [spread([1e3 * t for t in side[call]]) if side else "–" for side in (ours, peer)]
        ratio = spread(found["ratio"][call]) if peer else "–"
        title = case.title if call == "first" else ""
        lines.append("| " + " | ".join((title, call, *times, ratio, *last[call])) + " |")
    if core := found.get("core"):
        bare = spread([1e3 * t for t in core["first"]]), "–", "–", f"{core['megabytes']:.0f} / –"
        lines.append("| " + " | ".join(("", "first, no extras", *bare, "", "")) + " |")
    return "\n".join(lines)


def spread(three: list[float]) -> str:
    """Median, and from where to where; all to the digits of the smallest."""
    digits = max(0, 2 - len(str(int(three[0])))) if three[0] >= 1 else 2
    low, middle, high = (f"{value:.{digits}f}" for value in three)
    return f"{middle} ({low}–{high})"


def accuracy(found: Row) -> str:
    if "error" in found:
        return "; ".join(
            f"{'ours' if side == 'ours' else 'theirs'} {e['kernel']:.0e}, NTK {e['ntk']:.0e}"
            for side, e in found["error"].items()
            if side != "core"
        )
    if "difference" in found:
        return f"sides differ by {found['difference']:.0e}"
    if "ntk_rms_z" in found:
        return (
            f"sides differ by {found['kernel_rms_z']:.2g} and {found['ntk_rms_z']:.2g} standard errors; "
            f"our variance is {found['kernel_variance_ratio']:.2g} and "
            f"{found['ntk_variance_ratio']:.2g} of theirs"
        )
    return "–"


def goal(case: Case, found: Row) -> str:
    """What is aimed at, and whether it was met: by medians, on both calls."""
    ours, said = found["ours"], []
    if case.ratio is not None and "ratio" in found:
        met = min(found["ratio"][call][1] for call in ("first", "repeated")) >= case.ratio
        if "ntk_variance_ratio" in found:
            # Known to a few per cent, from as many networks.
            met = met and max(found["kernel_variance_ratio"], found["ntk_variance_ratio"]) < 1.05
        said.append((f"{case.ratio:g}x", met))
    if case.error is not None:
        met = max(found["error"]["ours"].values()) < case.error
        said.append((f"error below {case.error:g}", met))
    if case.seconds is not None:
        said.append((f"under {case.seconds:g} CPU s", ours["first"][1] < case.seconds))
    if case.megabytes is not None:
        said.append((f"under {case.megabytes:g} MB", ours["megabytes"] < case.megabytes))
    return ", ".join(f"{what}: {'met' if met else 'not met'}" for what, met in said) or "–"


def _conditions(rows: list[Row]) -> str:
    """How the rows were measured; they need not have been at one time."""
    told = [r["conditions"] for r in rows]
    rounds, cores = (sorted({str(t[key]) for t in told}) for key in ("rounds", "cores"))
    loads = [t["load"] for t in told if t["load"] is not None]
    load = f"; load average {min(loads):g} to {max(loads):g} right after the rows" if loads else ""
    return (
        f"Medians (smallest–largest) of {' or '.join(rounds)} fresh processes of each side in turn, on "
        f"{' or '.join(cores)} cores of a shared {told[0]['processor']} machine{load}. "
        f"Ratios are of neighbours in time. {_environments(rows)}"
        if told
        else "Nothing has been measured yet."
    )


def _environments(rows: list[Row]) -> str:
    """What was installed on our side, as that decides what a first call imports."""
    told = {
        "asleep": "an environment with all extras, dask among them, which the calls do not import",
        "awake": "an environment with all extras, where the first call imports dask",
        "absent": "an environment without dask",
    }
    kinds = sorted({row["ours"]["dask"] for row in rows if "dask" in row["ours"]})
    if not kinds:
        return "Which of our extras were installed is not on record."
    return f"Ours ran in {' or '.join(told[kind] for kind in kinds)}; *no extras* is `pip install scalewise` alone."


if __name__ == "__main__":
    write(load())
