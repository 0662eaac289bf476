"""What makes wide content fit its page: blocks of code say how many columns they have, names in tables may break.

The style sheet turns the number of columns into a size of letters, so that a printed table is seen with all its
columns. Lines longer than any table are sentences, which are wrapped.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Any

COLUMNS = 140  # of the widest table
_BLOCK = re.compile(r"<pre>(.*?)</pre>", re.S)
_TABLE = re.compile(r"<table.*?</table>", re.S)
_NAME = re.compile(r'(?<=<span class="pre">)[^<]+(?=</span>)')
_JOINT = re.compile(r"(?<=\w)[._/]+(?=\w)|[(,=](?=\w)")
_TAG = re.compile(r"<[^>]*>")


def columns(block: str) -> int:
    """How many letters the longest line of a block of HTML has that is not a sentence."""
    lines = unescape(_TAG.sub("", block)).expandtabs(8).splitlines()
    return max((len(line) for line in lines if len(line) <= COLUMNS), default=0)


def fitted(body: str) -> str:
    """The HTML of a page, whose blocks of code know their columns and whose tables can be narrow."""
    body = _TABLE.sub(lambda table: _NAME.sub(_broken, table[0]), body)
    return _BLOCK.sub(
        lambda found: f'<pre style="--columns: {max(columns(found[1]), 1)}">{found[1]}</pre>', body
    )


def _broken(name: re.Match[str]) -> str:
    """A name, with places where a line may end."""
    return _JOINT.sub(lambda joint: f"{joint[0]}<wbr>", name[0])


def _fit(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    if "body" in context:
        context["body"] = fitted(context["body"])


def setup(app: Any) -> dict[str, bool]:
    """Measure the blocks of every page before it is written."""
    app.connect("html-page-context", _fit)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
