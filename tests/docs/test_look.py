"""Conformance of the look at the site: content that a reader cannot see is named, and what is right is not."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="a browser is driven by playwright, of the extra docs")

LOOK = Path(__file__).resolve().parents[2] / "docs" / "look.py"
PAGE = (
    "<!doctype html><html><head><meta charset=utf-8><title>one</title></head><body>{}</body></html>"
)
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="800" height="40" viewBox="0 0 800 40">'
    '<text y="20" style="font: {}px sans-serif">layer</text></svg>'
)
LONG = "thirty words that stand beside one another " * 5
# What is planted, the widths at which it is wrong, and how it is told.
WRONG = {
    "plate": (
        '<div style="width: 300px; overflow-x: auto"><img alt="a figure" src="large.svg"></div>',
        (1920, 1280, 390),
        "hides 500 px until it is scrolled",
    ),
    "code": (
        f'<pre style="overflow-x: auto; max-width: 300px">{LONG}</pre>',
        (1920, 1280),
        r"hides \d+ px until it is scrolled",
    ),
    "column": (
        '<table style="display: block; overflow: auto; width: 200px"><tr>'
        + "<td>unbreakable_words</td>" * 3
        + "</tr></table>",
        (1920, 1280),
        r"hides \d+ px until it is scrolled",
    ),
    "cut": (
        f'<div style="width: 200px; overflow: hidden; white-space: nowrap">{LONG}</div>',
        (1920, 1280, 390),
        r"cuts \d+ px off",
    ),
    "low": (
        f'<div style="width: 200px; height: 20px; overflow: hidden">{LONG}</div>',
        (1920, 1280, 390),
        r"cuts \d+ px off below",
    ),
    "out": (
        '<main style="width: 200px"><p>an_unbreakable_word_that_is_wider_than_two_hundred</p></main>',
        (1920, 1280, 390),
        r"lets \d+ px stand out of its box",
    ),
    "turned": (
        '<div style="display: flex; flex-direction: row-reverse; width: 200px; overflow-x: auto">'
        '<p style="flex: none; width: 300px; margin: 0">a formula and its number</p></div>',
        (1920, 1280, 390),
        "begins 100 px after its start",
    ),
    "tiny": (
        '<img alt="small" src="large.svg" style="width: 100px">',
        (1920, 1280, 390),
        r"has labels of 1\.5 px",
    ),
}
RIGHT = (
    '<img alt="fits" src="large.svg" style="width: 100%; max-width: 800px; min-width: 0" hidden>'
    '<img alt="fits" src="small.svg" style="max-width: 100%">'
    '<img alt="" src="large.svg" style="width: 100px">'  # an ornament
    f"<p>{LONG}</p><pre style='white-space: pre-wrap'>{LONG}</pre>"
    # Read aloud by programs, in place of a drawing.
    "<span style='position: absolute; clip: rect(1px, 1px, 1px, 1px); width: 1px; height: 1px; overflow: hidden'>"
    f"<math><mtext>{LONG}</mtext></math></span>"
    f"<div style='display: none; width: 20px; overflow: hidden'>{LONG}</div>"
    f"<div style='height: 30px; overflow-y: auto'>{LONG}</div>"
)


@pytest.fixture(scope="module")
def look() -> dict[str, Any]:
    names = runpy.run_path(str(LOOK))
    if not any(map(names["shutil"].which, names["BROWSERS"])):
        pytest.skip("no chromium on the PATH")
    return names


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    (folder / "_modules").mkdir()
    for name, (body, _, _) in WRONG.items():
        (folder / f"{name}.html").write_text(PAGE.format(body))
    (folder / "_modules" / "source.html").write_text(PAGE.format(WRONG["code"][0]))
    (folder / "right.html").write_text(PAGE.format(RIGHT))
    (folder / "large.svg").write_text(SVG.format(12))
    (folder / "small.svg").write_text(SVG.replace("800", "300").format(12))
    return folder


def test_what_cannot_be_seen_is_named_and_nothing_else(
    look: dict[str, Any],
    site: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["look.py", str(site), "--keep", str(tmp_path)])
    assert look["main"]() == 1
    told = capsys.readouterr().out
    found = re.findall(r"^(\S+)\.html at (\d+): (.*)", told, re.M)
    assert {(name, width) for name, width, _ in found} == {
        (name, str(width)) for name, (_, widths, _) in WRONG.items() for width in widths
    }
    for name, (_, _, how) in WRONG.items():
        lines = [what for page, width, what in found if (page, width) == (name, "390")]
        lines = lines or [what for page, _, what in found if page == name][:1]
        assert len(lines) == 1, lines
        assert re.search(how, lines[0]), lines
    assert len(list(tmp_path.rglob("*.png"))) == (len(WRONG) + 2) * 3
