r"""Agreement and property tests of the lazily revealed matrix: equal in law to a real one, square or not.

The real matrices are drawn and moved here, by NumPy alone.
"""

import numpy as np
import pytest

from refusals import unlike
from scalewise.limits import LazyMatrix

SHAPES = [(8, 8), (20, 6), (5, 16)]
SEEDS = 200


class Drawn:
    """A real matrix with the same three verbs."""

    def __init__(self, n_out, n_in, seed, sigma):
        self.n_in = n_in
        self.W = np.random.default_rng([seed, 3]).normal(size=(n_out, n_in)) * sigma / n_in**0.5
        self.V = np.zeros_like(self.W)

    def forward(self, X):
        return X @ self.W.T, X

    def backward(self, Y):
        return Y @ self.W, Y

    def update(self, y, x, weights, *, momentum=0.0, shrink=0.0):
        self.V = momentum * self.V + (y.T * weights) @ x / self.n_in - shrink * self.W
        self.W = self.W + self.V


def trajectory(W, n_out, n_in, seed):
    """What a nonlinear training sees: averages of products, forward and backward, over three steps."""
    rng = np.random.default_rng([seed, 7])
    x, v = rng.normal(size=(2, n_in)), rng.normal(size=n_out)
    seen = []
    for _ in range(3):
        y, at_x = W.forward(x)
        z, at_y = W.backward(np.tanh(y) * v)
        W.update(at_y, at_x, np.array([-0.7, 0.4]), momentum=0.3, shrink=0.1)
        seen += [y[0] @ y[1] / n_out, y[0] @ v / n_out, z[0] @ x[0] / n_in, z[0] @ z[1] / n_in]
        x = np.tanh(x + z)
    return seen


@pytest.mark.covers("E7")
@pytest.mark.parametrize(("n_out", "n_in"), SHAPES)
def test_a_nonlinear_training_is_equal_in_law_to_real_matrices(n_out, n_in):
    def ensemble(make):
        return np.array([trajectory(make(seed), n_out, n_in, seed) for seed in range(SEEDS)])

    lazy = ensemble(lambda seed: LazyMatrix(n_out, n_in, seed=seed, sigma=1.3, capacity=2))
    real = ensemble(lambda seed: Drawn(n_out, n_in, seed, 1.3))
    sem = np.hypot(lazy.std(axis=0), real.std(axis=0)) / SEEDS**0.5
    assert np.abs((lazy.mean(axis=0) - real.mean(axis=0)) / sem).max() < 4
    # Spread and correlations: of the ranks, since the products have fat tails.
    both = np.concatenate([lazy, real])
    ranks = (both.argsort(axis=0).argsort(axis=0) / len(both) - 0.5) * 12**0.5
    C, D = (np.cov(r.T) for r in (ranks[:SEEDS], ranks[SEEDS:]))
    assert np.abs(C - D).max() < 4.5 * (2 / SEEDS) ** 0.5


@pytest.mark.covers("E7")
@pytest.mark.parametrize(("n_out", "n_in"), [(3, 3), (4, 2), (2, 4)])
def test_covariance_of_the_entries_when_everything_is_revealed(n_out, n_in):
    """Looked at alternately from both sides until nothing is left, the whole matrix has its law."""
    draws = []
    for seed in range(300):
        W = LazyMatrix(n_out, n_in, seed=seed, sigma=0.7)
        rng = np.random.default_rng([seed, 1])
        for k in range(max(n_out, n_in)):
            # Directions that depend on what was seen: the law must not care.
            back = W.backward(rng.normal(size=(1, n_out)))[0]
            W.forward(rng.normal(size=(1, n_in)) + np.tanh(back) * (k % 2))
        entries = W.forward(np.eye(n_in))[0].T
        np.testing.assert_allclose(W.backward(np.eye(n_out))[0], entries, atol=1e-6)
        draws.append(entries.ravel())
    cov = np.cov(np.array(draws).T)
    error = np.abs(cov - 0.49 / n_in * np.eye(n_out * n_in)).max()
    assert error < 4.5 * 0.49 / n_in * (2 / 300) ** 0.5


def test_products_are_linear_adjoint_and_repeatable():
    rng = np.random.default_rng(0)
    W = LazyMatrix(300, 200, seed=1, sigma=1.2)
    X, Y = rng.normal(size=(3, 200)), rng.normal(size=(2, 300))
    WX, x = W.forward(X)
    WY, y = W.backward(Y)
    W.update(y, x[:2], np.array([0.5, -1.0]), momentum=0.5, shrink=0.2)
    moved = 0.8 * WX + (X @ X[:2].T / 200 * np.array([0.5, -1.0])) @ Y
    np.testing.assert_allclose(W.forward(X)[0], moved, atol=1e-10)
    np.testing.assert_allclose(W.forward(X)[0] @ Y.T, X @ W.backward(Y)[0].T, atol=1e-9)
    mixed = np.array([[1.0, -2.0, 0.5]])
    np.testing.assert_allclose(W.forward(mixed @ X)[0], mixed @ moved, atol=1e-10)
    assert W.directions == (3, 2)
    assert WY.shape == (2, 200)
    assert W.nbytes > 8 * 5 * 500


@pytest.mark.covers("E7")
def test_momentum_and_decay_by_hand():
    """Two more steps of velocity and shrinking against a stored matrix."""
    rng = np.random.default_rng(3)
    n, X = 40, np.random.default_rng(4).normal(size=(2, 40))
    lazy = LazyMatrix(n, n, seed=0)
    everything = lazy.forward(np.eye(n))[0].T
    real = Drawn(n, n, 0, 1.0)
    real.W = everything.copy()
    for _ in range(3):
        Y = rng.normal(size=(2, n))
        for W in (lazy, real):
            x, y = W.forward(X)[1], W.backward(Y)[1]
            W.update(y, x, np.array([0.3, -0.2]), momentum=0.9, shrink=0.05)
    np.testing.assert_allclose(lazy.forward(X)[0], real.forward(X)[0], atol=1e-9)
    np.testing.assert_allclose(lazy.backward(X)[0], real.backward(X)[0], atol=1e-9)


def test_fresh_noise_is_orthogonal_to_what_is_known():
    """What is known of W^T f fixes the overlap of every later W x with f, noise or no noise."""
    rng = np.random.default_rng(5)
    W = LazyMatrix(50, 50, seed=2)
    f, x = rng.normal(size=(1, 50)), rng.normal(size=(4, 50))
    back = W.backward(f)[0]
    np.testing.assert_allclose(W.forward(x)[0] @ f[0], x @ back[0], atol=1e-10)


def test_decoupled_products_know_nothing_of_each_other():
    """With a copy, <f, W x> and <W^T f, x> are independent; without it they are one number."""
    pairs = []
    for seed in range(300):
        W = LazyMatrix(20, 20, seed=seed, decoupled=True)
        f, x = np.ones((1, 20)), np.ones((1, 20))
        pairs.append((W.backward(f)[0].sum(), W.forward(x)[0].sum()))
    a, b = np.array(pairs).T
    assert abs(np.corrcoef(a, b)[0, 1]) < 4 / 300**0.5
    assert np.std(b) == pytest.approx(20**0.5, rel=0.17)
    one = LazyMatrix(20, 20, seed=0)
    assert one.backward(f)[0].sum() == pytest.approx(one.forward(x)[0].sum())


def test_forgotten_directions_are_drawn_anew_and_remembered_ones_are_not():
    rng = np.random.default_rng(6)
    W = LazyMatrix(100, 100, seed=0)
    W.backward(rng.normal(size=(1, 100)))
    X = rng.normal(size=(3, 100))
    first, _ = W.forward(X, keep=1)
    again, _ = W.forward(X)
    np.testing.assert_allclose(first[0], again[0])
    assert np.abs(first[1:] - again[1:]).max() > 0.5
    assert W.directions == (3, 1)


@pytest.mark.covers("E7")
def test_small_parts_are_not_revealed():
    """Compression: a direction below the tolerance costs no row, and an error of its own size."""
    rng = np.random.default_rng(7)
    x, e = rng.normal(size=(1, 500)), rng.normal(size=(1, 500))
    fine, coarse = LazyMatrix(500, 500, seed=0), LazyMatrix(500, 500, seed=0, tolerance=0.01)
    for W in (fine, coarse):
        near = W.forward(x)[0]
        W.forward(x + 0.005 * e)
        assert np.abs(W.forward(x)[0] - near).max() < 1e-9
    assert fine.directions == (2, 0)
    assert coarse.directions == (1, 0)
    assert np.abs(coarse.forward(x + 0.005 * e)[0] - near).max() < 0.03
    assert coarse.forward(0 * x)[0].tolist() == [[0.0] * 500]


def test_a_long_run_of_nearly_dependent_directions_stays_accurate():
    """Rounding is not taken for a direction: hundreds of looks along a slowly moving vector."""
    W = LazyMatrix(64, 64, seed=0, tolerance=1e-5)
    rng = np.random.default_rng(8)
    x, drift = rng.normal(size=(2, 64)), rng.normal(size=(2, 64))
    for t in range(200):
        y, at_x = W.forward(np.tanh(x + 0.01 * t * drift))
        back, at_y = W.backward(np.tanh(y))
        W.update(at_y, at_x, np.array([0.001, -0.001]))
        assert np.abs(back).max() < 5
    X = np.tanh(x + drift * rng.normal())
    Y = np.tanh(rng.normal(size=(2, 64)))
    np.testing.assert_allclose(W.forward(X)[0] @ Y.T, X @ W.backward(Y)[0].T, atol=1e-3)
    assert max(W.directions) <= 64


def test_single_precision_is_the_same_matrix():
    rng = np.random.default_rng(9)
    X, Y = rng.normal(size=(3, 400)), rng.normal(size=(2, 400))
    W = LazyMatrix(400, 400, seed=0, dtype=np.float32)
    forward, backward = W.forward(X.astype("f"))[0], W.backward(Y.astype("f"))[0]
    assert forward.dtype == np.float32
    np.testing.assert_allclose(forward @ Y.T, X @ backward.T, rtol=1e-3, atol=1e-2)


def test_antithetic_halves_have_the_same_noise():
    W = LazyMatrix(100, 60, seed=0, antithetic=True)
    y = W.forward(np.ones((1, 60)))[0][0]
    np.testing.assert_array_equal(y[:50], y[50:])


def test_same_seed_same_numbers():
    X = np.ones((1, 30))
    one, two, other = (LazyMatrix(30, 30, seed=s).forward(X)[0] for s in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert np.abs(one - other).max() > 0.1


REFUSED = [
    ({"n_out": 0}, "n_out` must be a whole number of at least 1; got 0"),
    ({"sigma": -1.0}, "sigma` must be a positive finite number; got -1.0"),
    ({"tolerance": 1e-9}, "tolerance` must lie from 1e-05 .* to below 1; got 1e-09"),
    ({"tolerance": 1.0}, "to below 1; got 1.0"),
    ({"dtype": np.int64}, "dtype` must be float64 or float32; got the class int64"),
    ({"n_out": 5, "antithetic": True}, "two halves, so an even `n_out`; got 5"),
]


def test_bad_options_are_refused() -> None:
    assert [] == unlike(
        (lambda o=options: LazyMatrix(**{"n_out": 4, "n_in": 4, "seed": 0, **o}), message)
        for options, message in REFUSED
    )


def test_bad_vectors_are_refused():
    W = LazyMatrix(4, 3, seed=0)
    with pytest.raises(ValueError, match=r"`X` must have shape \(batch, 3\).*got \(1, 4\)"):
        W.forward(np.ones((1, 4)))
    with pytest.raises(ValueError, match=r"`Y` must have shape \(batch, 4\).*got \(1, 3\)"):
        W.backward(np.ones((1, 3)))
    with pytest.raises(ValueError, match="`X` holds numbers that are not finite"):
        W.forward(np.array([[1.0, np.nan, 0.0]]))
    x, y = W.forward(np.ones((1, 3)))[1], W.backward(np.ones((1, 4)))[1]
    with pytest.raises(ValueError, match="`weights` of an update must be finite"):
        W.update(y, x, np.array([np.inf]))
