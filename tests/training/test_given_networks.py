"""Golden: one given network of any layers, linearised: beside Jacobians of an explicit forward pass."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from architectures import RATES, outputs_of_parameters, random_layers, without_masks
from grids import few, thorough
from refusals import unlike
from scalewise.jax import curvature
from scalewise.nets import empirical_ntk, init_weights
from scalewise.nets import parameter_step as autodiff_step
from scalewise.networks import ResidualMLP
from scalewise.training import GradientDescent, kernels
from scalewise.training._curved_network import CurvedNetwork
from scalewise.training._one_network import tangents_of
from scalewise.training.dynamics.networks import features_of

RNG = np.random.default_rng(31)
X = RNG.normal(size=(5, 6, 2))
N = 3
EVERY = without_masks("tanh")


def network(name: str) -> sw.Network:
    return sw.Network(*EVERY[name], input_shape=(6, 2), width=6, **RATES)


def jacobian(net, parameters):
    """Of all outputs by all parameters, their rates, and the outputs."""
    with jax.enable_x64(True):
        run = jax.jit(lambda p: outputs_of_parameters(net, p, jnp.asarray(X)))
        z, J = np.asarray(run(parameters)), jax.jit(jax.jacrev(run))(parameters)
    parts, rates = [], []
    for (k, node), *both in zip(random_layers(net.program), *J, strict=True):
        own = node.own.lambda_W / net.program.fan_in(k), node.own.lambda_b
        for part, rate in zip(both, own, strict=True):
            parts.append(np.asarray(part).reshape(z.size, -1))
            rates.append(np.full(parts[-1].shape[1], rate))
    return z, np.concatenate(parts, axis=1), np.concatenate(rates)


@pytest.mark.parametrize("name", few(list(EVERY), every=10))
def test_a_linear_model_that_is_really_trained_does_the_same(name: str) -> None:
    net = network(name)
    parameters = init_weights(net, 6, dtype="float64")
    z, J, rates = jacobian(net, parameters)
    y = RNG.normal(size=(N, net.output_dim))
    task = sw.Task(X[:N], y, test_inputs=X[N:], test_targets=np.zeros((2, net.output_dim)))
    ways = {"momentum": 0.5, "ridge": 0.1}
    found = sw.predict_training(
        net, task, GradientDescent(0.002, steps=6, **ways), weights=parameters
    )
    moved, v, count = np.zeros(J.shape[1]), 0.0, y.size
    for _ in range(6):
        error = (z.ravel() + J @ moved)[:count] - y.ravel()
        v = 0.5 * v - 0.002 * (rates * (error @ J[:count]) + 0.1 * moved)
        moved = moved + v
    end = (z.ravel() + J @ moved).reshape(z.shape)
    np.testing.assert_allclose(found.train_mean, end[:N].T, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.output_mean, end[N:].T, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(kernels.outputs_of(net, parameters, X), z, rtol=1e-9, atol=1e-12)


@pytest.mark.covers("C3", "C4", "C5")
@pytest.mark.parametrize("name", few(list(EVERY), every=15))
def test_passes_of_numpy_are_those_of_autodiff(name: str) -> None:
    """Outputs and NTK, and terms of outputs and gradients along a path, beside an explicit forward pass."""
    net = network(name)
    parameters = init_weights(net, 6, dtype="float64")
    z, J, rates = jacobian(net, parameters)
    outputs, ntk = tangents_of(net, parameters, X)
    np.testing.assert_allclose(outputs, z, rtol=1e-9, atol=1e-12)
    H = ((J * rates) @ J.T).reshape(*z.shape, *z.shape)
    np.testing.assert_allclose(ntk.transpose(0, 2, 1, 3), H, rtol=1e-8, atol=1e-10)
    ours = CurvedNetwork(net, parameters, X)
    errors, maxima = RNG.normal(size=(N, net.output_dim)), ours.obstacle
    path = [] if maxima else [0.3 * RNG.normal(size=ours.parameters) for _ in range(3)]
    with jax.enable_x64(True):
        own = [np.full(a.shape, r) for a, r in zip(sum(parameters, ()), _each(net), strict=True)]
        count = len(parameters.weights)
        weighed = type(parameters)(tuple(own[:count]), tuple(own[count:]))
        run = lambda p, x: outputs_of_parameters(net, p, x)  # noqa: E731
        other = curvature(run, parameters, X, rates=weighed)
        for found, exact in (
            (ours.outputs(path), other.outputs(path)),
            (ours.gradients(errors, path[:2]), other.gradients(errors, path[:2])),
        ):
            for a, b in zip(found, exact, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10 * max(1.0, np.abs(b).max()))


TAIL = sw.Dense(), "tanh", sw.GlobalAvgPool(), sw.Dense(2)
READERS = {
    "masks": ((6, 2), (sw.Mask(), sw.Conv(3, stride=2), "tanh", sw.Attention(heads=2, tied=True),
                       *TAIL)),
    "states": ((4, 2), (sw.Mask(), sw.Recurrent("tanh", last=True), *TAIL)),
    "functions of logits": ((5, 2), (sw.Mask(), sw.Attention(size=2, function="erf"), *TAIL)),
    "graphs": ((4, 6), (sw.Features(2), sw.Dense(), "tanh", sw.Aggregate(), *TAIL)),
    "images": ((4, 5, 2), (sw.Conv((3, 2), stride=(2, 1), groups=2), "gelu", sw.AvgPool((1, 2)),
                           sw.Conv((1, 3), padding="circular"), sw.GroupNorm(2), sw.Flatten(), sw.Dense(2))),
    "images back": ((2, 3, 1), (sw.ConvTranspose(2, stride=2), "tanh", sw.Resize((3, 3)), sw.Local(2), *TAIL)),
}  # fmt: skip


@pytest.mark.parametrize("name", ["masks", *thorough(*list(READERS)[1:])])
def test_what_reads_inputs_and_images_flows_back_too(name: str) -> None:
    shape, layers = READERS[name]
    net, x = sw.Network(*layers, input_shape=shape, width=4, **RATES), RNG.normal(size=(3, *shape))
    if isinstance(layers[0], sw.Mask):
        x[..., -1] = np.arange(shape[0]) < np.array([6, 4, 3])[:, None]
    parameters, errors = init_weights(net, 2, dtype="float64"), RNG.normal(size=(3, 2))
    found = tangents_of(net, parameters, x)[1]
    np.testing.assert_allclose(found, empirical_ntk(net, parameters, x), rtol=1e-9, atol=1e-12)
    slopes = kernels.parameter_step(net, parameters, x, errors)
    for part, exact in zip(slopes, autodiff_step(net, parameters, x, errors), strict=True):
        for a, b in zip(part, exact, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def _each(net: sw.Network) -> list[float]:
    """Rates of weights, then of biases."""
    layers = random_layers(net.program)
    of_weights = [node.own.lambda_W / net.program.fan_in(k) for k, node in layers]
    return of_weights + [node.own.lambda_b for _, node in layers]


@pytest.mark.parametrize("name", few(list(EVERY), every=10))
def test_the_last_layer_is_a_linear_model_of_its_features(name: str) -> None:
    net = network(name)
    parameters = init_weights(net, 6, dtype="float64")
    phi, last = kernels.last_layer_features(net, parameters, X), net.own(net.depth)
    W, b = np.asarray(parameters.weights[-1]), np.asarray(parameters.biases[-1])
    inner = phi[:, 1:] / np.sqrt(last.C_W / (phi.shape[1] - 1))
    z = inner @ W.reshape(len(W), -1).T + b
    np.testing.assert_allclose(z, kernels.outputs_of(net, parameters, X), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(phi[:, 0], np.sqrt(last.C_b))


def test_what_bends_a_network_does_not_depend_on_how_it_is_written() -> None:
    """A fully connected one, the same as layers."""
    shape = {"C_b": 0.1, "C_W": 1.4, "lambda_b": 0.3, "lambda_W": 0.8}
    mlp = sw.MLP(3, (9, 7), "tanh", input_dim=3, output_dim=2, **shape)
    layers = (sw.Dense(9), "tanh", sw.Dense(7), "tanh", sw.Dense(2))
    other = sw.Network(*layers, input_shape=3, width=5, **shape)
    x, p = RNG.normal(size=(5, 3)), init_weights(mlp, 2, dtype="float64")
    task = sw.Task(x[:3], RNG.normal(size=(3, 2)), test_inputs=x[3:], test_targets=np.zeros((2, 2)))
    names = ["output_mean", "output_mean_nlo", "test_loss_nlo"]
    found = [
        sw.predict_training(net, task, GradientDescent(0.1, steps=3), weights=p, observables=names)
        for net in (mlp, other)
    ]
    for name in names:
        np.testing.assert_allclose(found[0][name], found[1][name], rtol=1e-9, atol=1e-12)


def test_a_convolution_moves_as_its_curvature_says() -> None:
    """What is left of networks that are really trained falls with the square of how far they are trained."""
    layers = (sw.Conv(3), "tanh", sw.LayerNorm(0.2), sw.GlobalAvgPool(), sw.Dense(1))
    net = sw.Network(*layers, input_shape=(6, 2), width=8, **RATES)
    p = init_weights(net, 3, dtype="float64")
    rates = [(node.own, net.program.fan_in(k)) for k, node in random_layers(net.program)]
    own = type(p)(
        tuple(0.05 * rate.lambda_W / fan_in for rate, fan_in in rates),
        tuple(0.05 * rate.lambda_b for rate, _ in rates),
    )

    @jax.jit
    def trained(q, y):
        for _ in range(4):
            z, back = jax.vjp(lambda q: outputs_of_parameters(net, q, X[:N]), q)
            q = jax.tree.map(lambda a, r, d: a - r * d, q, own, back(z - y)[0])
        return outputs_of_parameters(net, q, X[N:])

    left, z = [], kernels.outputs_of(net, p, X)
    for size in (0.2, 0.1):
        y = z[:N] + size * np.array([[1.0], [-0.5], [0.7]])
        task = sw.Task(X[:N], y, test_inputs=X[N:])
        found = sw.predict_training(
            net, task, GradientDescent(0.05, steps=4), weights=p,
            observables=["output_mean", "output_mean_nlo"],
        )  # fmt: skip
        with jax.enable_x64(True):
            end = np.asarray(trained(p, y)).T
        flat = found.output_mean.values
        nearly = flat + found.output_mean_nlo.values / net.widths[-2]
        left.append([np.abs(end - flat).max(), np.abs(end - nearly).max()])
    left = np.array(left)
    assert (left[:, 1] < 0.2 * left[:, 0]).all()
    powers = np.log2(left[0] / left[1])
    assert powers[0] == pytest.approx(2, abs=0.4)
    assert powers[1] > 2.8


def test_the_cubic_model_of_a_convolution_misses_its_fourth_derivative() -> None:
    layers = (sw.Conv(2), "tanh", sw.LayerNorm(0.2), sw.GlobalAvgPool(), sw.Dense(1))
    net = sw.Network(*layers, input_shape=(3, 1), width=3, **RATES)
    p, x = init_weights(net, 3, dtype="float64"), np.random.default_rng(1).normal(size=(2, 3, 1))
    model = features_of(net, p, x)
    at = model.state(np.zeros(net.parameters))
    np.testing.assert_allclose(at.ntk, empirical_ntk(net, p, x)[..., 0, 0], rtol=1e-10)
    direction, gaps = np.cos(np.arange(net.parameters)), []
    for size in (0.04, 0.02):
        flat, moved = size * direction, []
        for a in (*p.weights, *p.biases):
            moved.append(np.asarray(a) + flat[: a.size].reshape(a.shape))
            flat = flat[a.size :]
        z = kernels.outputs_of(net, type(p)(tuple(moved[:2]), tuple(moved[2:])), x)
        gaps.append(np.abs(model.outputs(size * direction) - z.ravel()).max())
    assert 13 < gaps[0] / gaps[1] < 19


def test_skip_connections_are_linearised_too() -> None:
    net = ResidualMLP(3, 6, "tanh", input_dim=6, output_dim=6, gamma=(0, 0.5, 0.3), C_b=0.1)
    x, p = RNG.normal(size=(4, 6)), init_weights(net, 1, dtype="float64")
    y = RNG.normal(size=(3, 6))
    found = sw.predict_training(net, sw.Task(x[:3], y, test_inputs=x[3:]), weights=p)
    z, H = kernels.outputs_of(net, p, x), empirical_ntk(net, p, x).transpose(0, 2, 1, 3)
    H = H.reshape(24, 24)
    end = z.ravel() - H[:, :18] @ np.linalg.solve(H[:18, :18], z.ravel()[:18] - y.ravel())
    np.testing.assert_allclose(found.output_mean.values.T, end[18:].reshape(1, 6), rtol=1e-8)


def test_what_is_not_given_as_it_should_be_is_refused() -> None:
    net = network("pooled")
    p, y = init_weights(net), np.ones((N, 2))
    task = sw.Task(X[:N], y, test_inputs=X[N:])
    kinked = net.replace(layers=(sw.Conv(3), "relu", *net.layers[2:]))
    masks = net.replace(layers=(*net.layers[:2], sw.Dropout(0.5), *net.layers[2:]))
    summed = ResidualMLP(2, 3, "tanh", input_dim=3, output_dim=3, gamma=(0, 0.5))
    maxima = net.replace(layers=(sw.Conv(3), "tanh", sw.MaxPool(2), *net.layers[2:]))

    def ask(net, weights=p, **options: Any):
        return lambda: sw.predict_training(net, task, weights=weights, **options)

    nlo: dict[str, Any] = {"observables": "output_mean_nlo"}
    cases = [
        (ask(net.at_width(5)), r"`weights` do not fit random layer 1, node \[1\] .* \(5, 3, 2\)"),
        (ask(masks), "`net` has Dropout, whose masks are drawn anew"),
        (ask(kinked, **nlo), "the activation 'relu' has no third derivative"),
        (ask(maxima, init_weights(maxima), **nlo), "a maximum over positions has no third"),
        (
            lambda: kernels.outputs_of(net, p, X[:, :4]),
            r"inputs of shape \(4, 2\), but the network",
        ),
        (
            lambda: kernels.last_layer_features(summed, init_weights(summed), np.eye(3)),
            "a skip connection around its last layer",
        ),
    ]
    assert unlike(cases) == []
