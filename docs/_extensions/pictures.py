"""The pictures of pages: ```` ```{picture} NAME ```` runs ``_pictures/NAME.py`` in the look of the house.

The words below the name say what is seen, to those who see it and to those who do not. What other lines, other
sources or other results of benchmarks have drawn is drawn again.
"""

from __future__ import annotations

import hashlib
import re
import runpy
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from docutils import nodes
from drawing import STYLE, written
from gallery import sources
from sphinx.util.docutils import SphinxDirective

SCRIPTS, OUT = "_pictures", "drawn"


def drawn(script: Path, out: Path) -> list[tuple[Path, str]]:
    """The files of the picture that a script leaves as the current figure; see `written`."""
    text = script.read_text()
    root = script.resolve().parents[2]
    results = [
        (root / name).read_text() for name in re.findall(r"benchmarks/results/\w+\.json", text)
    ]
    key = hashlib.sha256("".join([text, sources(), *results]).encode()).hexdigest()
    known = out / f"{script.stem}.drawn"
    if known.is_file() and (lines := known.read_text().splitlines())[0] == key:
        return [
            (out / name, classes)
            for name, _, classes in (line.partition(" ") for line in lines[1:])
        ]
    with plt.rc_context(STYLE):
        runpy.run_path(str(script))
        files = written(plt.gcf(), out / script.stem)
        plt.close("all")
    known.write_text("\n".join([key, *(f"{path.name} {classes}" for path, classes in files)]))
    return files


class Picture(SphinxDirective):
    """A picture, and its words."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """The files of the picture as images, of which a reader sees one."""
        source = Path(self.env.srcdir)
        script = source / SCRIPTS / f"{self.arguments[0]}.py"
        self.env.note_dependency(str(script))
        words = " ".join(self.content)
        # The theme hides the words of a figure beside a picture of the other theme: these stand apart.
        figure, screens = nodes.figure(classes=["drawn"]), nodes.container()
        figure += screens
        for path, classes in drawn(script, source / OUT):
            place = "/" + path.relative_to(source).as_posix()
            screens += nodes.image(uri=place, alt=words or script.stem, classes=classes.split())
        if words:
            caption = nodes.caption(words, "")
            caption += self.parse_inline(words)[0]
            figure += caption
        return [figure]


def setup(app: Any) -> dict[str, bool]:
    """Let pages ask for pictures."""
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
