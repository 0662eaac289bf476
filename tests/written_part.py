"""The part of a page that a script writes, between two comments of which the first names the script."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
END = "<!-- end -->"


@dataclass(frozen=True)
class WrittenPart:
    """The part of `page` that `script` writes, both named from the root of the repository."""

    page: str
    script: str

    def marked(self, text: str) -> str:
        """The text between the comments that mark it."""
        return f"<!-- written by {self.script} -->\n\n{text}\n\n{END}"

    def shown(self) -> str:
        """The part as the page has it, with its comments."""
        found = re.search(self.marked(".*?"), (ROOT / self.page).read_text(), re.S)
        assert found is not None, f"{self.page} has no part that {self.script} writes"
        return found[0]

    def write(self, text: str) -> None:
        """Put the text into the page."""
        path = ROOT / self.page
        path.write_text(path.read_text().replace(self.shown(), self.marked(text)))
