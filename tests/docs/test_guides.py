"""Conformance: every page of the guide runs, and prints what it says it prints.

The code blocks of a page are one program, run in order. A block of text that follows a block of code is
what that code prints; numbers may differ in the last digits that a machine decides.
"""

import contextlib
import io
import math
import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"
PAGES = sorted(GUIDE.glob("*.md"))
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
TOLERANCE = 0.1  # of numbers that come out of random networks


def blocks(page: Path) -> list[tuple[str, str, int]]:
    """(language, text, line) of every fenced block."""
    out = []
    lines = page.read_text().splitlines()
    start, language = 0, ""
    for i, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if language:
            out.append((language, "\n".join(lines[start:i]), start))
            language = ""
        else:
            start, language = i + 1, line[3:].strip() or "plain"
    return out


def same(said: str, printed: str) -> bool:
    """Whether two texts have the same words, and numbers that are near."""

    def words(text: str) -> list[str]:
        return " ".join(NUMBER.sub("#", text).split()).split()

    def numbers(text: str) -> list[float]:
        return [float(n) for n in NUMBER.findall(text)]

    one, two = numbers(said), numbers(printed)
    return words(said) == words(printed) and all(
        math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=0.03) for a, b in zip(one, two, strict=True)
    )


def test_pages_are_there() -> None:
    assert [p.stem for p in PAGES] == [
        "audit",
        "convnet",
        "jax",
        "limits",
        "mlp",
        "sweeps",
        "trainers",
        "training",
        "transformer",
    ]


def test_comparison_of_texts() -> None:
    assert same("slope -0.51 of 3 layers", "slope   -0.50 of 3 layers")
    assert not same("slope -0.51 of 3 layers", "slope -0.01 of 3 layers")
    assert not same("hidden", "output")
    assert not same("stable", "unstable")


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_page_runs_and_prints_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": page.stem}
    printed, said_something = "", False
    for language, text, line in blocks(page):
        if language == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile("\n" * line + text, str(page), "exec"), namespace)
            printed = out.getvalue()
        elif language == "text":
            said_something = True
            assert same(text, printed), f"{page.name}:{line}\nsaid:\n{text}\nprinted:\n{printed}"
    assert said_something
