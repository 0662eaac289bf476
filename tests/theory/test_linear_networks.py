"""Golden, property and agreement tests of deep linear networks and of the exact law of the metric.

Independent routes: published numbers, Isserlis' theorem applied to the weights themselves, real
weights drawn by NumPy, and the 1/n expansion of `predict`.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalewise as sw
from scalewise.theory.exact import (
    connected_linear_correlator,
    cumulants,
    double_scaling_moment,
    linear_correlator,
    linear_vertex,
    metric_moments,
    observable_covariance,
    pairing_factor,
)


def linear(widths, **rest) -> sw.Network:
    n = list(widths)
    return sw.MLP(
        len(n) - 1, n[1:-1], rest.pop("sigma", "linear"), input_dim=n[0], output_dim=n[-1], **rest
    )


# Golden


@pytest.mark.covers("A2.2", "A2.3")
def test_factors() -> None:
    """PDLT (3.46) and the table of part 3.50."""
    assert [pairing_factor(7, m) for m in (0, 1)] == [1, 1]
    assert pairing_factor(7, 2) == pytest.approx(1 + 2 / 7, rel=1e-15)
    assert pairing_factor(7, 3) == pytest.approx(1 + 6 / 7 + 8 / 49, rel=1e-15)
    for n, depth, values in (
        (100, 100, (7.102594, 344.9194, 110407.4)),
        (1000, 100, (1.218721, 1.809431, 3.271464)),
        (1000, 1000, (7.359593, 397.0388, 156392.4)),
    ):
        for m, value in zip((2, 3, 4), values, strict=True):
            assert pairing_factor(n, m) ** (depth - 1) == pytest.approx(value, rel=5e-7)


@given(st.integers(1, 50), st.integers(1, 8))
def test_factors_are_moments_of_chi_squared(n, m) -> None:
    value = math.lgamma(n / 2 + m) - math.lgamma(n / 2) - m * math.log(n / 2)
    assert pairing_factor(n, m) == pytest.approx(math.exp(value), rel=1e-11)


@pytest.mark.parametrize(("m", "count"), [(1, 1), (2, 3), (3, 15), (4, 105)])
def test_first_layer_counts_the_pairings(m, count) -> None:
    """Sum of pairings, PDLT (3.34); the first layer is Gaussian."""
    net = linear((1, 3))
    assert linear_correlator(net, [[1.0]], [0] * 2 * m, [0] * 2 * m) == count


@pytest.mark.covers("A2.1", "A2.2", "A2.3")
@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_one_input_is_a_product_over_layers(m) -> None:
    """PDLT (3.47) with unequal widths and C_W: the general recursion must collapse to it."""
    net = linear((2, 5, 3, 7, 4), C_W=[0.9, 1.3, 0.8, 1.1])
    x = np.array([[0.4, -1.1]])
    G = 0.9 * 1.3 * 0.8 * 1.1 * np.mean(x**2)
    factor = math.prod(pairing_factor(n, m) for n in (5, 3, 7))
    legs = [0, 0, 1, 1, 2, 2, 3, 3][: 2 * m]
    expected = factor * G**m
    assert linear_correlator(net, x, legs, [0] * 2 * m) == pytest.approx(expected, rel=1e-12)
    all_same = linear_correlator(net, x, [2] * 2 * m, [0] * 2 * m)
    assert all_same == pytest.approx(math.prod(range(1, 2 * m, 2)) * expected, rel=1e-12)


@pytest.mark.covers("A2.4")
def test_double_scaling() -> None:
    """(3.55)-(3.57): the distance from the limit falls as 1/n."""
    for m in (2, 3, 4):
        for r in (0.1, 0.5, 1.0):
            limit = double_scaling_moment(m, r)
            off = [
                pairing_factor(n, m) ** round(r * n - 1) / limit - 1 for n in (10000, 20000, 40000)
            ]
            assert off[1] / off[0] == pytest.approx(0.5, abs=0.01)
            assert abs(off[2]) < 1e-2
    r = 0.3
    _, four, six = cumulants([double_scaling_moment(m, r) for m in (1, 2, 3)])
    assert four == pytest.approx(math.expm1(2 * r), rel=1e-14)
    assert six == pytest.approx(math.exp(6 * r) - 3 * math.exp(2 * r) + 2, rel=1e-14)
    small = cumulants([double_scaling_moment(m, 1e-3) for m in (1, 2, 3)])
    assert small[1] == pytest.approx(2e-3, rel=2e-3)
    assert small[2] == pytest.approx(12e-6, rel=1e-2)


# Property: Isserlis on the weights


def isserlis(labels) -> float:
    """E of a product of standard normal numbers with these labels."""
    if not labels:
        return 1.0
    first, rest = labels[0], labels[1:]
    return sum(isserlis(rest[:k] + rest[k + 1 :]) for k in range(len(rest)) if rest[k] == first)


def brute_force(widths, C_W, x, neurons, samples) -> float:
    """Every path of every leg through the network, every pairing of every weight."""
    hidden = [range(n) for n in widths[:-1]]
    total = 0.0
    legs = len(neurons)
    for paths in itertools.product(itertools.product(*hidden), repeat=legs):
        value = math.prod(x[samples[a]][paths[a][0]] for a in range(legs))
        for layer in range(len(widths) - 1):
            after = [(paths[a] + (neurons[a],))[layer + 1] for a in range(legs)]
            value *= isserlis([(after[a], paths[a][layer]) for a in range(legs)])
            value *= (C_W[layer] / widths[layer]) ** (legs / 2)
            if not value:
                break
        total += value
    return total


@pytest.mark.covers("A2.1", "A2.2", "A2.3")
@pytest.mark.parametrize(
    ("widths", "neurons", "samples"),
    [
        ((2, 2, 2), (0, 0, 1, 1), (0, 1, 1, 0)),
        ((2, 2, 2), (0, 1, 0, 1), (0, 1, 1, 1)),
        ((1, 2, 3, 2), (1, 1, 1, 1), (0, 0, 1, 1)),
        ((1, 3, 2), (0, 0, 0, 0), (0, 1, 0, 1)),
        ((1, 2, 2), (0, 0, 1, 1, 0, 0), (0, 1, 0, 1, 1, 1)),
        ((2, 3, 2), (0, 0), (0, 1)),
    ],
)
def test_against_isserlis(widths, neurons, samples) -> None:
    x = np.array([[0.7, -0.4], [1.1, 0.3]])[:, : widths[0]]
    C_W = [1.2, 0.7, 1.5][: len(widths) - 1]
    value = linear_correlator(linear(widths, C_W=C_W), x, neurons, samples)
    assert value == pytest.approx(brute_force(widths, C_W, x, neurons, samples), rel=1e-12)


def test_neurons_that_pair_with_nothing() -> None:
    net = linear((1, 2, 3))
    assert linear_correlator(net, [[1.0]], (0, 1), (0, 0)) == 0
    assert linear_correlator(net, [[1.0]], (0, 0, 0), (0, 0, 0)) == 0
    assert linear_correlator(net, [[1.0]], (), ()) == 1


@given(st.permutations(range(6)))
@settings(max_examples=20, deadline=None)
def test_legs_may_be_reordered(order) -> None:
    net = linear((2, 3, 4, 2))
    x = np.array([[0.7, -0.4], [1.1, 0.3], [0.2, 0.9]])
    neurons, samples = np.array([0, 0, 1, 1, 0, 0]), np.array([0, 1, 2, 2, 1, 0])
    one = linear_correlator(net, x, neurons.tolist(), samples.tolist())
    order = list(order)
    other = linear_correlator(net, x, neurons[order].tolist(), samples[order].tolist())
    assert other == pytest.approx(one, rel=1e-12)


@pytest.mark.covers("A2.2", "A2.4")
def test_connected_correlators_of_one_input() -> None:
    """PDLT (3.29) and (3.57): the tensor times G_4 - G_2^2, and the sum of 15 times the cumulant."""
    net, x = linear((1, 4, 4, 4)), [[1.0]]
    G = [pairing_factor(4, m) ** 2 for m in (1, 2, 3)]
    two, four, six = cumulants(G)
    pair = connected_linear_correlator(net, x, (0, 0, 1, 1), (0,) * 4)
    assert pair == pytest.approx(four, rel=1e-12)
    assert two == 1
    three_neurons = connected_linear_correlator(net, x, (0, 0, 1, 1, 2, 2), (0,) * 6)
    assert three_neurons == pytest.approx(six, rel=1e-12)
    same = connected_linear_correlator(net, x, (0,) * 6, (0,) * 6)
    assert same == pytest.approx(15 * six, rel=1e-12)
    first = connected_linear_correlator(net, x, (0,) * 4, (0,) * 4, layer=1)
    assert first == pytest.approx(0, abs=1e-14)


@pytest.mark.covers("A2.5")
def test_vertex_is_the_connected_correlator_of_different_neurons() -> None:
    net = linear((2, 3, 5, 4), C_W=[1.1, 0.9, 1.3])
    x = np.array([[0.7, -0.4], [1.1, 0.3]])
    V = linear_vertex(net, x)[-1]
    for a, b, c, d in itertools.product(range(2), repeat=4):
        value = connected_linear_correlator(net, x, (0, 0, 1, 1), (a, b, c, d))
        assert V[a, b, c, d] == pytest.approx(value, rel=1e-11)


@pytest.mark.covers("A2.5")
def test_vertex_at_leading_order_is_that_of_predict() -> None:
    """What is left falls as 1/n^2; K13 K24 + K14 K23 per layer for equal widths."""
    x = np.array([[0.7, -0.4], [1.1, 0.3]])
    rest = []
    for n in (200, 400):
        net = linear((2, n, n, n, 1), sigma=sw.activation("leaky_relu(1)"))
        exact, theory = linear_vertex(net, x), sw.predict(net, x)
        V = theory.four_point_vertex.values[-1] / n
        K = theory.kernel.values[-1]
        wick = np.einsum("ac,bd->abcd", K, K) + np.einsum("ad,bc->abcd", K, K)
        np.testing.assert_allclose(V, 3 * wick / n, rtol=1e-9)
        rest.append(np.max(np.abs(exact[-1] - V)))
    assert rest[0] / rest[1] == pytest.approx(4, rel=0.03)
    assert not np.any(linear_vertex(net, x)[0])


# Agreement with ensembles


def draw(widths, C_W, x, networks, *, slope=1.0) -> np.ndarray:
    """Outputs (network, neuron, sample) of real weights."""
    rng = np.random.default_rng(11)
    z = np.broadcast_to(np.asarray(x).T, (networks, widths[0], len(x)))
    for layer in range(len(widths) - 1):
        w = rng.normal(size=(networks, widths[layer + 1], widths[layer]))
        z = w @ z * math.sqrt(C_W[layer] / widths[layer]) * (slope if layer else 1.0)
    return z


@pytest.mark.covers("A2.1", "A2.2", "A2.3")
def test_correlators_against_real_weights() -> None:
    """Slope 0.8, unequal widths, two inputs; four standard errors of each of several moments."""
    widths, C_W = (2, 4, 6, 3), (1.1, 1.4, 1.2)
    x = np.array([[0.7, -0.4], [1.1, 0.3]])
    sigma = sw.activation(lambda z: 0.8 * z, name="gentle")
    net = linear(widths, C_W=C_W, sigma=sigma)
    z = draw(widths, C_W, x, 200_000, slope=0.8)
    for neurons, samples in (
        ((1, 1), (0, 1)),
        ((0, 0, 1, 1), (0, 1, 0, 1)),
        ((0, 1, 2, 0, 1, 2), (0, 0, 1, 1, 1, 1)),
        ((2, 2, 2, 2), (0, 0, 0, 1)),
    ):
        product = np.prod([z[:, i, a] for i, a in zip(neurons, samples, strict=True)], axis=0)
        error = product.std() / math.sqrt(len(product))
        value = linear_correlator(net, x, neurons, samples)
        assert abs(product.mean() - value) < 4 * error
        assert error < 0.1 * abs(value)


@pytest.mark.covers("A2.2")
def test_covariance_of_observables() -> None:
    """(3.33): exactly [(1 + 2/n)^l - 1] G_2^2, and an ensemble for two inputs."""
    net = linear((1, 50, 50, 50, 50))
    for layer in (1, 2, 4):
        value = observable_covariance(net, [[1.0]], layer=layer).item()
        assert value == pytest.approx((1 + 2 / 50) ** layer - 1, rel=1e-12)
    widths, C_W = (2, 4, 6, 3), (1.1, 1.4, 1.2)
    x = np.array([[0.7, -0.4], [1.1, 0.3]])
    theory = observable_covariance(linear(widths, C_W=C_W), x)
    z = draw(widths, C_W, x, 200_000)
    seen = np.einsum("kia,kib->kab", z, z) / 3
    for a, b, c, d in ((0, 0, 0, 0), (0, 1, 0, 1), (0, 0, 1, 1), (0, 1, 1, 1)):
        product = (seen[:, a, b] - seen[:, a, b].mean()) * (seen[:, c, d] - seen[:, c, d].mean())
        error = product.std() / math.sqrt(len(product))
        assert abs(product.mean() - theory[a, b, c, d]) < 4 * error


# The exact law of scale-invariant activations


@pytest.mark.covers("A2.5")
def test_moments_per_layer_of_relu_and_linear() -> None:
    """Closed forms of the reference, section 2.5."""
    for n in (1, 7, 30):
        relu = metric_moments(sw.MLP(2, n, "relu", input_dim=1, output_dim=1, C_W=[1, 2]), [[1.0]])
        third, fourth = (n + 4) * (n + 11) / n**2, (n + 9) * (n * n + 21 * n + 62) / n**3
        np.testing.assert_allclose(relu[1], [1, 1 + 5 / n, third, fourth], rtol=1e-12)
        line = metric_moments(sw.MLP(2, n, "linear", input_dim=1, output_dim=1), [[1.0]])
        np.testing.assert_allclose(
            line[1], [pairing_factor(n, m) for m in (1, 2, 3, 4)], rtol=1e-12
        )


@given(st.floats(-2, 2), st.integers(1, 30), st.integers(1, 30))
@settings(max_examples=20, deadline=None)
def test_second_moment_is_a_product_of_nu(a, first, second) -> None:
    """prod (1 + nu/n) at criticality, PDLT (5.120)'s exact form."""
    net = sw.MLP(3, [first, second], f"leaky_relu({a:.4f})", input_dim=2, output_dim=1)
    net = net.at_criticality()
    x = np.array([[0.3, 1.7]])
    a = round(a, 4)
    nu = 6 * (1 + a**4) / (1 + a**2) ** 2 - 1
    K = net.C_W[0] * np.mean(x**2)
    value = metric_moments(net, x, order=2)[-1]
    expected = [K, K**2 * (1 + nu / first) * (1 + nu / second)]
    np.testing.assert_allclose(value, expected, rtol=1e-12)


@pytest.mark.covers("A2.5")
def test_moments_against_an_ensemble() -> None:
    net = sw.MLP(
        4,
        [12, 19, 15],
        "leaky_relu(0.3)",
        input_dim=1,
        output_dim=1,
        C_W=[1, 1.7, 1.9, 1.6],
        C_b=[0.5, 0, 0, 0],
    )
    rng = np.random.default_rng(5)
    G = np.full(200_000, 1.5)
    for n, C_W in ((12, 1.7), (19, 1.9), (15, 1.6)):
        z = rng.normal(size=(len(G), n)) * np.sqrt(G)[:, None]
        G = C_W * np.mean(np.where(z > 0, z, 0.3 * z) ** 2, axis=1)
    for m, value in enumerate(metric_moments(net, [[1.0]], order=3)[-1], 1):
        error = np.std(G**m) / math.sqrt(len(G))
        assert abs(np.mean(G**m) - value) < 4 * error
        assert error < 0.05 * value


@given(st.lists(st.floats(0.1, 3), min_size=1, max_size=6))
def test_cumulants_of_a_sum_add(values) -> None:
    """Bernoulli numbers scaled by `values`: moments of the sum by enumeration."""
    outcomes = [
        sum(v * b for v, b in zip(values, bits, strict=True))
        for bits in itertools.product((0, 1), repeat=len(values))
    ]
    of_sum = cumulants([np.mean(np.power(outcomes, m)) for m in (1, 2, 3, 4)])
    single = [cumulants([0.5 * v**m for m in (1, 2, 3, 4)]) for v in values]
    np.testing.assert_allclose(
        of_sum, np.sum(single, axis=0), rtol=1e-8, atol=1e-8 * sum(values) ** 4
    )


# Refusals


def test_what_is_not_linear_is_refused() -> None:
    with pytest.raises(ValueError, match=r"exact for a linear activation with C_b = 0; got 'relu'"):
        linear_correlator(linear((1, 2, 1), sigma="relu"), [[1.0]], (0, 0), (0, 0))
    with pytest.raises(ValueError, match=r"exact for a linear activation.*C_b = \(0\.1, 0\.1\)"):
        linear_vertex(linear((1, 2, 1), C_b=0.1), [[1.0]])
    with pytest.raises(ValueError, match=r"exact law of the metric.*got 'tanh'"):
        metric_moments(linear((1, 2, 1), sigma="tanh"), [[1.0]])
    with pytest.raises(ValueError, match=r"one input and `order` be at least 1; got 2 inputs"):
        metric_moments(linear((1, 2, 1), sigma="relu"), [[1.0], [2.0]])


def test_bad_indices_are_refused() -> None:
    net = linear((1, 2, 3))
    with pytest.raises(ValueError, match=r"Layer 2 has neurons 0 to 2.*got neuron 3 of sample 0"):
        linear_correlator(net, [[1.0]], (3, 3), (0, 0))
    with pytest.raises(ValueError, match=r"one entry for each of at most 8 legs; got 2 and 1"):
        linear_correlator(net, [[1.0]], (0, 0), (0,))
    with pytest.raises(ValueError, match=r"`layer` must be from 1 to the depth 2; got 3"):
        linear_correlator(net, [[1.0]], (0, 0), (0, 0), layer=3)
    with pytest.raises(ValueError, match=r"`n` must be a whole number of at least 1; got 0"):
        pairing_factor(0, 1)
    with pytest.raises(ValueError, match=r"`r` must be a finite number of at least 0; got nan"):
        double_scaling_moment(2, math.nan)
