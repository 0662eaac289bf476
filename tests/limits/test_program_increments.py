"""Golden and agreement tests of the program with every theta: plain gradient descent to rounding, and limits."""

import math
from fractions import Fraction

import numpy as np
import pytest

from grids import thorough
from limit_nets import bare_sgd
from scalewise.limits import SGD, Architecture, Finite, Infinite, Lazy, learning, run
from scalewise.limits.program import Space, incremental, thetas, trained
from scalewise.scaling import ABC, mup, ntk, readout_exponents, uniform
from scalewise.tasks import Task

QUARTER, HALF = Fraction(1, 4), Fraction(1, 2)
STRATEGIES = {
    "mup": mup(depth=3).to_abc(),
    "one hidden": mup(depth=2).to_abc(),
    "three hidden": mup(depth=4).to_abc(),
    "ntk": ntk(depth=3).to_abc(),
    "uniform": uniform(QUARTER, depth=3).to_abc(),
    "standard, rate 1/n": ABC((0, 0, 0), (0, HALF, HALF), 1),
    "logits over root n": ABC((0, 0, HALF), (0, HALF, HALF), 0),
    "first layer only": ABC((-HALF, QUARTER, HALF), (HALF, QUARTER, HALF), 0),
    "readout off": ABC((-HALF, 0, 3 * QUARTER), (HALF, HALF, QUARTER), 0),
    "lag": ABC((-HALF, 0, HALF), (HALF, HALF, 1), 0),
}
X = np.array([[0.8, -0.4], [0.3, 1.0], [-0.9, 0.5], [0.2, 0.7]])
Y = np.array([1.0, -1.0, 0.5, 1.5])
WATCHED = np.array([[0.5, -1.2], [1.0, 1.0]])


def job(strategy, eta, samples=4):
    """Training on the first samples in turn, with the rest of the arguments of `trained` and `incremental`."""
    task = Task(X[:samples], Y[:samples], test_inputs=WATCHED, batches=np.arange(samples)[:, None])
    net = strategy if isinstance(strategy, Architecture) else Architecture(strategy, "tanh")
    return {"net": net, "task": task, "sgd": SGD(eta), "steps": samples}


class Recorded(Space):
    """A space that keeps what it draws."""

    def __init__(self, space):
        super().__init__(space._maker)
        self.vectors_drawn, self.matrices = [], []

    def vector(self, **options):
        found = super().vector(**options)
        self.vectors_drawn.append(found.value)
        return found

    def matrix(self, name, **options):
        found = super().matrix(name, **options)
        if "copy" not in name:
            self.matrices.append(found.product.matrix.W.copy())
        return found


@pytest.mark.covers("E10")
@pytest.mark.parametrize("program", [incremental, trained])
@pytest.mark.parametrize("name", STRATEGIES)
def test_the_program_is_plain_gradient_descent(name, program):
    abc = STRATEGIES[name]
    n, seeds = 48, 2
    settings = job(abc, 0.4)
    kept = []

    def spied(space):
        kept.append(Recorded(space))
        return program(**settings)(kept[0])

    on = Finite(n, replicas=seeds)
    found = run(spied, on).f.values
    (space,) = kept
    *U, last = space.vectors_drawn
    A = abc.a[-1] + abc.b[-1]
    by_hand = []
    for k in range(seeds):
        W = [np.stack([u[k] for u in U], axis=1), *(W[k] for W in space.matrices)]
        W.append(last[k][None] * float(n) ** float(-A))
        batches = [np.array([t]) for t in range(len(X))]
        by_hand.append(bare_sgd(W, abc, "tanh", X, Y, WATCHED, eta=0.4, batches=batches))
    np.testing.assert_allclose(found, np.mean(by_hand, axis=0), atol=1e-12)


@pytest.mark.covers("E14")
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_change_of_outputs_has_two_parts(name):
    """(11), (12) and (59), by the arrays themselves: what new last weights add, and old ones on new features."""
    abc, n = STRATEGIES[name], 40
    settings, kept = job(abc, 0.4, 1), []

    def spied(space):
        kept.append(Recorded(space))
        return incremental(**settings)(kept[0])

    found = run(spied, Finite(n))
    *U, last = (v[0] for v in kept[0].vectors_drawn)
    V = last * float(n) ** -float(abc.a[-1] + abc.b[-1])
    W = [np.stack(U, axis=1), *(w[0] for w in kept[0].matrices)]
    Z = np.concatenate([X[:1], WATCHED])
    before, (rates, rate_V) = layers_of(W, Z), split_rates(abc, n, 0.4)
    chi, dx, after = V @ before[-1][:, 0] - Y[0], V, list(W)
    for layer in reversed(range(len(W))):
        x = before[layer][:, 0]
        below = X[0] if layer == 0 else before[layer - 1][:, 0]
        after[layer] = W[layer] - rates[layer] * chi * np.outer(dx * (1 - x**2), below)
        dx = W[layer].T @ (dx * (1 - x**2))
    moved = layers_of(after, Z)[-1]
    by_features = V @ (moved - before[-1])
    by_last = -rate_V * chi * before[-1][:, 0] @ moved
    np.testing.assert_allclose(found.by_features.values[0], by_features[1:], atol=1e-13)
    np.testing.assert_allclose(found.by_last.values[0], by_last[1:], atol=1e-13)
    change = found.f.values[1] - found.f.values[0]
    np.testing.assert_allclose(change, by_features[1:] + by_last[1:], atol=1e-13)


def layers_of(W, Z):
    x = [np.tanh(W[0] @ Z.T)]
    for w in W[1:]:
        x.append(np.tanh(w @ x[-1]))
    return x


def split_rates(abc, n, eta):
    *rates, last = (eta * float(n) ** float(-abc.c - 2 * a) for a in abc.a)
    return rates, last


@pytest.mark.covers("E14")
@pytest.mark.parametrize(
    "name", ["readout off", *thorough("mup", "one hidden", "three hidden", "lag")]
)
def test_the_parts_in_the_limit(name):
    """One sample of error -1: eta gamma^L and -eta beta^L gamma_11^L by quadrature."""
    one = np.ones((1, 1))
    net, task = Architecture(STRATEGIES[name], "tanh"), Task(one, one, test_inputs=one)
    found = run(incremental(net, task, SGD(0.7), steps=1), Infinite(0.004, start=8192, replicas=6))
    step = learning.one_step(STRATEGIES[name], "tanh", square=1.0, eta=-0.7)
    flags = [float(x == 1) for x in readout_exponents(STRATEGIES[name].to_strategy())]
    expected = [
        -0.7 * flags[0] * step.beta[-1] * step.gamma_11[-1],
        0.7 * flags[1] * step.gamma[-1],
    ]
    parts = [found.by_features.values.item(), found.by_last.values.item()]
    np.testing.assert_allclose(parts, expected, atol=0.015)
    assert sum(expected) == pytest.approx(step.f_1.item())


def test_thetas_of_named_strategies():
    n = 10**4
    at = thetas(ntk(depth=3), n)
    assert at.h == pytest.approx((0.01, 0.01))
    assert (at.f, at.f_last, at.f_features) == pytest.approx((0.01, 1.0, 1.0))
    assert at.last == pytest.approx(0.01)
    first = thetas(STRATEGIES["first layer only"].to_strategy(), n)
    assert first.h == (1.0, 1.0)
    assert first.W_h[1] == first.Wx_h[1] == pytest.approx(n**-0.5)
    lag = thetas(STRATEGIES["lag"].to_strategy(), math.inf)
    assert (lag.iota, lag.last, lag.f_last) == (0.0, 1.0, 1.0)
    later = thetas(STRATEGIES["logits over root n"].to_strategy(), n)
    assert later.x_h == pytest.approx((1.0, 1e-4))


@pytest.mark.covers("E10")
@pytest.mark.parametrize("name", ["lag", *thorough("mup", "logits over root n", "readout off")])
def test_both_programs_have_one_limit(name):
    net = Architecture(STRATEGIES[name], "tanh")
    settings = job(net, 0.4)
    one = run(trained(**settings), Infinite(0.01, start=2048, replicas=4)).f
    two = run(incremental(**settings), Infinite(0.01, start=2048, replicas=4)).f
    np.testing.assert_allclose(one, two, atol=0.03)


def gradient_descent(kernel, eta):
    """Outputs of the watched inputs under gradient descent with a kernel over watched inputs and samples."""
    f, w = np.zeros(len(WATCHED) + len(X)), len(WATCHED)
    found = [f[:w]]
    for t, y in enumerate(Y):
        f = f - eta * kernel[:, w + t] * (f[w + t] - y)
        found.append(f[:w])
    return np.array(found)


def kernels():
    """Sigma^{02}, Sigma^{12}, Sigma^{22} of the two-hidden-layer tanh network by Gauss-Hermite quadrature."""
    Z = np.concatenate([WATCHED, X])
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    g, h = np.meshgrid(nodes, nodes, indexing="ij")
    w = np.outer(weights, weights)

    def layer(K):
        value, slope = np.empty_like(K), np.empty_like(K)
        for i, j in np.ndindex(K.shape):
            a = np.sqrt(K[i, i]) * g
            b = K[i, j] / np.sqrt(K[i, i]) * g
            b = b + np.sqrt(max(K[j, j] - K[i, j] ** 2 / K[i, i], 0.0)) * h
            value[i, j] = (w * np.tanh(a) * np.tanh(b)).sum()
            slope[i, j] = (w / (np.cosh(a) * np.cosh(b)) ** 2).sum()
        return value, slope

    K0 = Z @ Z.T
    K1, D1 = layer(K0)
    K2, D2 = layer(K1)
    return K0 * D1 * D2, K1 * D2, K2


@pytest.mark.covers("E10")
@pytest.mark.parametrize(
    ("abc", "terms"),
    [
        (STRATEGIES["ntk"], (1, 1, 1)),
        (STRATEGIES["standard, rate 1/n"], (0, 1, 1)),
        (ABC((HALF, 1, HALF), (-HALF, -HALF, 0), 0), (0, 0, 1)),
        (ABC((0, HALF, 3 * HALF), (0, 0, -1), 0), (1, 1, 0)),
        (ABC((0, 3 * QUARTER, HALF), (0, -QUARTER, 0), 0), (1, 0, 1)),
    ],
)
def test_the_kernel_regime_comes_out_of_the_same_text(abc, terms):
    """N.31: with every theta at its limit, the outputs follow the kernel that the exponents choose."""
    settings = job(abc, 0.3)
    kernel = sum(t * K for t, K in zip(terms, kernels(), strict=True))
    expected = gradient_descent(kernel, 0.3)
    found = run(incremental(**settings), lazy_limit())
    np.testing.assert_allclose(found.f.values, expected, atol=0.03)


def lazy_limit():
    return Infinite(0.02, start=8192, replicas=4)


def test_a_gaussian_start_is_carried_along():
    """Outputs at initialisation given, of the samples first: kernel gradient descent from there."""
    settings = job(STRATEGIES["ntk"], 0.3)
    start = np.random.default_rng(0).normal(size=len(WATCHED) + len(X))
    kernel, f, w = sum(kernels()), start.copy(), len(WATCHED)
    expected = [f[:w]]
    for t, y in enumerate(Y):
        f = f - 0.3 * kernel[:, w + t] * (f[w + t] - y)
        expected.append(f[:w])
    found = run(incremental(**settings, start=np.roll(start, len(X))), lazy_limit())
    np.testing.assert_allclose(found.f.values, expected, atol=0.03)
    with pytest.raises(ValueError, match=r"`start` needs an output for each of 6 inputs.*got 2"):
        incremental(**settings, start=start[:2])


def test_increments_at_great_width_approach_the_kernel():
    """Equal in law to a real network of width 30,000 in neural-tangent scaling, its random start aside."""
    abc = ABC((0, HALF, 3 * HALF), (0, 0, -1), 0)
    settings = job(abc, 0.3, 2)
    wide = run(incremental(**settings), Lazy(30_000, replicas=2)).f.values
    limit = run(incremental(**settings), lazy_limit()).f.values
    assert np.isfinite(wide).all()
    assert np.abs(wide - wide[0] - limit).max() < 0.1
