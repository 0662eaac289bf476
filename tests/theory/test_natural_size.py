"""Golden, property and agreement tests: what is neglected follows the scatter of metric and NTK."""

import numpy as np
import pytest

import scalewise as sw
from scalewise.comparison import at_width
from scalewise.observables import OBSERVABLES
from scalewise.theory.flow import natural_sizes, ntk_variance, of_one_input
from scalewise.theory.order import _responses
from scalewise.theory.single import single_input_flow
from scalewise.theory.single._single_input import single_input_tensors

SIZED = [name for name, row in OBSERVABLES.items() if not row.own_scale]
X = np.array([[1.0, -0.4, 0.3, 0.9], [0.2, 0.8, -0.9, 0.1], [2.0, 0.3, 0.4, 1.2]])
KINDS = (("ntk_A", "ntk_B"), ("ntk_D", "ntk_F"), ("dntk_P", "dntk_Q"))
KINDS += (tuple(name for name in OBSERVABLES if name.startswith("ddntk")),)


def network(name: str, depth: int = 5, width: int = 32, **rates: float) -> sw.Network:
    given = {"C_b": 0.05, "C_W": 1.1, "lambda_b": 0.3, **rates}
    return sw.MLP(depth, width, name, input_dim=4, output_dim=2, **given)


def existing(net: sw.Network) -> list[str]:
    return [name for name in SIZED if not OBSERVABLES[name].obstacle(net.activation)]


def sizes_of(net: sw.Network, K: np.ndarray) -> dict[str, np.ndarray]:
    found, letters = single_input_tensors(net, K), of_one_input(existing(net))
    alone = {letter: found[letter] for letter in ("Theta", *letters) if letter in found}
    return natural_sizes(alone, np.arange(net.depth) / 2, existing(net))


def test_sizes_are_the_largest_of_a_kind():
    net = network("gelu")
    flow = single_input_flow(net, X)
    sizes = sizes_of(net, flow.K)
    for kind in KINDS:
        values = [getattr(flow, OBSERVABLES[name].letter) for name in kind]
        largest = np.max([np.abs(value).max(axis=1) for value in values], axis=0)
        for name in kind:
            np.testing.assert_allclose(sizes[name], largest, rtol=1e-12)
            beside = {OBSERVABLES[other].letter for other in kind}
            assert set(of_one_input([name])) == {"A", "B"} | beside
    assert of_one_input(["kernel", "four_point_vertex", "ntk"]) == ()


def test_sizes_never_vanish_by_chance():
    """P of ReLU is zero, and no size is but in the first layer."""
    for name in ("relu", "tanh", "softplus", "sigmoid"):
        net = network(name)
        for sized, size in sizes_of(net, single_input_flow(net, X).K).items():
            assert size[0] == 0, (name, sized)
            assert np.all(size[1:] > 0), (name, sized)


@pytest.mark.parametrize("name", ["tanh", "softplus"])
def test_the_ntk_of_one_output_scatters_as_that(name):
    """Golden: a quadrature over one neuron of a single hidden layer, whose NTK is a mean over neurons."""
    net = network(name, depth=2)
    x = np.array([0.7, -0.2, 1.1, 0.4])
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    K = net.C_b[0] + net.C_W[0] * np.mean(x**2)
    below = net.lambda_b[0] + net.lambda_W[0] * np.mean(x**2)
    z, w = np.sqrt(K) * nodes[:, None], nodes
    sigma = net.activation.derivatives[0](z), net.activation.derivatives[1](z)
    one = net.lambda_W[1] * sigma[0] ** 2 + net.C_W[1] * w**2 * sigma[1] ** 2 * below
    both = np.outer(weights, weights)
    mean = np.sum(both * one)
    variance = np.sum(both * (one - mean) ** 2)
    theory = sw.predict(net, x[None], observables=["ntk_B"])
    expected = 0.5 * variance / (net.lambda_b[1] + mean) ** 2 / 32
    np.testing.assert_allclose(theory.ntk_expansion_parameter.values[1], expected, rtol=1e-7)


def test_where_nothing_learns_nothing_scatters():
    alone = {"Theta": np.zeros((2, 1)), "A": np.zeros((2, 1)), "B": np.zeros((2, 1))}
    np.testing.assert_array_equal(ntk_variance(alone), 0.0)


def test_sizes_have_their_dimension():
    """A scale-invariant network: inputs twice as large, kernels and NTKs four times; rates thrice as large."""
    of = {"C_W": 1.8, "C_b": 0.0, "lambda_b": 0.0}
    net, fast = network("leaky_relu(0.3)", **of), network("leaky_relu(0.3)", **of, lambda_W=3.0)
    names = existing(net)
    near, far = (sw.predict(net, factor * X, observables=names) for factor in (1.0, 2.0))
    thrice = sw.predict(fast, X, observables=names)
    for name in names:
        p, q = OBSERVABLES[name].dimension
        for other, ratio in ((far, 4.0 ** (p + q)), (thrice, 3.0**q)):
            size = other[f"{name}_size"].values
            np.testing.assert_allclose(size, ratio * near[f"{name}_size"].values, rtol=1e-9)
    for other in (far, thrice):
        scatter = other.ntk_expansion_parameter.values
        np.testing.assert_allclose(scatter, near.ntk_expansion_parameter.values, rtol=1e-9)


def test_sizes_hold_for_units_of_the_input_from_micro_on():
    failures = []
    for scale in (1e-6, 1e-3, 1.0, 10.0):
        for name in ("tanh", "gelu", "sin", "relu"):
            net = sw.MLP(4, 32, name, input_dim=4, output_dim=2)
            sizes = sizes_of(net, single_input_flow(net, scale * X).K)
            failures += [
                (scale, name, x) for x, size in sizes.items() if not np.isfinite(size).all()
            ]
    assert failures == []


def test_bias_is_the_small_parameters_times_the_size_whatever_else_is_asked():
    net = network("gelu", depth=4)
    alone = at_width(sw.predict(net, X, observables=["dntk_P"]), 64)
    among = at_width(sw.predict(net, X, observables=existing(net)), 64)
    np.testing.assert_allclose(alone.dntk_P_bias, among.dntk_P_bias, rtol=1e-6)
    P, size = alone.dntk_P.values, alone.dntk_P_size.values
    # Two factors of the NTK.
    small = alone.expansion_parameter.values + 2 * alone.ntk_expansion_parameter.values
    given = sw.predict(net, X, observables=["dntk_P"])
    np.testing.assert_allclose(2 * alone.ntk_expansion_parameter, given.ntk_expansion_parameter)
    largest = np.abs(P).reshape(len(P), -1).max(1)
    expected = np.where(np.arange(4) < 2, 0.0, small * (size + largest))
    np.testing.assert_allclose(alone.dntk_P_bias.values[:, 0, 1, 2, 0], expected, rtol=1e-12)


def test_an_entry_between_inputs_that_is_larger_than_those_of_one_counts():
    theory = sw.predict(network("gelu"), X, observables=["dntk_P"])
    P = theory.dntk_P.values.copy()
    size = theory.dntk_P_size.values[3]
    P[3, 0, 1, 2, 1] = -10 * size
    bias = at_width(theory.assign(dntk_P=theory.dntk_P.copy(data=P))).dntk_P_bias.values
    small = theory.expansion_parameter + 2 * theory.ntk_expansion_parameter
    np.testing.assert_allclose(bias[3], 11 * float(small[3]) * size, rtol=1e-12)


def test_a_correction_is_one_order_of_what_it_corrects():
    theory = sw.predict(network("tanh"), X, observables=["ntk", "ntk_nlo"])
    Theta = np.einsum("laa->la", theory.ntk.values).max(1)
    below = np.array([4, 32, 32, 32, 32])
    expected = below * theory.expansion_parameter.values * Theta
    np.testing.assert_allclose(theory.ntk_nlo_size, expected, rtol=1e-12)


def test_streams_scatter_as_they_are_and_not_as_their_branches():
    """Golden: NTKs of drawn networks with skip connections; their variance is a seventh larger without the past."""
    layers = sw.Dense(), *(sw.Skip("tanh", sw.Dense()),) * 2, "tanh", sw.Dense(1)
    net = sw.Network(*layers, input_shape=4, width=64, C_b=0.05, C_W=0.8, lambda_b=0.5)
    theory = sw.predict(net, X[:1], observables=["ntk", "ntk_A", "ntk_B"])
    A, B, Theta = (theory[name].values.ravel() for name in ("ntk_A", "ntk_B", "ntk"))
    expected = 0.5 * (A + 2 * B) / Theta**2 / np.array([4, 64, 64, 64])
    np.testing.assert_allclose(theory.ntk_expansion_parameter, expected, rtol=1e-9)


def test_what_is_neglected_lies_within_it():
    """A narrow network, where the neglected order is far above the standard errors."""
    net = sw.MLP(4, 16, "sin", input_dim=4, output_dim=2, lambda_b=0.3, lambda_W=0.7)
    net = net.at_criticality()
    names = ["ntk_A", "ntk_B", "ntk_F"]
    theory = at_width(sw.predict(net, X[:2], observables=names))
    found = sw.measure(net, X[:2], networks=1000, seed=2, observables=names, progress=False)
    seen = 0
    for name in names:
        off = np.abs(found[name].values - theory[name].values)[2:]
        sem, bias = found[f"{name}_sem"].values[2:], theory[f"{name}_bias"].values[2:]
        assert np.all(off < bias + 4 * sem), name
        seen += int(np.sum(off > 4 * sem))
    assert seen > 0


@pytest.fixture
def few_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as an error of some percent takes."""
    monkeypatch.setattr(_responses, "_MOST", 1 << 11)


@pytest.mark.usefixtures("few_units")
def test_networks_that_use_weights_again_are_not_contradicted():
    """Agreement: their NTK scatters more than the metric, and A is eight times what the leading order says."""
    layers = sw.Recurrent("tanh"), sw.GlobalAvgPool(), sw.Dense(1)
    net = sw.Network(*layers, input_shape=(3, 2), width=16)
    x = np.random.default_rng(0).standard_normal((1, 3, 2))
    names = ["ntk", "ntk_A", "ntk_B"]
    theory = sw.predict(net, x, observables=names)
    drawn = sw.measure(net, x, networks=1500, seed=1, observables=names, progress=False)
    outcome = sw.compare(theory, drawn)
    assert outcome.passed
    assert set(outcome.decided) == set(names)
    off = np.abs(drawn.ntk_A - outcome.predicted.ntk_A).values.ravel()
    sem, epsilon = drawn.ntk_A_sem.values.ravel(), theory.expansion_parameter.values
    # The scatter of the metric alone does not tell.
    assert off[1] > epsilon[1] * (theory.ntk_A_size.values[1] + 0.2) + 6 * sem[1]
    # What a read-out averages over still scatters.
    variance = theory.ntk_expansion_parameter.values
    own = (theory.ntk_A + 2 * theory.ntk_B).values.ravel() / theory.ntk.values.ravel() ** 2 / 16
    np.testing.assert_allclose(variance, np.maximum.accumulate(own), rtol=1e-9)
    assert own[2] < 0.5 * own[1]
    last = sw.predict(net, x, observables=["ntk", "ntk_B"], layers=net.depth)
    np.testing.assert_allclose(last.ntk_expansion_parameter, variance[2:], rtol=0.05)
    # The NTK moves by the root of both variances.
    moved = np.sqrt(np.maximum(variance / epsilon, 1.0)) * epsilon * theory.ntk.values.ravel()
    np.testing.assert_allclose(outcome.predicted.ntk_bias.values.ravel()[1:], moved[1:])
    for factor in (0.2, 2.5):
        some = np.array([1, factor, 1]).reshape(3, 1, 1, 1, 1)
        wrong = theory.ntk_B.copy(data=some * theory.ntk_B.values)
        assert sw.compare(theory.assign(ntk_B=wrong), drawn).passed is False


@pytest.mark.usefixtures("few_units")
def test_behind_a_norm_the_second_layer_has_every_order():
    net = sw.Network(sw.Dense(), sw.LayerNorm(0.1), "gelu", sw.Dense(1), input_shape=3, width=24)
    x = np.random.default_rng(0).standard_normal((1, 3))
    theory = sw.predict(net, x, observables=["kernel", "ntk", "ntk_A", "ntk_B"])
    plain = sw.predict(network("gelu"), X, observables=["ntk_B"])
    assert [data.expansion_parameter.attrs["exact_layers"] for data in (theory, plain)] == [1, 2]
    # A norm adds what it divides by to the whole variance: 2/24, but for what stands beside it there.
    own = theory.ntk_A.values.ravel() + 2 * theory.ntk_B.values.ravel()
    norms = theory.ntk_expansion_parameter.values - own / theory.ntk.values.ravel() ** 2 / [3, 24]
    v = np.mean(x**2)
    np.testing.assert_allclose(norms[1], 2 / 24 * (v / (v + 0.1)) ** 2, rtol=0.05)
    bias = at_width(theory)
    assert bias.kernel_bias.values[1] > 0
    assert bias.ntk_B_bias.values[1] > 0
    drawn = sw.measure(net, x, networks=2000, seed=3, observables=["kernel", "ntk"], progress=False)
    assert drawn.expansion_parameter.attrs["exact_layers"] == 1
    infinite = sw.predict(net, x, observables=["kernel", "ntk"])
    assert sw.compare(infinite, drawn).passed


@pytest.mark.parametrize("left", ["ntk_B_size", "ntk_expansion_parameter"])
def test_a_prediction_without_sizes_is_refused(left):
    theory = sw.predict(network("tanh"), X, observables=["ntk_B"]).drop_vars(left)
    with pytest.raises(ValueError, match=rf"no variable `{left}`.*pass what `predict` returned"):
        at_width(theory)
