"""Agreement with neural-tangents, which need not be installed: kernels that it computed are kept with the page."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from grids import thorough

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
MODULES = ("peers_rows", "peers_more_rows", "peers_page", "peers_one", "clock", "cases", "truth")


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import peers_more_rows
    import peers_one
    import peers_page
    import peers_rows

    yield SimpleNamespace(page=peers_page, one=peers_one, rows=peers_rows, all=peers_more_rows.ROWS)
    for name in MODULES:  # benchmarks are scripts, not a package: others may have these names
        sys.modules.pop(name, None)


def test_the_page_says_what_was_measured_and_of_these_layers(peers: SimpleNamespace) -> None:
    found = peers.page.load()
    assert peers.page.PAGE.read_text() == peers.page.render(found)
    assert list(found) == list(peers.all)
    for name, row in peers.all.items():
        assert (found[name]["theirs"], found[name]["ours"]) == (row.theirs, row.ours), name
        assert ("refusal" in found[name]) == row.refused, name


def test_no_difference_is_larger_than_its_row_accepts(peers: SimpleNamespace) -> None:
    for name, one in peers.page.load().items():
        row = peers.all[name]
        assert row.aim <= 1e-6, name
        for apart in one.get("difference", {}).values():
            # A stated error is a standard error, of the worst of some pairs.
            limit = max(row.aim, 5 * apart["stated error"]) if row.drawn else row.aim
            assert apart["ours"] <= limit, name
            if row.truth:  # what is called wrong is not nearly right
                assert apart["theirs"] > 0.01, name


@pytest.mark.parametrize("kind", ["formulas", *thorough("functions", "drawn")])
def test_kernels_are_those_of_neural_tangents(peers: SimpleNamespace, kind: str) -> None:
    """Of the first inputs, against theirs that are kept."""
    make, found = peers.one.ours(), peers.page.load()
    for row in peers.all.values():
        own = "drawn" if row.drawn else "functions" if peers.rows.needs_jax(row) else "formulas"
        if own != kind or row.refused:
            continue
        ours = make(row, row.ours, row.x(peers.rows.STORED))()
        for letter, true in found[row.name]["kernels"].items():
            largest = peers.rows.relative(ours[letter], true).max()
            limit = row.aim
            if row.drawn:
                stated = peers.rows.relative(np.add(true, ours[f"{letter} error"]), true)
                limit = max(limit, 5 * stated.max())
            assert largest <= limit, f"{row.name}: {letter} differs by {largest:.1e}"


def test_a_wrong_layer_is_seen(peers: SimpleNamespace) -> None:
    """By the same comparison: a rate, a stride, a padding and a matrix that are not theirs."""
    wrong = {
        "Dense": 'Dense(lambda_b=1), "relu", Dense(), "relu"',
        "Conv, stride, SAME": 'Conv(3, stride=2, padding="circular"), "relu"',
        "Aggregate, one axis of two": 'Conv(1), Aggregate(graph(6).T, axis=1), "relu"',
        "Dropout": 'Dense(), "relu", Dropout(0.2), Dense(), "relu"',
    }
    make, found = peers.one.ours(), peers.page.load()
    for name, ours in wrong.items():
        row = peers.all[name]
        its = make(row, ours, row.x(peers.rows.STORED))()
        assert peers.rows.relative(its["Theta"], found[name]["kernels"]["Theta"]).max() > 1e-3, name


def test_what_only_we_have_is_there(peers: SimpleNamespace) -> None:
    make = peers.one.ours()
    for row in peers.all.values():
        if row.refused and not row.drawn:
            kernels = make(row, row.ours, row.x(2))()
            assert all(np.linalg.eigvalsh(K).min() > 0 for K in kernels.values()), row.name
            assert f"{row.theirs}`: " in peers.page.PAGE.read_text(), row.name
