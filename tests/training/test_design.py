"""Agreement and conformance: what `design` and the surveys tell is what `predict_training` tells, one by one."""

import re

import numpy as np
import pytest
import xarray as xr

import scalewise as sw
from refusals import unlike
from scalewise.training import (
    Bayes,
    GradientFlow,
    LastLayer,
    algorithms_side_by_side,
    design,
    evidence_of_networks,
    ntk_motion,
)
from small_task import NET, TEST, TRAIN, WANTED, Y

TASK = sw.Task(TRAIN[:3], Y[:3], test_inputs=TEST[:2], test_targets=WANTED[:2])

GRID = {
    "depths": (2, 3),
    "activations": ("tanh", "relu", "sigmoid"),
    "weight_scales": (0.5, 2.0),
    "bias_variances": (0.1,),
}


@pytest.fixture(scope="module")
def found() -> sw.training.Design:
    return design(TASK, 500, refine=2, client=0, **GRID)


def test_every_candidate_is_as_wide_as_the_budget_allows(found: sw.training.Design) -> None:
    for i in range(found.table.sizes["candidate"]):
        row = found.table.isel(candidate=i)
        net = sw.MLP(
            int(row.depth),
            int(row.width),
            str(row.activation.values),
            input_dim=TASK.inputs.shape[1],
            output_dim=TASK.targets.shape[1],
        )
        assert net.parameters == int(row.parameters) <= 500
        assert net.at_width(int(row.width) + 1).parameters > 500


def test_candidates_have_the_loss_and_the_evidence_of_their_network(
    found: sw.training.Design,
) -> None:
    assert found.table.sizes["candidate"] == 12
    for i in range(0, 12, 3):
        row = found.table.isel(candidate=i)
        net = sw.MLP(
            int(row.depth),
            int(row.width),
            str(row.activation.values),
            input_dim=TASK.inputs.shape[1],
            output_dim=TASK.targets.shape[1],
            C_b=float(row.C_b),
            C_W=float(row.C_W),
        )
        flow = sw.predict_training(net, TASK, GradientFlow(), observables=["test_loss"])
        assert float(row.test_loss) == pytest.approx(float(flow.test_loss.mean()), rel=1e-12)
        prior = sw.predict_training(net, TASK, Bayes())
        assert float(row.log_evidence) == pytest.approx(float(prior.log_evidence), rel=1e-12)
    # The critical C_W of tanh is 1, of relu 2; sigmoid has none, and its unit is 1.
    for name, unit in (("tanh", 1.0), ("relu", 2.0), ("sigmoid", 1.0)):
        own = found.table.C_W.values[found.table.activation.values == name]
        assert sorted(set(own)) == [0.5 * unit, 2.0 * unit]


def test_the_network_is_the_first_of_the_table(found: sw.training.Design) -> None:
    first = found.table.isel(candidate=0)
    assert (found.net.depth, found.net.hidden_widths[0]) == (int(first.depth), int(first.width))
    assert found.net.activation.name == str(first.activation.values)
    ranks = np.lexsort((found.table.predicted_loss.values, ~found.table.trusted.values))
    np.testing.assert_array_equal(ranks, np.arange(12))
    assert bool(first.trusted) == ("infinite width" not in found.caveat)
    by_data = design(TASK, 500, refine=0, by="log_evidence", client=0, **GRID)
    assert float(by_data.table.log_evidence[0]) == float(by_data.table.log_evidence.max())
    assert "infinite width" in by_data.caveat


def test_what_no_budget_can_buy_is_refused() -> None:
    with pytest.raises(ValueError, match="`budget` of 3 parameters is too small for a network"):
        design(TASK, 3, client=0, **GRID)
    with pytest.raises(ValueError, match="must have test inputs with targets"):
        design(sw.Task(TASK.inputs, TASK.targets), 500)


@pytest.mark.thorough(
    "tests/training/test_width.py::test_tensors_are_made_once_where_they_are_shared"
)
def test_algorithms_side_by_side_are_each_alone() -> None:
    ways = {"flow": GradientFlow(), "last": LastLayer(), "noisy": Bayes(0.3)}
    table = algorithms_side_by_side(NET, TASK, ways)
    for name, algorithm in ways.items():
        alone = sw.predict_training(NET, TASK, algorithm)
        row = table.sel(algorithm=name)
        assert float(row.test_loss) == pytest.approx(float(alone.test_loss.mean()))
        assert float(row.squared_bias + row.variance) / 2 == pytest.approx(float(row.test_loss))
    order = dict(reversed(ways.items()))
    xr.testing.assert_identical(
        algorithms_side_by_side(NET, TASK, order).sel(algorithm=list(ways)), table
    )


@pytest.mark.covers("B77")
def test_evidence_of_networks_is_that_of_each() -> None:
    found = evidence_of_networks(
        NET, TASK, depths=[2, 4], weight_variances=[0.7, 1.4], noise_variance=0.1, client=0
    )
    net = sw.MLP(
        4, 8, NET.activation, input_dim=NET.input_dim, output_dim=NET.output_dim, C_b=NET.C_b[0],
        C_W=1.4, lambda_b=NET.lambda_b[0], lambda_W=NET.lambda_W[0],
    )  # fmt: skip
    alone = sw.predict_training(net, TASK, Bayes(0.1), observables=["log_evidence"])
    assert float(found.log_evidence.sel(depth=4, C_W=1.4)) == pytest.approx(
        float(alone.log_evidence)
    )


@pytest.mark.covers("C74")
def test_motion_of_the_ntk_is_the_change_of_its_eigenvalues() -> None:
    """A small change along with the kernel itself moves each eigenvalue by its own share."""
    x = np.concatenate([TASK.inputs, TASK.test_inputs])
    H = sw.predict(NET, x, observables=["ntk"], layers=NET.depth).ntk.values[0]
    rng = np.random.default_rng(0)
    noise = rng.normal(size=H.shape)
    change = 1e-6 * (noise + noise.T)
    outputs = TASK.targets.shape[1]
    array = xr.DataArray(
        np.einsum("ij,ab->ijab", np.eye(outputs), change),
        dims=("output", "output_1", "sample", "sample_1"),
    )
    found = ntk_motion(NET, TASK, array)
    A = slice(0, len(TASK.inputs))
    before, after = (np.linalg.eigvalsh(M[A, A])[::-1] for M in (H, H + change))
    np.testing.assert_allclose(found.eigenvalue, before, rtol=1e-12)
    np.testing.assert_allclose(found.change, after - before, atol=1e-9)
    assert float(found.target_share.sum()) == pytest.approx(1.0)


def test_a_network_that_the_targets_speak_against_is_told() -> None:
    """Smooth targets, seen at twelve places and judged at one: a lucky test sample is not evidence."""
    x = np.linspace(-1, 1, 12)[:, None] * [1.0, 0.3]
    lucky = sw.Task(x, x[:, :1], test_inputs=[[0.2, 0.9]], test_targets=[[0.75]])
    options = {"depths": (2,), "activations": ("tanh", "relu"), "weight_scales": (0.05, 1.0, 4.0),
               "bias_variances": (0.0,), "refine": 0, "client": 0, "noise_variance": 1e-3}  # fmt: skip
    by_loss, by_evidence = (
        design(lucky, 300, GradientFlow(10.0), by=by, **options)
        for by in ("test_loss", "log_evidence")
    )
    for one in (by_loss, by_evidence):
        factor, evidence = one.table.log_bayes_factor, one.table.log_evidence
        np.testing.assert_allclose(factor, evidence - evidence.max())
        told = re.search(
            r"e\^(-\d+) times as probable .* \(depth 2, activation (\w+), weight_scale", str(one)
        )
        if float(factor[0]) > -5:
            assert told is None
            continue
        assert told is not None
        assert float(told[1]) == pytest.approx(float(factor[0]), abs=0.5)
        assert told[2] == by_evidence.table.activation[0].item()
    assert float(by_loss.table.log_bayes_factor[0]) < -5
    assert float(by_evidence.table.log_bayes_factor[0]) == 0


def family(depth: int, sigma: sw.Activation) -> sw.Network:
    """Groups, so that widths are multiples of 3; the read-out has numbers of its own."""
    layers = (sw.Conv(3, groups=1), sigma, *(sw.Conv(2, groups=3), sigma) * (depth - 2))
    return sw.Network(
        *layers, sw.GlobalAvgPool(), sw.Dense(2, C_W=0.7), input_shape=(3, 2), width=3
    )


def test_networks_of_any_layers_are_chosen_by_the_same_numbers() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(4, 3, 2)), rng.normal(size=(4, 2))
    task = sw.Task(x[:3], y[:3], test_inputs=x[3:], test_targets=y[3:])
    grid = {"depths": [2, 3], "activations": ["tanh", "relu"], "weight_scales": (0.5, 2.0)}
    grid |= {
        "bias_variances": (0.1,),
        "refine": 1,
    }  # of two layers, since that of groups is not known
    found = design(task, 300, family=family, client=0, **grid)
    losses = []
    for i in range(8):
        row = found.table.isel(candidate=i)
        sigma = sw.activation(str(row.activation.values))
        net = family(int(row.depth), sigma).at_width(int(row.width))
        assert net.parameters == int(row.parameters) <= 300
        step = 3 if row.depth == 3 else 1
        assert int(row.width) % step == 0
        assert net.at_width(int(row.width) + step).parameters > 300
        net = net.replace(C_b=float(row.C_b), C_W=float(row.C_W))
        flow = sw.predict_training(net, task, observables=["test_loss"])
        losses.append(float(flow.test_loss.mean()))
        assert float(row.test_loss) == pytest.approx(losses[-1], rel=1e-12)
        unit = 2.0 if sigma.name == "relu" else 1.0
        assert float(row.C_W) in (0.5 * unit, 2.0 * unit)
        if i == 0:
            assert found.net == net
    assert losses == sorted(losses)
    assert np.isfinite(found.table.test_loss_nlo[found.table.activation == "tanh"]).any()
    assert "the learning parameter is" in found.caveat
    # Networks whose parameters do not depend on the width have the smallest.
    fixed = design(
        task, 100, family=lambda depth, sigma: family(2, sigma).replace(layers=(sw.Flatten(), sw.Dense(2))),
        depths=[1], activations=["tanh"], client=0,
    )  # fmt: skip
    assert set(fixed.table.width.values) == {1}


def test_families_that_do_not_fit_are_refused() -> None:
    x = np.ones((3, 3, 2)) * np.arange(1.0, 4)[:, None, None]
    task = sw.Task(x[:2], np.ones((2, 2)), test_inputs=x[2:], test_targets=np.ones((1, 2)))
    one = sw.Task(x[:2], np.ones((2, 1)), test_inputs=x[2:], test_targets=np.ones((1, 1)))
    grid = {"depths": [2], "activations": ["tanh"], "client": 0}

    def odd(depth: int, sigma: sw.Activation) -> sw.Network:
        layers = (sw.Conv(3), sw.Conv(3, channels=128, groups=128), sigma)
        return sw.Network(*layers, sw.Flatten(), sw.Dense(2), input_shape=(3, 2), width=128)

    cases = [
        (lambda: design(task, 10, family=family, **grid), "too small for a network of 6 inputs"),
        (lambda: design(one, 500, family=family, **grid), "output_dim=2. Change one of the two"),
        (lambda: design(task, 10**6, family=odd, **grid), "do not divide into 128 groups"),
        (lambda: design(task, 500, family=lambda *_: 3, **grid), "`family` must give networks"),
        (lambda: design(task, 500, family=3, **grid), "`family` must be"),
    ]
    assert unlike(cases) == []
