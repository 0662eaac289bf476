"""Golden, property and agreement tests of the learning rates of the equivalence principle.

Independent of the code under test: the printed rules, a recursion of the NTK of one input written
out here, `predict`, and the gradients of real networks.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalewise as sw
from grids import thorough
from scalewise.critical import susceptibilities
from scalewise.gaussian import single_moment


def net(depth, activation, **rest) -> sw.Network:
    return sw.MLP(depth, 64, activation, input_dim=3, output_dim=2, **rest)


def skewed() -> sw.Activation:
    """tanh z + sin^2 z / 2: a_1 = -5/4, b_1 = -1, p_perp = 4/5."""
    return sw.activation(lambda z: jnp.tanh(z) + 0.5 * jnp.sin(z) ** 2, name="skewed")


def contributions(network, K) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the biases and the weights of each layer add to the output NTK of one input, and K."""
    sigma, L = network.activation, network.depth
    path, g, chi = [K], [(K - network.C_b[0]) / network.C_W[0]], []
    for layer in range(1, L):
        chi.append(network.C_W[layer] * float(single_moment(sigma, path[-1], (1, 1)).value))
        g.append(float(single_moment(sigma, path[-1], (0, 0)).value))
        path.append(network.C_b[layer] + network.C_W[layer] * g[-1])
    down = np.array([math.prod(chi[layer:]) for layer in range(L)])
    return np.array(network.lambda_b) * down, np.array(network.lambda_W) * g * down, np.array(path)


@pytest.mark.covers("B15")
def test_printed_rules() -> None:
    """PDLT (9.94), (9.96) and (9.95), the last with p_perp = 4/5."""
    relu = net(5, "relu").at_criticality().with_equivalent_learning_rates(0.3, 0.7)
    np.testing.assert_allclose(relu.lambda_b, 0.06, rtol=1e-15)
    np.testing.assert_allclose(relu.lambda_W, 0.14, rtol=1e-15)
    tanh = net(5, "tanh").at_criticality().with_equivalent_learning_rates(0.3, 0.7)
    np.testing.assert_allclose(tanh.lambda_b, [0.3, 0.15, 0.1, 0.075, 0.06], rtol=1e-15)
    np.testing.assert_allclose(tanh.lambda_W, 0.7, rtol=1e-15)
    bent = net(5, skewed()).at_criticality().with_equivalent_learning_rates(0.3, 0.7)
    layers = np.arange(1, 6)
    np.testing.assert_allclose(bent.lambda_b, 0.3 * layers**-0.8 * 5**-0.2, rtol=1e-13)
    np.testing.assert_allclose(bent.lambda_W, 0.7 * (5 / layers) ** -0.2, rtol=1e-13)


def test_the_rest_of_the_network_is_kept() -> None:
    before = net(5, "gelu").at_criticality()
    after = before.with_equivalent_learning_rates(2.0, 3.0)
    assert after.criticality is before.criticality
    for name in ("depth", "hidden_widths", "activation", "C_b", "C_W"):
        assert getattr(after, name) == getattr(before, name)
    # At K* of a half-stable point every chi is 1.
    np.testing.assert_allclose(after.lambda_b, 2 / 5, rtol=1e-15)
    np.testing.assert_allclose(after.lambda_W, 3 / 5, rtol=1e-15)


@pytest.mark.covers("B15")
@given(
    st.floats(-2, 2),
    st.floats(0.1, 3),
    st.floats(0.1, 3),
    st.integers(2, 20),
)
@settings(max_examples=25, deadline=None)
def test_scale_invariant_ntk_is_exactly_independent_of_depth(minus, b, w, depth) -> None:
    """Theta = lambda_b + lambda_W A_2 K*, PDLT (9.44) with the rates of (9.94)."""
    network = net(depth, f"leaky_relu({minus:.6f})").at_criticality()
    network = network.with_equivalent_learning_rates(b, w)
    bias, weight, _ = contributions(network, 1.3)
    A_2 = 0.5 * (round(minus, 6) ** 2 + 1)
    np.testing.assert_allclose(bias, b / depth, rtol=1e-12)
    np.testing.assert_allclose(weight, w * A_2 * 1.3 / depth, rtol=1e-11)


def test_predicted_relu_ntk_does_not_grow_with_depth() -> None:
    x = np.array([[1.0, -0.5, 2.0]])
    K = 2.0 * np.sum(x**2) / 3
    for depth in (1, 4, 17):
        network = net(depth, "relu").at_criticality().with_equivalent_learning_rates(0.4, 0.9)
        value = sw.predict(network, x, observables="ntk", layers=depth).ntk.item()
        assert value == pytest.approx(0.4 + 0.9 * 0.5 * K, rel=1e-12)


@pytest.mark.covers("B15")
@pytest.mark.parametrize(
    ("sigma", "a_1", "slack"),
    [("tanh", -2.0, 0.03), *thorough(("sin", -1.0, 0.03), (skewed, -1.25, 0.05))],
)
def test_ntk_of_the_class_at_zero_becomes_independent_of_depth(sigma, a_1, slack) -> None:
    """Theta -> lambda_b + lambda_W sigma_1^2/(-a_1); the approach is logarithmic over l."""
    sigma = sigma() if callable(sigma) else sigma
    distance = []
    for depth in (60, 600):
        network = net(depth, sigma).at_criticality().with_equivalent_learning_rates(0.4, 0.9)
        bias, weight, _ = contributions(network, 0.8)
        distance.append((bias.sum() + weight.sum()) / (0.4 + 0.9 / -a_1) - 1)
        late = slice(depth // 3, None)
        # Every layer and either group: the same share of its total.
        np.testing.assert_allclose(bias[late] * depth / 0.4, 1, atol=7 / math.sqrt(depth))
        np.testing.assert_allclose(weight[late] * depth * -a_1 / 0.9, 1, atol=7 / math.sqrt(depth))
    assert abs(distance[1]) < slack
    assert abs(distance[1]) < 0.4 * abs(distance[0])


def test_uniform_rates_are_not_equivalent() -> None:
    """tanh at uniform rates: the biases' contributions grow as l, and so does the NTK, (10.79)."""
    bias, _, _ = contributions(net(300, "tanh").at_criticality(), 0.8)
    assert bias[-1] / bias[29] == pytest.approx(10, rel=0.15)
    assert bias.sum() == pytest.approx(150, rel=0.06)


def test_kinks_at_zero_have_their_own_powers() -> None:
    """ELU: K ~ l^-2, so the rates of the weights grow as l^(2 - p_perp)."""
    elu = sw.activation(jax.nn.elu, kinks=(0.0,))
    exponents = sw.criticality(elu).exponents
    assert exponents["p_0"] == 2
    network = net(400, elu).at_criticality().with_equivalent_learning_rates()
    bias, weight, _ = contributions(network, 1.0)
    # Equal in order: over the last three quarters neither group changes by more than a few per cent
    # per doubling of the layer.
    for part in (bias, weight):
        assert part[-1] / part[199] == pytest.approx(1, abs=0.12)


@pytest.mark.covers("B15")
@given(
    st.sampled_from(["tanh", "gelu", "softplus", "sigmoid", "relu", "swish"]),
    st.floats(0.3, 3),
    st.floats(0.5, 1.5),
    st.floats(0.0, 0.5),
)
@settings(max_examples=25, deadline=None)
def test_with_a_kernel_all_contributions_are_equal(name, excess, C_W, C_b) -> None:
    network = net(6, name, C_W=[1.1, *[C_W] * 5], C_b=[C_b, *[0.5 * C_b] * 5])
    kernel = C_b + excess
    equal = network.with_equivalent_learning_rates(0.4, 0.9, kernel=kernel)
    bias, weight, _ = contributions(equal, kernel)
    np.testing.assert_allclose(bias, 0.4 / 6, rtol=1e-10)
    np.testing.assert_allclose(weight, 0.9 * excess / 1.1 / 6, rtol=1e-10)
    x = np.sqrt([[3 * excess / 1.1, 0, 0]])
    value = sw.predict(equal, x, observables="ntk", layers=6).ntk.item()
    assert value == pytest.approx(0.4 + 0.9 * excess / 1.1, rel=1e-9)


def test_with_a_kernel_the_critical_rule_is_found_again() -> None:
    relu = net(7, "relu").at_criticality()
    by_class = relu.with_equivalent_learning_rates(0.4, 0.9)
    by_kernel = relu.with_equivalent_learning_rates(0.4, 0.9, kernel=2.2)
    np.testing.assert_allclose(by_kernel.lambda_b, by_class.lambda_b, rtol=1e-12)
    np.testing.assert_allclose(by_kernel.lambda_W, by_class.lambda_W, rtol=1e-12)


# Exploding and vanishing gradients


@pytest.mark.covers("B15")
@pytest.mark.parametrize(("C_W", "growth"), [(2.2, 1.1), *thorough((2.0, 1.0), (1.8, 0.9))])
def test_gradients_explode_or_vanish_by_chi_perp(C_W, growth) -> None:
    """ReLU: E sum_j (dz^(L)/dz_j^(1))^2 = chi_perp^(L-1), PDLT (9.93), in real networks."""
    depth, n, networks = 9, 40, 3000
    rng = np.random.default_rng(7)
    z = rng.normal(size=(networks, n)) * math.sqrt(1.7)
    back = np.broadcast_to(np.eye(n), (networks, n, n))
    row = None
    for layer in range(depth - 1):
        slope = (z > 0).astype(float)
        if layer == depth - 2:
            w = rng.normal(size=(networks, 1, n)) * math.sqrt(C_W / n)
            row = (w * slope[:, None, :]) @ back
        else:
            w = rng.normal(size=(networks, n, n)) * math.sqrt(C_W / n)
            back = (w * slope[:, None, :]) @ back
            z = np.einsum("kij,kj->ki", w, np.maximum(z, 0))
    squares = np.sum(row[:, 0] ** 2, axis=1)
    error = squares.std() / math.sqrt(networks)
    predicted = float(susceptibilities("relu", 1.0, C_W)[1]) ** (depth - 1)
    assert predicted == pytest.approx(growth ** (depth - 1), rel=1e-12)
    assert abs(squares.mean() - predicted) < 4 * error
    assert error < 0.06 * predicted


def test_a_vanishing_signal_is_refused_in_words() -> None:
    hot = net(900, "relu", C_W=0.2)
    with pytest.raises(ValueError, match=r"explodes or vanishes within 900 layers"):
        hot.with_equivalent_learning_rates(kernel=1.0)


# Refusals


def test_without_a_class_the_kernel_is_asked_for() -> None:
    with pytest.raises(ValueError, match=r"'softplus' belongs to no universality class.*`kernel`"):
        net(4, "softplus").with_equivalent_learning_rates()
    flat = sw.activation(jax.nn.hard_tanh, kinks=(-1.0, 1.0))
    with pytest.raises(ValueError, match=r"fall by no power of the depth\. Give `kernel`"):
        net(4, flat).with_equivalent_learning_rates()


def test_away_from_criticality_the_class_does_not_apply() -> None:
    with pytest.raises(ValueError, match=r"C_W = 2\.0, but layer 2 has \(0\.0, 1\.0\)"):
        net(4, "relu").with_equivalent_learning_rates()
    first = net(4, "relu", C_W=[1.0, 2.0, 2.0, 2.0])  # the first layer only sets the scale
    assert first.with_equivalent_learning_rates().lambda_b == (0.25,) * 4


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_bad_rates_are_refused(bad) -> None:
    network = net(4, "relu").at_criticality()
    with pytest.raises(ValueError, match=r"`lambda_b` must be a finite number of at least 0"):
        network.with_equivalent_learning_rates(bad)
    with pytest.raises(ValueError, match=r"`lambda_W` must be a finite number of at least 0"):
        network.with_equivalent_learning_rates(1.0, bad)


@pytest.mark.parametrize("bad", [0.5, 0.1])
def test_bad_kernels_are_refused(bad) -> None:
    network = net(4, "relu", C_b=0.5)
    with pytest.raises(
        ValueError,
        match=r"`kernel` (is the kernel of an input.*greater than|must be a finite number)",
    ):
        network.with_equivalent_learning_rates(kernel=bad)
    for infinite in (math.nan, math.inf):
        with pytest.raises(ValueError, match=r"`kernel` must be a positive finite number or None"):
            network.with_equivalent_learning_rates(kernel=infinite)
