"""Conformance: a row, a component and an estimator are all that an observable takes (docs/architecture.md)."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import scalewise as sw
from scalewise.cli._app import app
from scalewise.nets._estimators import ESTIMATORS, Estimator, SumPart
from scalewise.nets._moments import CovarianceSums
from scalewise.observables import OBSERVABLES, Observable
from scalewise.report._words import _words
from scalewise.selection import known
from scalewise.theory.action import finite_width_couplings
from scalewise.theory.order._jets import TENSORS, Component

NAME = "norm_covariance"
X = np.array([[1.0, 0.3], [-0.4, 0.9], [0.7, 0.7]])


# How the metrics of two single inputs fluctuate together: V at (aa)(bb).
N = Component(((), ()), ((), ()), "aabb->ab")


def read(sums, n, samples):
    """The width times the covariance of two diagonal entries of the metric."""
    first, second = np.triu_indices(samples)
    same = np.flatnonzero(first == second)
    block = (slice(None), same[:, None], same)
    scale = n[:, None, None]
    return scale * sums.covariance()[block], scale * sums.covariance_sem()[block]


@pytest.fixture
def registered(monkeypatch):
    row = Observable(
        name=NAME,
        letter="N",
        symbol="N_12",
        equation="derived",
        legs=2,
        units="preactivation⁴",
        meaning="Covariance of the metrics of two single inputs, times the width of the layer below.",
        words="covariance of norms",
        dimension=(2, 0),
        own_scale=True,
        components=lambda N, P: P,
    )
    metric = SumPart("layers", "metric", lambda samples: samples * (samples + 1) // 2)
    monkeypatch.setitem(OBSERVABLES, NAME, row)
    monkeypatch.setitem(TENSORS, "N", N)
    monkeypatch.setitem(ESTIMATORS, NAME, Estimator(metric, CovarianceSums, read))


@pytest.mark.usefixtures("registered")
def test_it_is_predicted_measured_and_compared() -> None:
    net = sw.MLP(3, 24, "relu", input_dim=2, output_dim=2).at_criticality()
    theory = sw.predict(net, X, observables=["kernel", "four_point_vertex", NAME])
    V = theory.four_point_vertex.values
    np.testing.assert_allclose(theory[NAME], np.einsum("laabb->lab", V), rtol=1e-12)
    np.testing.assert_array_equal(sw.predict(net, X, observables=NAME)[NAME], theory[NAME])
    one = sw.predict(net, X[:1], observables=["four_point_vertex", NAME])
    np.testing.assert_allclose(
        one[NAME].values.ravel(), one.four_point_vertex.values.ravel(), rtol=1e-9
    )
    assert theory[NAME].attrs["equation"] == "derived"
    ensemble = sw.measure(
        net, X, networks=400, seed=3, observables=["kernel", NAME], progress=False
    )
    outcome = sw.compare(theory, ensemble)
    assert outcome.passed, outcome
    assert NAME in set(outcome.table.observable.values)
    wrong = theory.assign({NAME: theory[NAME].copy(data=3 * theory[NAME].values)})
    assert not sw.compare(wrong, ensemble).passed
    bias = sw.at_width(theory, 48)[f"{NAME}_bias"].values
    assert np.all(bias[:2] == 0.0)
    assert np.all(bias[2] > 0.0)


@pytest.mark.usefixtures("registered")
def test_everything_that_lists_observables_lists_it(tmp_path) -> None:
    net = sw.MLP(2, 8, "tanh", input_dim=2, output_dim=1)
    assert NAME in sw.predict(net, X[:2], observables="all")
    assert NAME in known("all")
    assert finite_width_couplings(3)[NAME] == 6
    assert _words(NAME) == "covariance of norms"
    np.save(tmp_path / "x.npy", X)
    words = ["predict", "--data", str(tmp_path / "x.npy"), "--samples", "2", "--depth", "2"]
    told = CliRunner().invoke(app, [*words, "--width", "8", "--observables", NAME, "--json"])
    assert told.exit_code == 0, told.output
    assert NAME in json.loads(told.stdout)["data_vars"]
    told = CliRunner().invoke(app, [*words, "--width", "8", "--observables", "nothing"])
    assert NAME in told.stderr
