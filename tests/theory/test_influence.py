"""Golden and agreement tests: the influences of the NTK note, against tables and real networks."""

from functools import cache

import numpy as np
import pytest

import scalewise as sw
from grids import each
from scalewise.theory.note import (
    cross_moment,
    first_moment,
    forward_factors,
    influence_mean,
    influence_square,
    note_kernels,
    ntk_in_ntk_parametrisation,
    ntk_in_standard_parametrisation,
    output_variance,
    second_moment,
)

X = np.array([[1.0, 0.5], [-0.3, 0.8]])
C_b, C_W = 0.1, 1.5


def tanh(width: int = 64, depth: int = 4, **rest: object) -> sw.Network:
    return sw.MLP(depth, width, "tanh", input_dim=2, output_dim=1, C_b=C_b, C_W=C_W, **rest)


@pytest.mark.covers("D12.1")
def test_tabulated_kernels() -> None:
    kernels = note_kernels(tanh(), X)
    table = [0.175, 0.20764803, 0.2471898, 0.28537998]
    assert kernels.Sigma[:, 0, 1] == pytest.approx(table, abs=6e-9)
    assert [kernels.dot(i)[0, 1] for i in (1, 2, 3)] == pytest.approx(
        [0.61803397, 0.71529729, 0.76101378], abs=6e-9
    )
    assert kernels.path(2, 3)[0, 1] == pytest.approx(0.71529729 * 0.76101378, abs=1e-8)
    assert np.all(kernels.path(3, 2) == 1)


@pytest.mark.covers("D12.5")
@each(
    ("depth", "same", "other"),
    [
        (2, 1.4140339, 0.31580397),
        (3, 1.71862902, 0.47308352),
        (4, 1.99656531, 0.64540306),
    ],
)
def test_tabulated_ntk(depth: int, same: float, other: float) -> None:
    Theta = ntk_in_ntk_parametrisation(tanh(depth=depth), X)
    assert (Theta[0, 0], Theta[0, 1]) == pytest.approx((same, other), abs=6e-8)


@pytest.mark.covers("D12.5")
def test_ntk_in_both_parametrisations_is_that_of_the_flow() -> None:
    for rates, function in (
        ({"lambda_b": C_b, "lambda_W": C_W}, ntk_in_ntk_parametrisation),
        ({"lambda_b": 1.0, "lambda_W": 1.0}, ntk_in_standard_parametrisation),
    ):
        net = tanh(**rates)
        Theta = sw.predict(net, X, observables="ntk", layers=4).ntk.values[0]
        np.testing.assert_allclose(function(net, X), Theta, rtol=1e-10)


@pytest.mark.covers("D12.4")
def test_tabulated_second_moments() -> None:
    Q = {ell: 64 * second_moment(tanh(), X, layer=ell)[:, 0, 1] for ell in (1, 2, 3)}
    assert Q[1] == pytest.approx([0.598881], abs=6e-7)
    assert Q[2] == pytest.approx([0.696692, 0.733868], abs=6e-7)
    assert Q[3] == pytest.approx([0.727599, 1.039689, 0.864245], abs=6e-7)


@pytest.mark.covers("D12.1", "D12.2")
def test_kernels_are_pdlts_one_layer_shifted() -> None:
    net = sw.MLP(3, 9, "gelu", input_dim=2, output_dim=1, C_b=(0.1, 0.3, 0.2), C_W=(1.1, 1.7, 1.4))
    kernels, flow = note_kernels(net, X), sw.predict(net, X, observables="kernel")
    alone = net.numbered(lambda_b=(0.0, 1.0, 0.0), lambda_W=(0.0,) * 3)
    for layer in (1, 2, 3):
        np.testing.assert_allclose(kernels.pdlt_kernel(layer), flow.kernel.sel(layer=layer))
    # Only the biases of layer 2 learn: the NTK above is the slope of the map from it.
    Theta = sw.predict(alone, X, observables="ntk", layers=3).ntk.values[0]
    np.testing.assert_allclose(kernels.pdlt_slope(2), Theta, rtol=1e-10)
    factors = forward_factors(net, X)
    np.testing.assert_allclose(factors[0], X @ X.T / 2, rtol=1e-12)
    np.testing.assert_allclose(factors[2], (flow.kernel[2] - 0.2) / 1.4, rtol=1e-12)


class Ensemble:
    """Networks of one output in plain NumPy: preactivations, slopes and weights, network by network."""

    def __init__(self, width: int, count: int, seed: int, depth: int = 4) -> None:
        rng = np.random.default_rng(seed)
        self.depth, self.count = depth, count
        sizes = [2, *[width] * (depth - 1), 1]
        s = np.broadcast_to(X.T, (count, 2, 2))
        self.W, self.slope, self.h = [], [None], [s]
        for i in range(depth):
            W = rng.normal(size=(count, sizes[i + 1], sizes[i])) * np.sqrt(C_W / sizes[i])
            z = W @ s + rng.normal(size=(count, sizes[i + 1], 1)) * np.sqrt(C_b)
            s = np.tanh(z)
            self.W.append(W)
            self.slope.append(1 - s * s)
            self.h.append(s)

    def influence(self, k: int, ell: int, x: int = 0, moved: int = 1) -> np.ndarray:
        """J_{k,ell;i} of every network: back from the output at x', then forward again at x."""
        v = np.ones((self.count, 1))
        for i in range(self.depth - 1, k - 1, -1):
            v = np.einsum("ci,cij->cj", v, self.W[i]) * self.slope[i][:, :, moved]
        for i in range(k, ell):
            v = np.einsum("cij,cj->ci", self.W[i], self.slope[i][:, :, x] * v)
        return v


@pytest.fixture(scope="module", params=[(64, 1600), (128, 800)], ids=["64", "128"])
def ensemble(request: pytest.FixtureRequest) -> tuple[int, Ensemble]:
    width, count = request.param
    return width, Ensemble(width, count, seed=width)


def within(values: np.ndarray, predicted: float, *, bias: float) -> None:
    """Four standard errors of the mean over networks and the next order in 1/n."""
    error = values.std(ddof=1) / np.sqrt(len(values))
    assert abs(values.mean() - predicted) < 4 * error + bias * abs(predicted)


@pytest.mark.covers("D12.3", "D12.4")
@each(("k", "ell"), [(1, 1), (1, 2), (2, 2), (1, 3), (2, 3), (3, 3)])
@each(("x", "moved"), [(0, 1), (1, 0)])
def test_second_moments_against_networks(
    ensemble: tuple[int, Ensemble], k: int, ell: int, x: int, moved: int
) -> None:
    width, nets = ensemble
    J = nets.influence(k, ell, x, moved)
    mean, square = (moment[k - 1, x, moved] for moment in moments(width, ell))
    within((J * J).mean(axis=1), square, bias=4 / width)
    # Below the output the mean is zero, so this is the variance too.
    within(J.mean(axis=1), 0.0, bias=0.0)
    assert mean == 0


@cache
def moments(width: int, ell: int) -> tuple[np.ndarray, np.ndarray]:
    """First and second moments at layer `ell`."""
    return first_moment(tanh(width), X, layer=ell), second_moment(tanh(width), X, layer=ell)


@cache
def variances() -> np.ndarray:
    """Times the width, which is the same for every width."""
    return 64 * output_variance(tanh(64), X)


@pytest.mark.covers("D12.3", "D12.4")
@each("k", [1, 2, 3, 4])
def test_output_moments_against_networks(ensemble: tuple[int, Ensemble], k: int) -> None:
    width, nets = ensemble
    J = nets.influence(k, 4)[:, 0]
    M = first_moment(tanh(width), X)[k - 1, 0, 1]
    V = variances()[k - 1, 0, 1] / width
    within(J, M, bias=4 / width)
    within(J * J, second_moment(tanh(width), X)[k - 1, 0, 1] + V, bias=8 / width)
    if k < 4:
        within((J - J.mean()) ** 2, V, bias=10 / width)
    else:
        assert (V, M) == (0, 1)


@pytest.mark.covers("D12.4")
@each(("blocks", "ell"), [((1, 2), 3), ((1, 3), 3), ((1, 2), 2), ((1, 3), 4)])
def test_cross_terms_do_not_vanish(
    ensemble: tuple[int, Ensemble], blocks: tuple[int, int], ell: int
) -> None:
    width, nets = ensemble
    product = nets.influence(blocks[0], ell) * nets.influence(blocks[1], ell)
    predicted = cross_moment(tanh(width), X, blocks, layer=ell)
    within(product.mean(axis=1), predicted[0, 1], bias=10 / width)
    np.testing.assert_array_equal(predicted, cross_moment(tanh(width), X, blocks[::-1], layer=ell))


def test_squares_of_one_block_are_no_cross_terms() -> None:
    for ell in (3, 4):
        Q = second_moment(tanh(), X, layer=ell)
        np.testing.assert_allclose(cross_moment(tanh(), X, (2, 2), layer=ell), Q[1])


@pytest.mark.covers("D12.2")
@each("k", [1, 2, 3])
def test_a_step_on_a_block_against_networks(ensemble: tuple[int, Ensemble], k: int) -> None:
    """The gradient is that of the block itself: <h, h'> J / d, with its forward factor measured too."""
    width, nets = ensemble
    h = nets.h[k - 1]
    forward = 0.3 * np.einsum("cj,cj->c", h[:, :, 0], h[:, :, 0]) / h.shape[1]
    at_output = forward * nets.influence(k, 4, 0, 0)[:, 0]
    within(at_output, influence_mean(tanh(width), X, eta_0=0.3)[k - 1, 0, 0], bias=8 / width)
    below = ((forward[:, None] * nets.influence(k, 3, 0, 0)) ** 2).mean(axis=1)
    square = influence_square(tanh(width), X, eta_0=0.3, layer=3)[k - 1, 0, 0]
    within(below, square, bias=12 / width)


@pytest.mark.covers("D12.4")
def test_deep_linear_networks_by_hand() -> None:
    """Coincident inputs, C_W = 1: Q_{k,l} = (l - k + 1)/n below the output."""
    net = sw.MLP(6, 50, "linear", input_dim=1, output_dim=1)
    for ell in range(1, 6):
        Q = 50 * second_moment(net, np.ones((1, 1)), layer=ell).ravel()
        assert Q == pytest.approx([ell - k + 1 for k in range(1, ell + 1)])
    V = 50 * output_variance(net, np.ones((1, 1))).ravel()
    assert V == pytest.approx([2 * (6 - k) for k in range(1, 7)])


def test_deep_linear_networks_of_unequal_widths_by_hand() -> None:
    """Coincident inputs: Q_{k,l} is both products of C_W from k on times the sum of 1/d from k to l."""
    C, widths = (0.7, 1.3, 0.9, 1.6, 1.1), (30, 50, 20, 40)
    net = sw.MLP(5, widths, "linear", input_dim=1, output_dim=1, C_W=C)
    for ell in range(1, 5):
        Q = second_moment(net, np.ones((1, 1)), layer=ell).ravel()
        for k in range(1, ell + 1):
            pairs = sum(1 / d for d in widths[k - 1 : ell])
            assert Q[k - 1] == pytest.approx(np.prod(C[k:ell]) * np.prod(C[k:]) * pairs)


def test_refusals() -> None:
    many = sw.MLP(3, 8, "tanh", input_dim=2, output_dim=2)
    shallow = sw.MLP(1, 8, "tanh", input_dim=2, output_dim=1)
    with pytest.raises(ValueError, match="scalar output; the network has 2"):
        second_moment(many, X)
    with pytest.raises(ValueError, match="need a hidden layer"):
        note_kernels(shallow, X)
    with pytest.raises(ValueError, match="`layer` must lie between 1 and 4; got 5"):
        second_moment(tanh(), X, layer=5)
    with pytest.raises(ValueError, match="`layer` must lie between 1 and 3; got 4"):
        note_kernels(tanh(), X).pdlt_slope(4)
    for blocks in ((1, 4), (0, 1), (1, 2, 3)):
        with pytest.raises(ValueError, match="`blocks` must be two blocks from 1 to 3"):
            cross_moment(tanh(), X, blocks, layer=3)
