"""Agreement: residual networks by the public names, `predict`, `measure`, `compare` and `at_width`.

The ensembles are of the exact conditional law; networks with real weights, differentiated by JAX, check them.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from scalewise.nets import init_weights
from scalewise.networks import Network, ResidualMLP
from scalewise.observables import OBSERVABLES
from scalewise.selection import omissions

X = np.array([[1.0, 0.2], [0.9, 0.9], [-0.4, 1.2]])
KNOWN = ["kernel", "metric_nlo", "four_point_vertex", "ntk"]


def network(sigma: str, gamma: float, *, depth: int = 4, width: int = 24, **rest) -> Network:
    shape = {"input_dim": 2, "output_dim": 1, "lambda_b": 0.3}
    return ResidualMLP(depth, width, sigma, gamma=gamma, **shape, **rest)


@pytest.mark.parametrize(("sigma", "gamma"), [("relu", 0.7), *thorough(("tanh", 0.8))])
def test_theory_and_ensembles_agree(sigma: str, gamma: float) -> None:
    net = network(sigma, gamma).at_criticality()
    theory = sw.predict(net, X)
    assert [name for name in OBSERVABLES if name in theory] == KNOWN
    # What a smaller skip connection would give, under the name of this network.
    smaller = network(sigma, 0.8 * gamma).numbered(C_b=net.C_b, C_W=net.C_W)
    other = sw.predict(smaller, X, observables=["kernel", "four_point_vertex", "ntk"])
    other = other.assign_attrs(gamma=theory.gamma)
    for width in (24, 72):
        ensemble = sw.measure(net.at_width(width), X, networks=4000, seed=1, progress=False)
        assert ensemble.attrs["left_out"] == ["metric_nlo"]
        found = sw.compare(theory, ensemble)
        assert found.passed, str(found)
        assert set(found.summary.observable.values) == set(KNOWN) - {"metric_nlo"}
        V = ensemble.four_point_vertex.values
        np.testing.assert_array_equal(V, V.transpose(0, 3, 4, 1, 2))
        for name in ("kernel", "four_point_vertex", "ntk"):
            assert not sw.compare(other, ensemble, observables=name).passed, name
    finite = sw.at_width(theory, 72)
    slope = theory.metric_nlo.values / np.array([1, 72, 72, 72])[:, None, None]
    np.testing.assert_allclose(finite.kernel, theory.kernel + slope, rtol=1e-12)


@pytest.mark.thorough("test_theory_and_ensembles_agree")
@pytest.mark.parametrize(("sigma", "gamma"), [("gelu", 0.6), ("relu", 0.7)])
def test_extrapolated_ensembles_agree(sigma: str, gamma: float) -> None:
    net = network(sigma, gamma, depth=3).at_criticality()
    theory = sw.predict(net, X[:2])
    names = [name for name in KNOWN if name != "ntk"]
    ensemble = sw.measure(
        net, X[:2], networks=20_000, widths=[8, 24], seed=2, observables=names, progress=False
    )
    found = sw.compare(theory, ensemble)
    assert set(found.summary.observable.values) == set(names)
    assert found.passed, str(found)
    # So well measured that what a neuron remembers is seen.
    seen = np.abs(theory.metric_nlo.values[2]) / ensemble.metric_nlo_sem.values[2]
    assert seen.max() > 3


def test_mean_ntk_and_metric_are_those_of_real_weights() -> None:
    """At a width of 5, where every order in 1/n counts: derivatives by each parameter, by JAX."""
    net = network("tanh", 0.9, width=5, C_b=0.2, C_W=1.3, lambda_W=0.7)
    x = jnp.asarray(X, "float32")
    rates_W = [r / n for r, n in zip(net.lambda_W, net.widths[:-1], strict=True)]

    def output(parameters):
        z = x @ parameters.weights[0].T + parameters.biases[0]
        for w, b, gamma in zip(
            parameters.weights[1:], parameters.biases[1:], net.skips[1:], strict=True
        ):
            z = jnp.tanh(z) @ w.T + b + (gamma * z if gamma else 0.0)
        return z[:, 0]

    def one(key):
        parameters = init_weights(net, key)
        z, slopes = output(parameters), jax.jacrev(output)(parameters)
        grams = [
            rate * jnp.einsum("a...,b...->ab", s, s)
            for slope, rates in ((slopes.weights, rates_W), (slopes.biases, net.lambda_b))
            for s, rate in zip(slope, rates, strict=True)
        ]
        return jnp.stack([z[:, None] * z, sum(grams)])

    keys = jax.random.split(jax.random.key(5), 20_000)
    draws = np.asarray(jax.jit(jax.vmap(one))(keys), np.float64)
    mean, sem = draws.mean(axis=0), draws.std(axis=0) / len(draws) ** 0.5
    ensemble = sw.measure(
        net, X, networks=20_000, seed=3, progress=False, observables=["kernel", "ntk"]
    )
    for real, error, name in zip(mean, sem, ("kernel", "ntk"), strict=True):
        spread = np.hypot(error, ensemble[f"{name}_sem"].values[-1])
        assert np.all(np.abs(real - ensemble[name].values[-1]) < 4 * spread), name
        assert np.all(spread < 0.02 * np.abs(np.diag(real)).max())


@pytest.mark.parametrize("sigma", ["perceptron", *thorough("relu", "tanh", "softplus")])
def test_what_is_known_is_known_to_both_sides(sigma: str) -> None:
    net = network(sigma, 0.5, depth=3, width=6, C_b=0.1, C_W=0.3)
    theory, ensemble = (
        sw.predict(net, X[:2], observables="all"),
        sw.measure(net, X[:2], observables="all", networks=4, widths=[4, 8], progress=False),
    )
    there = [name for name in OBSERVABLES if name in theory]
    thrice = [name for name in OBSERVABLES if name == "ntk_nlo" or name.startswith("ddntk")]
    missing = {"relu": thrice, "perceptron": set(OBSERVABLES) - {"kernel", "four_point_vertex"}}
    assert set(there) == set(OBSERVABLES) - set(missing.get(sigma, ()))
    assert theory.attrs["left_out"] == ensemble.attrs["left_out"]
    assert all(name in ensemble for name in there)
    if sigma in missing:
        why = "The activation jumps" if sigma == "perceptron" else "Along skip connections it takes"
        assert why in omissions(theory.attrs)[0]


def test_what_is_not_known_is_refused() -> None:
    net = network("relu", 0.5)
    with pytest.raises(
        ValueError, match=r"'ntk_nlo' is not known of 'relu': along skip conn.*`measure` finds it"
    ):
        sw.predict(net, X, observables="ntk_nlo")
    # Networks know it all the same.
    found = sw.measure(net, X, observables="ntk_nlo", networks=4, widths=[4, 8], progress=False)
    assert "ntk_nlo" in found


def test_without_skip_connections_nothing_is_missing() -> None:
    plain = sw.MLP(3, 8, "tanh", input_dim=2, output_dim=1, lambda_b=0.3)
    none = network("tanh", 0.0, depth=3, width=8)
    for made in (
        lambda net: sw.predict(net, X[:2], observables="all"),
        lambda net: sw.measure(
            net, X[:2], observables=["kernel", "ntk_D"], networks=8, progress=False
        ),
    ):
        assert made(none).identical(made(plain))
    # A little of them changes little, through other recursions.
    names = ["kernel", "ntk", "four_point_vertex", "metric_nlo"]
    little, nothing = (
        sw.predict(net, X[:2], observables=names)
        for net in (network("tanh", 1e-4, depth=3, width=8), plain)
    )
    for name in (*names, "expansion_parameter"):
        slack = sum(
            4 * data[f"{name}_error"].values
            for data in (little, nothing)
            if f"{name}_error" in data
        )
        assert np.all(np.abs(little[name] - nothing[name]).values <= 1e-6 + slack), name


def test_sizes_beyond_the_vertex() -> None:
    """Many inputs have kernels and NTKs, one input has everything at any depth, by two recursions."""
    many = np.random.default_rng(0).normal(size=(49, 2))
    net = network("tanh", 0.6).at_criticality()
    theory = sw.predict(net, many)
    assert [n for n in OBSERVABLES if n in theory] == ["kernel", "ntk"]
    assert "3 hidden layers of 49 inputs are more than 48" in theory.attrs["left_out_because"][0]
    with pytest.raises(ValueError, match=r"49 inputs are more than 48 variables. Use fewer inputs"):
        sw.predict(net, many, observables="four_point_vertex")
    few = sw.predict(net, many[:2])
    np.testing.assert_allclose(theory.kernel[:, :2, :2], few.kernel, rtol=1e-9)
    # The small parameter does not depend on what else was asked for.
    alone = sw.predict(net, many[:2], observables="kernel")
    np.testing.assert_array_equal(few.expansion_parameter, alone.expansion_parameter)
    three = sw.predict(net, many[:3], observables="kernel")
    assert three.expansion_parameter.attrs["pairs"] == 3
    for a in (0, 1):
        one = sw.predict(net, many[[a]])
        for name in ("four_point_vertex", "metric_nlo", "ntk"):
            place = (slice(None), *(a,) * (few[name].ndim - 1))
            np.testing.assert_allclose(
                one[name].values.ravel(), few[name].values[place], rtol=1e-6, atol=1e-9
            )
    deep = sw.predict(network("relu", 0.9, depth=52).at_criticality(), many[:1])
    assert deep.sizes["layer"] == 52
    assert "four_point_vertex" in deep
    last = sw.predict(net, many[:2], layers=[4, 2], observables="four_point_vertex")
    np.testing.assert_array_equal(last.four_point_vertex, few.four_point_vertex[[1, 3]])


def test_results_of_other_networks_are_not_compared() -> None:
    theory = sw.predict(network("relu", 0.5, depth=3), X[:2], observables="kernel")
    other = sw.measure(
        network("relu", 0.4, depth=3), X[:2], observables="kernel", networks=4, progress=False
    )
    with pytest.raises(ValueError, match="different networks: `gamma` is"):
        sw.compare(theory, other)
    with pytest.raises(ValueError, match="skip connection from a layer of one neuron"):
        sw.measure(network("relu", 0.4, width=1), X, observables="four_point_vertex", networks=4)
