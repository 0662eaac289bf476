"""Golden, property and agreement: the small parameter as a maximum over pairs of inputs."""

import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from networks import inputs_with_kernel, net
from rescaled import rescaled
from scalewise.theory.flow import (
    expansion_parameter,
    kernel_flow,
    pair_vertex,
    pairs_to_watch,
)
from scalewise.theory.flow._expansion import _spread
from scalewise.theory.order import tensor_flow
from scalewise.theory.order._terms import response, sources

APART = np.array([[1.0, 0.2, 0.5], [-0.3, 1.2, 0.1], [-1.0, -0.1, -0.4], [2.0, 0.4, 1.1]])
SMOOTH = ["tanh", "sin", "erf", "gelu", "swish", "sigmoid", "softplus", "monomial(2)", "linear"]
KINKED = ["relu", "leaky_relu(-1)", "perceptron", "hardtanh"]


def sought(network: sw.Network, x: np.ndarray):
    watched = pairs_to_watch(network, x)
    return expansion_parameter(network, kernel_flow(network, x, ntk=False, watched=watched))


@pytest.mark.parametrize(
    "names", [SMOOTH, KINKED, *thorough(["elu"])], ids=["smooth", "kinked", "elu"]
)
def test_the_vertex_of_pairs_is_that_of_all_inputs(names) -> None:
    """Against the many-input flow, whose sources come from series, closed forms and quadrature."""
    wrong = []
    for name in names:
        few = APART[:2] if name in ("elu", "hardtanh") else APART[:3]
        network = net(3, name, features=3, C_b=0.05, C_W=0.5)
        K = kernel_flow(network, few, ntk=False).K
        V = tensor_flow(network, K, None, ["V"])["V"][0]
        a, b = np.triu_indices(len(few))
        scale = K[:, a, a] * K[:, b, b]
        miss = np.abs(pair_vertex(network, K[:, a, a], K[:, b, b], K[:, a, b]) - V[:, a, b, a, b])
        if not np.all(miss <= 1e-2 * np.max(V[:, a, b, a, b] / scale) * scale):
            wrong.append((name, float(np.max(miss / scale))))
        found = sought(network, few)
        largest = np.max(V[:, a, b, a, b] / scale, axis=1) / np.array(network.widths[:-1])
        if not np.allclose(found.value, largest, rtol=1e-2):
            wrong.append((name, found.value, largest))
    assert not wrong


def test_inputs_of_unequal_norm_are_told_apart() -> None:
    """Where the vertex of either input alone feeds that of the pair, and differs."""
    x = np.array([[0.5, 0.2, 0.1], [2.0, 1.0, -1.0]])
    for name in ("gelu", "swish"):
        network = net(5, name, features=3, C_W=1.9)
        K = kernel_flow(network, x, ntk=False).K
        V = tensor_flow(network, K, None, ["V"])["V"][0]
        found = pair_vertex(network, K[:, [0], [0]], K[:, [1], [1]], K[:, [0], [1]])
        np.testing.assert_allclose(found[:, 0], V[:, 0, 1, 0, 1], rtol=2e-4)


@pytest.mark.covers("A3.6")
@pytest.mark.parametrize("name", ["tanh", "gelu", "relu"])
def test_no_entry_of_the_vertex_is_larger(name: str) -> None:
    """|V_abcd| <= n epsilon sqrt(K_aa K_bb K_cc K_dd), for anticorrelated and orthogonal inputs too."""
    network = net(4, name, features=3, C_W=1.4)
    theory = sw.predict(network, APART, observables=["kernel", "four_point_vertex"])
    root = np.sqrt(np.einsum("laa->la", theory.kernel.values))
    scale = np.einsum("la,lb,lc,ld->labcd", root, root, root, root)
    share = np.max(np.abs(theory.four_point_vertex.values) / scale, axis=(1, 2, 3, 4))
    epsilon = theory.expansion_parameter.values * np.array(network.widths[:-1])
    np.testing.assert_allclose(share, epsilon, rtol=1e-3)


@pytest.mark.covers("A3.6")
def test_orthogonal_inputs_fluctuate_most_in_deep_odd_networks() -> None:
    r"""V/(nK²) → ℓ/n at c = 0 and 2ℓ/3n at c = 1, p_perp = 1; for equal signs of ReLU 5(ℓ-1)/n at c = 1."""
    depth = 1500
    network = net(depth, "tanh", features=2)
    apart, alike = sought(network, np.sqrt(2) * np.eye(2)), sought(network, np.ones((1, 2)))
    assert (apart.pairs, alike.pairs) == (1, 0)
    assert apart.value[-1] * 100 / depth == pytest.approx(1.0, rel=0.02)
    assert alike.value[-1] * 100 / depth == pytest.approx(2 / 3, rel=0.02)
    relu = net(20, "relu", features=2, C_W=2.0)
    np.testing.assert_allclose(sought(relu, np.eye(2)).value, 0.05 * np.arange(20), rtol=1e-9)


def test_neither_order_nor_units_nor_what_else_is_asked_matters() -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((30, 6)) * rng.uniform(0.5, 2.0, (30, 1))
    wrong = []
    for name in ("tanh", "gelu", "leaky_relu(0.3)"):
        network = net(9, name, features=6, C_W=1.3, C_b=0.1)
        here = sought(network, x)
        assert 0 < here.pairs <= 20
        twice = np.concatenate([x[::-1], x[3:5]])
        for other in (x[rng.permutation(30)], twice):
            there = sought(network, other)
            if there.pairs != here.pairs or not np.allclose(there.value, here.value, 1e-9):
                wrong.append((name, "order"))
        for s in (1e-3, 64.0):
            other = rescaled(network.activation, s)
            scaled = net(9, other, features=6, C_W=1.3, C_b=0.1 / s**2)
            if not np.allclose(sought(scaled, x / s).value, here.value, rtol=3e-3):
                wrong.append((name, s))
    network = net(4, "tanh", features=6)
    whole = sw.predict(network, x[:5]).expansion_parameter
    part = sw.predict(network, x[:5], observables=["kernel"], layers=[2, 4]).expansion_parameter
    np.testing.assert_array_equal(whole.sel(layer=[2, 4]), part)
    assert part.attrs["pairs"] == 10
    assert not wrong


@pytest.mark.parametrize("name", ["tanh", *thorough("gelu")])
def test_a_choice_of_pairs_sees_what_all_of_them_see(name: str) -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((40, 5)) * rng.uniform(0.3, 2.0, (40, 1)) + 0.3
    network = net(8, name, features=5).at_criticality()
    K = kernel_flow(network, x, ntk=False).K
    a, b = np.triu_indices(40)
    A, B = K[:, a, a], K[:, b, b]
    every = np.max(pair_vertex(network, A, B, K[:, a, b]) / (A * B), axis=1)
    found = sought(network, x)
    assert found.pairs < 20
    np.testing.assert_allclose(found.value * network.widths[:-1], every, rtol=0.04)


def test_orthogonal_pairs_come_first_and_near_pairs_of_both_sizes() -> None:
    c, size = np.array([-0.9, -0.2, 0.01, 0.9, 0.012]), np.array([1.0, 2.0, 3.0, 1.0, 5.0])
    assert _spread(c, size, 1).tolist() == [4]
    assert _spread(c, size, 3).tolist() == [4, 2, 0]
    assert sorted(_spread(c, size, 9)) == [0, 1, 2, 3, 4]
    assert _spread(np.array([0.5, 0.7]), size[:2], 1).tolist() == [0]


def test_what_depth_and_kinks_leave_room_for() -> None:
    assert sought(net(4, "relu", features=3), APART[:1]).pairs == 0
    assert sought(net(1, "relu", features=3), APART).value == 0
    assert sought(net(3100, "relu", features=3, C_W=2.0), APART).pairs == 1
    deep = net(62, "hardtanh", features=3, C_W=1.0)
    assert not pairs_to_watch(deep, APART)[0].size
    with_a_zero = np.concatenate([APART, np.zeros((1, 3))])
    assert sought(net(3, "tanh", features=3, C_b=0.1), with_a_zero).pairs == 10


@pytest.mark.covers("A3.6")
@pytest.mark.parametrize(("name", "width", "C_W"), [("tanh", 10, 1.2), ("relu", 40, 2.0)])
def test_ensembles_fluctuate_as_it_says(name: str, width: int, C_W: float) -> None:
    """At epsilon = 0.3 or so: the largest relative variance over pairs, and how far the mean moves."""
    K = np.array([[1.0, 0.0, -0.6], [0.0, 1.0, 0.3], [-0.6, 0.3, 1.0]])
    x = inputs_with_kernel(K) / np.sqrt(C_W)
    network = sw.MLP(4, width, name, input_dim=3, output_dim=1, C_W=C_W)
    theory = sw.predict(network, x)
    epsilon = theory.expansion_parameter.values[-1]
    assert 0.2 < epsilon < 0.5
    seen = sw.measure(
        network, x, networks=6000, seed=2, observables=["kernel", "four_point_vertex"]
    )
    root = np.sqrt(np.diagonal(theory.kernel.values[-1]))
    scale = np.multiply.outer(root, root)
    spread = np.einsum("abab->ab", seen.four_point_vertex.values[-1]) / (width * scale**2)
    assert spread.max() == pytest.approx(epsilon, rel=2 * epsilon)
    moved = np.abs(seen.kernel.values[-1] - theory.kernel.values[-1]) / scale
    assert moved.max() < epsilon
    if name == "tanh":  # the diagonal alone would have said much less
        assert np.diagonal(spread).max() < 0.7 * spread.max()


def test_coefficients_written_by_hand_are_those_of_the_rule() -> None:
    """Of M_11, M_20 and M_02, by the covariance that changes."""
    changes = response(((), ()), flat=False)
    by_sites = {change.at: dict(terms) for change, terms in changes.items()}
    assert by_sites == {
        (0, 0): {((2, 0), 0): 0.5},
        (0, 1): {((1, 1), 0): 1.0},
        (1, 1): {((0, 2), 0): 0.5},
    }
    assert dict(sources(((), ()))) == {"C_W": ((), ())}
