"""Golden, property and agreement tests: all differentials of networks with one hidden layer."""

import itertools
import math

import numpy as np
import pytest

import scalewise as sw
from grids import few
from networks import inputs_with_kernel
from scalewise.nets import empirical_differential, init_weights
from scalewise.networks import apply_strategy
from scalewise.scaling import differential_order, meta
from scalewise.theory.exact import mean_shallow_differential, shallow_differential, sigma_derivative
from scalewise.theory.exact._differential_types import DifferentialType, differential_types, terms

ONE = np.ones((1, 1))
X = np.array([[1.0, 0.5, -0.2], [-0.3, 0.8, 0.4], [0.7, -0.1, 1.1]])


@pytest.mark.covers("C64")
def test_types_are_trees() -> None:
    """Trees of 2, 3, ... nodes up to relabelling (OEIS A000055); k! ways to grow them in all."""
    counts = [1, 1, 2, 3, 6, 11, 23, 47]
    for k, count in enumerate(counts, 1):
        types = differential_types(k)
        assert len(types) == count
        assert sum(t.multiplicity for t in types) == math.factorial(k)
        assert types[0].parents == (0,) * k
        assert all(t.k == k and sum(t.orders) == 2 * k for t in types)
        assert types[0].orders == (k, *(1,) * k)


@pytest.mark.covers("C64")
def test_multiplicities_of_the_next_differentials() -> None:
    """(A2), (A3): two dNTKs; each of them one dd_I and two dd_II. Then counted by hand for k = 4."""
    assert [(t.parents, t.multiplicity) for t in differential_types(2)] == [((0, 0), 2)]
    assert [(t.parents, t.multiplicity) for t in differential_types(3)] == [
        ((0, 0, 0), 2),
        ((0, 0, 1), 4),
    ]
    # Star: 2·1. Fork: each of 2 stars at its 3 leaves, each of 4 paths at its 2 inner nodes. Path: 4·2.
    assert [(t.orders, t.multiplicity) for t in differential_types(4)] == [
        ((4, 1, 1, 1, 1), 2),
        ((3, 2, 1, 1, 1), 14),
        ((2, 2, 2, 1, 1), 8),
    ]


@pytest.mark.covers("C64")
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 6])
def test_terms_are_the_matchings_of_the_tree(k: int) -> None:
    """A factor is linear in the last weights: the joins they make share no factor. 2u + v = k + 1."""
    for kind in differential_types(k):
        edges = [(p, v) for v, p in enumerate(kind.parents, 1)]
        expected = set()
        for r in range(k + 1):
            for some in itertools.combinations(edges, r):
                ends = [v for edge in some for v in edge]
                if len(set(ends)) == 2 * r:
                    degree = [sum(v in e for e in edges) - (v in ends) for v in range(k + 1)]
                    weighted = tuple(v not in ends for v in range(k + 1))
                    expected.add((tuple(degree), weighted, frozenset(some)))
        got = terms(kind.parents)
        assert {(t.orders, t.weighted, frozenset(t.read)) for t in got} == expected
        assert len(got) == len(expected)
        assert all(2 * len(t.read) + sum(t.weighted) == k + 1 for t in got)
        assert all(set(t.read) | set(t.hidden) == set(edges) for t in got)


TREES = [t for k in range(1, 6) for t in differential_types(k)]


@pytest.mark.covers("C63", "C64")
@pytest.mark.parametrize("tree", few(TREES, every=3))
def test_closed_form_of_one_network_is_its_derivatives(tree: DifferentialType) -> None:
    parents = tree.parents
    net = sw.MLP(
        2,
        3,
        "tanh",
        input_dim=3,
        output_dim=2,
        C_b=0.3,
        C_W=2.0,
        lambda_b=(0.4, 0.7),
        lambda_W=(1.1, 0.6),
    )
    parameters = init_weights(net, 11, dtype="float64")
    W, w = np.asarray(parameters.weights[1]), np.asarray(parameters.weights[0])
    z = w @ X.T + np.asarray(parameters.biases[0])[:, None]
    H = 0.4 + 1.1 / 3 * X @ X.T
    rng = np.random.default_rng(len(parents))
    for _ in range(3):
        legs = rng.integers(0, [[2], [3]], (2, len(parents) + 1)).tolist()
        where = {"outputs": legs[0], "samples": legs[1]}
        exact = empirical_differential(net, parameters, X, parents, **where)
        got = shallow_differential(net, W, z, H, parents, **where)
        assert got == pytest.approx(exact, rel=1e-10, abs=1e-13)


def sine(width: int = 6, **rest: object) -> sw.Network:
    """K = 0.8, H = 0.7 in the first layer, C_W = 1.3, lambda_W = 0.9 in the second."""
    rates = {"lambda_b": (0.0, 0.0), "lambda_W": (0.7, 0.9), "C_W": (0.8, 1.3), **rest}
    return sw.MLP(2, width, "sin", input_dim=1, output_dim=1, **rates)


@pytest.mark.covers("C63")
@pytest.mark.parametrize(
    ("s", "expected"),
    [
        (0, (-0.0176020, -0.1737784, 0.00315293, 0.0731424)),
        (0.5, (-0.0176020, -0.4256683, 0.00772307, 0.4388543)),
    ],
)
def test_table_of_means(s: float, expected: tuple[float, ...]) -> None:
    scaled = apply_strategy(sine(), meta(s, depth=2))
    for k, value in zip((2, 3, 4, 5), expected, strict=True):
        z = (0, 0) if k % 2 == 0 else None
        mean = mean_shallow_differential(scaled.net, ONE, (0,) * k, z=z)
        assert scaled.eta**k * mean.value == pytest.approx(value, abs=6e-8)
        assert mean.error < 1e-12


@pytest.mark.covers("C63")
@pytest.mark.parametrize("k", range(2, 9))
def test_closed_form_of_type_one(k: int) -> None:
    """One input, one output: k!! pairings of the weights; sigma^(k) of sin by hand."""
    K, H, C, rate, n = 0.8, 0.7, 1.3, 0.9, 6
    x, w = np.polynomial.hermite_e.hermegauss(60)
    u = np.sqrt(K) * x
    w = w / w.sum()

    def sigma(m: int) -> np.ndarray:
        return np.sin(u + m * np.pi / 2)

    def double(m: int) -> int:
        return math.prod(range(m, 0, -2))

    high = np.sum(w * sigma(k) * sigma(1) ** k * (sigma(0) if k % 2 == 0 else 1)) * H**k
    low = np.sum(w * sigma(k - 1) * sigma(1) ** (k - 1) * sigma(0) ** (1 if k % 2 else 2))
    low *= H ** (k - 1)
    if k % 2:
        exact = double(k) * (C / n) ** ((k - 1) / 2) * (C * high + rate * low)
    else:
        front = double(k - 1) * (C / n) ** (k / 2)
        exact = front * ((k + 1) * C * high + k * rate * low)
    z = (0, 0) if k % 2 == 0 else None
    assert mean_shallow_differential(sine(), ONE, (0,) * k, z=z).value == pytest.approx(
        exact, rel=1e-9
    )


@pytest.mark.covers("C63")
def test_second_layer_of_the_tabulated_flow() -> None:
    """tanh, K = 1, Theta = 2, C_W = lambda_W = 1: P, Q, R, S, T, U of the second layer, each alone."""
    net = sw.MLP(2, 50, "tanh", input_dim=1, output_dim=2, lambda_b=(1.0, 0.5))

    def mean(tree: tuple[int, ...], *i: int, z: int | None = None) -> float:
        extra = None if z is None else (z, 0)
        return 50 * float(mean_shallow_differential(net, ONE, tree, outputs=i, z=extra).value)

    table = (-0.38274194, -0.23264003, -4.2252963, 2.4470988, 0.46568002, 1.081062)
    got = (
        mean((0, 0), 0, 1, 1, z=0),
        mean((0, 0), 0, 0, 1, z=1),
        mean((0, 0, 0), 0, 0, 1, 1),
        mean((0, 0, 1), 0, 0, 1, 1),
        mean((0, 0, 1), 0, 1, 0, 1),
        mean((0, 0, 1), 0, 1, 1, 0),
    )
    assert got == pytest.approx(table, rel=2e-8)


def test_mean_ntk_is_that_of_the_flow() -> None:
    net = sw.MLP(2, 7, "tanh", input_dim=3, output_dim=1, C_b=0.2, lambda_b=0.4, lambda_W=0.6)
    Theta = sw.predict(net, X, observables="ntk", layers=2).ntk.values[0]
    for a, b in itertools.combinations_with_replacement(range(3), 2):
        mean = mean_shallow_differential(net, X, samples=(a, b))
        assert mean.value == pytest.approx(Theta[a, b], rel=1e-10)


@pytest.mark.covers("C63", "C64")
@pytest.mark.parametrize("tree", few(TREES[1:], every=2))
def test_means_against_networks(tree: DifferentialType) -> None:
    """60,000 networks of width 5, two inputs and two outputs, by their closed form: 4 standard errors."""
    parents = tree.parents
    G = np.array([[0.9, 0.4], [0.4, 0.6]])
    x = inputs_with_kernel(G)
    rates = {"lambda_b": (0.2, 0.5), "lambda_W": (0.8, 0.7), "C_W": (1.0, 1.4)}
    net = sw.MLP(2, 5, "sin", input_dim=2, output_dim=2, **rates)
    legs = [(v // 2) % 2 for v in range(len(parents) + 1)]
    where = {"outputs": legs, "samples": [v % 2 for v in range(len(parents) + 1)]}
    even = len(parents) % 2 == 0
    z = (legs[-1], 1) if even else None
    predicted = mean_shallow_differential(net, x, parents, z=z, **where)
    count, n = 60_000, 5
    rng = np.random.default_rng(3)
    first = rng.normal(size=(count * n, 2)) @ np.linalg.cholesky(G).T
    W = rng.normal(size=(2, count * n)) * np.sqrt(1.4 / n)
    H = 0.2 + 0.8 * G
    draws = np.zeros(count)
    for term in terms(parents):
        front = (0.7 / n) ** len(term.read) * np.prod([H[a % 2, b % 2] for a, b in term.hidden])
        front *= all(legs[a] == legs[b] for a, b in term.read)
        product = np.full(count * n, front)
        for v, (order, weighted) in enumerate(zip(term.orders, term.weighted, strict=True)):
            product *= np.sin(first[:, v % 2] + order * np.pi / 2) * (W[legs[v]] if weighted else 1)
        draws += product.reshape(count, n).sum(axis=1)
    if even:
        draws *= (W[legs[-1]] * np.sin(first[:, 1])).reshape(count, n).sum(axis=1)
    error = draws.std() / np.sqrt(count)
    assert abs(draws.mean() - predicted.value) < 4 * error + 1e-12


def test_an_odd_number_of_weights_averages_to_nothing() -> None:
    for parents in ((0, 0), (0, 0, 1, 2)):
        assert mean_shallow_differential(sine(), ONE, parents).value == 0.0
    for parents in ((0,), (0, 0, 1)):
        assert mean_shallow_differential(sine(), ONE, parents, z=(0, 0)).value == 0.0


@pytest.mark.covers("C62", "C64")
@pytest.mark.parametrize("s", [0, 0.25, 0.5, 0.75, 1])
def test_every_type_has_the_order_of_its_number_of_contractions(s: float) -> None:
    """(A15), (A17): powers of the width, from exact means at n = 50 and 5000."""
    for k in (1, 2, 3, 4, 5):
        expected = float(differential_order(meta(s, depth=2), k).width)
        for kind in differential_types(k):
            z = (0, 0) if k % 2 == 0 else None
            logs = []
            for n in (50, 5000):
                scaled = apply_strategy(sine(n, lambda_b=(0.3, 0.0)), meta(s, depth=2))
                mean = mean_shallow_differential(scaled.net, ONE, kind.parents, z=z).value
                logs.append(math.log(abs(scaled.eta**k * mean)))
            assert (logs[1] - logs[0]) / math.log(100) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("order", [0, 3, 4, 6])
def test_derivatives_of_any_order(order: int) -> None:
    z = np.linspace(-3, 3, 7)
    np.testing.assert_allclose(
        sigma_derivative(sw.activation("sin"), z, order), np.sin(z + order * np.pi / 2), atol=1e-12
    )


def test_refusals() -> None:
    deep = sw.MLP(3, 5, "tanh", input_dim=1, output_dim=1)
    relu = sw.MLP(2, 5, "relu", input_dim=1, output_dim=1)
    with pytest.raises(ValueError, match="exist for one hidden layer, depth 2"):
        mean_shallow_differential(deep, ONE)
    with pytest.raises(ValueError, match="beyond the NTK are not defined for 'relu'"):
        mean_shallow_differential(relu, ONE, (0, 0))
    assert mean_shallow_differential(relu, ONE).value == pytest.approx(2.5)
    with pytest.raises(ValueError, match="`parents` must join each factor to an earlier one"):
        terms((0, 2))
    with pytest.raises(ValueError, match="`k` must be a whole number of at least 1; got 0"):
        differential_types(0)
    with pytest.raises(
        ValueError, match=r"`samples` must be a number from 0 to 0 for each of the 2"
    ):
        mean_shallow_differential(sine(), ONE, samples=(0, 1))
    with pytest.raises(ValueError, match=r"`z` must be a number from 0 to 0"):
        mean_shallow_differential(sine(), ONE, (0, 0), z=(1, 0))
    with pytest.raises(ValueError, match="`W`, `z`, `H` must have shapes"):
        shallow_differential(sine(), np.ones((1, 5)), np.ones((5, 1)), np.ones((1, 1)))
