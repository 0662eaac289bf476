"""The gallery: a script for every experiment, which sphinx-gallery runs, draws and puts on a page.

The words of a script are those of the experiment, its lines are what a reader would type. A number that is not what
it should be ends its script with an error, and the build after the other scripts.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import re
from functools import cache
from pathlib import Path
from pprint import pformat
from typing import Any

from drawing import written
from names import ROOT, typeset

from scalewise.experiments.catalogue import EXPERIMENTS, PAPER_SCALE, experiment, reason_to_skip
from scalewise.experiments.results import config_of, paper_command

SCRIPTS, PAGES, PAPER = "_gallery", "gallery", "paper_scale"
SCALE = os.environ.get("GALLERY", "usual")
HEADER = """\
Gallery
=======

What the sources claim of neural networks, computed and measured. Every page is an experiment: its figure, its
numbers beside what is expected, and the lines that run it. A number agrees if it lies within four standard errors
and the allowance beside it; if one does not, the build of this site fails.
"""
RUN = """\
from scalewise.experiments import {name}
from scalewise.experiments.results import {imported}
"""
USUAL = """
config = {name}.{config}
dataset = {name}.run(config)
canvas = {name}.figure(dataset)
"""
LARGE = """
# %%
# At the scale of the paper: {cost}. The data are stored; figure and numbers are made from them. To compute them
# again::
#
#     {command}

dataset = stored_result("{name}", "../{paper}")
canvas = {name}.figure(dataset)
"""
NUMBERS = """
# %%
told = judged("{name}", dataset)
told.assert_ok()
told
"""


def script(name: str, scale: str = "usual") -> str | None:
    """The script of one experiment, with its stored result if there is one.

    ``None`` if its data are missing and no result of it is stored.
    """
    one = experiment(name)
    there = reason_to_skip(one) is None
    stored = name in PAPER_SCALE and (ROOT / "docs" / PAPER / f"{name}.json").is_file()
    if not there and not stored:
        return None
    fields = {
        "name": name,
        "imported": "judged, stored_result" if stored else "judged",
        "config": "" if stored else pformat(config_of(name, scale), width=100 - len(name)),
        "command": paper_command(name),
        "paper": PAPER,
        "cost": (inspect.getdoc(one.Config.paper) or "").rstrip(".") if stored else "",
    }
    parts = [RUN, LARGE if stored else USUAL, NUMBERS]
    return _words(one) + "".join(parts).format(**fields)


def _words(one: Any) -> str:
    """Title, the paragraph of the page, and what the docstring says of the figure, as the head of a script."""
    body = (inspect.getdoc(one) or "").partition("\n\n")[2]
    text = re.sub(r"<(sub|sup)>(.*?)</\1>", r"\\ :\1:`\2`\\ ", one.TEXT)
    return f'r"""\n{one.TITLE}\n{"=" * len(one.TITLE)}\n\n{text}\n\n{typeset(body)}\n"""\n\n'


def _write(app: Any) -> None:
    folder = Path(app.srcdir) / SCRIPTS
    folder.mkdir(exist_ok=True)
    scripts = {f"{name}.py": script(name, SCALE) for name in EXPERIMENTS}
    texts = {"GALLERY_HEADER.rst": HEADER} | {name: text for name, text in scripts.items() if text}
    pages = Path(app.srcdir) / PAGES
    for name in {*EXPERIMENTS, *(path.stem for path in folder.glob("*.py"))}:
        if f"{name}.py" not in texts:  # its data are gone, or it is
            for path in (*folder.glob(f"{name}.py"), *pages.glob(f"{name}.*")):
                path.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    _forget(folder / ".sources", pages)


def _forget(known: Path, pages: Path) -> None:
    """What other sources have computed is computed again; a build that was killed goes on."""
    if not known.is_file() or known.read_text() != sources():
        for path in pages.glob("*.md5"):
            path.unlink()
        known.write_text(sources())


@cache
def sources() -> str:
    """A digest of all that computes."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def in_order(filename: str) -> int:
    """Where the catalogue has the experiment of a script."""
    return EXPERIMENTS.index(Path(filename).stem)


def drawn(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any], **_: Any) -> str:
    """The figure that a block of a script leaves as ``canvas``."""
    canvas = block_vars["example_globals"].pop("canvas", None)
    if canvas is None:
        return ""
    path = Path(block_vars["image_path_iterator"].next())
    lines = [".. container:: plate", ""]
    files = written(canvas, path.with_suffix(""))
    # sphinx-gallery makes a thumbnail of the file that it has named.
    path.with_suffix(".svg").write_bytes(files[0][0].read_bytes())
    for one, classes in files:
        place = "/" + one.relative_to(gallery_conf["src_dir"]).as_posix()
        lines += [f"   .. image:: {place}", "      :alt: The figure of this experiment"]
        lines += [f"      :class: {classes}", ""]
    return "\n".join(lines)


def setup(app: Any) -> dict[str, bool]:
    """Write the scripts before sphinx-gallery looks for them."""
    app.connect("builder-inited", _write, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
