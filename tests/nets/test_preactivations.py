"""Golden tests: metric and vertex of finite networks against laws that are exact at any width."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from scalewise.nets import init_weights, measure
from scalewise.nets._sampler import first_factor, first_metric

Z = 4.5  # standard errors: some 300 entries are compared in this file


def inputs_with(kernel: np.ndarray) -> np.ndarray:
    """Samples whose x x^T / n_0 is `kernel`."""
    return np.linalg.cholesky(kernel) * np.sqrt(len(kernel))


def assert_agrees(value, sem, exact, z=Z):
    np.testing.assert_array_less(np.abs(value - exact), z * np.asarray(sem) + 1e-12)


@pytest.mark.covers("A3.1", "A3.2")
@pytest.mark.parametrize(("name", "C_W", "nu"), [("relu", 2.0, 5), *thorough(("linear", 1.0, 2))])
def test_the_exact_law_of_scale_invariant_networks(name, C_W, nu):
    # E[Ĝ²] = G² prod(1 + nu/n): (3.25) for nu = 2, and its extension to ReLU, nu = 3 A_4/A_2² - 1.
    widths = [6, 12, 9]
    net = sw.MLP(4, widths, name, input_dim=2, output_dim=1, C_W=C_W)
    result = measure(
        net, np.ones((1, 2)), networks=40_000, observables=["kernel", "four_point_vertex"]
    )
    G = C_W
    assert_agrees(result.kernel.values, result.kernel_sem.values, G)
    growth = np.cumprod([1.0, *(1 + nu / np.array(widths))])
    V = np.array([2, *widths]) * G**2 * (growth - 1)
    assert_agrees(
        result.four_point_vertex.values.ravel(), result.four_point_vertex_sem.values.ravel(), V
    )
    # The errors are worth having: the deepest vertex is known to a few percent.
    assert result.four_point_vertex_sem.values.ravel()[-1] < 0.05 * V[-1]


def test_the_vertex_of_several_inputs_of_a_linear_network():
    # Equal widths, all orders: Cov(Ĝ_12, Ĝ_34) obeys (3.24) pair by pair; at layer 2 it is
    # (K_13 K_24 + K_14 K_23)/n, whatever n.
    K = np.array([[1.0, 0.4, -0.3], [0.4, 0.9, 0.2], [-0.3, 0.2, 1.2]])
    net = sw.MLP(2, 5, "linear", input_dim=3, output_dim=1)
    result = measure(net, inputs_with(K), networks=40_000, observables="four_point_vertex")
    exact = np.einsum("ac,bd->abcd", K, K) + np.einsum("ad,bc->abcd", K, K)
    V, sem = result.four_point_vertex.values[1], result.four_point_vertex_sem.values[1]
    assert_agrees(V, sem, exact)
    for swapped in ("bacd", "abdc", "cdab"):
        np.testing.assert_array_equal(V, np.einsum(f"{swapped}->abcd", V))


@pytest.mark.covers("A3.3", "A3.4", "A3.6", "B11")
def test_the_second_layer_is_exact_at_any_width():
    # (4.37) and (4.40), with C_b, by a product rule of 60 x 60 nodes (tanh: error below 1e-8).
    K = np.array([[1.0, 0.5], [0.5, 0.8]])
    C_b, C_W = 0.3, 1.7
    net = sw.MLP(2, 10, "tanh", input_dim=2, output_dim=1, C_b=[0.0, C_b], C_W=[1.0, C_W])
    u, w = np.polynomial.hermite_e.hermegauss(60)
    grid = np.stack(np.meshgrid(u, u, indexing="ij")).reshape(2, -1)
    weights = np.outer(w, w).ravel() / (2 * np.pi)
    s = np.tanh(np.linalg.cholesky(K) @ grid)
    second = np.einsum("ak,bk,k->ab", s, s, weights)
    fourth = np.einsum("ak,bk,ck,dk,k->abcd", s, s, s, s, weights)
    V = C_W**2 * (fourth - np.einsum("ab,cd->abcd", second, second))
    names = ["kernel", "four_point_vertex"]
    result = measure(net, inputs_with(K), networks=40_000, observables=names)
    assert_agrees(result.kernel.values[1], result.kernel_sem.values[1], C_b + C_W * second)
    assert_agrees(result.four_point_vertex.values[1], result.four_point_vertex_sem.values[1], V)


@pytest.mark.covers("A3.1", "A3.2")
def test_real_weights_have_the_same_law():
    # An ensemble of forward passes through weight matrices, written out here.
    C = {"C_b": [0.1, 0.6, 0.0, 0.3], "C_W": [1.6, 1.0, 2.0, 1.3]}
    net = sw.MLP(4, [7, 5, 8], "tanh", input_dim=3, output_dim=1, **C)
    x = np.random.default_rng(0).standard_normal((3, 3))

    def metrics(seed):
        parameters, s, found = init_weights(net, seed), jnp.asarray(x, "float32"), []
        for layer in range(3):
            s = jnp.tanh(s @ parameters.weights[layer].T + parameters.biases[layer])
            scale = net.C_W[layer + 1] / net.widths[layer + 1]
            found.append(net.C_b[layer + 1] + scale * (s @ s.T))
        return jnp.stack(found)

    real = np.asarray(jax.jit(jax.vmap(metrics))(jnp.arange(20_000)), float)
    names = ["kernel", "four_point_vertex"]
    result = measure(net, x, networks=20_000, observables=names)
    mean, spread = real.mean(axis=0), real.std(axis=0) / np.sqrt(len(real))
    sem = np.hypot(spread, result.kernel_sem.values[1:])
    assert_agrees(result.kernel.values[1:], sem, mean)
    pairs = (real - mean).reshape(len(real), 3, 9)
    V = np.einsum("kla,klb->lab", pairs, pairs) / (len(real) - 1)
    V = (V * np.array(net.widths[1:-1])[:, None, None]).reshape(3, 3, 3, 3, 3)
    # Equal numbers of networks: the errors of the two ensembles are equal.
    sem = np.sqrt(2) * result.four_point_vertex_sem.values[1:]
    assert_agrees(result.four_point_vertex.values[1:], sem, V)


def test_coincident_samples_stay_coincident():
    x = np.random.default_rng(1).standard_normal((3, 4))[[0, 1, 1, 2, 0]]
    net = sw.MLP(8, 16, "tanh", input_dim=4, output_dim=1)
    G = measure(net, x, networks=4, observables="kernel").kernel.values
    # float32 has 6e-8; QR and the products of eight layers keep within twenty times that.
    np.testing.assert_allclose(G[:, 1], G[:, 2], rtol=1.2e-6, atol=1e-7)
    np.testing.assert_allclose(G[:, 0], G[:, 4], rtol=1.2e-6, atol=1e-7)


@pytest.mark.parametrize("samples", [1, 5, 40])
def test_the_first_factor_is_a_square_root(samples):
    net = sw.MLP(1, 1, "tanh", input_dim=6, output_dim=1, C_b=0.2, C_W=1.5)
    x = np.random.default_rng(2).standard_normal((samples, 6))
    R = first_factor(net, x)
    assert R.shape == (min(7, samples), samples)
    np.testing.assert_allclose(R.T @ R, first_metric(net, x), rtol=1e-13, atol=1e-14)


def test_more_samples_than_neurons():
    # 20 samples on 3 neurons: the metric has rank 4 at most. Its law is known for linear networks.
    rng = np.random.default_rng(3)
    x = rng.standard_normal((20, 4))
    net = sw.MLP(3, 3, "linear", input_dim=4, output_dim=1, C_b=0.5)
    result = measure(net, x, networks=20_000, observables="kernel")
    exact = first_metric(net, x) + np.array([0.0, 0.5, 1.0])[:, None, None]
    assert_agrees(result.kernel.values, result.kernel_sem.values, exact, z=5)
