"""Golden, property and agreement tests of the action, its couplings and nearly Gaussian expectations.

Independent routes: the exact law of a two-layer linear network (a Gamma mixture, closed forms), the
recursions of `predict`, the exact moments of scale-invariant metrics, and ensembles of networks.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalewise as sw
from grids import thorough
from scalewise.gaussian import single_moment
from scalewise.theory.action import (
    action,
    action_cumulants,
    action_expectation,
    couplings,
    marginalise,
    metric_and_vertex,
    nlo_couplings,
    quadratic_coupling,
    quartic_coupling,
    running_quadratic_coupling,
    sextic_coupling,
    six_point_vertex,
)
from scalewise.theory.action._couplings import Couplings
from scalewise.theory.correlators import intralayer_covariance, nearly_gaussian_expectation
from scalewise.theory.exact import cumulants, metric_moments


def tensors(count=2, seed=0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A kernel, a vertex with its symmetries, and a metric."""
    rng = np.random.default_rng(seed)
    K = np.cov(rng.normal(size=(count, 3 * count))) + np.eye(count)
    features = rng.normal(size=(5, count, count))
    features = features + features.swapaxes(1, 2)
    V = np.einsum("kab,kcd->abcd", features, features) / 5
    return K, V, features[0]


# One input: an exact oracle


def gamma_mixture(n: int, m: int) -> tuple[float, float, float]:
    """g, v, u of m outputs of a linear network of hidden width n: derivatives of log p at t = 0.

    p(z) is a mixture of N(0, G) over G ~ Gamma(n/2, n/2), so log p is the cumulant generating
    function of -1/2G under the Gamma tilted by G^(-m/2).
    """
    steps = [n / (n - m - 2 * k) for k in (1, 2, 3)]
    moments = [math.prod(steps[:k]) for k in (1, 2, 3)]
    first, second, third = cumulants(moments)
    return first, second, third / 2


@pytest.mark.covers("A3.8", "A8.3")
@pytest.mark.parametrize("m", [1, 2, 5])
def test_couplings_of_an_exact_distribution(m) -> None:
    """G = 1, V = 2, U_6 = 8: every neglected order must show in the fall of the error."""
    quartic, next_order, sextic = [], [], []
    for n in (400, 800):
        g, v, u = gamma_mixture(n, m)
        assert quadratic_coupling(1.0, 2.0, n, m) == pytest.approx(g, rel=1e-13)  # exact here
        quartic.append(quartic_coupling(1.0, 2.0, n) / v - 1)
        ours = sextic_coupling(1.0, 2.0, 8.0, n)
        sextic.append(ours / u - 1)
        g2, v2 = nlo_couplings(1.0, 2.0, ours, n, m)
        next_order.append((g2 / g - 1, v2 / v - 1))
    assert quartic[0] / quartic[1] == pytest.approx(2, rel=0.1)
    assert sextic[0] / sextic[1] == pytest.approx(2, rel=0.1)
    for one, other, power in zip(*next_order, (3, 2), strict=True):
        assert one / other == pytest.approx(2**power, rel=0.15)


@pytest.mark.covers("A3.8")
def test_the_running_coupling_runs_as_integration_demands() -> None:
    """(4.102) solves (4.100), to the order of both."""
    off = []
    for n in (1e3, 1e4):
        v = quartic_coupling(1.3, 0.9, n)
        ran = running_quadratic_coupling(quadratic_coupling(1.3, 0.9, n, 12), v, 12, 5)
        off.append(ran - quadratic_coupling(1.3, 0.9, n, 5))
    assert off[0] / off[1] == pytest.approx(100, rel=0.05)


@pytest.mark.covers("A8.3")
@given(st.integers(1, 8), st.floats(0, 0.1))
def test_entropy_is_made_of_the_cumulants_of_the_action(m, x) -> None:
    """(A.45) with (A.64), (A.65) gives (A.66)."""
    variance, third = action_cumulants(m, x)
    expected = -(m * m + 2 * m) / 16 * x**2 + (m**3 + 10 * m**2 + 16 * m) / 48 * x**3
    assert -variance / 2 + third / 3 == pytest.approx(expected, abs=1e-12)


# Many inputs


@pytest.mark.covers("A3.5", "A3.7")
@pytest.mark.parametrize("m", [1, 2])
def test_couplings_give_back_metric_and_vertex(m) -> None:
    """(4.47), (4.48) against (4.82), (4.109): what is left falls as 1/n^2."""
    K, V, G1 = tensors()
    rest = []
    for n in (1e3, 1e4):
        G, vertex = metric_and_vertex(couplings(K, V, n, G1=G1, neurons=m))
        rest.append((np.max(np.abs(G - K - G1 / n)), np.max(np.abs(vertex - V / n))))
    for one, other in zip(*rest, strict=True):
        assert one / other == pytest.approx(100, rel=0.1)


def test_one_input_is_the_special_case() -> None:
    K, V = np.array([[1.3]]), np.full((1, 1, 1, 1), 0.9)
    many = couplings(K, V, 1e5, neurons=7)
    assert many.quartic.item() == pytest.approx(quartic_coupling(1.3, 0.9, 1e5), rel=1e-12)
    one = quadratic_coupling(1.3, 0.9, 1e5, 7)
    assert many.quadratic.item() == pytest.approx(one, rel=1e-8)


@pytest.mark.covers("A3.8")
def test_marginalising_is_consistent() -> None:
    """Keeping samples and neurons, against integrating the action of all: differences are O(v^2)."""
    K, V, G1 = tensors(2, seed=3)
    rest = []
    for n in (1e3, 1e4):
        whole = couplings(K, V, n, G1=G1, neurons=2)
        part = marginalise(whole, samples=[1], neurons=1)
        direct = couplings(K[1:, 1:], V[1:, 1:, 1:, 1:], n, G1=G1[1:, 1:], neurons=1)
        assert part.quartic.item() == pytest.approx(direct.quartic.item(), rel=30 / n)
        rest.append(abs(part.quadratic.item() - direct.quadratic.item()))

        def F(z):
            return np.stack([z[0, -1] ** 2, z[0, -1] ** 4, np.cos(z[0, -1])])

        of_whole, _ = action_expectation(F, whole)
        of_part, _ = action_expectation(F, part)
        np.testing.assert_allclose(of_part, of_whole, atol=1e4 / n**2)
    assert rest[0] / rest[1] == pytest.approx(100, rel=0.2)


@pytest.mark.covers("A3.5")
@pytest.mark.parametrize(("count", "m"), [(2, 1), (1, 2)])
def test_the_action_and_its_expansion_agree(count, m) -> None:
    """(4.46) with the couplings of (4.109) against the form without inverses."""
    K, V, G1 = tensors(2, seed=1)
    K, V, G1 = K[:count, :count], V[:count, :count, :count, :count], G1[:count, :count]

    def F(z):
        a, b = z[0, 0], z[-1, -1]
        return np.stack([np.tanh(a) * np.tanh(b) * a**2, a**2 * np.cos(b)])

    rest = []
    for n in (1e2, 1e3):
        of_action, _ = action_expectation(F, couplings(K, V, n, G1=G1, neurons=m))
        direct, error = nearly_gaussian_expectation(F, K, V, n, G1=G1, neurons=m)
        rest.append(np.abs(of_action - direct))
        assert np.all(error < 1e-8)
    big = rest[0] > 1e-6
    assert big.any()
    np.testing.assert_allclose(rest[0][big] / rest[1][big], 100, rtol=0.3)


@pytest.mark.covers("A3.5", "A3.7")
def test_action_is_minus_the_logarithm_of_the_density() -> None:
    """Two-layer linear: differences of S against the exact density of one and two neurons."""
    n, m = 4000, 2
    g, v, u = gamma_mixture(n, m)
    of = Couplings(np.array([[g]]), np.full((1, 1, 1, 1), v), m)
    z = np.array([[[0.0, 0.6, 1.1]], [[0.0, -0.4, 0.9]]])
    S = action(z, of, np.full((1,) * 6, u))
    # E_G[G^(-m/2) exp(-t/2G)] by quadrature over the Gamma law.
    G = np.linspace(0.7, 1.4, 20001)
    density = np.exp((n / 2 - 1 - m / 2) * np.log(G) - n / 2 * G + n / 2)
    t = np.sum(z**2, axis=(0, 1))
    p = np.array([np.trapezoid(density * np.exp(-s / (2 * G)), G) for s in t])
    np.testing.assert_allclose(S - S[0], -np.log(p / p[0]), atol=2e-9)


# Agreement with the recursions and with networks


@pytest.mark.covers("A3.5")
@pytest.mark.parametrize("name", ["tanh", "relu"])
def test_expectations_of_activations_are_the_recursions(name) -> None:
    """C_W E[ss] at a layer gives K and G1 of the next: (4.61) is (4.115)."""
    net = sw.MLP(4, 100, name, input_dim=2, output_dim=1).at_criticality()
    theory = sw.predict(net, np.array([[0.9, 0.3], [-0.2, 1.1]]))
    sigma = net.activation
    K, V, G1 = (theory[v].values for v in ("kernel", "four_point_vertex", "metric_nlo"))

    def F(z):
        s = sigma(z[0])
        return s[:, None] * s[None]

    for n in (5.0, 50.0):
        value, error = nearly_gaussian_expectation(
            F, K[2], V[2], n, G1=G1[2], smooth=sigma.is_smooth
        )
        left = np.abs(net.C_W[3] * value - K[3] - G1[3] / n)
        assert np.all(left < 6 * net.C_W[3] * error + 1e-8)
        assert np.max(error) < 0.1 * np.max(np.abs(G1[3] / n))


def test_several_functions_and_coincident_inputs() -> None:
    """A singular kernel is not an obstacle: inputs 0 and 2 are the same."""
    net = sw.MLP(3, 50, "tanh", input_dim=2, output_dim=1).at_criticality()
    x = np.array([[0.9, 0.3], [-0.2, 1.1], [0.9, 0.3]])
    both, two = sw.predict(net, x), sw.predict(net, x[:2])

    def F(z):
        return np.stack([np.sin(z[0, 0]) * z[0, 1], z[0, 1] ** 4])

    values = [
        nearly_gaussian_expectation(
            F, t.kernel.values[-1], t.four_point_vertex.values[-1], 50.0, G1=t.metric_nlo.values[-1]
        )[0]
        for t in (both, two)
    ]
    np.testing.assert_allclose(values[0], values[1], rtol=1e-6)


def metrics_of(net, x, networks, seed) -> tuple[np.ndarray, np.ndarray]:
    """The metric of the last layer of each network, and two neurons drawn from it."""
    rng = np.random.default_rng(seed)
    G = np.broadcast_to(net.C_b[0] + net.C_W[0] / net.input_dim * x @ x.T, (networks, 2, 2))
    for layer in range(1, net.depth):
        root = np.linalg.cholesky(G)
        z = rng.normal(size=(networks, net.widths[layer], 2)) @ root.swapaxes(1, 2)
        s = net.activation(z)
        G = net.C_b[layer] + net.C_W[layer] / net.widths[layer] * s.swapaxes(1, 2) @ s
    z = rng.normal(size=(networks, 2, 2)) @ np.linalg.cholesky(G).swapaxes(1, 2)
    return G, z


@pytest.mark.covers("A3.5", "B12")
@pytest.mark.parametrize("name", ["relu", *thorough("tanh")])
def test_intralayer_covariance_in_networks(name) -> None:
    """(4.64) for z_1^2 + z_1 z_2 and exp(-z_2^2/2) of different neurons, at two widths.

    Given its metric a neuron is Gaussian, so the covariance is that of two closed forms of G.
    """
    x = np.array([[0.9, 0.3], [-0.2, 1.1]])

    def F(z):
        return z[0] ** 2 + z[0] * z[1]

    def H(z):
        return np.exp(-(z[1] ** 2) / 2)

    off = []
    for n in (30, 120):
        net = sw.MLP(3, n, name, input_dim=2, output_dim=2).at_criticality()
        theory = sw.predict(net, x)
        K, V = theory.kernel.values[-1], theory.four_point_vertex.values[-1]
        value, error = intralayer_covariance(F, H, K, V, float(n))
        G, _ = metrics_of(net, x, 30_000, seed=2)
        f, h = G[:, 0, 0] + G[:, 0, 1], 1 / np.sqrt(1 + G[:, 1, 1])
        product = (f - f.mean()) * (h - h.mean())
        noise = product.std() / math.sqrt(len(product))
        # The neglected order is what is left, of relative size (a few)/n.
        assert abs(product.mean() - value) < 4 * noise + 12 / n * abs(value)
        assert error < 1e-3 * abs(value)
        assert noise < 0.05 * abs(value)
        off.append(product.mean() / value - 1)
    assert abs(off[1]) < max(0.6 * abs(off[0]), 0.1)


@pytest.mark.covers("A3.5", "C11")
def test_expectation_over_two_neurons_in_networks() -> None:
    net = sw.MLP(3, 40, "tanh", input_dim=2, output_dim=2, C_W=1.5, C_b=0.1)
    x = np.array([[0.9, 0.3], [-0.2, 1.1]])
    theory = sw.predict(net, x)
    K, V, G1 = (theory[v].values[-1] for v in ("kernel", "four_point_vertex", "metric_nlo"))

    def F(z):
        return np.exp(-(z[0, 0] ** 2)) * z[1, 0] ** 2

    value, _ = nearly_gaussian_expectation(F, K, V, 40.0, G1=G1, neurons=2)
    G, _ = metrics_of(net, x, 60_000, seed=4)
    exact = G[:, 0, 0] / np.sqrt(1 + 2 * G[:, 0, 0])  # given G the two neurons are independent
    noise = exact.std() / math.sqrt(len(exact))
    order_zero, _ = nearly_gaussian_expectation(F, K, 0 * V, 40.0, neurons=2)
    assert abs(exact.mean() - value) < 4 * noise + 0.1 * abs(value - order_zero)
    assert abs(value - order_zero) > 8 * noise


# The six-point vertex


@pytest.mark.covers("C57")
def test_six_point_vertex_of_relu() -> None:
    """(ε.20) and its exact solution; 75 l^2 asymptotically, (ε.21)."""
    net = sw.MLP(12, 100, "relu", input_dim=1, output_dim=1).at_criticality()
    ell = np.arange(1, 13)
    np.testing.assert_allclose(
        six_point_vertex(net, 1.7), (ell - 1) * (75 * ell - 106) * 1.7**3, rtol=1e-10
    )
    off = sw.MLP(3, 100, "relu", input_dim=1, output_dim=1, C_W=1.3, C_b=0.2)
    K, V, U = 0.9, 0.0, 0.0
    for value in six_point_vertex(off, 0.9):
        assert value == pytest.approx(U, rel=1e-10, abs=1e-12)
        U = 1.3**3 / 8 * (U + 30 * V * K + 44 * K**3)
        V = 1.3**2 * (1.25 * K**2 + V / 4)
        K = 0.2 + 1.3 * K / 2


def power_moments(n: int, count: int) -> list[Fraction]:
    """Moments of the mean of n independent fourth powers of standard normal numbers, exactly."""
    series = [Fraction(math.prod(range(1, 4 * k, 2)), math.factorial(k)) for k in range(count + 1)]
    power = [Fraction(1)]
    for k in range(1, count + 1):
        terms = ((n * i - k + i) * series[i] * power[k - i] for i in range(1, k + 1))
        power.append(sum(terms, Fraction(0)) / k)
    return [p * math.factorial(k) / Fraction(n) ** k for k, p in enumerate(power)]


def test_six_point_vertex_of_squares() -> None:
    """For sigma = z^2 the metric is C_W^3 K^4 Y Y'^2 with Y and Y' means of fourth powers."""
    n = (10**7, 3 * 10**7)
    net = sw.MLP(3, list(n), "monomial(2)", input_dim=1, output_dim=1, C_W=[1.0, 0.3, 0.2])
    inner, outer = power_moments(n[0], 6), power_moments(n[1], 3)
    first, second, third = (outer[k] * inner[2 * k] for k in (1, 2, 3))
    exact = third - 3 * first * second + 2 * first**3
    scale = (0.2 * 0.3**2 * 0.7**4) ** 3
    value = six_point_vertex(net, 0.7)[-1] / n[1] ** 2
    assert value == pytest.approx(float(exact) * scale, rel=1e-4, abs=0)


@pytest.mark.covers("C57")
@pytest.mark.parametrize("a", [-0.4, 0.3, 1.0])
def test_six_point_vertex_of_exact_laws(a) -> None:
    """Third cumulants of the exact metric; unequal widths (n, 2n, 3n)."""
    rest = []
    for n in (1000, 2000):
        net = sw.MLP(4, [n, 2 * n, 3 * n], f"leaky_relu({a})", input_dim=1, output_dim=1)
        net = net.at_criticality()
        moments = metric_moments(net, [[1.0]], order=3)
        K = moments[0, 0]
        exact = [cumulants(row / K ** np.arange(1, 4))[2] for row in moments[1:]]
        below = np.array(net.widths[1:-1])
        ours = six_point_vertex(net, float(K))[1:] / K**3 / below**2
        rest.append(ours / exact - 1)
    assert np.max(np.abs(rest[1][1:])) < 0.05
    np.testing.assert_allclose(rest[0][1:] / rest[1][1:], 2, rtol=0.1)
    assert rest[1][0] == pytest.approx(0, abs=1e-5)  # the second layer is exact


@pytest.mark.covers("C57")
def test_six_point_vertex_of_tanh_in_networks() -> None:
    n = 30
    net = sw.MLP(3, n, "tanh", input_dim=1, output_dim=1, C_W=1.5, C_b=0.1)
    rng = np.random.default_rng(6)
    G = np.full(400_000, 1.1)
    for _ in range(2):
        total = np.zeros_like(G)
        for _ in range(n):
            total += np.tanh(rng.normal(size=G.size) * np.sqrt(G)) ** 2
        G = 0.1 + 1.5 * total / n
    cubes = (G - G.mean()) ** 3
    noise = cubes.std() / math.sqrt(G.size)
    value = six_point_vertex(net, 1.1)[-1] / n**2
    assert abs(cubes.mean() - value) < 4 * noise + 0.25 * abs(value)
    assert noise < 0.06 * abs(value)
    assert float(single_moment("tanh", 1.1, (0, 0)).value) * 1.5 + 0.1 < 1.1


# Properties and refusals


@given(st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_covariance_is_symmetric_and_bilinear(seed) -> None:
    K, V, _ = tensors(2, seed)

    def F(z):
        return z[0] * z[1]

    def H(z):
        return np.cos(z[0])

    one, _ = intralayer_covariance(F, H, K, V, 10.0)
    other, _ = intralayer_covariance(H, F, K, V, 10.0)
    twice, _ = intralayer_covariance(lambda z: 2 * F(z) + 1, H, K, V, 20.0)
    assert one == pytest.approx(other, rel=1e-9)
    assert twice == pytest.approx(one, rel=1e-9)
    plain, _ = intralayer_covariance(F, F, K, V, 10.0)
    assert plain == pytest.approx(V[0, 1, 0, 1] / 10, rel=1e-9)


def test_bad_arguments_are_refused() -> None:
    K, V, _ = tensors()
    with pytest.raises(ValueError, match=r"positive definite `K`.*Leave out coincident inputs"):
        couplings(np.ones((2, 2)), V, 10.0)
    with pytest.raises(ValueError, match=r"must fit each other; got shapes \(2, 2\)"):
        couplings(K, V[:1, :1, :1, :1], 10.0)
    with pytest.raises(ValueError, match=r"`neurons` must be a whole number of at least 1; got 0"):
        couplings(K, V, 10.0, neurons=0)
    with pytest.raises(ValueError, match=r"cannot keep 3 neurons and the inputs \[0, 1\]"):
        marginalise(couplings(K, V, 10.0, neurons=2), neurons=3)
    with pytest.raises(ValueError, match=r"`V` varies in a direction in which `K` does not"):
        nearly_gaussian_expectation(lambda z: z[0, 0], np.ones((2, 2)), V, 10.0)
    with pytest.raises(ValueError, match=r"`G1` must have every axis as long as `K`"):
        nearly_gaussian_expectation(lambda z: z[0, 0], K, V, 10.0, G1=np.eye(3))
    with pytest.raises(ValueError, match=r"`n` must be a finite number of at least 1; got 0"):
        intralayer_covariance(lambda z: z[0], lambda z: z[0], K, V, 0.0)
    with pytest.raises(ValueError, match=r"`z` must have 1 neurons and 2 samples; got shape"):
        action(np.zeros((2, 2)), couplings(K, V, 10.0))
    with pytest.raises(ValueError, match=r"correction of the quadratic coupling is as large"):
        quadratic_coupling(1.0, 2.0, 10.0, 100)
    with pytest.raises(ValueError, match=r"`G` must be a positive finite number; got -1"):
        quartic_coupling(-1.0, 2.0, 10.0)
    with pytest.raises(ValueError, match=r"`kept` must be from 1 to neurons = 3; got 4"):
        running_quadratic_coupling(1.0, 0.1, 3, 4)
    with pytest.raises(ValueError, match=r"`g` must be a positive finite number; got -1"):
        running_quadratic_coupling(-1.0, 0.1, 3, 2)
    with pytest.raises(ValueError, match=r"`K1` must be a positive finite number; got 0"):
        six_point_vertex(sw.MLP(3, 4, "relu", input_dim=1, output_dim=1), 0.0)
