"""Golden: parameters, NTK and error factors of one network of any layers, beside an explicit forward pass."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from architectures import RATES, outputs_of_parameters, random_layers, without_masks
from grids import few
from refusals import unlike
from scalewise.nets import (
    Parameters,
    empirical_ntk,
    error_factors,
    init_weights,
    parameter_step,
)
from scalewise.networks import ResidualMLP

RNG = np.random.default_rng(21)
X, OTHER = RNG.normal(size=(2, 6, 2)), RNG.normal(size=(3, 6, 2))
EVERY = without_masks("tanh")


def network(name: str) -> sw.Network:
    return sw.Network(*EVERY[name], input_shape=(6, 2), width=6, **RATES)


@pytest.mark.parametrize("name", few(list(EVERY), every=14))
def test_the_ntk_of_a_network_is_that_of_its_jacobian(name: str) -> None:
    net = network(name)
    parameters = init_weights(net, 4, dtype="float64")
    assert sum(a.size for part in parameters for a in part) == net.parameters
    with jax.enable_x64(True):
        both = np.concatenate([X, OTHER])
        J = jax.jit(jax.jacrev(lambda p: outputs_of_parameters(net, p, both)))(parameters)
    expected = 0.0
    for (k, node), W, b in zip(random_layers(net.program), *J, strict=True):
        W, b = (np.asarray(a).reshape(5, net.output_dim, -1) for a in (W, b))
        rate = node.own.lambda_W / net.program.fan_in(k)
        for factor, rows in ((rate, W), (node.own.lambda_b, b)):
            expected = expected + factor * np.einsum("aip,bjp->abij", rows, rows)
    assert_same = np.testing.assert_allclose
    assert_same(empirical_ntk(net, parameters, X), expected[:2, :2], rtol=1e-8, atol=1e-10)
    found = empirical_ntk(net, parameters, X, OTHER)
    assert_same(found, expected[:2, 2:], rtol=1e-8, atol=1e-10)


def test_parameters_are_drawn_layer_by_layer_with_the_variance_of_each() -> None:
    layers = (sw.Conv((3, 2), 400), "relu", sw.Local(2, 50, stride=2), sw.Flatten(), sw.Dense(300))
    net = sw.Network(*layers, input_shape=(4, 6, 50), width=8, C_b=0.3, C_W=1.7)
    drawn = init_weights(net, 3)
    assert [W.shape for W in drawn.weights] == [
        (400, 3, 2, 50),
        (2, 3, 50, 2, 2, 400),
        (300, 2, 3, 50),
    ]
    assert [b.shape for b in drawn.biases] == [(400,), (2, 3, 50), (300,)]
    for W, b, fan_in in zip(*drawn, (300, 1600, 300), strict=True):
        assert np.var(np.asarray(W, float)) == pytest.approx(1.7 / fan_in, rel=0.05)
        assert np.var(np.asarray(b, float)) == pytest.approx(0.3, rel=0.4)
    # A fully connected network has the same numbers, whichever way it is written.
    mlp = sw.MLP(3, (5, 4), "tanh", input_dim=3, output_dim=2, C_b=0.2, C_W=1.3)
    same = (sw.Dense(5), "tanh", sw.Dense(4), "tanh", sw.Dense(2))
    other = sw.Network(*same, input_shape=3, width=9, C_b=0.2, C_W=1.3)
    for one, two in zip(
        jax.tree.leaves(init_weights(mlp, 5)), jax.tree.leaves(init_weights(other, 5)), strict=True
    ):
        np.testing.assert_array_equal(one, two)
    assert init_weights(mlp, 5).weights[1][0, 0] == pytest.approx(0.687735319, rel=1e-6)


def test_skip_connections_around_the_last_layer_are_part_of_the_outputs() -> None:
    skips = {"gamma": (0, 0.4, 0.7), "C_b": 0.1, "lambda_b": 0.3}
    net = ResidualMLP(3, 4, "tanh", input_dim=3, output_dim=4, **skips)
    parameters, x = init_weights(net, 2, dtype="float64"), RNG.normal(size=(3, 3))

    def forward(p):
        z = x @ p.weights[0].T + p.biases[0]
        for W, b, skip in zip(p.weights[1:], p.biases[1:], (0.4, 0.7), strict=True):
            z = jnp.tanh(z) @ W.T + b + skip * z
        return z

    with jax.enable_x64(True):
        J = jax.jit(jax.jacrev(forward))(parameters)
    expected = 0.0
    for k, (W, b) in enumerate(zip(*J, strict=True)):
        W, b = (np.asarray(a).reshape(3, 4, -1) for a in (W, b))
        for factor, rows in ((net.lambda_W[k] / net.widths[k], W), (net.lambda_b[k], b)):
            expected = expected + factor * np.einsum("aip,bjp->abij", rows, rows)
    np.testing.assert_allclose(empirical_ntk(net, parameters, x), expected, rtol=1e-11)


def test_error_factors_and_steps_are_slopes_of_the_loss() -> None:
    net = network("places and groups")
    parameters, Y = init_weights(net, 1, dtype="float64"), RNG.normal(size=(2, 2))
    with jax.enable_x64(True):

        @jax.jit
        def loss(p):
            return 0.5 * jnp.sum((outputs_of_parameters(net, p, X) - Y) ** 2)

        error = np.asarray(jax.jit(lambda p: outputs_of_parameters(net, p, X))(parameters)) - Y
        slope = jax.tree.map(np.asarray, jax.jit(jax.grad(loss))(parameters))
        step = parameter_step(net, parameters, X, error)
        factors = error_factors(net, parameters, X, error)
    for k, (place, node) in enumerate(random_layers(net.program)):
        rates = node.own.lambda_W / net.program.fan_in(place), node.own.lambda_b
        for rate, got, wanted in zip(rates, step, slope, strict=True):
            np.testing.assert_allclose(got[k], -rate * wanted[k], rtol=1e-8, atol=1e-12)
        sites = net.program.positions[place] if k < net.depth - 1 else ()
        assert factors[k].shape == (2, *sites, net.program.channels[place])
        # Biases are what is added, at every place where they are the same.
        total = factors[k].sum(axis=0)
        total = total if not node.shared else total.reshape(-1, total.shape[-1]).sum(axis=0)
        np.testing.assert_allclose(total, slope.biases[k], rtol=1e-8, atol=1e-12)
    np.testing.assert_array_equal(factors[-1], error)


def test_parameters_of_other_networks_are_refused() -> None:
    net, wide = (
        sw.Network(sw.Conv(3), "tanh", sw.Flatten(), sw.Dense(1), input_shape=(6, 2), width=n)
        for n in (4, 5)
    )
    own, jumps = init_weights(net), net.replace(layers=(sw.Dense(), "perceptron", *net.layers[2:]))
    short = Parameters(own.weights[:1], own.biases[:1])
    turned = Parameters((own.weights[0].transpose(0, 2, 1), own.weights[1]), own.biases)
    masks = net.replace(layers=(*net.layers[:2], sw.Dropout(0.5), *net.layers[2:]))
    cases = [
        (
            lambda: empirical_ntk(net, init_weights(wide), X),
            r"`parameters` do not fit random layer 1, node \[1\] .* \(4, 3, 2\) .* got \(5, 3, 2\) and \(5,\)",
        ),
        (lambda: empirical_ntk(net, turned, X), r"random layer 1.*; got \(4, 2, 3\) and \(4,\)"),
        (lambda: empirical_ntk(net, short, X), "the network's 2 random layers; got weights of 1"),
        (lambda: empirical_ntk(masks, own, X), "has Dropout, whose masks"),
        (lambda: error_factors(masks, own, X, np.ones((2, 1))), "has Dropout, whose masks"),
        (lambda: empirical_ntk(jumps, init_weights(jumps), X), "it jumps at z = 0"),
        (lambda: empirical_ntk(net, own, X[:, :5]), r"inputs of \(5, 2\), but the network takes"),
    ]
    assert unlike(cases) == []
