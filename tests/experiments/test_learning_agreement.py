"""Golden, property: the power of a remainder, and the whole grid of trained networks as it is kept."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from scalewise.experiments import design_on_digits, learning_agreement
from scalewise.experiments._look import Table
from scalewise.experiments.results import judged, stored_result

KEPT = Path(__file__).resolve().parents[2] / "docs" / "paper_scale"


def lines(table: Table) -> list[str]:
    """A table in Markdown."""
    rows = [f"| {' | '.join(row)} |" for row in (table.head, *table.rows)]
    return [rows[0], "|---" * len(table.head) + "|", *rows[1:]]


def test_a_power_is_found_beneath_the_noise() -> None:
    """Remainders of known power in as much noise: the fit, and the scatter of fits beside its error."""
    n, rng = np.array([32.0, 64.0, 96.0]), np.random.default_rng(0)
    for power in (1.0, 2.0):
        found = []
        for _ in range(60):
            curves = []
            for _ in range(12):
                sem = 0.5 * n[:, None] ** -1.5 * np.ones(8)
                off = 40.0 * rng.normal(size=8) * (n / 32)[:, None] ** -power / 32
                curves.append(
                    learning_agreement._misfit(off + sem * rng.normal(size=sem.shape), sem, n)
                )
            data = xr.DataArray(curves, dims=("network", "power"))
            found.append(learning_agreement.fitted_power(data))
        values, sems = np.array(found).T
        assert abs(values.mean() - power) < 4 * values.std() / 60**0.5 + 0.02
        assert values.std() == pytest.approx(np.sqrt((sems**2).mean()), rel=0.4)


def test_ranks_that_agree_and_ranks_that_do_not() -> None:
    numbers = np.arange(8.0)
    data = xr.Dataset({"predicted": ("candidate", numbers), "measured": ("candidate", numbers**3)})
    assert design_on_digits.rank_correlation(data) == pytest.approx((1.0, 0.0))
    turned = data.assign(measured=-data.measured)
    assert design_on_digits.rank_correlation(turned)[0] == pytest.approx(-1.0)


@pytest.mark.parametrize(
    "name",
    [
        "architecture_agreement",
        "architecture_fluctuations",
        "learning_agreement",
        "trained_architectures",
        "design_on_digits",
        "text_transfer",
    ],
)
def test_the_page_shows_what_is_kept(name: str) -> None:
    kept = stored_result(name, KEPT)
    assert kept is not None
    told = judged(name, kept)
    assert told.wrong == []
    page = (KEPT / f"{name}.md").read_text().splitlines()
    assert [line for table in told.tables for line in lines(table) if line not in page] == []


def test_the_whole_grid_was_trained() -> None:
    cells = stored_result("learning_agreement", KEPT)
    assert cells is not None
    sizes = {"activation": 4, "algorithm": 6, "depth": 3, "outputs": 2}
    assert sizes.items() <= dict(cells.sizes).items()
    # A verdict of every cell at the widest, on all it has: of a posterior no change of the NTK.
    known = np.isfinite(cells.excess.isel(width=-1)).sum("outcome")
    assert (known == xr.where(cells.algorithm == "Bayes", 3, 4)).all()
    assert float(cells.excess.max()) < learning_agreement.worst_by_chance(cells)
