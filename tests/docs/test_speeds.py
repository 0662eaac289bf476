"""Conformance: the table of speeds is one, and its text is what its numbers say."""

import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def table(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import table

    yield table
    for name in (
        "table",
        "cases",
        "learning_table",
        "large_fields",
        "many_labels",
        "clock",
        "peers_environment",
        "peers_rows",
    ):  # benchmarks are scripts, not a package: others may have these names
        sys.modules.pop(name, None)


def test_both_pages_show_what_was_measured(table):
    rows = table.load()
    assert {"tanh"} <= set(rows) <= set(table.CASES)
    assert [table.shown(page) for page in table.PAGES] == [table.render(rows)] * 2


def test_both_pages_show_the_goals_of_learning(table, monkeypatch, tmp_path):
    import learning_table

    assert [learning_table.shown(page) for page in learning_table.PAGES] == [
        learning_table.render()
    ] * 2
    # A goal is met or missed by the numbers of the page, and open where there is none.
    monkeypatch.setattr(learning_table, "RESULTS", tmp_path)
    assert "met" not in learning_table.render()
    page = (
        "| trainer | first | again |\n|---|---|---|\n| plain | 2 | 1 |\n| control=None | 4 | {} |\n"
    )
    for seconds, said in ((2.9, "met"), (3.1, "missed")):
        (tmp_path / "training.md").write_text(page.format(seconds))
        rows = [line for line in learning_table.render().splitlines() if line.startswith("|")]
        assert rows[-1].endswith(f"{said} |")


def test_the_readme_says_what_learning_costs(table):
    import learning_table

    text = " ".join((BENCHMARKS.parent / "README.md").read_text().split())
    kernels = learning_table.table("learning_kernels")
    times = {row["who"]: [] for row in kernels}
    for row in kernels:
        if row["work"].startswith("50 times"):
            times[row["who"]].append(float(row["CPU s"]))
    (ours,), theirs = times["ours"], min(times["neural-tangents"])
    assert f"take {ours:.1f} CPU seconds; neural-tangents takes {theirs:.0f}." in text
    (plain,) = (row for row in learning_table.table("learning_price") if row["control"] == "none")
    assert (
        f"for 16 digits takes {plain['tiles, CPU s']} CPU seconds; measuring it as accurately on"
        in text
    )
    assert 0.8e6 < float(plain["CPU s"]) < 1.2e6


def test_every_number_comes_with_its_spread(table):
    for name, row in table.load().items():
        assert row["conditions"]["rounds"] >= 5, name
        for times in (
            row[side][call] for side in ("ours", "core", "peer") if side in row for call in CALLS
        ):
            assert 0 < times[0] <= times[1] <= times[2], name


CALLS = ("first", "repeated")


def made_up(first: float, repeated: float, variance: float) -> dict:
    times = {call: [0.001, 0.002, 0.004] for call in CALLS}
    return {
        "conditions": {"rounds": 5, "cores": 2, "processor": "x", "load": 0.5},
        "ours": {**times, "megabytes": 100.0},
        "peer": {**times, "megabytes": 200.0},
        "ratio": {"first": [1, first, 9000], "repeated": [1, repeated, 9000]},
        **{f"{what}_rms_z": 1.0 for what in ("kernel", "ntk")},
        **{f"{what}_variance_ratio": variance for what in ("kernel", "ntk")},
    }


def test_a_goal_is_met_by_both_calls_and_no_larger_error(table):
    case = table.CASES["ensemble"]
    for first, repeated, variance, met in (
        (2.6, 2.6, 1.0, True),
        (2.4, 9.0, 1.0, False),
        (9.0, 2.4, 1.0, False),
        (9.0, 9.0, 1.2, False),
    ):
        assert table.goal(case, made_up(first, repeated, variance)) == (
            "2.5x: met" if met else "2.5x: not met"
        )


def test_writing_changes_nothing_outside_the_markers(table, tmp_path, monkeypatch):
    pages = [tmp_path / "one.md", tmp_path / "other.md"]
    for page in pages:
        page.write_text(f"above\n{table.BEGIN}\nold\n{table.END}\nbelow {page.name}\n")
    monkeypatch.setattr(table, "PAGES", tuple(pages))
    table.write({"ensemble": made_up(3.0, 3.0, 1.0)})
    assert table.shown(pages[0]) == table.shown(pages[1])
    assert "2.00 (1.00–4.00)" in table.shown(pages[0]) or "2.0 (1.0–4.0)" in table.shown(pages[0])
    for page in pages:
        assert page.read_text().startswith("above\n")
        assert page.read_text().endswith(f"\nbelow {page.name}\n")


def test_large_fields_are_shown_as_they_were_measured(table):
    import large_fields

    known = json.loads(large_fields.NUMBERS.read_text())
    assert set(large_fields.ROWS) < set(known)
    shown = large_fields.SPEED.read_text().split(large_fields.BEGIN)[1].split(large_fields.END)[0]
    assert shown.strip() == large_fields.render(known).strip()
    assert large_fields.PAGE.read_text() == large_fields.TITLE + large_fields.render(known)
    # Sides that differ are not shown.
    known["flat"]["ours"]["found"][0] *= 1.001
    with pytest.raises(RuntimeError, match="flat: sides differ by 1"):
        large_fields.render(known)


def test_many_labels_are_shown_as_they_were_measured(table):
    import many_labels

    known = json.loads(many_labels.NUMBERS.read_text())
    assert set(many_labels.ROWS) == set(known)
    shown = many_labels.SPEED.read_text().split(many_labels.BEGIN)[1].split(many_labels.END)[0]
    assert shown.strip() == many_labels.render(known).strip()
    assert many_labels.PAGE.read_text() == many_labels.TITLE + many_labels.render(known)
    # A goal is met or missed by the numbers.
    known["ten"]["seconds"] = 21.0
    assert "| time missed, error met |" in many_labels.render(known)
