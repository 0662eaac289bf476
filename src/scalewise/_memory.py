"""Budgets of memory, as numbers of bytes or as texts."""

from __future__ import annotations

import math
import re
from typing import Annotated

from scalewise._checked import Must

_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def bytes_of(memory: float | int | str) -> int:
    """Bytes, from a number or from a text such as ``"1 GiB"``; 0 of another text."""
    if not isinstance(memory, str):
        return int(memory) if math.isfinite(memory) else 0
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]?i?b)?", memory.strip(), flags=re.IGNORECASE)
    unit = _UNITS.get((match.group(2) or "b").lower(), 0) if match else 0
    return int(float(match.group(1)) * unit) if match else 0


Memory = Annotated[
    float | int | str,
    Must("a number of bytes or a text such as '1 GiB'", lambda memory: bytes_of(memory) >= 1),
]
