"""Golden and property tests: sums against NumPy, k-statistics against known cumulants."""

import numpy as np
import pytest

from scalewise.nets._moments import CovarianceSums, MeanSums, merge, restore, state


def skewed(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Pairs (g², g² + h) of normal g, h: the cumulants below follow by hand."""
    g, h = rng.standard_normal((2, *shape))
    return np.stack([g**2, g**2 + h], axis=-1)


KAPPA_11 = np.array([[2.0, 2.0], [2.0, 3.0]])
# kappa_22 of two variables that share g² is kappa_4 of g², 48; h adds nothing to mixed ones and
# nothing to its own.
KAPPA_22 = np.full((2, 2), 48.0)


def test_means_and_covariances_are_those_of_numpy():
    x = 3.0 + skewed(np.random.default_rng(0), 50, 3)
    sums = CovarianceSums.empty(x[0] * 0 + 2.0).add(x[:20]).add(x[20:])
    means = MeanSums.empty(x[0] * 0 + 2.0).add(x[:20]).add(x[20:])
    sem = x.std(axis=0, ddof=1) / np.sqrt(50)
    for each in (sums, means):
        np.testing.assert_allclose(each.mean(), x.mean(axis=0), rtol=1e-13)
        np.testing.assert_allclose(each.mean_sem(), sem, rtol=1e-12)
    for layer in range(3):
        np.testing.assert_allclose(
            sums.covariance()[layer], np.cov(x[:, layer], rowvar=False), rtol=1e-12
        )


def test_the_central_moments_are_those_summed_directly():
    x = skewed(np.random.default_rng(1), 40, 1)
    d = x[:, 0] - x[:, 0].mean(axis=0)
    direct = np.einsum("ki,kj->ij", d**2, d**2)
    m22 = CovarianceSums.empty(np.array([[5.0, -4.0]])).add(x)._m22()[0]
    # About a pilot some five spreads off, the fourth powers lose three digits to cancellation.
    np.testing.assert_allclose(m22, direct, rtol=1e-11)


def test_the_pilot_does_not_matter_and_merging_is_adding():
    x = skewed(np.random.default_rng(2), 64, 2)
    near = CovarianceSums.empty(np.full((2, 2), 1.0)).add(x)
    halves = [CovarianceSums.empty(np.full((2, 2), -7.0)).add(part) for part in (x[:9], x[9:])]
    far = merge(*halves)
    for name in ("mean", "mean_sem", "covariance", "covariance_sem"):
        # Fourth powers of a distance of 8 spreads cost four digits of sixteen.
        np.testing.assert_allclose(getattr(far, name)(), getattr(near, name)(), rtol=1e-10)
    with pytest.raises(ValueError, match="different pilot"):
        merge(near, far)


def test_state_round_trip():
    x = skewed(np.random.default_rng(3), 8, 2)
    for kind in (MeanSums, CovarianceSums):
        sums = kind.empty(x.mean(axis=0)).add(x)
        again = restore(kind, state(sums))
        assert again.count == 8
        np.testing.assert_array_equal(again.mean_sem(), sums.mean_sem())


def test_the_error_of_a_covariance_is_its_spread_over_repetitions():
    m, repetitions = 200, 4000
    x = skewed(np.random.default_rng(4), m, repetitions)
    sums = CovarianceSums.empty(np.full((repetitions, 2), 1.0)).add(x)
    exact = KAPPA_22 / m + (np.outer(*[np.diag(KAPPA_11)] * 2) + KAPPA_11**2) / (m - 1)
    # Four standard errors of a variance from 4000 draws of a covariance of excess kurtosis about 1.
    statistical = 4 * np.sqrt(3 / repetitions)
    spread = sums.covariance().var(axis=0, ddof=1)
    np.testing.assert_allclose(spread, exact, rtol=statistical)
    # The products of k-statistics are biased by 1/m; heavy tails make the estimates vary by about 1.
    reported = np.mean(sums.covariance_sem() ** 2, axis=0)
    np.testing.assert_allclose(reported, exact, rtol=1 / m + 4 * 1.5 / np.sqrt(repetitions))
    bias = np.abs(sums.covariance().mean(axis=0) - KAPPA_11)
    assert np.all(bias < 4 * np.sqrt(exact / repetitions))


def test_the_error_of_a_mean_covers_the_truth_as_often_as_it_says():
    m, repetitions = 100, 4000
    x = np.random.default_rng(5).standard_normal((m, repetitions, 1))
    sums = MeanSums.empty(np.zeros((repetitions, 1))).add(x)
    covered = np.mean(np.abs(sums.mean()) < 1.984 * sums.mean_sem())  # Student t, 99 degrees
    assert abs(covered - 0.95) < 4 * np.sqrt(0.95 * 0.05 / repetitions)


def test_two_valued_data_have_a_positive_error():
    # kappa_22 is negative here, and its estimate from four values outweighs the rest: the normal part is left.
    x = np.array([1.0, -1.0, 1.0, -1.0])[:, None, None]
    sem = CovarianceSums.empty(np.zeros((1, 1))).add(x).covariance_sem()
    np.testing.assert_allclose(sem**2, 2 * (4 / 3) ** 2 / 3)
