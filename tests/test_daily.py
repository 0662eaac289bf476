"""Conformance: what a daily run leaves out repeats a kind of check of which a case remains."""

import pytest

from daily import EVERY, is_whole, only_thorough, without_sibling

MADE_UP = """
import pytest

@pytest.mark.covers("A1")
def test_daily(): ...

@pytest.mark.parametrize("name", ["one", pytest.param("two", marks=pytest.mark.thorough)])
def test_cases(name): ...

@pytest.mark.covers("A1", "A2")
@pytest.mark.thorough("test_daily")
def test_again(): ...

@pytest.mark.thorough("test_again")
def test_of_thorough(): ...

@pytest.mark.thorough("tests/test_daily.py::test_nothing")
def test_of_nothing(): ...

@pytest.mark.thorough("tests/test_imports.py::test_nothing")
def test_of_nothing_elsewhere(): ...

@pytest.mark.thorough
def test_alone(): ...
"""


def test_every_thorough_test_has_a_daily_sibling(request: pytest.FixtureRequest) -> None:
    items = request.config.stash[EVERY]
    assert without_sibling(items) == []
    if is_whole(items):
        assert any(item.get_closest_marker("thorough") for item in items)
        assert only_thorough(items) == []


def test_siblings_are_found(tmp_path, request: pytest.FixtureRequest) -> None:
    file = tmp_path / "test_made_up.py"
    file.write_text(MADE_UP)
    module = pytest.Module.from_parent(request.session, path=file, nodeid=file.name)
    items = list(request.session.genitems(module))
    wrong = [nodeid.rpartition("::")[2] for nodeid in without_sibling(items)]
    assert len(items) == 8
    assert wrong == [
        "test_of_thorough",
        "test_of_nothing",
        "test_of_nothing_elsewhere",
        "test_alone",
    ]
    assert only_thorough(items) == ["A2"]
    assert not is_whole(items)
