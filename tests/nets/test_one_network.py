"""Golden and property tests: dNTK and ddNTKs of one network against autodiff and one step of training."""

import itertools
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from forward_equations import layers
from grids import thorough
from networks import in_a_row
from scalewise.nets import (
    Parameters,
    empirical_ddntk,
    empirical_dntk,
    empirical_ntk,
    init_weights,
    layer_tensors,
)

SIGMAS = {
    "tanh": jnp.tanh,
    "gelu": lambda z: jax.nn.gelu(z, approximate=False),
    "relu": jax.nn.relu,
}
X = np.array([[0.9, -0.4], [0.3, 1.1]])


def uneven(activation: str) -> sw.Network:
    return sw.MLP(
        3,
        [3, 4],
        activation,
        input_dim=2,
        output_dim=2,
        C_b=[0.2, 0.1, 0.3],
        C_W=[1.3, 0.9, 1.1],
        lambda_b=[0.3, 0.5, 0.2],
        lambda_W=[0.7, 1.1, 0.9],
    )


def outputs(name, parameters, x, depth):
    """z^(depth), (neuron, sample)."""
    s = x
    for w, b in zip(parameters.weights[:depth], parameters.biases[:depth], strict=True):
        z = s @ w.T + b
        s = SIGMAS[name](z)
    return z.T


def learning_rates(net, parameters):
    """lambda of every parameter, in the order of the raveled ones."""
    layers = zip(net.lambda_W, net.widths, parameters.weights, strict=False)
    weights = tuple(np.full(w.shape, rate / n) for rate, n, w in layers)
    biases = tuple(
        np.full(b.shape, r) for r, b in zip(net.lambda_b, parameters.biases, strict=True)
    )
    return in_a_row(Parameters(weights, biases))[0]


@cache
def defined(name, depth):
    """H, dH, dd_I, dd_II of a layer by Jacobians over all parameters: (neuron..., sample...)."""
    net = uneven(name)
    parameters = init_weights(net, 3, dtype="float64")
    with jax.enable_x64(True):
        flat, shaped = in_a_row(parameters)
        lam = learning_rates(net, parameters)
        functions = [lambda p: outputs(name, shaped(p), jnp.asarray(X), depth)]
        for nested in (jax.jacrev, jax.jacfwd, jax.jacfwd):
            functions.append(nested(functions[-1]))
        J, H2, T3 = (np.asarray(jax.jit(f)(flat)) for f in functions[1:])

    def contract(pattern, *arrays):
        return np.einsum(pattern, *arrays, optimize=True)

    return (
        contract("p,iap,jbp->ijab", lam, J, J),
        contract("p,q,iapq,jbp,kcq->ijkabc", lam, lam, H2, J, J),
        contract("p,q,r,iapqr,jbp,kcq,ldr->ijklabcd", lam, lam, lam, T3, J, J, J),
        contract("p,q,r,iapr,jbqr,kcp,ldq->ijklabcd", lam, lam, lam, H2, H2, J, J),
    )


def neurons_first(tensor):
    legs = tensor.ndim // 2
    return np.moveaxis(tensor, range(legs), range(-legs, 0))


def assert_equal(found, exact):
    np.testing.assert_allclose(found, exact, rtol=1e-10, atol=1e-12)


@pytest.mark.covers("B9", "C2", "C3", "C4", "C5")
@pytest.mark.parametrize(("name", "depths"), [("tanh", (3,)), *thorough(("gelu", (2, 3)))])
def test_tensors_of_layers_are_the_definitions(name, depths):
    net = uneven(name)
    found = layer_tensors(net, init_weights(net, 3, dtype="float64"), X)
    for depth in depths:
        H, dH, first, second = defined(name, depth)
        layer = found[depth - 1]
        assert_equal(layer.ntk, H)
        assert_equal(layer.dntk, dH)
        assert_equal(layer.dd_first, first)
        assert_equal(layer.dd_second, second)
    # The last layer has something to be wrong about.
    assert all(np.max(np.abs(t)) > 1e-3 for t in defined(name, 3))


@pytest.mark.covers("B9", "C2", "C3", "C4", "C5")
def test_every_layer_obeys_the_forward_equations():
    net = uneven("tanh")
    parameters = init_weights(net, 4, dtype="float64")
    written_out = layers(net, parameters, X, jnp.tanh)
    for found, exact in zip(layer_tensors(net, parameters, X), written_out, strict=True):
        for name in ("ntk", "dntk", "dd_first", "dd_second"):
            assert_equal(getattr(found, name), getattr(exact, name))


@pytest.mark.covers("C6")
@pytest.mark.parametrize("name", ["tanh", *thorough("gelu")])
def test_directional_derivatives_are_the_definitions(name):
    net = uneven(name)
    parameters = init_weights(net, 3, dtype="float64")
    _, dH, first, second = defined(name, 3)
    assert_equal(neurons_first(empirical_dntk(net, parameters, X)), dH)
    found = empirical_ddntk(net, parameters, X)
    assert_equal(neurons_first(found[0]), first)
    assert_equal(neurons_first(found[1]), second)


@pytest.mark.covers("C6")
def test_a_kinked_activation_has_the_dntk_of_its_slopes():
    net = uneven("relu")
    found = empirical_dntk(net, init_weights(net, 3, dtype="float64"), X)
    assert_equal(neurons_first(found), defined("relu", 3)[1])
    assert np.max(np.abs(found)) > 0.01


@pytest.mark.covers("C6")
def test_legs_are_contracted():
    net = uneven("tanh")
    parameters = init_weights(net, 3, dtype="float64")
    rng = np.random.default_rng(0)
    legs = [rng.standard_normal((k, 2)) for k in (1, 2, 3, 1)]
    dH = empirical_dntk(net, parameters, X)
    exact = np.einsum("abcijk,pi,qj,rk->abcpqr", dH, *legs[:3])
    assert_equal(empirical_dntk(net, parameters, X, legs[:3]), exact)
    for whole, part in zip(
        empirical_ddntk(net, parameters, X), empirical_ddntk(net, parameters, X, legs), strict=True
    ):
        assert_equal(part, np.einsum("abcdijkl,pi,qj,rk,sl->abcdpqrs", whole, *legs))


@pytest.mark.thorough(
    "tests/nets/test_ntk.py::test_single_precision_loses_no_more_than_single_precision"
)
def test_single_precision_loses_no_more_than_single_precision():
    net = uneven("tanh")
    double = init_weights(net, 3, dtype="float64")
    single = Parameters(*(tuple(np.float32(a) for a in part) for part in double))
    low = empirical_dntk(net, single, X), *empirical_ddntk(net, single, X)
    high = empirical_dntk(net, double, X), *empirical_ddntk(net, double, X)
    for a, b in zip(low, high, strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.covers("C3", "C4", "C5")
def test_symmetries_of_one_network():
    net = uneven("tanh")
    for layer in layer_tensors(net, init_weights(net, 5, dtype="float64"), X):
        assert_equal(layer.dntk, layer.dntk.transpose(0, 2, 1, 3, 5, 4))
        for p in itertools.permutations((1, 2, 3)):
            order = (0, *p, 4, *(4 + k for k in p))
            assert_equal(layer.dd_first, layer.dd_first.transpose(order))
        assert_equal(layer.dd_second, layer.dd_second.transpose(1, 0, 3, 2, 5, 4, 7, 6))


def step(net, parameters, eta, y):
    """Parameters after one step of gradient descent with the rates of the network."""
    with jax.enable_x64(True):
        flat, shaped = in_a_row(parameters)

        def loss(p):
            return 0.5 * jnp.sum((outputs("tanh", shaped(p), jnp.asarray(X), 3) - y) ** 2)

        lam = learning_rates(net, parameters)
        return shaped(np.asarray(flat) - eta * lam * np.asarray(jax.jit(jax.grad(loss))(flat)))


def residuals(net, parameters, eta, y):
    """What (∞.4), (∞.6), (∞.9) leave of one step of the output, the NTK and the dNTK."""
    before = layer_tensors(net, parameters, X)[-1]
    after = step(net, parameters, eta, y)
    H, dH, first, second = before.ntk, before.dntk, before.dd_first, before.dd_second
    with jax.enable_x64(True):
        forward = jax.jit(lambda p: outputs("tanh", p, jnp.asarray(X), 3))
        z, moved = (np.asarray(forward(p)) for p in (parameters, after))
    e = z - y

    def along(tensor, legs):
        # Contracts the last legs with the error.
        for leg in range(legs):
            k = tensor.ndim // 2
            tensor = np.moveaxis(tensor, k - 1, -1)
            tensor = np.tensordot(tensor, e, axes=[[-2, -1], [1, 0]])
            assert tensor.ndim == 2 * (k - 1), leg
        return tensor

    swapped = lambda t: t.swapaxes(0, 1).swapaxes(2, 3)  # noqa: E731
    output = -eta * along(H, 1) + eta**2 / 2 * along(dH, 2) - eta**3 / 6 * along(first, 3)
    once, twice = along(dH, 1), along(first, 2)
    kernel = -eta * (once + swapped(once)) + eta**2 / 2 * (twice + swapped(twice))
    kernel += eta**2 * along(second, 2)
    both = along(second, 1)
    # dd_II_{i0 i2 i1 j}: legs 1 and 2 exchanged.
    change = -eta * (along(first, 1) + both + both.transpose(0, 2, 1, 3, 5, 4))
    last = layer_tensors(net, after, X)[-1]
    return [
        np.max(np.abs(a))
        for a in (moved - z - output, last.ntk - H - kernel, last.dntk - dH - change)
    ]


@pytest.mark.covers("C7", "C8", "C9")
def test_one_step_of_gradient_descent_to_the_stated_orders():
    net = uneven("tanh")
    parameters = init_weights(net, 3, dtype="float64")
    y = np.array([[0.8, -0.5], [0.2, 1.0]])
    etas = np.array([0.01, 0.005, 0.0025])
    left = np.log([residuals(net, parameters, eta, y) for eta in etas])
    orders = np.polyfit(np.log(etas), left, 1)[0]
    np.testing.assert_allclose(orders, [4, 3, 2], atol=0.1)


@pytest.mark.covers("C33")
def test_bad_arguments_are_refused():
    net, kinked, jumping = uneven("tanh"), uneven("relu"), uneven("perceptron")
    parameters = init_weights(net, dtype="float64")
    for function in (empirical_ddntk, layer_tensors):
        with pytest.raises(
            ValueError, match=r"'relu' are not defined: it has a kink at z = 0, where"
        ):
            function(kinked, parameters, X)
    with pytest.raises(
        ValueError, match=r"'perceptron' is not defined: it jumps .* Leave 'dntk_P' out"
    ):
        empirical_dntk(jumping, parameters, X)
    with pytest.raises(ValueError, match=r"`legs` must be 3 arrays of vectors with 2 entries each"):
        empirical_dntk(net, parameters, X, [np.eye(2)] * 4)
    with pytest.raises(
        ValueError, match=r"`legs` must be 4 arrays .* got shapes \[\(2, 2\), \(1, 3\)"
    ):
        empirical_ddntk(net, parameters, X, [np.eye(2), np.ones((1, 3)), np.eye(2), np.eye(2)])
    with pytest.raises(ValueError, match=r"random layer 1, node .* have shape \(4, 2\)"):
        empirical_dntk(net.at_width([4, 4]), parameters, X)
    wide = net.at_width(64)
    with pytest.raises(
        ValueError, match="`net` is too large to keep all neurons: layers of 64, 64, 2 with"
    ):
        layer_tensors(wide, init_weights(wide, dtype="float64"), X)


@pytest.mark.covers("B9", "C2")
def test_the_ntk_of_all_layers_ends_in_the_empirical_one():
    net = uneven("tanh")
    parameters = init_weights(net, 8, dtype="float64")
    last = layer_tensors(net, parameters, X)[-1].ntk
    assert_equal(neurons_first(empirical_ntk(net, parameters, X)), last)


@pytest.mark.parametrize("counted", [True, False], ids=["by count", "of a size"])
@pytest.mark.parametrize("impl", ["threefry2x32", *thorough("rbg")])
def test_a_network_is_the_same_whether_it_is_traced(impl: str, counted: bool) -> None:
    """Drawn at once the first of more numbers are taken, which is right where each knows its place alone."""
    with jax.threefry_partitionable(counted):
        net, key = uneven("tanh"), jax.random.key(5, impl=impl)
        here, there = init_weights(net, key), jax.jit(lambda key: init_weights(net, key))(key)
    for one, other in zip(jax.tree.leaves(here), jax.tree.leaves(there), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
