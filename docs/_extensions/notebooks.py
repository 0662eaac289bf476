"""Every page of the guide as a notebook to download: its blocks of Python become cells that can be run.

A double click opens it where Jupyter or an editor with notebooks is installed; hosted services take the file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from sphinx.util import logging

GUIDE, OUT = "guide", "notebooks"
# Named, or jupytext takes a page with a container (:::) for one of pandoc's.
FORM = {"extension": ".md", "format_name": "markdown"}
USUAL = "nets,data"  # extras, where a page names none
INSTALLS = re.compile(r"pip install '\.\[([\w,]+)\]'")
# The first cell, which does nothing where scalewise is installed.
FIRST = """\
# A hosted notebook has no scalewise yet: this installs it, from an index or from a wheel that you have uploaded.
from importlib.util import find_spec
from pathlib import Path

if find_spec("scalewise") is None:
    wheel = next(map(str, Path().glob("scalewise-*.whl")), "scalewise")
    %pip install --quiet "{{wheel}}[{extras}]"
"""


def notebook_of(text: str) -> Any:
    """A page as a notebook that can be run here and in a hosted service."""
    notebook = jupytext.reads(text, fmt=FORM)
    found = INSTALLS.search(text)
    first = FIRST.format(extras=found[1] if found else USUAL)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(first, metadata={"tags": ["install"]}))
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    return notebook


def _write(app: Any) -> None:
    folder = Path(app.srcdir) / OUT
    folder.mkdir(exist_ok=True)
    for page in (Path(app.srcdir) / GUIDE).glob("*.md"):
        text = page.read_text(encoding="utf-8")
        notebook = notebook_of(text)
        cells = sum(cell.cell_type == "code" for cell in notebook.cells) - 1
        if cells != len(re.findall(r"^```(?:python|sh)$", text, re.M)):
            told = f"{page.name} has other cells than blocks of code."
            logging.getLogger(__name__).warning(told)
        jupytext.write(notebook, folder / f"{page.stem}.ipynb")


def _with_download(app: Any, docname: str, source: list[str]) -> None:
    """Offer the notebook below the title of a page."""
    folder, _, name = docname.rpartition("/")
    if folder == GUIDE and name != "index":
        title, _, rest = source[0].partition("\n\n")
        link = f"{{download}}`As a notebook <../{OUT}/{name}.ipynb>`"
        source[0] = f"{title}\n\n{link}\n\n{rest}"


def setup(app: Any) -> dict[str, bool]:
    """Write the notebooks before pages that lead to them are read."""
    app.connect("builder-inited", _write)
    app.connect("source-read", _with_download)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
