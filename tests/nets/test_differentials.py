"""Golden and property tests: differentials of real networks against tensors of all derivatives."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from networks import in_a_row
from scalewise.nets import (
    empirical_differential,
    empirical_ntk,
    init_weights,
    sample_differentials,
)
from scalewise.nets._differentials import SAMPLED

X = np.array([[1.0, 0.5], [-0.3, 0.8]])
TREES = [(0, 0), (0, 0, 0), (0, 0, 1), *thorough(((0,),), ((0, 0, 0, 1),), ((0, 0, 1, 2),))]


def tiny() -> sw.Network:
    return sw.MLP(
        3,
        (2, 2),
        "tanh",
        input_dim=2,
        output_dim=2,
        C_b=0.2,
        C_W=1.4,
        lambda_b=(0.7, 0.3, 0.5),
        lambda_W=(1.1, 0.4, 0.9),
    )


def all_derivatives(net: sw.Network, parameters: object, top: int) -> tuple[list, np.ndarray]:
    """d^m z_{i;a} / d theta^m as full tensors (output, sample, P, ..., P), and the diagonal lambda."""
    flat, unravel = in_a_row(parameters)
    sigma = net.activation.traceable()

    def forward(theta: jax.Array) -> jax.Array:
        p = unravel(theta)
        s = jnp.asarray(X.T)
        for layer, (w, b) in enumerate(zip(p.weights, p.biases, strict=True)):
            s = w @ (sigma(s) if layer else s) + b[:, None]
        return s

    tensors, function = [np.asarray(jax.jit(forward)(flat))], forward
    for _ in range(top):
        function = jax.jacfwd(function)
        tensors.append(np.asarray(jax.jit(function)(flat)))
    rates = type(parameters)(
        tuple(
            np.full(w.shape, rate / w.shape[1])
            for w, rate in zip(parameters.weights, net.lambda_W, strict=True)
        ),
        tuple(
            np.full(b.shape, rate) for b, rate in zip(parameters.biases, net.lambda_b, strict=True)
        ),
    )
    return tensors, in_a_row(rates)[0]


@pytest.fixture(scope="module")
def tensors() -> tuple:
    with jax.enable_x64(True):
        net = tiny()
        parameters = init_weights(net, 3, dtype="float64")
        return net, parameters, *all_derivatives(net, parameters, 3)


@pytest.mark.covers("C6")
@pytest.mark.parametrize("parents", TREES)
def test_every_component_is_the_contraction_that_defines_it(tensors: tuple, parents: tuple) -> None:
    net, parameters, D, rates = tensors
    nodes = len(parents) + 1
    legs: list[list[int]] = [[] for _ in range(nodes)]
    for edge, (v, p) in enumerate(enumerate(parents, 1)):
        legs[v].append(edge)
        legs[p].append(edge)
    roots = np.sqrt(rates)
    rng = np.random.default_rng(len(parents))
    for _ in range(2):
        i, d = rng.integers(0, 2, (2, nodes))
        operands: list = []
        for v in range(nodes):
            tensor = D[len(legs[v])][i[v], d[v]]
            for axis in range(tensor.ndim):  # half of each contraction's lambda to either side
                tensor = np.moveaxis(np.moveaxis(tensor, axis, -1) * roots, -1, axis)
            operands += [tensor, legs[v]]
        exact = np.einsum(*operands, [], optimize=True)
        where = {"outputs": i.tolist(), "samples": d.tolist()}
        got = empirical_differential(net, parameters, X, parents, **where)
        assert got == pytest.approx(float(exact), rel=1e-10, abs=1e-13)


def test_the_smallest_tree_is_the_ntk(tensors: tuple) -> None:
    net, parameters, *_ = tensors
    H = empirical_ntk(net, parameters, X)
    for a, b, i, j in itertools.product(range(2), repeat=4):
        got = empirical_differential(net, parameters, X, outputs=(i, j), samples=(a, b))
        assert got == pytest.approx(H[a, b, i, j], rel=1e-11)


@pytest.mark.covers("C7")
def test_one_step_of_gradient_descent() -> None:
    """(∞.4): dz = -eta H e + eta² dH e²/2 - eta³ dd_I e³/6; what is left falls as eta⁴."""
    net = sw.MLP(3, 4, "sin", input_dim=2, output_dim=1, C_W=1.3, lambda_W=(0.6, 1.2, 0.8))
    parameters = init_weights(net, 1, dtype="float64")
    x, error = X[:1], 0.7
    orders = [empirical_differential(net, parameters, x, (0,) * k) for k in (1, 2, 3)]
    sigma = net.activation.traceable()
    with jax.enable_x64(True):

        def z(p: tuple) -> jax.Array:
            s = jnp.asarray(x[0])
            for layer, (w, b) in enumerate(zip(*p, strict=True)):
                s = w @ (sigma(s) if layer else s) + b
            return s[0]

        slope = jax.tree.map(np.asarray, jax.jit(jax.grad(z))(parameters))
        z = jax.jit(z)
        residuals = []
        for eta in (0.02, 0.01):
            moved = type(parameters)(
                tuple(
                    w - eta * error * rate / w.shape[1] * g
                    for w, g, rate in zip(
                        parameters.weights, slope.weights, net.lambda_W, strict=True
                    )
                ),
                tuple(
                    b - eta * error * g
                    for b, g in zip(parameters.biases, slope.biases, strict=True)
                ),
            )
            t = -eta * error
            series = t * orders[0] + t**2 / 2 * orders[1] + t**3 / 6 * orders[2]
            residuals.append(float(z(moved) - z(parameters)) - series)
    assert residuals[0] / residuals[1] == pytest.approx(16, rel=0.05)


@pytest.mark.covers("C6")
def test_an_ensemble_is_its_networks_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    dtype = "float64"
    net = sw.MLP(2, 6, "sin", input_dim=2, output_dim=2, C_b=0.1, lambda_b=0.4, lambda_W=0.8)
    # Of seven networks the last is in the second batch.
    monkeypatch.setattr("scalewise.nets._differentials._NUMBERS", 8 * net.parameters * 4)
    draws = sample_differentials(net, X[:1], 7, seed=7, dtype=dtype)
    assert tuple(draws) == SAMPLED
    base = jax.random.key(7, impl="threefry2x32")
    for k in (0, 6):
        parameters = init_weights(net, jax.random.fold_in(base, k), dtype=dtype)
        trees = {"ntk": (0,), "dntk": (0, 0), "ddntk_I": (0, 0, 0), "ddntk_II": (0, 0, 1)}
        for name, tree in trees.items():
            one = empirical_differential(net, parameters, X[:1], tree)
            assert draws[name][k] == pytest.approx(one, rel=1e-10, abs=1e-12)


@pytest.mark.covers("C6")
@pytest.mark.optimised
@pytest.mark.thorough(
    "tests/nets/test_deeper_layers.py::test_the_weights_above_are_integrated_out_of_the_differentials"
)
def test_averaging_over_the_last_weights_keeps_the_mean() -> None:
    """Stein's identity, with everything different from 1; and it is worth the trouble."""
    net = sw.MLP(
        3,
        20,
        "sin",
        input_dim=2,
        output_dim=1,
        C_b=0.2,
        C_W=(1.1, 0.8, 1.7),
        lambda_b=(0.7, 0.3, 0.5),
        lambda_W=(1.1, 0.4, 0.9),
    )
    draws = sample_differentials(net, X[:1], 40_000, seed=2)
    averaged, product = draws["z_dntk"], draws["z"] * draws["dntk"]
    error = np.hypot(averaged.std(), product.std()) / np.sqrt(40_000)
    assert abs(averaged.mean() - product.mean()) < 4 * error
    assert abs(averaged.mean()) > 20 * error
    assert 3 * averaged.std() < product.std()


@pytest.mark.thorough("test_an_ensemble_is_its_networks_one_by_one")
def test_draws_do_not_depend_on_how_many_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    net = sw.MLP(2, 6, "sin", input_dim=2, output_dim=2)  # the shape of the test above
    many = sample_differentials(net, X[:1], 7, dtype="float64")
    monkeypatch.setattr("scalewise.nets._differentials._NUMBERS", 8 * net.parameters * 3)
    batches = sample_differentials(net, X[:1], 7, dtype="float64")
    for name in SAMPLED:
        np.testing.assert_allclose(batches[name], many[name], rtol=1e-12)


def test_refusals() -> None:
    net = sw.MLP(2, 4, "tanh", input_dim=2, output_dim=1)
    relu = sw.MLP(2, 4, "relu", input_dim=2, output_dim=1)
    parameters = init_weights(net)
    with pytest.raises(ValueError, match="beyond the NTK are not defined for 'relu'"):
        sample_differentials(relu, X[:1], 3)
    with pytest.raises(ValueError, match="beyond the NTK are not defined for 'relu'"):
        empirical_differential(relu, parameters, X, (0, 0))
    assert empirical_differential(relu, parameters, X) > 0
    with pytest.raises(ValueError, match="`x` must hold one input; got 2"):
        sample_differentials(net, X, 3)
    with pytest.raises(ValueError, match="`networks` must be a whole number of at least 1; got 0"):
        sample_differentials(net, X[:1], 0)
    for parents in ((), (1,), (0, 2), (0, -1)):
        with pytest.raises(
            ValueError, match=r"`parents` must (join each factor to an earlier one|be a sequence)"
        ):
            empirical_differential(net, parameters, X, parents)
    with pytest.raises(
        ValueError, match=r"`outputs` must be a number from 0 to 0 for each of the 2"
    ):
        empirical_differential(net, parameters, X, outputs=(0, 1))
    with pytest.raises(
        ValueError, match=r"`samples` must be a number from 0 to 1 for each of the 2"
    ):
        empirical_differential(net, parameters, X, samples=(0,))
