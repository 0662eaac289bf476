"""Golden, conformance: fluctuations of every kind of network, as they are extrapolated and kept."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from scalewise.experiments import architecture_fluctuations as fluctuations
from scalewise.experiments.results import stored_result

KEPT = Path(__file__).resolve().parents[2] / "docs" / "paper_scale"


def test_what_is_of_the_next_order_is_extrapolated_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up ensembles, V = 2 + 5/n in units of a kernel of 3 and A = 7 - 4/n of an NTK of 2."""
    wanted = {"four_point_vertex": (2.0, 5.0), "ntk_A": (7.0, -4.0)}

    def told(values: dict[str, float]) -> xr.Dataset:
        made = {name: (("layer", "sample"), [[value]]) for name, value in values.items()}
        return xr.Dataset(made, {"layer": [2], "sample": [0]})

    def theory(net, x, **rest) -> xr.Dataset:
        leading = {name: value for name, (value, _) in wanted.items()}
        errors = dict.fromkeys((f"{name}_error" for name in wanted), 0.02)
        return told({"kernel": 3.0, "ntk": 2.0, **leading, **errors})

    def drawn(net, x, **rest) -> xr.Dataset:
        n = net.width
        return told(
            {name: value + slope / n for name, (value, slope) in wanted.items()}
            | {f"{name}_sem": 0.1 for name in wanted}
        )

    monkeypatch.setattr(fluctuations, "predict", theory)
    monkeypatch.setattr(fluctuations, "measure", drawn)
    found = fluctuations._cell("MLP", 1, config=fluctuations.Config())
    np.testing.assert_allclose(found.predicted, [2 / 9, 7 / 4])
    np.testing.assert_allclose(found.extrapolated, found.predicted)
    np.testing.assert_allclose(found.predicted_error, [0.02 / 9, 0.02 / 4])
    spread = 0.1 * np.hypot(16 / 48, 64 / 48)
    np.testing.assert_allclose(found.extrapolated_sem, [spread / 9, spread / 4])
    np.testing.assert_allclose(found.measured.sel(width=16), [(2 + 5 / 16) / 9, (7 - 4 / 16) / 4])


def test_what_is_kept_shows_what_is_claimed() -> None:
    kept = stored_result("architecture_fluctuations", KEPT)
    assert kept is not None
    assert kept.kind.values.tolist() == list(fluctuations.KINDS)
    predicted = kept.predicted
    pooled, flat, plain = (
        predicted.sel(kind=name) for name in (fluctuations.POOL, fluctuations.FLAT, "MLP")
    )
    assert bool((flat < 0.9 * pooled).all())
    V = (pooled / plain).sel(letter="V")
    assert bool(((V > 0.5) & (V < 2)).all())
    # Networks with more layers differ more, but for the kernel of some.
    assert bool((predicted.sel(letter="A").diff("depth") > 0).sel(kind=["MLP", "residual"]).all())
