"""Golden tests: error factors and parameter steps of one network against autodiff of its loss."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from scalewise.nets import error_factors, init_weights, parameter_step

X = np.array([[0.4, -0.9, 0.2], [1.0, 0.3, -0.5]])
Y = np.array([[0.5, -0.2], [0.1, 0.9]])


def network() -> sw.Network:
    rates = {"lambda_b": (0.3, 0.5, 0.2), "lambda_W": (0.7, 1.1, 0.9), "C_b": 0.2, "C_W": 1.3}
    return sw.MLP(3, (5, 4), "tanh", input_dim=3, output_dim=2, **rates)


def outputs(parameters, x, added=None):
    """z^(L), with numbers added to the preactivations of every layer on the way."""
    z = x
    for i, (w, b) in enumerate(zip(parameters.weights, parameters.biases, strict=True)):
        z = (jnp.tanh(z) if i else z) @ w.T + b
        if added is not None:
            z = z + added[i]
    return z


@pytest.mark.covers("C1")
def test_every_layer_against_autodiff() -> None:
    net = network()
    with jax.enable_x64(True):
        parameters = init_weights(net, 4, dtype="float64")
        z = np.asarray(jax.jit(outputs)(parameters, X))
        factors = error_factors(net, parameters, X, z - Y)
        nothing = [np.zeros((2, n)) for n in net.widths[1:]]

        def loss(added):
            return 0.5 * jnp.sum((outputs(parameters, X, added) - Y) ** 2)

        for factor, want in zip(factors, jax.jit(jax.grad(loss))(nothing), strict=True):
            np.testing.assert_allclose(factor, want, rtol=1e-11, atol=1e-13)


@pytest.mark.covers("C1")
def test_the_step_is_the_gradient_times_the_rates() -> None:
    net = network()
    with jax.enable_x64(True):
        parameters = init_weights(net, 4, dtype="float64")
        z = np.asarray(jax.jit(outputs)(parameters, X))
        step = parameter_step(net, parameters, X, z - Y)
        slope = jax.jit(jax.grad(lambda p: 0.5 * jnp.sum((outputs(p, X) - Y) ** 2)))(parameters)
        slope = jax.tree.map(np.asarray, slope)
    for layer in range(3):
        rate = net.lambda_W[layer] / net.widths[layer]
        np.testing.assert_allclose(step.weights[layer], -rate * slope.weights[layer], rtol=1e-10)
        rate = net.lambda_b[layer]
        np.testing.assert_allclose(step.biases[layer], -rate * slope.biases[layer], rtol=1e-10)


def test_an_error_of_another_shape_is_refused() -> None:
    net = network()
    with pytest.raises(
        ValueError, match=r"`error` must be an array of real numbers of shape \(sample, output\)"
    ):
        error_factors(net, init_weights(net, 4, dtype="float64"), X, np.ones(2))
