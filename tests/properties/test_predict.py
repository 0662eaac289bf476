"""Properties of `predict`: symmetries and limits that hold for every network and every input."""

from itertools import pairwise

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import scalewise as sw
from grids import thorough
from scalewise.observables import OBSERVABLES
from scalewise.theory.flow import _trajectory
from scalewise.theory.flow._layer import SCRAMBLES, as_many

ACTIVATIONS = ["tanh", "relu", "gelu", "swish", "sin", "erf", "sigmoid", "softplus", "linear"]
X = np.array([[1.0, 2.0], [0.5, -1.0]])
NAMES = ["kernel", "metric_nlo", "four_point_vertex", "ntk"]


def assert_close(theory_a: np.ndarray, theory_b: np.ndarray, error: float = 1e-9) -> None:
    scale = max(np.abs(theory_b).max(), 1e-3)
    np.testing.assert_allclose(theory_a, theory_b, rtol=error, atol=error * scale)


@st.composite
def problems(draw: st.DrawFn, samples: int = 3) -> tuple[dict, np.ndarray]:
    depth = draw(st.integers(1, 5))
    widths = draw(st.lists(st.integers(3, 200), min_size=depth - 1, max_size=depth - 1))
    C_b = draw(st.lists(st.floats(0.0, 0.5), min_size=depth, max_size=depth))
    C_W = draw(st.lists(st.floats(0.3, 2.0), min_size=depth, max_size=depth))
    spec = {
        "depth": depth,
        "width": widths,
        "activation": draw(st.sampled_from(ACTIVATIONS)),
        "C_b": C_b,
        "C_W": C_W,
        "lambda_b": draw(st.floats(0.0, 2.0)),
        "lambda_W": draw(st.floats(0.0, 2.0)),
    }
    seed = draw(st.integers(0, 2**16))
    return spec, np.random.default_rng(seed).normal(size=(samples, 4)) + 0.1


def build(problem: tuple[dict, np.ndarray]) -> tuple[sw.Network, np.ndarray]:
    spec, x = problem
    return sw.MLP(**spec, input_dim=4, output_dim=2), x


@settings(max_examples=8, deadline=None)
@given(problems())
def test_permuting_the_samples_permutes_the_prediction(problem: tuple) -> None:
    net, x = build(problem)
    order = np.array([2, 0, 1])
    here, there = sw.predict(net, x), sw.predict(net, x[order])
    for name in NAMES:
        dims = [d for d in here[name].dims if d != "layer"]
        moved = here.isel(dict.fromkeys(dims, order))
        # Three distinct inputs of a kinked activation are sampled: their error bars must cover.
        error = np.zeros(1)
        if f"{name}_error" in here:
            error = moved[f"{name}_error"].values + there[f"{name}_error"].values
        gap = np.abs(there[name].values - moved[name].values)
        scale = max(float(np.abs(moved[name]).max()), 1e-3)
        assert np.all(gap <= 6 * error + 2e-8 * scale)
        assert np.all(error <= 5e-3 * scale)


@settings(max_examples=8, deadline=None)
@given(problems())
def test_a_part_of_the_data_has_the_prediction_of_the_whole(problem: tuple) -> None:
    """Marginalisation, PDLT (4.92): no observable of some samples depends on the others."""
    net, x = build(problem)
    part = np.array([0, 2])
    whole, alone = sw.predict(net, x), sw.predict(net, x[part])
    for name in NAMES:
        dims = [d for d in whole[name].dims if d != "layer"]
        assert_close(whole[name].isel(dict.fromkeys(dims, part)).values, alone[name].values)


@settings(max_examples=8, deadline=None)
@given(problems())
def test_symmetries_and_positivity(problem: tuple) -> None:
    net, x = build(problem)
    flow = sw.predict(net, x)
    K, Theta, V = flow.kernel.values, flow.ntk.values, flow.four_point_vertex.values
    assert_close(K, K.swapaxes(1, 2))
    assert_close(Theta, Theta.swapaxes(1, 2))
    for axes in ((0, 2, 1, 3, 4), (0, 1, 2, 4, 3), (0, 3, 4, 1, 2)):
        assert_close(V, V.transpose(axes))
    for layer in range(net.depth):
        for matrix in (K[layer], Theta[layer], V[layer].reshape(9, 9)):
            low, *_, high = np.linalg.eigvalsh(matrix)
            assert low >= -1e-9 * max(high, 1e-12)
    assert np.all(V[0] == 0.0)
    assert np.all(flow.metric_nlo.values[:2] == 0.0)


@settings(max_examples=8, deadline=None)
@given(problems(samples=2))
def test_coincident_inputs_are_one_input(problem: tuple) -> None:
    net, x = build(problem)
    twice, once = sw.predict(net, x[[0, 1, 1]]), sw.predict(net, x)
    for name in NAMES:
        dims = [d for d in once[name].dims if d != "layer"]
        for image in ([0, 1], [0, 2]):
            assert_close(twice[name].isel(dict.fromkeys(dims, image)).values, once[name].values)
        # One index through the first copy and one through the second: three inputs to the code.
        image = {d: [0, 2] if d == dims[1] else [0, 1] for d in dims}
        gap = np.abs(twice[name].isel(image).values - once[name].values)
        error = twice[f"{name}_error"].isel(image).values if f"{name}_error" in twice else 0.0
        assert np.all(gap <= 6 * error + 1e-9 * max(float(np.abs(once[name]).max()), 1e-3))


@pytest.mark.parametrize(
    "name", ["relu", "gelu", "perceptron", *thorough("tanh", "erf", "quadratic")]
)
def test_orthogonal_and_opposite_inputs_are_finite(name: str) -> None:
    x = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.5, 0.0, 0.0]])
    net = sw.MLP(4, 50, name, input_dim=3, output_dim=1, C_W=0.6)
    flow = sw.predict(net, x)
    for variable in flow.data_vars.values():
        assert np.all(np.isfinite(variable.values))


@settings(max_examples=10, deadline=None)
@given(st.floats(0.1, 10.0), st.sampled_from(["relu", "leaky_relu(0.2)", "linear"]))
def test_rescaling_the_inputs_of_a_scale_invariant_network(factor: float, name: str) -> None:
    """x -> c x at C_b = 0 and lambda_b = 0: K, Theta -> c², V -> c⁴."""
    x = np.random.default_rng(0).normal(size=(2, 3))
    net = sw.MLP(4, 50, name, input_dim=3, output_dim=1, C_W=1.5, lambda_b=0.0)
    one, other = sw.predict(net, x), sw.predict(net, factor * x)
    for observable, power in (("kernel", 2), ("ntk", 2), ("four_point_vertex", 4)):
        assert_close(other[observable].values / factor**power, one[observable].values)


def test_one_layer_is_linear_regression() -> None:
    x = np.array([[1.0, 2.0], [0.0, 1.0]])
    net = sw.MLP(1, 7, "tanh", input_dim=2, output_dim=3, C_b=0.5, C_W=2.0, lambda_b=3.0)
    flow = sw.predict(net, x)
    np.testing.assert_allclose(flow.kernel.values[0], 0.5 + x @ x.T)
    np.testing.assert_allclose(flow.ntk.values[0], 3.0 + x @ x.T / 2)
    assert flow.sizes["layer"] == 1


def test_selected_layers_and_observables_are_the_same_numbers() -> None:
    x = np.random.default_rng(1).normal(size=(5, 3))
    net = sw.MLP(5, 20, "gelu", input_dim=3, output_dim=1)
    everything = sw.predict(net, x)
    some = sw.predict(net, x, observables=["ntk", "kernel"], layers=[2, 5])
    assert set(some.data_vars) == {"kernel", "ntk", "expansion_parameter"}
    for name in some.data_vars:
        np.testing.assert_array_equal(some[name], everything[name].sel(layer=[2, 5]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": X[0]}, "shape .samples, features.*got shape .2,."),
        ({"x": X * 1j}, "real numbers"),
        ({"x": X * np.inf}, r"finite numbers only; x\[0, 0\]"),
        ({"x": X * 0}, "zero input vector .sample 0. and C_b = 0, so its preactivations are all 0"),
        ({"x": X * 1e-200}, r"too small: .x.²/n_0 underflows in sample 0"),
        ({"x": X * 1e-90}, r"range of float64 at layer 1 .*needs K\^2"),
        ({"x": X * 1e-50}, r"range of float64 at layer 1 .*needs K\^4"),
        ({"x": X * 1e200}, "too large"),
        ({"x": np.ones((2, 3))}, "has 3 features, but the network takes input_dim=2"),
        ({"layers": 4}, "`layers` must be numbers from 1 to the depth 3; got 4"),
        ({"observables": "vertex"}, "does not know 'vertex'; the known ones are kernel"),
        ({"observables": []}, "is empty; choose from"),
    ],
)
def test_bad_input_is_one_clear_sentence(arguments: dict, message: str) -> None:
    net = sw.MLP(3, 10, "tanh", input_dim=2, output_dim=1)
    with pytest.raises(ValueError, match=message):
        sw.predict(net, **{"x": X, **arguments})


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 20.0])
def test_extreme_inputs_are_still_numbers(scale: float) -> None:
    net = sw.MLP(4, 10, "tanh", input_dim=2, output_dim=1)
    flow = sw.predict(net, scale * X)
    for variable in flow.data_vars.values():
        assert np.all(np.isfinite(variable.values))
    if scale < 1:  # tanh is the identity there
        K = flow.kernel.values[0]
        wick = np.einsum("ac,bd->abcd", K, K) + np.einsum("ad,bc->abcd", K, K)
        np.testing.assert_allclose(flow.four_point_vertex.values[3], 3 * wick, rtol=1e-4)


def test_networks_that_explode_or_vanish_are_refused() -> None:
    for name, C_W in (("relu", 20.0), ("relu", 1e-3), ("exp", 2.0), ("quadratic", 2.0)):
        net = sw.MLP(300, 5, name, input_dim=2, output_dim=1, C_W=C_W)
        with pytest.raises(ValueError, match=r"smaller|explode or vanish"):
            sw.predict(net, X, observables="kernel")


def test_a_constant_and_a_vanishing_activation() -> None:
    one = sw.activation(lambda z: 0 * z + 1.0, name="one")
    flow = sw.predict(sw.MLP(3, 10, one, input_dim=2, output_dim=1, C_b=0.5), X)
    np.testing.assert_allclose(flow.kernel.values[1:], 1.5)
    np.testing.assert_allclose(flow.four_point_vertex.values, 0.0, atol=1e-13)
    zero = sw.activation(lambda z: 0 * z, name="zero")
    with pytest.raises(ValueError, match=r"'zero' leaves the range of float64 at layer 2 \(K = 0"):
        sw.predict(sw.MLP(3, 10, zero, input_dim=2, output_dim=1), X)


def told_apart(one: xr.Dataset, other: xr.Dataset) -> list[str]:
    """Variables of both that differ in any bit, their errors and sizes included."""
    shared = [name for name in one.data_vars if name in other]
    return [str(n) for n in shared if not np.array_equal(one[n].values, other[n].values)]


# Closed forms, series, quadrature and a jump; from tables, exactly, by product rules and by samples: inputs,
# depth, every how many of the names are asked for alone, and whether in pairs.
CASES = {
    "linear": (3, 3, 1, False),
    "tanh": (3, 3, 4, False),
    "sin": (2, 3, 1, True),
    "gelu": (1, 4, 1, True),
    "softplus": (4, 2, 4, False),
    "relu": (4, 3, 2, False),
    "hard_tanh": (2, 2, 4, False),
    "perceptron": (3, 3, 1, True),
}


@pytest.mark.parametrize(
    "activations",
    [
        ("tanh", "perceptron"),
        *thorough((("linear", "sin", "softplus", "hard_tanh", "gelu", "relu"),)),
    ],
    ids=["some", "more"],
)
def test_an_observable_is_the_same_whatever_else_is_asked_for(activations) -> None:
    """To the last bit: alone, with a neighbour of the table, and with all."""
    rng, misses = np.random.default_rng(3), []
    for name in activations:
        count, depth, every, in_pairs = CASES[name]
        x = rng.normal(size=(count, 3))
        rates = {"C_b": 0.1, "C_W": 1.1, "lambda_b": 0.3, "lambda_W": 0.7}
        net = sw.MLP(depth, 50, name, input_dim=3, output_dim=2, **rates)
        everything = sw.predict(net, x, observables="all")
        names = [n for n in OBSERVABLES if n in everything]
        wanted = [[n] for n in names[::every]] + [list(p) for p in pairwise(names) if in_pairs]
        for some in wanted:
            apart = told_apart(sw.predict(net, x, observables=some), everything)
            misses += [(name, count, some, apart)] if apart else []
    assert misses == []


@pytest.mark.thorough("test_an_observable_is_the_same_whatever_else_is_asked_for")
def test_it_is_the_same_in_a_deep_network_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where expectations are interpolated, each goes its own way through the layers."""
    stretches, longest = [], _trajectory._longest
    monkeypatch.setattr(
        _trajectory, "_longest", lambda *given: stretches.append(longest(*given)) or stretches[-1]
    )
    net, x = sw.MLP(148, 50, "relu", input_dim=3, output_dim=2, C_W=2.0), np.eye(3)[:2] + 0.2
    everything = sw.predict(net, x, observables=["metric_nlo", "four_point_vertex", "ntk_D"])
    for name in ("four_point_vertex", "ntk_D"):
        assert told_apart(sw.predict(net, x, observables=name), everything) == [], name
    assert any(stretches)


def test_what_others_are_told_of_the_vertex_has_its_mean() -> None:
    estimates = np.random.default_rng(0).normal(size=(16, 3, 3))
    few = as_many(estimates)
    assert len(few) == SCRAMBLES
    np.testing.assert_allclose(few.mean(axis=0), estimates.mean(axis=0), rtol=1e-12)
    assert 0.5 < few.std() / estimates.std() < 0.9  # each the mean of two
    np.testing.assert_array_equal(as_many(estimates[:1]), estimates[:1])
