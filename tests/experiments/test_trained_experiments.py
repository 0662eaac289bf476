"""Golden, property: coefficients read off trained networks, and what is kept of networks of other layers."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from scalewise.experiments import trained_architectures, trained_kinks
from scalewise.experiments.results import stored_result
from scalewise.training import GradientDescent, predict_training

KEPT = Path(__file__).resolve().parents[2] / "docs" / "paper_scale"


def test_a_parabola_in_the_inverse_width_is_extrapolated_exactly() -> None:
    for widths in ((16, 32, 64), (8, 12, 16)):
        n = np.array(widths, dtype=float)
        share = trained_architectures.at_infinity(n)
        assert share @ (0.7 - 3.0 / n + 11.0 / n**2) == pytest.approx(0.7, rel=1e-12)
        # What is missed is of the next power: the product of all 1/n.
        assert share @ n**-3.0 == pytest.approx(np.prod(1 / n), rel=1e-9)


@pytest.mark.parametrize("first", [0.5, 1.0])
def test_a_leading_coefficient_is_found_beneath_the_next_orders(first: float) -> None:
    """Exact without noise; with it, scattered as its error says."""
    n, rng = np.array([32.0, 64, 128, 256, 512, 1024]), np.random.default_rng(0)
    sem = 0.02 * n**-0.5
    curve = 0.4 * n**-first - 1.5 * n ** (-2 * first) + 2.0 * n ** (-3 * first)
    assert trained_kinks.leading_coefficient(n, curve, sem, first)[0] == pytest.approx(0.4)
    found = [
        trained_kinks.leading_coefficient(n, curve + sem * rng.normal(size=6), sem, first)
        for _ in range(400)
    ]
    values, errors = np.array(found).T
    assert values.std() == pytest.approx(errors[0], rel=0.15)
    assert abs(values.mean() - 0.4) < 4 * errors[0] / 20


def test_trained_networks_of_other_layers_are_kept() -> None:
    kept = stored_result("trained_architectures", KEPT)
    assert kept is not None
    assert kept.network.values.tolist() == list(trained_architectures.NETWORKS)
    assert kept.sizes["activation"] * kept.sizes["algorithm"] == 4
    assert kept.width.values.tolist() == [16, 32, 64]
    assert float(kept.worst.max()) < trained_architectures.worst_by_chance(kept)
    assert 0.5 < float(np.sqrt((kept.rms**2).mean())) < 1.5
    # They are no comparison of noise with noise. Behind norms theory follows single units, whose noise is larger.
    known = kept.known.sel(outcome=["output_covariance", "ntk_change"])
    assert float(known.drop_sel(network="LayerNorm").min()) > 2
    assert float(known.sel(network="LayerNorm").min()) > 2


def test_runs_over_some_networks_are_parts_of_the_run_over_all() -> None:
    kept = stored_result("trained_architectures", KEPT)
    assert kept is not None
    names = kept.attrs["networks_of"]
    parts = [kept.sel(network=own).assign_attrs(networks_of=own) for own in (names[:1], names[1:])]
    xr.testing.assert_identical(trained_architectures.joined(parts), kept)
    parts[0].attrs["seed"] = 1
    with pytest.raises(ValueError, match="other settings than one another; join runs of one"):
        trained_architectures.joined(parts)


def test_what_is_kept_was_held_against_the_theory_of_today() -> None:
    kept = stored_result("trained_architectures", KEPT)
    assert kept is not None
    net, samples = trained_architectures.made("graph", "tanh"), trained_architectures.task()
    most = predict_training(net, samples, GradientDescent()).attrs["maximal_rate"]
    names = [f"{name}_nlo" for name in trained_architectures.OUTCOMES]
    theory = predict_training(
        net, samples, GradientDescent(0.2 * most, steps=12), observables=names
    )
    for name in trained_architectures.OUTCOMES:
        one = kept.sel(network="graph", activation="tanh", algorithm="descent", outcome=name)
        gap = np.abs(theory[f"{name}_nlo"].values - float(one.predicted)).min()
        assert gap < float(one.predicted_error) + 1e-9 * abs(float(one.predicted)), name
