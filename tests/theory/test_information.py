"""Golden, property and agreement tests of information at infinite and finite width.

The oracle of finite width is exact: m outputs of a two-layer linear network are a Gamma mixture of
Gaussians, and their entropy is one radial integral, done here to 13 digits.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln

import scalewise as sw
from grids import thorough
from scalewise.theory.information import (
    boltzmann_distribution,
    conditional_variance,
    cross_entropy,
    entropy,
    entropy_correction,
    finite_width_entropy,
    finite_width_mutual_information,
    finite_width_tripartite_information,
    gaussian_entropy,
    gaussian_mutual_information,
    kl_divergence,
    mutual_information,
    optimal_aspect_ratio,
    optimal_depth,
    optimal_information,
    tripartite_information,
    two_input_mutual_information,
    vertex_growth,
)

# Discrete tables


def tables(*shape):
    size = math.prod(shape)
    lists = st.lists(st.floats(0, 1), min_size=size, max_size=size).filter(lambda v: sum(v) > 0.1)
    return lists.map(lambda v: np.reshape(v, shape) / np.sum(v))


@pytest.mark.covers("A8.1")
def test_entropies_of_simple_tables() -> None:
    """(A.2), (A.3), RAID-1 of k states, three copies of a bit, XOR."""
    assert entropy([0.0, 1.0, 0.0]) == 0
    assert entropy(np.full(8, 1 / 8)) == pytest.approx(math.log(8), rel=1e-15)
    mirror = np.eye(5) / 5
    assert entropy(mirror) == pytest.approx(math.log(5), rel=1e-15)
    assert mutual_information(mirror) == pytest.approx(math.log(5), rel=1e-15)
    copies, xor = np.zeros((2, 2, 2)), np.zeros((2, 2, 2))
    copies[0, 0, 0] = copies[1, 1, 1] = 0.5
    for x, y in itertools.product((0, 1), repeat=2):
        xor[x, y, x ^ y] = 0.25
    assert tripartite_information(copies) == pytest.approx(math.log(2), rel=1e-14)
    assert tripartite_information(xor) == pytest.approx(-math.log(2), rel=1e-14)


@pytest.mark.covers("A8.1")
@given(tables(3, 4), tables(3, 4))
def test_inequalities(p, q) -> None:
    """KL >= 0 and I >= 0, (A.13), (A.15); I is the divergence from the product of marginals."""
    assert kl_divergence(p, p) == pytest.approx(0, abs=1e-12)
    assert kl_divergence(p, q) >= -1e-12
    product = p.sum(1)[:, None] * p.sum(0)
    assert mutual_information(p) == pytest.approx(kl_divergence(p, product), abs=1e-11)
    assert 0 <= entropy(p) + 1e-12 <= math.log(12) + 2e-12
    assert cross_entropy(p, q) >= entropy(p) - 1e-12


@pytest.mark.covers("A8.1")
@given(tables(2, 3, 2))
def test_tripartite_information_is_symmetric(p) -> None:
    """And it is I(x,y) - I(x,y|z), (A.24)."""
    value = tripartite_information(p)
    for order in itertools.permutations(range(3)):
        assert tripartite_information(p.transpose(order)) == pytest.approx(value, abs=1e-12)
    conditional = sum(
        p[:, :, z].sum() * mutual_information(p[:, :, z] / p[:, :, z].sum())
        for z in range(2)
        if p[:, :, z].sum() > 1e-12
    )
    expected = mutual_information(p.sum(2)) - conditional
    assert value == pytest.approx(expected, abs=1e-10)


@pytest.mark.covers("A8.1")
def test_excluded_states_and_the_largest_entropy() -> None:
    assert kl_divergence([0.5, 0.5], [1.0, 0.0]) == math.inf
    assert kl_divergence([1.0, 0.0], [0.5, 0.5]) == pytest.approx(math.log(2), rel=1e-15)
    E = np.array([0.0, 1.0, 3.0])
    p = boltzmann_distribution(E, 0.7)
    np.testing.assert_allclose(p[1:] / p[:-1], np.exp(-0.7 * np.diff(E)), rtol=1e-14)
    # Any move that keeps norm and mean energy lowers the entropy.
    move = 1e-3 * np.cross(np.ones(3), E)
    assert entropy(p) > max(entropy(p + move), entropy(p - move))


# Infinite width


@pytest.mark.covers("A8.2")
def test_gaussian_entropies() -> None:
    """(A.26) and (A.29); 0.1 gives 0.553456."""
    assert gaussian_entropy(2.0, 3) == pytest.approx(
        1.5 * math.log(4 * math.pi * math.e), rel=1e-14
    )
    assert two_input_mutual_information(0.1) == pytest.approx(0.553456, abs=5e-7)
    assert two_input_mutual_information(1.0) == 0


@pytest.mark.covers("A8.2")
@given(st.floats(0.3, 3), st.floats(0.3, 3), st.floats(-0.95, 0.95))
def test_information_across_inputs(a, b, c) -> None:
    """(A.28) from the correlation alone; by quadrature of the density for one case below."""
    K = np.array([[a * a, a * b * c], [a * b * c, b * b]])
    value = gaussian_mutual_information(K, [0], [1])
    assert value == pytest.approx(-0.5 * math.log(1 - c * c), abs=1e-12)
    assert gaussian_mutual_information(7 * K, [1], [0], 3) == pytest.approx(3 * value, abs=1e-11)
    if abs(c) > 1e-3:
        ratio = (1 - c) / (1 + c)
        assert two_input_mutual_information(ratio) == pytest.approx(value, rel=1e-8)
        assert two_input_mutual_information(1 / ratio) == pytest.approx(value, rel=1e-8)


@pytest.mark.covers("A8.2")
def test_entropy_by_quadrature() -> None:
    K = np.array([[1.0, 0.6], [0.6, 2.0]])
    P = np.linalg.inv(K)
    z = np.linspace(-12, 12, 601)
    x, y = np.meshgrid(z, z, indexing="ij")
    S = 0.5 * (P[0, 0] * x * x + 2 * P[0, 1] * x * y + P[1, 1] * y * y)
    S += 0.5 * math.log(np.linalg.det(2 * math.pi * K))
    value = np.sum(np.exp(-S) * S) * (z[1] - z[0]) ** 2
    assert gaussian_entropy(K) == pytest.approx(value, rel=1e-10)


# Finite width: the exact oracle


def exact_entropy(n: int, m: int) -> float:
    """Entropy of m outputs of a linear network of hidden width n at K = C_W = 1.

    The metric has the law Gamma(n/2, n/2); the density at radius r is a mixture over it.
    """
    a = n / 2
    y = np.linspace(-6, 3, 3001)  # log of the metric: the trapezoidal rule converges at once
    log_law = a * math.log(a) - gammaln(a) + a * y - a * np.exp(y)
    law = np.exp(log_law) * (y[1] - y[0])
    u, w = np.polynomial.legendre.leggauss(400)
    r, w = 10 * (u + 1), 10 * w
    p = np.exp(-0.5 * r[:, None] ** 2 * np.exp(-y)) @ (law * (2 * math.pi * np.exp(y)) ** (-m / 2))
    shell = 2 * math.pi ** (m / 2) / math.gamma(m / 2) * r ** (m - 1)
    seen = p > 1e-290
    return float(-np.sum((w * shell * p)[seen] * np.log(p[seen])))


TABLE = {  # part 8.3 of the reference: entropy deficits, mutual and tripartite information
    40: (-4.127277e-4, -1.0873837e-3, -2.0145709e-3, 2.6192827e-4, 9.3969942e-6),
    100: (-7.0934135e-5, -1.8807122e-4, -3.5061977e-4, 4.6202948e-5, 7.9147786e-7),
    200: (-1.821654e-5, -4.842776e-5, -9.0523229e-5, 1.199468e-5, 1.1043219e-7),
}


@pytest.mark.covers("A8.3")
@pytest.mark.parametrize("n", TABLE)
def test_the_oracle_is_that_of_the_reference(n) -> None:
    S = [0.0, *(exact_entropy(n, m) - m / 2 * math.log(2 * math.pi * math.e) for m in (1, 2, 3))]
    one, two, three, information, tripartite = TABLE[n]
    np.testing.assert_allclose(S[1:], [one, two, three], atol=3e-9)
    assert 2 * S[1] - S[2] == pytest.approx(information, abs=6e-9)
    assert 3 * S[1] - 3 * S[2] + S[3] == pytest.approx(tripartite, abs=2e-8)


@pytest.mark.covers("A8.3")
@pytest.mark.parametrize("m", [1, 2, 3])
def test_entropies_through_third_order(m) -> None:
    """The error of (A.52) falls as n^-3 and that of (A.66) as n^-4."""
    low, high = [], []
    for n in (100, 200, 400):
        exact = exact_entropy(n, m) - gaussian_entropy(1.0, m)
        second, third = entropy_correction(m, 2 / n)
        low.append(exact - second)
        high.append(exact - second - third)
        total = finite_width_entropy(1.0, 2 / n, m)
        assert total == pytest.approx(exact_entropy(n, m), abs=3 * abs(high[-1]) + 1e-10)
    for series, power in ((low, 3), (high, 4)):
        for one, other in itertools.pairwise(series):
            assert math.log2(one / other) == pytest.approx(power, abs=0.25)


@pytest.mark.covers("A8.3")
def test_mutual_information_of_the_table() -> None:
    for n, first, both in ((40, 3.125e-4, 2.4479e-4), (100, 5.0e-5, 4.5667e-5)):
        terms = finite_width_mutual_information(1, 1, 2 / n)
        assert terms[0] == pytest.approx(first, rel=1e-12)
        assert sum(terms) == pytest.approx(both, rel=2e-5)
        # Between the two orders lies the exact value.
        assert sum(terms) < TABLE[n][3] < terms[0]
    assert finite_width_tripartite_information(1, 1, 1, 0.05) == pytest.approx(1.5625e-5, rel=1e-12)


@pytest.mark.covers("A8.3")
@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.floats(0, 0.1))
def test_informations_come_from_entropies(m1, m2, m3, x) -> None:
    """(A.67), (A.75) from (A.66)."""

    def S(m):
        return sum(entropy_correction(m, x))

    second, third = finite_width_mutual_information(m1, m2, x)
    assert second == pytest.approx(m1 * m2 / 8 * x**2, abs=1e-12)
    assert third == pytest.approx(-m1 * m2 * (20 + 3 * m1 + 3 * m2) / 48 * x**3, abs=1e-12)
    triple = S(m1) + S(m2) + S(m3) - S(m1 + m2) - S(m2 + m3) - S(m1 + m3) + S(m1 + m2 + m3)
    value = finite_width_tripartite_information(m1, m2, m3, x)
    assert value == pytest.approx(triple, abs=1e-12)


@pytest.mark.covers("B6")
@pytest.mark.parametrize("name", ["relu", *thorough("tanh")])
def test_conditional_variance_in_networks(name) -> None:
    """(6.78): regression of z_2^2 on z_1^2, exact Gaussian averages over networks, two widths."""
    off = []
    for n in (40, 160):
        net = sw.MLP(3, n, name, input_dim=1, output_dim=2).at_criticality()
        theory = sw.predict(net, [[1.0]])
        K, V = theory.kernel.values[-1].item(), theory.four_point_vertex.values[-1].item()
        G = K + theory.metric_nlo.values[-1].item() / n
        rng = np.random.default_rng(8)
        hat = np.full(30_000, net.C_W[0])
        for _ in range(2):
            z = rng.normal(size=(hat.size, n)) * np.sqrt(hat)[:, None]
            hat = net.C_W[1] * np.mean(net.activation(z) ** 2, axis=1)
        left = []
        for z1 in (0.5 * math.sqrt(K), 2 * math.sqrt(K)):
            weight = np.exp(-(z1**2) / (2 * hat)) / np.sqrt(hat)
            seen = np.sum(weight * hat) / np.sum(weight)
            noise = np.std(weight * (hat - seen)) / np.mean(weight) / math.sqrt(hat.size)
            value = conditional_variance(G, V / (n * G**2), z1)
            assert abs(seen - value) < 4 * noise + 150 / n**2 * G
            left.append(abs(seen - value) / G)
        off.append(max(left))
    assert off[1] < 0.25 * off[0] + 0.004


# The optimal depth


@pytest.mark.covers("A8.3")
def test_optimal_aspect_ratios_of_the_table() -> None:
    """(A.72)-(A.74), reference table C."""
    for outputs, ratios in ((10, (0.12, 0.04, 0.016)), (100, (0.01875, 0.00625, 0.0025))):
        for name, ratio in zip(("tanh", "linear", "relu"), ratios, strict=True):
            half = outputs / 2
            value = optimal_aspect_ratio(vertex_growth(name), half, half)
            assert value == pytest.approx(ratio, rel=1e-12)
    for name, ratio in (("tanh", 0.2307692), ("linear", 0.0769231), ("relu", 0.0307692)):
        assert optimal_aspect_ratio(vertex_growth(name), 1, 1) == pytest.approx(ratio, abs=5e-8)
    for outputs, information in ((2, 9.861933e-4), (10, 6.666667e-3), (100, 0.01627604)):
        half = outputs / 2
        assert optimal_information(half, half) == pytest.approx(information, rel=1e-6)
    assert optimal_information(1e9, 1e9) == pytest.approx(1 / 54, rel=1e-6)


@pytest.mark.covers("A8.3")
@given(st.integers(1, 30), st.integers(1, 30), st.floats(0.1, 6))
@settings(max_examples=40)
def test_the_optimum_is_a_maximum(m1, m2, nu) -> None:
    """The derivative of (A.71) vanishes at r*, where the second term is -2/3 of the first."""
    r = optimal_aspect_ratio(nu, m1, m2)

    def information(r):
        return sum(finite_width_mutual_information(m1, m2, nu * r))

    best = information(r)
    assert best == pytest.approx(optimal_information(m1, m2), rel=1e-9)
    assert best > max(information(0.98 * r), information(1.02 * r))
    second, third = finite_width_mutual_information(m1, m2, nu * r)
    assert third == pytest.approx(-2 / 3 * second, rel=1e-9)


def test_growth_of_the_vertex_is_that_of_predict() -> None:
    for name, slack in (("relu", 1e-9), ("linear", 1e-9), ("gelu", 1e-6), ("tanh", 0.03)):
        record = sw.criticality(name)
        C_b = [0.0, *[record.C_b] * 80]
        first = record.K_star or 1.0
        net = sw.MLP(
            81, 100, name, input_dim=1, output_dim=1, C_b=C_b, C_W=[first, *[record.C_W] * 80]
        )
        theory = sw.predict(net, [[1.0]], layers=[41, 81])
        K = theory.kernel.values.ravel()
        ratio = theory.four_point_vertex.values.ravel() / K**2
        slope = (ratio[1] - ratio[0]) / 40
        assert slope == pytest.approx(vertex_growth(name), rel=slack)


def test_a_cornered_function_falls_to_zero_with_a_third_of_its_source() -> None:
    """ELU at small K: slopes 1 and 1, V/K^2 -> (2/3) l; and with two slopes more."""
    import jax

    elu = sw.criticality(sw.activation(jax.nn.elu, kinks=(0.0,)))
    assert elu.coefficients["nu"] == pytest.approx(2 / 3, rel=1e-12)
    selu = sw.criticality(sw.activation(jax.nn.selu, kinks=(0.0,)))
    a = 1.6732632423543772
    source = 6 * (1 + a**4) / (1 + a**2) ** 2 - 1
    assert selu.coefficients["vertex_source"] == pytest.approx(source, rel=1e-5)
    assert selu.coefficients["nu"] == pytest.approx(source / 3, rel=1e-5)


@pytest.mark.covers("A8.3")
def test_optimal_depth_of_a_network() -> None:
    best = optimal_depth(sw.MLP(4, 100, "tanh", input_dim=64, output_dim=10))
    assert best.depth == pytest.approx(12, rel=1e-12)
    assert best.aspect_ratio == pytest.approx(0.12, rel=1e-12)
    assert best.information == pytest.approx(1 / 150, rel=1e-12)
    assert "order of magnitude" in best.caveat
    assert "L* = 12 (r* = 0.12" in str(best)
    mixed = optimal_depth(sw.MLP(3, [50, 150], "relu", input_dim=64, output_dim=10))
    assert mixed.width == pytest.approx(75, rel=1e-12)
    assert mixed.depth == pytest.approx(0.016 * 75, rel=1e-12)
    assert "no two halves" in optimal_depth(sw.MLP(3, 9, "relu", input_dim=4, output_dim=1)).caveat
    gelu = optimal_depth(sw.MLP(3, 9, "gelu", input_dim=4, output_dim=10))
    assert "half-stable" in gelu.caveat
    assert gelu.nu == pytest.approx(4.9042262, rel=1e-7)


# Refusals


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`p` must be probabilities.*add up to 1\.5"):
        entropy([0.75, 0.75])
    with pytest.raises(ValueError, match=r"over the same states; got shapes \(2,\) and \(3,\)"):
        cross_entropy([0.5, 0.5], [0.5, 0.25, 0.25])
    with pytest.raises(ValueError, match=r"one axis for each of 3 variables; got shape \(2,\)"):
        tripartite_information([0.5, 0.5])
    with pytest.raises(ValueError, match=r"`energies` must hold finite numbers only"):
        boltzmann_distribution([1.0, math.inf], 1.0)
    with pytest.raises(ValueError, match=r"`energies` must hold the energy of at least one state"):
        boltzmann_distribution([], 1.0)
    with pytest.raises(ValueError, match=r"positive definite.*Leave out coincident inputs"):
        gaussian_entropy(np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"`neurons` must be a whole number of at least 1; got 0"):
        gaussian_entropy(1.0, 0)
    with pytest.raises(ValueError, match=r"disjoint and not empty; got \[0\] and \[0, 1\]"):
        gaussian_mutual_information(np.eye(2), [0], [0, 1])
    with pytest.raises(ValueError, match=r"`ratio` must be a positive finite number; got 0"):
        two_input_mutual_information(0.0)
    with pytest.raises(ValueError, match=r"`x` must be a finite number of at least 0; got -0.1"):
        entropy_correction(1, -0.1)
    with pytest.raises(ValueError, match=r"`nu` must be a positive finite number; got 0"):
        optimal_aspect_ratio(0.0, 1, 1)
    with pytest.raises(
        ValueError, match=r"'sigmoid' has no critical initialisation.*Choose another"
    ):
        vertex_growth("sigmoid")
    with pytest.raises(ValueError, match=r"give `net` a hidden layer"):
        optimal_depth(sw.MLP(1, 3, "relu", input_dim=2, output_dim=2))
