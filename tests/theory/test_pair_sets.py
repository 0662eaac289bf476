"""Property: a rectangle, the diagonal and a list of pairs are what the square of all inputs holds."""

import tracemalloc

import numpy as np
import pytest

import scalewise as sw
from scalewise.networks import ResidualMLP
from scalewise.theory.flow import _pair_sets
from scalewise.theory.flow._kernel_flow import kernel_flow, kernels_on
from scalewise.theory.flow._pair_sets import PairSet

RNG = np.random.default_rng(0)
X = RNG.standard_normal((9, 5))
Z = np.concatenate([X[:3], RNG.standard_normal((24, 5)), X[:2], X[3:4]])
ENDS = {"input_dim": 5, "output_dim": 1, "C_b": 0.1, "C_W": 0.9}


NETS = (
    *(
        sw.MLP(3, 10, name, **ENDS)
        for name in ("relu", "linear", "erf", "gelu", "tanh", "swish", "elu")
    ),
    *(ResidualMLP(3, 10, name, gamma=0.7, **ENDS) for name in ("tanh", "relu")),
)


@pytest.mark.parametrize("net", NETS, ids=lambda net: f"{net.is_plain}-{net.activation.name}")
def test_every_shape_is_cut_out_of_the_square(net, monkeypatch) -> None:
    monkeypatch.setattr(_pair_sets, "TILE", 100)  # several tiles of each shape
    monkeypatch.setattr(_pair_sets, "_BLOCK", 7)
    kinds = ["kernel", "ntk"][: 1 + net.activation.is_continuous]
    y, z = X, Z
    different = np.unique(np.concatenate([z, y]), axis=0)
    at = [[np.flatnonzero((different == row).all(axis=1))[0] for row in v] for v in (z, y)]
    flow = kernel_flow(net, different, ntk=len(kinds) == 2)
    squares = [flow.K, flow.Theta][: len(kinds)]
    layers = list(range(1, net.depth + 1))
    rows, columns = np.array(at[0]), np.array(at[1])
    shapes = (
        (PairSet.between(z, y), np.ix_(layers, rows, columns)),
        (PairSet.between(y, z), np.ix_(layers, columns, rows)),
        (PairSet.between(z), np.ix_(layers, rows, rows)),
    )
    for pairs, place in shapes:
        place = (place[0] - 1, *place[1:])
        for found, square in zip(
            kernels_on(net, pairs, kinds, layers=layers), squares, strict=True
        ):
            np.testing.assert_allclose(found, square[place], rtol=1e-12, atol=1e-13)
    for a, b, first, second in ((rows, rows, z, z), (rows[:9], columns, z[:9], y)):
        listed = kernels_on(net, PairSet.in_turn(first, second), kinds, layers=layers)
        for found, square in zip(listed, squares, strict=True):
            np.testing.assert_allclose(found, square[:, a, b], rtol=1e-12, atol=1e-13)


def test_few_inputs_of_a_deep_network_have_every_shape() -> None:
    net = sw.MLP(200, 10, "tanh", **ENDS)
    square = kernel_flow(net, X[:5], layers=[200])
    for kind, full in (("kernel", square.K), ("ntk", square.Theta)):
        for pairs, want in (
            (PairSet.between(X[:2], X[2:5]), full[:, :2, 2:]),
            (PairSet.in_turn(X[:2], X[2:4]), full[:, [0, 1], [2, 3]]),
        ):
            np.testing.assert_allclose(kernels_on(net, pairs, [kind])[0], want, rtol=1e-9)


def test_a_repeated_input_has_the_same_entries_to_the_last_bit() -> None:
    net = sw.MLP(3, 10, "tanh", **ENDS)
    (found,) = kernels_on(net, PairSet.between(Z, X), ["ntk"])
    np.testing.assert_array_equal(found[0, [0, 1, 2]][:2], found[0, -3:-1])
    assert PairSet.between(Z, X).x.shape == (33, 5)


def test_memory_is_that_of_the_answer_and_a_tile() -> None:
    net = sw.MLP(3, 10, "relu", **ENDS)
    many, few = RNG.standard_normal((4000, 5)), RNG.standard_normal((40, 5))
    for pairs, answer in (
        (PairSet.between(many, few), 8 * 4000 * 40),
        (PairSet.in_turn(many, many[::-1]), 8 * 4000),
    ):
        tracemalloc.start()
        kernels_on(net, pairs, ["kernel"])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < answer + 2**24, peak  # the square takes 128 MB
