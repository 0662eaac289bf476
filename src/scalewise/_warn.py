"""Warnings that point at a line of whoever calls this package."""

from __future__ import annotations

import sys
import warnings

_PACKAGE = __name__.partition(".")[0]


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the call that entered the package, however deep inside, and through whatever, it is said.

    Args:
        message: Whole sentences.
        category: Of the warning.
    """
    frame, level, outside = sys._getframe(), 1, 1  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
            outside = level + 1
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=outside)
