"""The name by which a plan knows a leaf of a tree."""

from __future__ import annotations

from scalewise.plan import Plan
from scalewise.plan.spi import bare


def resolved(table: Plan, name: str) -> str:
    """The name by which a plan knows a leaf: without the step into an NNX variable or a collection."""
    ends = (name, name.removesuffix(".value"))
    for candidate in (*ends, *(e.removeprefix("params.") for e in ends)):
        if bare(candidate, table.names) in table.names:
            return candidate
    return name
