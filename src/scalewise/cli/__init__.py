"""The command line: ``scalewise report | predict | measure | criticality``.

Standard output carries the result and nothing else; progress and complaints go to standard error.
Exit codes: 0 done, 1 theory and ensemble disagree, 2 bad input, 130 interrupted. What is slow to
import is imported by the command that needs it.
"""

from scalewise.cli._app import app, main

__all__ = ["app", "main"]
