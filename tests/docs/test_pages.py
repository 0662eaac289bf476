"""Conformance of the pages: formulas are written as formulas, and equations of the index are equations."""

import re
from pathlib import Path

import pytest

from coverage_table import functions, places

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_" not in path.parts[-2][:1])
NOT_WORDS = re.compile(
    r"^(`{3,}).*?^\1`*$|``.*?``|`[^`\n]*`|\$\$.*?\$\$|\$[^$]+?\$|\\begin\{(\w+)\}.*?\\end\{\2\}",
    re.S | re.M,
)
FORMULA = re.compile(r".{0,20}(?:[\^_]\{|\\[a-zA-Z]{2,}).{0,20}")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_no_formula_stands_raw(page: Path) -> None:
    assert FORMULA.findall(NOT_WORDS.sub("", page.read_text())) == []


def test_a_raw_formula_is_found() -> None:
    text = "Here $G^{\\{1\\}}$ and `K^{1}`, but V and G^{1} stand raw.\n```\nH^{1}\n```\n"
    assert len(FORMULA.findall(NOT_WORDS.sub("", text))) == 1


def test_an_argument_is_not_an_equation() -> None:
    assert not list(places("PDLT: products of $X_{II}(12)$ and f(3)"))
    assert [p.last for p in places("PDLT (4.5), (4.7)-(4.9)")] == [5, 9]
    # The book numbers its equations by chapter.
    bare = [
        (name, place)
        for name, named in functions().items()
        for place in named
        if place.work == "PDLT" and place.under == ("equation",)
    ]
    assert bare == []


def test_links_of_docstrings_are_written_as_names() -> None:
    sources = (DOCS.parent / "src").rglob("*.py")
    assert [path.name for path in sources if re.search(r"\[`[\w.]+`\]\[\]", path.read_text())] == []


def test_every_page_is_in_one_table_of_contents() -> None:
    listed: list[Path] = []
    for page in PAGES:
        for names in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(), re.S | re.M):
            entries = [name for name in names.split() if not name.startswith(":")]
            listed += [(page.parent / f"{name}.md").resolve() for name in entries]
    there = {page.resolve() for page in PAGES} - {(DOCS / "index.md").resolve()}
    assert there <= set(listed), sorted(there - set(listed))
    assert len([page for page in listed if page in there]) == len(there)
