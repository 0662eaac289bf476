"""Golden and agreement tests of the NTK: autodiff for one network, exact means for ensembles."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from scalewise.nets import Parameters, empirical_ntk, init_weights, measure
from scalewise.nets._ntk import first_ntk, mean_ntks, row_numbers
from scalewise.nets._sampler import draw_layers, first_factor, metrics, ranks
from scalewise.networks import ResidualMLP
from scalewise.networks._by_jax import ntk_of
from scalewise.networks._weights import bare, rates_of


def uneven() -> sw.Network:
    return sw.MLP(
        4,
        [5, 7, 3],
        "tanh",
        input_dim=3,
        output_dim=2,
        C_b=[0.2, 0.1, 0.0, 0.4],
        C_W=[1.3, 0.9, 1.1, 2.0],
        lambda_b=[0.1, 0.5, 0.0, 0.9],
        lambda_W=[1.0, 0.3, 2.0, 0.7],
    )


def test_one_network_against_the_jacobian_of_its_parameters():
    net = uneven()
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((4, 3)), rng.standard_normal((2, 3))
    parameters = init_weights(net, 7, dtype="float64")

    def output(p, s):
        for w, b in zip(p.weights[:-1], p.biases[:-1], strict=True):
            s = jnp.tanh(s @ w.T + b)
        return s @ p.weights[-1].T + p.biases[-1]

    with jax.enable_x64(True):
        J = jax.jit(jax.jacobian(output))(parameters, jnp.asarray(np.concatenate([x, y])))
    exact = np.zeros((4, 2, 2, 2))
    for i in range(net.depth):
        weights, biases = (np.asarray(a[i]).reshape(6, 2, -1) for a in (J.weights, J.biases))
        rate = net.lambda_W[i] / net.widths[i]
        for factor, rows in ((rate, weights), (net.lambda_b[i], biases)):
            exact += factor * np.einsum("aip,bjp->abij", rows[:4], rows[4:])
    np.testing.assert_allclose(empirical_ntk(net, parameters, x, y), exact, rtol=1e-12, atol=1e-13)
    both = empirical_ntk(net, parameters, x)
    np.testing.assert_allclose(both, empirical_ntk(net, parameters, x, x), rtol=1e-13)
    np.testing.assert_allclose(both, both.transpose(1, 0, 3, 2), rtol=1e-12, atol=1e-14)


def test_single_precision_loses_no_more_than_single_precision():
    net = uneven()
    x = np.random.default_rng(1).standard_normal((4, 3))
    double = init_weights(net, 1, dtype="float64")
    single = Parameters(*(tuple(np.float32(a) for a in part) for part in double))
    # Four layers of sums of at most seven terms of order one: some ten roundings of 6e-8.
    low = empirical_ntk(net, single, x)
    np.testing.assert_allclose(low, empirical_ntk(net, double, x), rtol=2e-5, atol=2e-6)
    assert low.dtype == np.float32


def test_the_ensemble_has_the_mean_of_single_networks():
    # All of C_b, C_W, lambda_b, lambda_W and the width differ from layer to layer.
    net = uneven()
    x = np.random.default_rng(2).standard_normal((3, 3))
    rates = np.array([*rates_of(net.program).values()], "float32")
    inputs = [x.astype("float32")]

    def one(seed):
        return ntk_of(init_weights(net, seed), inputs, rates, program=bare(net.program))

    drawn = np.asarray(jax.jit(jax.vmap(one))(jnp.arange(8_000)), float)
    np.testing.assert_allclose(drawn[7], empirical_ntk(net, init_weights(net, 7), x), rtol=1e-4)
    single = np.einsum("kabii->kab", drawn) / 2
    result = measure(net, x, networks=8_000, observables="ntk")
    sem = np.hypot(single.std(axis=0) / np.sqrt(len(single)), result.ntk_sem.values[-1])
    np.testing.assert_array_less(np.abs(single.mean(axis=0) - result.ntk.values[-1]), 4 * sem)
    # And they know it well enough for that to mean something.
    assert np.max(sem / np.abs(np.diag(single.mean(axis=0)))) < 0.016


def given_preactivations(net, x, count):
    """The layers of one network in float64, and the numbers of many ways to carry rows through it."""
    rng = np.random.default_rng(5)
    sizes = [m * r for m, r in zip(net.hidden_widths, ranks(net, len(x)), strict=True)]
    xi = rng.standard_normal((1, sum(sizes)))
    rows = sum(int(np.prod(shape)) for shape in row_numbers(net, len(x)))
    return xi, rng.standard_normal((count, rows))


def whole_matrices(net, x, layers):
    """The mean NTK of every layer over eta and the last weights, from matrices of all neurons."""
    H = np.einsum("ij,ab->ijab", np.eye(net.widths[1]), first_ntk(net, x))
    for i, layer in enumerate(layers, 1):
        s, gram = layer.slopes[0], layer.gram[0]
        own, C_W, n = net.lambda_b[i] + net.lambda_W[i] * gram, net.C_W[i], net.widths[i]
        yield own + C_W / n * np.einsum("ka,kb,kkab->ab", s, s, H)
        if i == len(layers):
            return
        Q = np.eye(n + 1) if layer.Q is None else layer.Q[0]
        known, free = layers[i].xi[0] @ Q.T[:, :n], (np.eye(n + 1) - Q @ Q.T)[:n, :n]
        bent = np.einsum("ka,mb,kmab->kmab", s, s, H)
        H = C_W / n * np.einsum("ik,jm,kmab->ijab", known, known, bent)
        H += np.einsum(
            "ij,ab->ijab", np.eye(len(H)), own + C_W / n * np.einsum("km,kmab->ab", free, bent)
        )


@pytest.mark.parametrize("samples", [1, 4, *thorough(2)])
def test_rows_average_to_whole_matrices_given_the_preactivations(samples):
    # Four samples are as many as the narrowest layer has features: there xi is all of the weights.
    rates = {"lambda_b": [0.1, 0.5, 0.0, 0.9, 0.3], "lambda_W": [1.0, 0.3, 2.0, 0.7, 1.2]}
    C = {"C_b": [0.2, 0.1, 0.0, 0.4, 0.3], "C_W": [1.3, 0.9, 1.1, 2.0, 1.4]}
    net = sw.MLP(5, [5, 6, 3, 4], "tanh", input_dim=3, output_dim=1, **C, **rates)
    x = np.random.default_rng(4).standard_normal((samples, 3))
    count = 40_000
    xi, numbers = given_preactivations(net, x, count)
    with jax.enable_x64(True):
        layers = draw_layers(net, first_factor(net, x), xi, sigma=jnp.tanh, slopes=True)
    assert [layer.Q is None for layer in layers[:3]] == [False, False, samples == 4]
    exact = np.stack(list(whole_matrices(net, x, layers)))
    many = [type(a)(*(p if p is None else np.repeat(p, count, axis=0) for p in a)) for a in layers]
    draws = mean_ntks(net, x, many, numbers)
    sem = draws.std(axis=0) / np.sqrt(count)
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - exact), 4 * sem + 1e-11)
    assert np.max(sem / np.abs(exact).max(axis=(1, 2), keepdims=True)) < 0.003


@pytest.mark.parametrize("skips", [True, *thorough(False)])
def test_both_array_libraries_do_the_same(skips):
    x = np.random.default_rng(6).standard_normal((2, 3))
    net = (
        ResidualMLP(5, 6, "tanh", gamma=0.7, input_dim=3, output_dim=2, C_b=0.2, lambda_b=0.5)
        if skips
        else uneven()
    )
    xi, numbers = given_preactivations(net, x, 1)
    with jax.enable_x64(True):
        by = {}
        for library, array in (("numpy", np.asarray), ("jax", jnp.asarray)):
            layers = draw_layers(net, first_factor(net, x), array(xi), sigma=jnp.tanh, slopes=True)
            assert isinstance(layers[0].gram, np.ndarray) == (library == "numpy")
            by[library] = metrics(net, layers), mean_ntks(net, x, layers, array(numbers))
    for one, other in zip(by["numpy"], by["jax"], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize(("name", "C_W"), [("relu", 2.0), *thorough(("linear", 1.0))])
def test_the_mean_is_exact_for_scale_invariant_networks(name, C_W):
    # At criticality C_W <s'²> = 1 and C_W <s²> = G at every width, so that with C_b = 0
    # H^(l+1) = lambda_b + lambda_W G / C_W + H^(l), PDLT (8.63) without a correction.
    # Wide enough that no layer of ReLU is dead: then all preactivations above lie on the kink.
    widths = [16, 21, 19, 17, 18]
    net = sw.MLP(6, widths, name, input_dim=2, output_dim=1, C_W=C_W, lambda_b=0.3, lambda_W=1.9)
    x = np.array([[1.0, 1.0]])
    result = measure(net, x, networks=20_000, observables="ntk")
    exact = (0.3 + 1.9) * np.arange(1, 7)
    error = np.abs(result.ntk.values.ravel() - exact)
    np.testing.assert_array_less(error, 4 * result.ntk_sem.values.ravel() + 1e-12)
    assert result.ntk_sem.values.ravel()[-1] < 0.02 * exact[-1]


def test_training_the_last_layer_alone_gives_the_metric():
    # lambda of the lower layers 0 and of the last (C_b, C_W): H^(L) = G^(L); C_b = 0.2 throughout.
    C_b, C_W = 0.2, 1.1
    net = sw.MLP(
        3,
        6,
        "gelu",
        input_dim=2,
        output_dim=1,
        C_b=C_b,
        C_W=C_W,
        lambda_b=[0.0, 0.0, C_b],
        lambda_W=[0.0, 0.0, C_W],
    )
    x = np.array([[0.4, -1.0], [0.9, 0.3]])
    result = measure(net, x, networks=20_000)
    sem = np.hypot(result.ntk_sem.values[-1], result.kernel_sem.values[-1])
    error = np.abs(result.ntk.values[-1] - result.kernel.values[-1])
    np.testing.assert_array_less(error, 4 * sem)
    assert np.all(result.ntk.values[:2] == 0)


def test_the_rows_of_a_deep_network():
    # Depth 7: rows of every layer, carried back through every layer below.
    net = sw.MLP(7, 3, "linear", input_dim=1, output_dim=1)
    result = measure(net, np.ones((1, 1)), networks=20_000, observables="ntk")
    error = np.abs(result.ntk.values.ravel() - 2 * np.arange(1, 8))
    np.testing.assert_array_less(error, 4 * result.ntk_sem.values.ravel() + 1e-12)


def test_an_activation_that_jumps_is_refused():
    net = sw.MLP(2, 5, "perceptron", input_dim=2, output_dim=1)
    with pytest.raises(
        ValueError, match="'ntk' does not exist for 'perceptron': the activation jumps"
    ):
        measure(net, np.eye(2), networks=10, observables="ntk")
    with pytest.raises(ValueError, match="Leave 'ntk' out"):
        empirical_ntk(net, init_weights(net), np.eye(2))
    rest = measure(net, np.eye(2), networks=10)
    assert "ntk" not in rest
    assert np.all(np.isfinite(rest.kernel))


def test_parameters_of_another_network_are_refused():
    small, large = (sw.MLP(2, n, "tanh", input_dim=2, output_dim=1) for n in (5, 6))
    with pytest.raises(
        ValueError,
        match=r"random layer 1, node \[1\] .* \(6, 2\) and its biases \(6,\); got \(5, 2\)",
    ):
        empirical_ntk(large, init_weights(small), np.eye(2))
    with pytest.raises(ValueError, match="`dtype` must be 'float32' or 'float64'; got 'float16'"):
        init_weights(small, dtype="float16")


@pytest.mark.covers("A1.1", "A1.3")
def test_weights_have_the_variance_of_their_layer():
    net = sw.MLP(2, 400, "tanh", input_dim=300, output_dim=1, C_b=[0.5, 1.0], C_W=[2.0, 3.0])
    parameters = init_weights(net, 0)
    # 120000 weights and 400 biases: variances to 4 sqrt(2/count).
    first = np.asarray(parameters.weights[0], float)
    np.testing.assert_allclose(first.var(), 2.0 / 300, rtol=4 * np.sqrt(2 / first.size))
    np.testing.assert_allclose(
        np.asarray(parameters.biases[0]).var(), 0.5, rtol=4 * np.sqrt(2 / 400)
    )
    np.testing.assert_array_equal(first, init_weights(net, 0).weights[0])
    assert not np.array_equal(first, init_weights(net, 1).weights[0])
