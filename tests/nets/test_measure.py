"""Conformance and property tests: the Dataset that `measure` returns, and what it refuses."""

import io
from functools import cache, partial

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import scalewise as sw
from refusals import unlike
from scalewise import limits
from scalewise.nets import measure
from scalewise.nets._estimators import ESTIMATORS
from scalewise.nets._families import FAMILIES
from scalewise.observables import OBSERVABLES
from scalewise.sweeps import _progress

NET = sw.MLP(3, 8, "tanh", input_dim=2, output_dim=1)
X = np.array([[1.0, 0.5], [-0.2, 0.8]])
NAMES = ["kernel", "four_point_vertex", "ntk"]


def test_the_dataset_has_the_agreed_form():
    result = measure(NET, X, networks=20)
    assert list(result.data_vars) == [n + s for n in NAMES for s in ("", "_sem")]
    for name in NAMES:
        variable, sem = result[name], result[f"{name}_sem"]
        assert variable.dims == sem.dims == OBSERVABLES[name].dims
        assert variable.dtype == sem.dtype == np.float64
        assert sem.attrs["units"] == variable.attrs["units"] == OBSERVABLES[name].units
        assert np.all(np.isfinite(variable))
        assert np.all(sem[1:] > 0)
        assert np.all(sem[0] == 0)
    np.testing.assert_array_equal(result.layer, [1, 2, 3])
    np.testing.assert_array_equal(result.sample_3, [0, 1])
    np.testing.assert_allclose(result.kernel[0], X @ X.T / 2, rtol=1e-14)
    np.testing.assert_allclose(result.ntk[0], 1 + X @ X.T / 2, rtol=1e-14)
    assert np.all(result.four_point_vertex[0] == 0)
    attributes = {**NET.attributes(), "kind": "ensemble", "networks": 20, "seed": 0, "widths": []}
    assert attributes.items() <= result.attrs.items()
    assert result.attrs["dtype"] == "float32"
    assert result.attrs["extrapolated"] == 0
    assert result.attrs["scalewise"] == sw.__version__


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize("depth", [1, 2])
def test_one_layer_and_one_input(depth, samples):
    net = sw.MLP(depth, 5, "relu", input_dim=2, output_dim=3)
    result = measure(net, X[:samples], networks=10)
    assert result.sizes["layer"] == depth
    assert result.sizes["sample"] == samples
    assert all(np.all(np.isfinite(v)) for v in result.data_vars.values())


def test_the_batches_do_not_change_the_networks():
    whole = measure(NET, X, networks=50)
    for memory in ("60 kB", 1):  # a few at a time, and one at a time
        parts = measure(NET, X, networks=50, memory=memory, observables=["kernel", "ntk"])
        for name in ("kernel", "kernel_sem", "ntk", "ntk_sem"):
            # The same networks in float32, whose products may be summed in another order.
            np.testing.assert_allclose(parts[name], whole[name], rtol=2e-4, atol=1e-6)


def test_the_seed_decides():
    first, again, other = (measure(NET, X, networks=8, seed=s) for s in (1, 1, 2))
    xr.testing.assert_identical(first, again)
    assert not np.allclose(first.kernel[1:], other.kernel[1:])


def test_samples_may_be_permuted_within_errors_and_exactly_in_symmetry():
    result = measure(NET, X, networks=200)
    for name in ("kernel", "ntk"):
        np.testing.assert_array_equal(result[name], np.swapaxes(result[name].values, 1, 2))
    swapped = measure(NET, X[::-1].copy(), networks=200, seed=1)
    sem = np.hypot(result.kernel_sem.values, swapped.kernel_sem.values[:, ::-1, ::-1])
    error = np.abs(result.kernel.values - swapped.kernel.values[:, ::-1, ::-1])
    assert np.all(error <= 4 * sem + 1e-12)


def test_double_precision_sees_what_single_rounds():
    low, high = (measure(NET, X, networks=2000, dtype=d) for d in ("float32", "float64"))
    for name in NAMES:
        # Other random numbers are drawn in float64, so they agree within errors.
        sem = np.hypot(low[f"{name}_sem"].values, high[f"{name}_sem"].values)
        assert np.all(np.abs(low[name].values - high[name].values) <= 4.5 * sem + 1e-12)
    assert high.attrs["dtype"] == "float64"


def test_a_dead_network_is_a_network():
    # One ReLU neuron: half of the networks have a metric of exactly 0 from layer 2 on.
    net = sw.MLP(3, 1, "relu", input_dim=2, output_dim=1, C_W=2.0)
    result = measure(net, X, networks=4000)
    assert np.all(np.isfinite(result.kernel))
    error = np.abs(result.kernel[2, 0, 0] - result.kernel[0, 0, 0])
    assert error < 4 * result.kernel_sem[2, 0, 0]


def test_numbers_that_overflow_are_refused_with_their_layer():
    net = sw.MLP(5, 8, "monomial(3)", input_dim=2, output_dim=1, C_W=1e4)
    with pytest.raises(ValueError, match=r"beyond float32 in layer \d: .* dtype='float64'"):
        measure(net, X, networks=10, observables="kernel")


def _overflowing(z):
    return jnp.log1p(jnp.exp(1.3 * z)) / 1.3 - 0.2 * z + 0.1 * jnp.tanh(2 * z)


def test_whatever_leaves_the_domain_of_an_activation_says_how_far_it_goes():
    sigma, far = sw.activation(_overflowing, name="mine"), 100 * np.array([[3.0, 2.0], [2.0, -1.0]])
    net = sw.MLP(3, 16, sigma, input_dim=2, output_dim=1)
    limit, sgd = limits.Architecture(sw.scaling.mup(depth=3), sigma), limits.SGD(0.1)
    task, steps = sw.Task(10 * far, np.ones(2)), {"steps": 3}
    calls: list = []
    for dtype in ("float32", "float64"):
        options = {"networks": 10, "dtype": dtype}
        calls.append(partial(measure, net, far, **options))
        calls.append(partial(sw.measure_training, net, sw.Task(far, np.ones(2)), **options))
    calls += [
        partial(limits.train, limit, task, sgd, **steps, on=on)
        for on in (limits.Finite(16), limits.Lazy(16), limits.Infinite(0.5))
    ]
    cases = [(partial(sw.predict, net, far), "`domain` of an")]
    cases += [(call, r"'mine' can be computed in float64 from -inf to 181") for call in calls]
    assert unlike(cases) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"networks": 1}, "`networks` must be a whole number of at least 4, because a standard er"),
        ({"networks": 1, "observables": "kernel"}, "at least 2, because a standard error takes 2"),
        ({"seed": -1}, "`seed` must be a whole number from 0 to"),
        ({"dtype": "int8"}, "`dtype` must be 'float32' or 'float64'; got 'int8'"),
        ({"memory": "lots"}, "`memory` must be a number of bytes or a text such as '1 GiB'"),
        ({"memory": 0}, "`memory` must be a number of bytes"),
        ({"memory": "1 kB", "networks": 10}, "'four_point_vertex' of 2 samples in 3 layers takes"),
        ({"observables": "metric_nlo"}, r"which one width does not show. Pass widths=\[...\]"),
        (
            {"observables": "ntk_nlo"},
            "'ntk_nlo', the slope of the mean NTK in 1/n, which one width",
        ),
        ({"networks": 3, "observables": "ntk_A"}, "a whole number of at least 4, because"),
        ({"networks": 1, "observables": "ddntk_R"}, "a whole number of at least 2, because"),
        (
            {"memory": "9 kB", "observables": ["ntk_A", "ntk_D", "dntk_P"], "networks": 10},
            "'ntk_A', 'ntk_D' and 'dntk_P' of 2 samples in 3 layers take .* leave some out",
        ),
        ({"observables": "loss"}, "`observables` does not know 'loss'"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        measure(NET, X, **arguments)


# What exists for one activation and not for another; with several widths the slopes in 1/n too.
ALL = {"tanh": {}, "relu": {"widths": [3, 6]}, "perceptron": {}}


@cache
def measured(name: str, observables: str) -> xr.Dataset:
    net = sw.MLP(2, 4, name, input_dim=3, output_dim=2, C_b=0.1, C_W=1.5, lambda_b=0.3)
    x = np.random.default_rng(0).normal(size=(2, 3))
    options = {"networks": 12, "seed": 1, "progress": False, **ALL[name]}
    return sw.measure(net, x, observables=observables, **options)


def test_all_means_all_that_exist():
    def names(activation):
        result = measured(activation, "all")
        for name in result.data_vars:
            assert np.all(np.isfinite(result[name]))
        return {name for name in result.data_vars if not name.endswith("_sem")}

    slopes = {"metric_nlo", "ntk_nlo"}
    second = {"ddntk_R", "ddntk_S", "ddntk_T", "ddntk_U"}
    assert names("tanh") == set(OBSERVABLES) - slopes
    assert names("relu") == set(OBSERVABLES) - second
    assert names("perceptron") == {"kernel", "four_point_vertex"}


def test_every_observable_has_an_estimator():
    assert list(ESTIMATORS) == list(OBSERVABLES)
    for name, row in ESTIMATORS.items():
        assert row.part.family in FAMILIES
        assert bool(row.slope_of) == name.endswith("_nlo")


@pytest.mark.covers("C33")
@pytest.mark.parametrize("name", list(OBSERVABLES))
def test_what_does_not_exist_is_refused_by_name(name):
    words = {"perceptron": "jumps at z = 0", "relu": "a kink at z = 0"}
    refusals = 0
    for activation, why in words.items():
        net = sw.MLP(2, 3, activation, input_dim=2, output_dim=1)
        if OBSERVABLES[name].obstacle(net.activation):
            refusals += 1
            with pytest.raises(ValueError, match=f"{why}.* Leave '{name}' out of `observables`"):
                measure(net, X, networks=4, widths=[3, 6], observables=name)
    assert refusals == (
        0
        if name in ("kernel", "metric_nlo", "four_point_vertex")
        else 2
        if name.startswith("ddntk")
        else 1
    )


@pytest.mark.thorough("test_an_observable_is_the_same_whatever_else_is_measured")
def test_other_observables_do_not_change_the_numbers():
    net = sw.MLP(2, 8, "tanh", input_dim=2, output_dim=1)
    alone = measure(net, X, networks=8, observables="dntk_Q")
    together = measure(net, X, networks=8, observables=["ntk_B", "dntk_P", "dntk_Q"])
    np.testing.assert_allclose(alone.dntk_Q, together.dntk_Q, rtol=1e-4, atol=1e-6)


def test_one_layer_has_no_fluctuations():
    net = sw.MLP(1, 1, "tanh", input_dim=2, output_dim=3)
    result = measure(net, X, networks=4, observables=["ntk_A", "dntk_Q", "ddntk_U"])
    for name in ("ntk_A", "dntk_Q", "ddntk_U"):
        assert result[name].shape == (1, 2, 2, 2, 2)
        assert np.all(result[name] == 0)


def test_numbers_that_are_not_whole_are_refused():
    with pytest.raises(ValueError, match=r"`networks` must be a whole number .* got 10\.5"):
        measure(NET, X, networks=10.5)
    with pytest.raises(ValueError, match=r"`seed` must be a whole number .* got True"):
        measure(NET, X, seed=True)


def test_bad_inputs_are_refused():
    with pytest.raises(ValueError, match="finite numbers only"):
        measure(NET, np.array([[1.0, np.nan]]))
    with pytest.raises(ValueError, match="zero input vector"):
        measure(NET, np.zeros((1, 2)))
    with pytest.raises(ValueError, match="3 features"):
        measure(NET, np.ones((1, 3)))


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("progress", "patience", "shown"), [(None, 0.0, 1), (None, 9.0, 0), (False, 0.0, 0)]
)
def test_the_bar_is_shown_when_it_is_worth_its_place(monkeypatch, progress, patience, shown):
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(_progress, "PATIENCE", patience)
    with _progress.Reporter(progress, 4, "networks") as report:
        for _ in range(4):
            report.add(1)
    assert ("4/4" in stream.getvalue()) == bool(shown)


def test_an_observable_is_the_same_whatever_else_is_measured() -> None:
    """To the last bit, where the networks are as many to a batch; batches add in another order."""
    misses = []
    for name in ALL:
        everything = measured(name, "all")
        for observable in (n for n in OBSERVABLES if n in everything):
            alone = measured(name, observable)
            for variable in (observable, f"{observable}_sem"):
                if not np.array_equal(alone[variable].values, everything[variable].values):
                    misses.append((name, variable))
    assert misses == []
