"""Golden and property tests: divergences between families of networks, wrong answers and termination."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import integrate, stats

from grids import each
from scalewise.limits import shallow as sh

RNG = np.random.default_rng(0)


def kl(p: Callable, q: Callable, low: float, high: float) -> float:
    return integrate.quad(
        lambda t: p(t) * np.log(p(t) / q(t)), low, high, epsabs=1e-11, epsrel=1e-11, limit=200
    )[0]


@pytest.mark.covers("E24")
def test_published_values() -> None:
    assert sh.gaussian_divergence(0.3, 1.2, -0.1, 0.7) == pytest.approx(0.2019303211, abs=5e-11)
    assert sh.beta_divergence(2.0, 3.0, 4.0, 1.5) == pytest.approx(1.4897365804, abs=5e-11)


@pytest.mark.covers("E24")
@each("seed", range(4))
def test_divergences_are_the_integrals(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m, n = rng.normal(size=2)
    v, w = rng.uniform(0.5, 2, size=2)
    p, q = stats.norm(m, v**0.5).pdf, stats.norm(n, w**0.5).pdf
    assert sh.gaussian_divergence(m, v, n, w) == pytest.approx(kl(p, q, m - 12, m + 12), rel=1e-8)
    a, b, c, d = rng.uniform(1.2, 5, size=4)
    p, q = stats.beta(a, b).pdf, stats.beta(c, d).pdf
    assert sh.beta_divergence(a, b, c, d) == pytest.approx(kl(p, q, 0, 1), rel=1e-7)
    two = sh.dirichlet_divergence(np.array([a, b]), np.array([c, d]))
    assert two == pytest.approx(sh.beta_divergence(a, b, c, d), rel=1e-12)


@pytest.mark.covers("E24")
def test_dirichlet_divergence_by_sampling() -> None:
    alpha, star = np.array([2.0, 3.0, 1.5]), np.array([1.0, 4.0, 2.5])
    draws = np.random.default_rng(1).dirichlet(alpha, 40_000)
    logs = stats.dirichlet(alpha).logpdf(draws.T) - stats.dirichlet(star).logpdf(draws.T)
    sem = logs.std() / 200
    assert abs(sh.dirichlet_divergence(alpha, star) - logs.mean()) < 4 * sem
    assert sem < 0.01


@pytest.mark.covers("E24")
def test_fits_by_moments() -> None:
    draws = np.random.default_rng(2).beta(2, 3, size=(200_000, 2))
    alpha, beta = sh.beta_fit(draws)
    np.testing.assert_allclose(alpha, 2, rtol=0.02)
    np.testing.assert_allclose(beta, 3, rtol=0.02)
    strength = alpha + beta
    np.testing.assert_allclose(alpha / strength, draws.mean(axis=0), rtol=1e-12)
    variance = alpha * beta / strength**2 / (strength + 1)
    np.testing.assert_allclose(variance, draws.var(axis=0, ddof=1), rtol=1e-12)
    many = np.random.default_rng(3).dirichlet([2.0, 3.0, 1.5], size=100_000)
    np.testing.assert_allclose(sh.dirichlet_fit(many), [2.0, 3.0, 1.5], rtol=0.02)
    two = np.stack([draws[:, 0], 1 - draws[:, 0]], axis=-1)
    np.testing.assert_allclose(sh.dirichlet_fit(two), [alpha[0], beta[0]], rtol=1e-9)


@pytest.mark.covers("E24")
@each(("seeds", "others"), [(10, 10), (4, 30), (30, 8)])
def test_the_divergence_of_equal_laws(seeds: int, others: int) -> None:
    # With ten seeds each 19/70, whatever the law's mean and variance.
    rng = np.random.default_rng(seeds)
    one = 3 + 2 * rng.normal(size=(seeds, 20_000))
    other = 3 + 2 * rng.normal(size=(others, 20_000))
    found = np.asarray(sh.logit_divergence(one, other))
    floor = sh.divergence_floor(seeds, others)
    assert abs(found.mean() - floor) < 4 * found.std() / 20_000**0.5
    if seeds == others:
        assert floor == pytest.approx((2 * seeds - 1) / seeds / (seeds - 3), rel=1e-12)


def test_divergences_of_samples() -> None:
    one, other = RNG.normal(size=(8, 3)), 1 + 2 * RNG.normal(size=(9, 3))
    found = sh.logit_divergence(one, other)
    moments = (one.mean(0), one.var(0, ddof=1), other.mean(0), other.var(0, ddof=1))
    np.testing.assert_allclose(found, sh.gaussian_divergence(*moments), rtol=1e-12)
    p, q = RNG.beta(2, 3, size=(8, 3)), RNG.beta(3, 3, size=(9, 3))
    wanted = sh.beta_divergence(*sh.beta_fit(p), *sh.beta_fit(q))
    np.testing.assert_allclose(sh.probability_divergence(p, q), wanted, rtol=1e-12)
    np.testing.assert_allclose(sh.logit_divergence(one, one), 0, atol=1e-14)


@pytest.mark.covers("E24")
def test_wrong_answers_and_termination() -> None:
    outputs = np.array([[[1.0, -1.0], [2.0, 0.5]], [[1.0, 1.0], [2.0, -0.5]], [[1.0, 1.0], [1, 1]]])
    labels = np.array([[1.0, 1.0], [1.0, -1.0]])
    share, sem = sh.error_probability(outputs, labels)
    np.testing.assert_allclose(share, [0.5, 0.0, 0.25])
    np.testing.assert_allclose(sem, np.sqrt(share * (1 - share) / 4))
    assert sh.termination(share) == 1
    assert sh.termination(share[:1]) is None


@each(
    ("call", "message"),
    [
        (lambda: sh.gaussian_divergence(0.0, 0.0, 0.0, 1.0), "A variance must be positive"),
        (
            lambda: sh.gaussian_divergence(0.0, 1.0, 0.0, -1.0),
            "A variance must be positive.*got -1",
        ),
        (lambda: sh.beta_divergence(1.0, 1.0, 0.0, 1.0), "A parameter of a Beta law must be"),
        (
            lambda: sh.dirichlet_divergence(np.ones(2), -np.ones(2)),
            "A parameter of a Dirichlet law must be",
        ),
        (lambda: sh.logit_divergence(np.ones((1, 2)), np.ones((3, 2))), "at least two seeds along"),
        (lambda: sh.logit_divergence(np.zeros((4, 2)), np.ones((3, 2))), "differ between seeds"),
        (lambda: sh.beta_fit(np.array([0.5, 1.0])), "strictly between 0 and 1"),
        (lambda: sh.dirichlet_fit(np.array([[0.5, 0.4], [0.1, 0.9]])), "must add to 1"),
        (
            lambda: sh.divergence_floor(10, 3),
            "only with 2 seeds or more, and 4 or more of the reference",
        ),
        (lambda: sh.error_probability(np.ones((2, 3)), np.ones(2)), "needs the shape of `outputs`"),
    ],
)
def test_what_has_no_divergence_is_refused(call: Callable, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
