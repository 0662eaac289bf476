"""Every page of the guide as a notebook to download: its blocks of Python become cells that can be run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jupytext
from sphinx.util import logging

GUIDE, OUT = "guide", "notebooks"
# Named, or jupytext takes a page with a container (:::) for one of pandoc's.
FORM = {"extension": ".md", "format_name": "markdown"}


def _write(app: Any) -> None:
    folder = Path(app.srcdir) / OUT
    folder.mkdir(exist_ok=True)
    for page in (Path(app.srcdir) / GUIDE).glob("*.md"):
        text = page.read_text(encoding="utf-8")
        notebook = jupytext.reads(text, fmt=FORM)
        cells = sum(cell.cell_type == "code" for cell in notebook.cells)
        if cells != len(re.findall(r"^```(?:python|sh)$", text, re.M)):
            told = f"{page.name} has other cells than blocks of code."
            logging.getLogger(__name__).warning(told)
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
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
