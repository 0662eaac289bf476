"""The tables of docs/cheat_sheet.md: every object of the theory, its symbol, what computes it, and how much it is.

    python tests/theory_sheet.py      writes them

Both are the tables of the package, `OBSERVABLES` and `OUTCOMES`; `tests/docs/test_cheat_sheet.py` checks the page.
"""

from __future__ import annotations

from scalewise.observables import OBSERVABLES
from scalewise.training import OUTCOMES
from written_part import WrittenPart

PART = WrittenPart("docs/cheat_sheet.md", "tests/theory_sheet.py")
N = 8  # inputs


def lines(titles: list[str], rows: list[list[str]]) -> str:
    """A table."""
    body = [titles, ["---"] * len(titles), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in body
    )


def section() -> str:
    """The two tables, each under its heading."""
    pairs = N * (N + 1) // 2
    start = [
        [
            f"`{row.name}`",
            f"`{row.symbol}`",
            row.meaning,
            row.equation,
            str(row.components(N, pairs)),
        ]
        for row in OBSERVABLES.values()
    ]
    end = [
        [f"`{row.name}`", f"`{row.symbol}`", row.meaning, row.equation]
        for row in OUTCOMES.values()
        if not row.name.endswith(("_half", "_nlo"))
    ]
    one = lines(["variable", "symbol", "what it is", "equation", f"numbers for {N} inputs"], start)
    two = lines(["variable", "symbol", "what it is", "equation"], end)
    return (
        f"## At initialisation: `predict`, `measure`\n\n{one}\n\n"
        f"## After training: `predict_training`, `measure_training`\n\n{two}"
    )


if __name__ == "__main__":
    PART.write(section())
