"""How far a long run is: a bar on the terminal, a callable of the user's, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from scalewise._extras import installed
from scalewise._words import WrongTypeError, shown

Progress = Callable[[int, int], Any] | bool | None

PATIENCE = 2.0  # seconds of silence before a bar is worth its place


class Reporter:
    """Counts what is done; shows it once the run has lasted longer than two seconds.

    Args:
        progress: ``None`` or ``True`` for a bar on standard error if that is a terminal and rich is installed,
            ``False`` for silence, or a callable of (done, total).
        total: How many there are.
        what: How they are called.
    """

    def __init__(self, progress: Progress, total: int, what: str) -> None:
        self.done, self.total, self._what = 0, total, what
        if not (callable(progress) or progress is None or isinstance(progress, bool)):
            raise WrongTypeError(
                f"`progress` must be a function, True, False or None; got {shown(progress)}."
            )
        self._call = progress if callable(progress) else None
        watched = not callable(progress) and progress is not False and sys.stderr.isatty()
        self._allowed = watched and installed("rich")
        self._start = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def add(self, more: int) -> None:
        """So many more are done, and saved if they are to be saved."""
        self.done += more
        if self._call is not None:
            self._call(self.done, self.total)
        if self._bar is None and self._allowed and time.monotonic() - self._start > PATIENCE:
            self._open()
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done)

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        columns = (BarColumn(), MofNCompleteColumn(), self._what, TimeRemainingColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("", total=self.total)
        self._bar.start()
