"""Agreement, golden and property tests: the optimal learning rate under five strategies, and its drift."""

import json
from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import scalewise as sw
from scalewise.experiments import learning_rate_transfer as transfer
from scalewise.experiments._look import Number
from scalewise.experiments._optimum import (
    below_best,
    bootstrap_rows,
    drift,
    parabola_minimum,
)
from scalewise.experiments._training import TrainingData, make_task, train
from scalewise.experiments.learning_rate_transfer import LARGE, STRATEGIES, Config
from scalewise.networks import apply_strategy
from scalewise.scaling import ABC, Strategy, mup, ntk

pytestmark = pytest.mark.optimised
GROWING = "s = 1/2, L ~ √n"


@pytest.fixture(scope="module")
def measured() -> xr.Dataset:
    return transfer.run(Config.small())


def of(dataset: xr.Dataset, strategy: str, name: str) -> tuple[float, float]:
    one = dataset.sel(strategy=strategy)
    return float(one[name]), float(one[f"{name}_sem"])


# What is found


@pytest.mark.thorough("test_the_optimum_of_maximal_updates_stays")
def test_numbers_of_the_gallery_agree(measured: xr.Dataset) -> None:
    numbers = transfer.numbers(measured)
    assert len(numbers) == len(STRATEGIES) + 2
    assert [number for number in numbers if not number.agrees] == []
    # Drifts are measured well enough to tell the strategies apart.
    assert np.all(measured.drift_sem < 0.1)


@pytest.mark.parametrize("name", ["mup", GROWING])
@pytest.mark.thorough("test_the_optimum_of_maximal_updates_stays")
def test_the_optimum_stays(measured: xr.Dataset, name: str) -> None:
    value, sem = of(measured, name, "drift")
    assert abs(value) < 0.12
    assert 4 * sem + 0.12 < 0.45
    cost, _ = of(measured, name, "cost")
    assert 1 <= cost < 1.2


@pytest.mark.thorough("test_the_optimum_of_maximal_updates_stays")
def test_the_optimum_moves_where_it_should(measured: xr.Dataset) -> None:
    """Beyond four standard errors: standard falls, neural-tangent rises, s = 1/2 stands between."""
    low, low_sem = of(measured, "standard", "drift")
    high, high_sem = of(measured, "ntk", "drift")
    middle, middle_sem = of(measured, "s = 1/2", "drift")
    assert low + 4 * low_sem < 0
    assert middle - 4 * middle_sem > 0.1
    assert high - middle > 4 * np.hypot(high_sem, middle_sem) + 0.1
    for name in ("ntk", "s = 1/2"):
        cost, sem = of(measured, name, "cost")
        assert cost - 4 * sem > 1.2


@pytest.mark.thorough("test_the_optimum_of_maximal_updates_stays")
def test_strategies_coincide_at_the_reference_width(measured: xr.Dataset) -> None:
    for name in ("loss", "test_loss", "optimum"):
        first = measured[name].isel(size=0).values
        np.testing.assert_array_equal(first, np.broadcast_to(first[:1], first.shape))


def only(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[int], Strategy], octaves: tuple[int, int]
) -> xr.Dataset:
    """The experiment with a single strategy under the name of the one that it replaces."""
    monkeypatch.setattr(transfer, "STRATEGIES", {"mup": make})
    return transfer.run(replace(Config.small(), octaves=octaves, seeds=4))


def without_multiplier(depth: int) -> Strategy:
    """Maximal update whose readout lacks its multiplier, a_L = 0 for 1/2."""
    right = mup(depth=depth).to_abc()
    return ABC((*right.a[:-1], 0), right.b, right.c).to_strategy()


def with_a_global_rate(depth: int) -> Strategy:
    """Maximal update in the gauge of the family, its learning rate a power of the width too small."""
    right = mup(depth=depth).gauge(1)
    return Strategy(right.p, right.q, right.r - 1)


def test_the_optimum_of_maximal_updates_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    found = only(monkeypatch, lambda depth: mup(depth=depth), (3, 9))
    value, sem = of(found, "mup", "drift")
    assert abs(value) < 0.12
    assert 4 * sem + 0.12 < 0.45


@pytest.mark.parametrize(
    ("wrong", "low", "high"),
    [(with_a_global_rate, 0.8, 1.2), (without_multiplier, -1.0, -0.24)],
)
@pytest.mark.thorough("test_the_optimum_of_maximal_updates_stays")
def test_a_wrong_maximal_update_drifts(
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[[int], Strategy], low: float, high: float
) -> None:
    """By more than the gallery allows: -1/2 at last, and 1."""
    found = only(monkeypatch, wrong, (2, 10))
    value, sem = of(found, "mup", "drift")
    assert not Number("drift", 0.0, value, sem, 0.12).agrees
    assert low < value < high


# What is estimated


@pytest.mark.thorough("test_the_optimum_of_maximal_updates_stays")
def test_estimates_are_those_of_the_text(measured: xr.Dataset) -> None:
    """(1 - s)/2 at fixed depth, 0 at fixed gamma, up to a width that is rounded."""
    expected = {"ntk": 0.5, "s = 1/2": 0.25, "mup": 0.0, GROWING: 0.0}
    for name, value in expected.items():
        found = float(measured.drift_predicted.sel(strategy=name))
        assert found == pytest.approx(value, abs=1e-3 if name == GROWING else 1e-12)
    # One layer of three keeps its learning rate, so Theta goes as 1 + 2 n / n_ref.
    nu = measured.width.sel(strategy="standard").values / 32
    log = np.log2(nu**0.5 / ((1 + 2 * nu) / 3))
    one = measured.sel(strategy="standard")
    np.testing.assert_allclose(one.predicted - one.predicted[0], log, atol=0.02)


def test_standard_scaling_ends_at_minus_a_half() -> None:
    task = make_task("digits", seeds=1, steps=1, batch=1)
    config, found = Config(), []
    for width in (2**16, 2**17):
        net = config.network(3, width, task)
        scaled = apply_strategy(net, STRATEGIES["standard"](3), reference_width=32)
        found.append(transfer._predicted(scaled))
    assert found[1] - found[0] == pytest.approx(-0.5, abs=1e-3)


def test_growing_networks_keep_gamma() -> None:
    for config in (Config(), Config.small(), LARGE):
        shapes = [config.shape(GROWING, j) for j in range(len(config.depths))]
        assert shapes[0] == (config.depths[0], config.widths[0])
        assert [depth for depth, _ in shapes] == list(config.depths)
        gammas = np.array([depth / width**0.5 for depth, width in shapes])
        np.testing.assert_allclose(gammas, gammas[0], rtol=5e-3)


# The training


def tiny() -> TrainingData:
    rng = np.random.default_rng(0)
    x, x_test = rng.normal(size=(6, 4)), rng.normal(size=(5, 4))
    order = np.array([[[0, 3], [5, 1], [2, 2]], [[1, 1], [4, 2], [0, 5]]])
    return TrainingData(x, np.array([0, 1, 2, 2, 1, 0]), x_test, np.array([2, 0, 1, 1, 0]), order)


def by_hand(
    scaled, weights, biases, task: TrainingData, order: np.ndarray, eta: float
) -> list[float]:
    """Backpropagation written out for tanh, in float64."""
    net = scaled.net
    W, b = [w.astype(float) for w in weights], [c.astype(float) for c in biases]

    def forward(x):
        entering = [x]
        for w, c in zip(W[:-1], b[:-1], strict=True):
            entering.append(np.tanh(entering[-1] @ w.T + c))
        z = entering[-1] @ W[-1].T + b[-1]
        odds = np.exp(z - z.max(axis=1, keepdims=True))
        return entering, odds / odds.sum(axis=1, keepdims=True)

    for rows in order:
        entering, odds = forward(task.x[rows])
        error = (odds - np.eye(task.classes)[task.y[rows]]) / len(rows)
        for k in range(net.depth - 1, -1, -1):
            to_weights, to_biases = error.T @ entering[k], error.sum(axis=0)
            if k:
                error = (error @ W[k]) * (1 - entering[k] ** 2)
            W[k] -= eta * scaled.eta * net.lambda_W[k] / net.widths[k] * to_weights
            b[k] -= eta * scaled.eta * net.lambda_b[k] * to_biases
    out = []
    for x, y in ((task.x, task.y), (task.x_test, task.y_test)):
        odds = forward(x)[1]
        out.append(-float(np.mean(np.log(odds[np.arange(len(y)), y]))))
    return out


def test_training_is_gradient_descent_with_the_rates_of_the_network() -> None:
    from scalewise.experiments._training import _drawn

    task = tiny()
    net = sw.MLP(3, (5, 7), "tanh", input_dim=4, output_dim=3, C_b=0.1, C_W=(1.0, 2.0, 1.5),
                 lambda_b=(0.3, 0.7, 1.1), lambda_W=(1.0, 0.4, 2.0))  # fmt: skip
    scaled = apply_strategy(net, mup(depth=3), eta=0.9, reference_width=2)
    rates = np.array([0.05, 0.4])
    # A seed whose losses all stay below those of equal odds, which would cap them.
    found = train(scaled, rates, task, seed=3)
    start = _drawn(scaled.net, 2, 3)
    for k in range(2):
        for r, eta in enumerate(rates):
            weights, biases = [w[k] for w in start.weights], [c[k] for c in start.biases]
            expected = by_hand(scaled, weights, biases, task, task.order[k], float(eta))
            assert max(expected) < task.ignorance
            assert float(found.loss[k, r]) == pytest.approx(expected[0], rel=1e-5)
            assert float(found.test_loss[k, r]) == pytest.approx(expected[1], rel=1e-5)


def test_initial_parameters_have_the_variances_of_the_network() -> None:
    from scalewise.experiments._training import _drawn

    net = sw.MLP(2, 400, "relu", input_dim=50, output_dim=300, C_b=(0.5, 2.0), C_W=(2.0, 3.0))
    start = _drawn(net, 2, 0)
    for k in range(2):
        draws = start.weights[k].astype(float)
        tolerance = 4 * np.sqrt(2 / draws.size)
        assert np.var(draws) * net.widths[k] / net.C_W[k] == pytest.approx(1, abs=tolerance)
        assert np.var(start.biases[k]) / net.C_b[k] == pytest.approx(1, abs=4 * 600**-0.5)
        assert np.abs(np.corrcoef(draws.reshape(2, -1))[0, 1]) < 4 / (draws.size / 2) ** 0.5


def test_divergence_is_a_word_and_not_a_number() -> None:
    """Far too large a learning rate: no better than equal odds, infinite, or not a number."""
    task = make_task("digits", seeds=2, steps=20, batch=8)
    net = Config().network(3, 32, task)
    scaled = apply_strategy(net, ntk(depth=3), reference_width=32)
    found = train(scaled, [2.0**4, 2.0**14, 2.0**60, 2.0**120], task)
    np.testing.assert_array_equal(found.diverged, [[False, True, True, True]] * 2)
    assert task.ignorance == pytest.approx(np.log(10))
    np.testing.assert_array_equal(found.loss.values[found.diverged], task.ignorance)
    np.testing.assert_array_equal(found.test_loss.values[found.diverged], task.ignorance)
    assert np.all(found.loss[:, 0] < 0.7 * task.ignorance)
    assert np.all(np.isfinite(found.loss) & np.isfinite(found.test_loss))


def test_an_epoch_shows_every_image_once() -> None:
    task = make_task("digits", seeds=2, steps=90, batch=32)
    assert task.x.shape == (1438, 64)
    assert task.x_test.shape == (359, 64)
    joined = np.concatenate([task.x, task.x_test])
    everything = sw.load_inputs("digits")
    np.testing.assert_array_equal(
        joined[np.lexsort(joined.T)], everything[np.lexsort(everything.T)]
    )
    flat = task.order.reshape(2, -1)
    for row in flat:
        np.testing.assert_array_equal(np.sort(row[:1438]), np.arange(1438))
        assert len(set(row[1438:2876])) == 2876 - 1438
    assert not np.array_equal(flat[0], flat[1])
    again = make_task("digits", seeds=2, steps=90, batch=32)
    np.testing.assert_array_equal(task.order, again.order)
    other = make_task("digits", seeds=2, steps=90, batch=32, seed=1)
    assert not np.array_equal(task.order, other.order)


# The optimum


@given(
    vertex=st.floats(-1.4, 1.4), bend=st.floats(0.05, 20), h=st.floats(0.1, 3), low=st.floats(-5, 5)
)
def test_the_minimum_of_a_parabola_is_exact(
    vertex: float, bend: float, h: float, low: float
) -> None:
    x = h * np.arange(-2.0, 3.0)
    y = bend * (x - h * vertex) ** 2 + low
    assert float(parabola_minimum(x, y)) == pytest.approx(h * vertex, abs=1e-6 * h)


def test_a_minimum_at_an_end_is_held() -> None:
    x = np.arange(5.0)
    ends = np.array([x, -x, x**2, -(x**2), [0.0, 0, 0, 0, 0]])
    np.testing.assert_array_equal(parabola_minimum(x, ends), [0, 4, 0, 4, 1])


def test_drift_is_a_slope_in_powers_of_two() -> None:
    width = np.array([10.0, 20.0, 80.0, 160.0])
    optimum = np.stack([3 - 0.5 * np.log2(width), 1 + 0.25 * np.log2(width)])
    np.testing.assert_allclose(drift(width, optimum), [-0.5, 0.25], rtol=1e-12)


def test_what_is_forgone() -> None:
    x, y = np.array([0.0, 1.0, 2.0, 3.0]), np.array([2.0, 0.5, 1.5, 4.0])
    assert below_best(x, y, 1.0) == 0
    assert below_best(x, y, 1.5) == pytest.approx(0.5)
    assert below_best(x, y, 0.25) == pytest.approx(1.125)


def test_standard_errors_of_the_bootstrap_are_the_spread_of_a_mean() -> None:
    rng = np.random.default_rng(0)
    rows, inflate = bootstrap_rows(6, 400, 0)
    found = []
    for _ in range(200):
        draws = rng.normal(size=6)
        found.append(inflate * draws[rows].mean(axis=1).std())
    assert np.sqrt(np.mean(np.square(found))) == pytest.approx(6**-0.5, rel=0.08)


def test_claimed_errors_of_a_drift_are_its_spread() -> None:
    """Made-up parabolas of known optimum under noise, through the whole analysis."""
    x, rng = np.arange(0.0, 6.25, 0.5), np.random.default_rng(1)
    width, law = np.array([8, 16, 32]), np.array([2.0, 2.4, 2.8])
    found = []
    for k in range(60):
        moved = law[:, None, None] + 0.2 * rng.normal(size=(3, 8, 1))
        bend = np.array([0.1, 0.2, 0.3])[:, None, None]
        loss = np.exp(bend * (x - moved) ** 2)[None]
        made = xr.Dataset(
            {
                "loss": (("strategy", "size", "seed", "rate"), loss),
                "test_loss": (("strategy", "size", "seed", "rate"), 2 * loss),
                "width": (("strategy", "size"), width[None]),
                "predicted": (("strategy", "size"), np.zeros((1, 3))),
            },
            {"strategy": ["mup"], "rate": 2.0**x},
            {"seed": k, "octaves": [0, 6]},
        )
        one = transfer._with_optima(made).isel(strategy=0)
        assert float(one.drift) == pytest.approx(float(one.test_drift))
        found.append((float(one.drift), float(one.drift_sem), float(one.cost)))
    values, sems, costs = np.array(found).T
    assert values.mean() == pytest.approx(0.4, abs=4 * values.std() / 60**0.5)
    assert sems.mean() == pytest.approx(values.std(), rel=0.3)
    # At 0.8 from the optimum, up to the scatter and the steps between learning rates.
    assert np.median(costs) == pytest.approx(np.exp(0.3 * 0.8**2), rel=0.1)


# The form


@pytest.mark.thorough("test_the_optimum_of_maximal_updates_stays")
def test_an_experiment_keeps_its_promises(measured: xr.Dataset) -> None:
    assert {f.name for f in fields(Config)} <= set(measured.attrs)
    json.dumps(measured.to_dict(), default=float, allow_nan=False)
    assert np.all(np.isfinite(measured.loss))
    assert np.all(measured.loss <= measured.attrs["ignorance"])
    assert bool(measured.diverged.any())
    (table,) = transfer.tables(measured)
    assert [row[0] for row in table.rows] == list(STRATEGIES)
    assert {len(row) for row in table.rows} == {len(table.head)}
    canvas = transfer.figure(measured)
    assert len(canvas.axes) == 6
    for axis in canvas.axes:
        assert axis.get_title(loc="left")
        drawn = [np.asarray(line.get_ydata(), float) for line in axis.lines]
        assert drawn
        assert all(np.isfinite(y).all() for y in drawn)
    for axis in canvas.axes[:-1]:
        assert len(axis.lines) == 2 * measured.sizes["size"]
    canvas.draw_without_rendering()


def test_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    monkeypatch.setattr(transfer, "train", _nothing_trained)
    transfer.run(Config.small(), progress=lambda *args: told.append(args))
    assert told == [(k + 1, 15) for k in range(15)]


def _nothing_trained(scaled, rates, task, *, seed):
    curve = np.broadcast_to((np.log2(rates) - 6.2) ** 2 + 1, (len(task.order), len(rates)))
    found = {"loss": curve, "test_loss": curve, "diverged": curve < 0}
    return xr.Dataset({name: (("seed", "rate"), each) for name, each in found.items()})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"widths": (32, 64)}, "at least three widths and as many depths"),
        ({"widths": (32, 64, 64)}, r"both growing; got widths \(32, 64, 64\)"),
        ({"depths": (3, 2, 4)}, r"both growing; .* depths \(3, 2, 4\)"),
        ({"seeds": 1}, "two seeds for a standard error .* got seeds=1"),
        ({"octaves": (4, 5)}, r"two octaves of learning rates .* octaves=\(4, 5\)"),
        (
            {"batch": 1439},
            "`batch` must be from 1 to 1438, the training images of 'digits'; got 14",
        ),
        ({"data": "letters"}, "'digits', 'mnist' or 'cifar2'"),
        (
            {"octaves": (7, 9)},
            r"lowest loss of 'standard' at width 32 is at the end .* 2\^7. Widen",
        ),
    ],
)
def test_refusals(monkeypatch: pytest.MonkeyPatch, change: dict, message: str) -> None:
    monkeypatch.setattr(transfer, "train", _nothing_trained)
    with pytest.raises(ValueError, match=message):
        transfer.run(replace(Config.small(), **change))
