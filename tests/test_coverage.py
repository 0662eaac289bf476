"""Conformance: every object of the checklist has a function that exists and tests that exist."""

import importlib

import pytest

from coverage_table import PAGE, ROOT, TITLES, Row, checklist, functions_in, kinds_of, page, rows

ROWS = rows()


def resolved(name: str) -> object:
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("row", ROWS, ids=[f"{r.room}-{i}" for i, r in enumerate(ROWS)])
def test_functions_and_tests_of_a_row_exist(row: Row) -> None:
    assert row.functions
    for name in row.functions:
        assert callable(resolved(name)) or resolved(name) is not None
    assert row.tests, row
    for test in row.tests:
        file, _, function = test.partition("::")
        assert (ROOT / file).exists(), test
        assert function in functions_in(file), test
        assert kinds_of(file), f"{file} does not say which kind of test it is"
    assert row.kinds
    assert row.items
    assert all(item[0] in TITLES for item in row.items), row.items


def test_nothing_is_left_out() -> None:
    covered = {item for row in ROWS for item in row.items}
    missing = {code: text for code, text in checklist().items() if code not in covered}
    assert not missing


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run python tests/coverage_table.py"
