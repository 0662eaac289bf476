"""The page of the rows beside neural-tangents, written from what was measured.

python benchmarks/peers_page.py    # writes it anew from the numbers
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from peers_more_rows import ROWS, THEIRS
from peers_rows import B_STD, W_STD, Row

RESULTS = Path(__file__).parent / "results"
NUMBERS, PAGE = RESULTS / "neural_tangents.json", RESULTS / "neural_tangents.md"
Found = dict[str, Any]

HEAD = f"""# neural-tangents, layer by layer

Both sides compute the NNGP kernel $K$ and the NTK $\\Theta$ of the same network of infinite width in float64:
neural-tangents 0.6.5 with jax 0.4.36, compiled (`jax.jit`), and `predict`. Every random layer has
$C_W=\\lambda_W={W_STD}^2$ and $C_b=\\lambda_b={B_STD}^2$, which is `W_std={W_STD}, b_std={B_STD}` in their NTK
parametrisation, unless the table says otherwise. Widths (9) do not matter. `Dense(1)` follows, where there are
positions behind `GlobalAvgPool` or `Flatten`.

The difference is the greatest $|A_{{ij}}-B_{{ij}}|/\\sqrt{{B_{{ii}}B_{{jj}}}}$ over all pairs of inputs. Times are
CPU milliseconds of one processor of a shared machine, for all inputs: the first call, which compiles on their
side, and the fastest of three repeated ones. Memory is the largest resident set beyond that of a dense layer on two
inputs. A row with two differences compares both sides with an independent computation: the moments of `truth.py`,
or other layers of theirs that the notes name. A stated error is the standard error that `predict` gives where it
draws.

`python benchmarks/peers.py` measures again; `benchmarks/README.md` says how to make their environment.
"""


def load() -> dict[str, Found]:
    """The row of each network that was ever measured."""
    return json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}


def save(found: dict[str, Found]) -> None:
    """The numbers, a row a line."""
    lines = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in found.items())
    NUMBERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def write(found: dict[str, Found]) -> None:
    """The page anew."""
    PAGE.write_text(render(found))


def render(found: dict[str, Found]) -> str:
    """The whole page."""
    groups: dict[str, list[Row]] = {}
    for name in found:
        groups.setdefault(ROWS[name].group, []).append(ROWS[name])
    parts = [HEAD, *(_group(title, rows, found) for title, rows in groups.items()), _only_theirs()]
    return "\n".join(parts)


def _group(title: str, rows: list[Row], found: dict[str, Found]) -> str:
    if rows[0].refused:
        return _only_ours(title, rows, found)
    notes = [f"- {row.name}: {row.note}" for row in rows if row.note]
    table = [_codes(rows), _numbers(rows, found)]
    return "\n".join([f"## {title}\n", *table, *notes, ""])


def _codes(rows: list[Row]) -> str:
    lines = ["| layer | neural-tangents | scalewise |", "|---|---|---|"]
    lines += [f"| {row.name} | {_code(row.theirs)} | {_code(row.ours)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _numbers(rows: list[Row], found: dict[str, Found]) -> str:
    lines = [
        "| layer | inputs | difference of K | of Theta | theirs, ms: first, again | ours, ms | MB, theirs / ours |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        one = found[row.name]
        apart = [_apart(one["difference"].get(letter)) for letter in ("K", "Theta")]
        times = [_times(one["cost"][side]) for side in ("theirs", "ours")]
        memory = " / ".join(f"{one['cost'][side]['megabytes']:.0f}" for side in ("theirs", "ours"))
        inputs = f"{row.inputs} of {' x '.join(map(str, row.shape))}"
        lines.append("| " + " | ".join((row.name, inputs, *apart, *times, memory)) + " |")
    return "\n".join(lines) + "\n"


def _apart(one: dict[str, float | None] | None) -> str:
    """A difference from them, or of both from the truth."""
    if one is None:
        return "–"
    told = f"{one['ours']:.0e}"
    if "stated error" in one:
        told += f" (stated: {one['stated error']:.0e})"
    if "theirs" in one:
        its = one["theirs"]
        told = f"ours {told}, theirs {'NaN' if its is None else f'{its:.0e}'}"
    return told


def _times(cost: dict[str, float]) -> str:
    return ", ".join(
        f"{1e3 * cost[key]:.2g}" if cost[key] < 0.1 else f"{1e3 * cost[key]:.0f}"
        for key in ("first", "again")
    )


def _code(text: str) -> str:
    return f"`{text}`"


def _only_ours(title: str, rows: list[Row], found: dict[str, Found]) -> str:
    lines = [
        f"## {title}\n",
        "| layer | scalewise | ms: first, again | what neural-tangents answers |",
        "|---|---|---|---|",
    ]
    for row in rows:
        one = found[row.name]
        answer = one["refusal"].replace("|", "\\|").replace("`", "'")
        lines.append(
            f"| {row.name} | {_code(row.ours)} | {_times(one['cost']['ours'])} | {_code(row.theirs)}: {answer} |"
        )
    return "\n".join(lines) + "\n"


def _only_theirs() -> str:
    return "\n".join(
        ["## Only theirs\n", *(f"- {name}: {what}" for name, what in THEIRS.items()), ""]
    )


if __name__ == "__main__":
    write(load())
