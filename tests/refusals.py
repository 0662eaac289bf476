"""Many refusals in one test: which calls are not refused in the words that they should be."""

import re
from collections.abc import Callable, Iterable
from typing import Any

Refusals = list[tuple[Callable[[], Any], str]]


def unlike(cases: Iterable[tuple[Callable[[], Any], str]]) -> list[str]:
    """What those calls say that are refused in other words, or what was to be found of those that are not."""
    wrong = []
    for call, match in cases:
        try:
            call()
        except (TypeError, ValueError) as error:
            if not re.search(match, str(error)):
                wrong.append(f"{match!r} is not found in: {error}")
        else:
            wrong.append(f"not refused: {match!r}")
    return wrong
