"""The command line: ``scalewise report | predict | measure | train | criticality | explore`` for networks of ours.

For models of the user's own there are ``scalewise signals | audit | plan | verify``.
Standard output carries the result and nothing else; progress and complaints go to standard error.
Exit codes: 0 done, 1 theory and ensemble disagree, or a model has findings or could not be measured, 2 bad input,
130 interrupted.
What is slow to import is imported by the command that needs it.
"""

import sys

from scalewise._extras import MissingExtraError, require

__all__ = ["main"]


def main() -> None:
    """Entry point of the command ``scalewise``."""
    try:
        require("typer", "rich", "zarr", for_="The command line", extra="cli")
    except MissingExtraError as error:
        print(f"scalewise: {error}", file=sys.stderr)
        sys.exit(2)
    from scalewise.cli._app import main as run

    run()
