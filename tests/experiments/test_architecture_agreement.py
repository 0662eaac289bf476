"""Agreement, golden: order 1/n of networks of every kind beside drawn ones, as it is kept and judged."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from scalewise.experiments import architecture_agreement as agreement
from scalewise.experiments._twelve_networks import NETWORKS
from scalewise.experiments.results import stored_result

KEPT = Path(__file__).resolve().parents[2] / "docs" / "paper_scale"
WIDTHS = np.array([32.0, 64.0])


def made_up(seed: int, *, curved: float = 0.0) -> tuple[xr.Dataset, list[xr.Dataset]]:
    """A theory of one sample, and measurements that scatter around it, with a known next order."""
    rng = np.random.default_rng(seed)
    two, four = ("layer", "sample", "sample_1"), ("layer", *(f"sample_{k}" for k in range(4)))
    given = {"kernel": (two, 1.0), "metric_nlo": (two, -0.7), "four_point_vertex": (four, 2.0)}
    theory = xr.Dataset({k: (d, np.full((1,) * len(d), v)) for k, (d, v) in given.items()})
    seen = []
    for n in WIDTHS:
        sem = {"kernel": 0.01 / n, "four_point_vertex": 0.03}
        mean = {"kernel": 1 - 0.7 / n + curved / n**2, "four_point_vertex": 2 + 5 / n}
        parts = {}
        for name, error in sem.items():
            dims = given[name][0]
            one = (1,) * len(dims)
            parts[name] = (dims, np.full(one, mean[name] + error * rng.normal()))
            parts[f"{name}_sem"] = (dims, np.full(one, error))
        seen.append(xr.Dataset(parts))
    return theory, seen


def test_what_is_beyond_order_1_over_n_is_extrapolated_away() -> None:
    """z of made-up ensembles are normal numbers, though those at each width are far off."""
    for curved in (0.0, 3.0):
        found = [
            agreement._judged(*made_up(seed, curved=curved), WIDTHS).sel(letter=["K", "V"])
            for seed in range(300)
        ]
        square = np.mean([one.worst.values**2 for one in found], axis=0)
        np.testing.assert_allclose(square, 1.0, atol=4 * (2 / 300) ** 0.5)
    assert float(found[0].worst_at.sel(letter="V").min()) > 1.5
    assert float(found[0].without.sel(letter="K").min()) > 50
    assert np.isnan(found[0].without.sel(letter="V")).all()


def test_a_wrong_prediction_is_seen() -> None:
    theory, seen = made_up(0)
    for name, letter in (("metric_nlo", "K"), ("four_point_vertex", "V")):
        wrong = theory.assign({name: 1.25 * theory[name]})
        assert float(agreement._judged(wrong, seen, WIDTHS).worst.sel(letter=letter)) > 4.5


def test_a_network_drawn_again_is_the_one_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but A, B, D and F, whose compilation takes longest."""
    kept = stored_result("architecture_agreement", KEPT)
    assert kept is not None
    monkeypatch.setattr(agreement, "TENSORS", {"V": "four_point_vertex"})
    again = agreement._cell("MLP", config=agreement.Config.paper())
    for name in again.data_vars:
        # The last digits of float32 depend on the machine.
        one, other = (data[name].sel(letter=["K", "Theta", "V"]) for data in (again, kept))
        other = other.sel(network="MLP")
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=0.03, err_msg=str(name))


def test_all_twelve_are_kept() -> None:
    kept = stored_result("architecture_agreement", KEPT)
    assert kept is not None
    assert kept.network.values.tolist() == list(NETWORKS)
    assert len({kind for kind, _ in NETWORKS.values()}) >= 6
    known = np.isfinite(kept.worst)
    assert bool(known.sel(letter=["K", "Theta", "V", "B", "F"]).all())
    assert kept.network.values[~known.sel(letter=["A", "D"]).all("letter")].tolist() == [
        "max pooling"
    ]
    assert float(kept.worst.max()) < agreement.worst_by_chance(kept)
    # The 1/n terms are seen: without them most kernels and NTKs would disagree.
    assert float(kept.without.sel(letter=["K", "Theta"]).max()) > 10
