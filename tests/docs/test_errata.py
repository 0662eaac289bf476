"""Conformance: every check on the page of errata holds, and the tests that the page names exist."""

import re
from pathlib import Path

import pytest
from sybil import Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.myst import CodeBlockParser

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "errata.md"


def test_every_check_holds(capsys: pytest.CaptureFixture[str]) -> None:
    document = Sybil([CodeBlockParser("ipython3", PythonEvaluator())]).parse(PAGE)
    examples = list(document.examples())
    assert len(examples) == PAGE.read_text().count("```{code-cell}")
    for example in examples:
        example.evaluate()
    shown = capsys.readouterr().out.splitlines()
    calls = len(re.findall(r"^ *hold\($|^ *hold\(f?\"", PAGE.read_text(), re.M))
    assert sum("| independent" in line for line in shown) >= calls > 50
    # The helper of the page fails on a claim that is wrong, and on one that is idle.
    hold = document.namespace["hold"]
    for printed, corrected in ((1.0, 1.1), (2.0, 2.0)):
        with pytest.raises(AssertionError, match="claim"):
            hold("claim", printed, corrected, 2.0)


def test_the_tests_that_are_named_exist() -> None:
    text = re.sub(r"^\s+", " ", PAGE.read_text(), flags=re.M)
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    assert len(named) > 5
    missing = [
        (path, name)
        for path, name in named
        if not (ROOT / path).is_file() or (name and f"def {name}(" not in (ROOT / path).read_text())
    ]
    assert missing == []
