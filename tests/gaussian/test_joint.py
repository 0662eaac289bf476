"""Golden and property tests of expectations over many inputs, and of pairs by angle."""

import numpy as np
import pytest

import scalewise as sw
from grids import each
from scalewise.gaussian import pair_moment
from scalewise.gaussian._polar import polar_moment
from scalewise.gaussian._quadrature import pair_quadrature
from scalewise.gaussian.spi import joint_rule


def covariance(count: int, seed: int = 0) -> np.ndarray:
    z = np.random.default_rng(seed).normal(size=(count, count + 1))
    return z @ z.T / (count + 1)


@each(("count", "smooth"), [(1, True), (3, True), (4, True), (4, False), (9, True)])
def test_moments_of_the_nodes_are_wicks(count: int, smooth: bool) -> None:
    K = covariance(count)
    rule = joint_rule(K, smooth=smooth)
    assert rule.engine == ("product" if smooth and count <= 4 else "samples")
    second, fourth = [], []
    for z, w in rule.nodes():
        assert w.sum() == pytest.approx(1.0)
        second.append((z * w) @ z.T)
        pairs = np.einsum("am,bm->abm", z, z)
        fourth.append(np.einsum("abm,cdm,m->abcd", pairs, pairs, w, optimize=True))
    wick = np.einsum("ab,cd->abcd", K, K)
    wick = wick + np.einsum("ac,bd->abcd", K, K) + np.einsum("ad,bc->abcd", K, K)
    for estimates, truth in ((np.array(second), K), (np.array(fourth), wick)):
        value, error = rule.combine(estimates)
        if rule.engine == "product":
            np.testing.assert_allclose(value, truth, rtol=1e-11, atol=1e-12)
        else:
            assert error.max() < 0.02 * np.abs(truth).max()
            assert np.all(np.abs(value - truth) < 6 * error + 1e-12)
            # The error bar is not a formality: a good part of the entries is off by some of it.
            assert np.mean(np.abs(value - truth) > 0.2 * error) > 0.5


def test_a_singular_covariance_is_accepted() -> None:
    K = covariance(3)[np.ix_([0, 1, 1, 2], [0, 1, 1, 2])]
    rule = joint_rule(K, smooth=True)
    assert rule.root.shape == (4, 3)
    z, _ = next(rule.nodes())
    np.testing.assert_allclose(z[1], z[2], atol=1e-12)


def test_the_same_seed_gives_the_same_samples_and_another_gives_others() -> None:
    K = covariance(6)
    one, same, other = (next(joint_rule(K, smooth=True, seed=s).nodes())[0] for s in (0, 0, 90))
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)


def test_bad_covariances_are_refused() -> None:
    with pytest.raises(ValueError, match=r"positive semidefinite; its smallest eigenvalue is -1"):
        joint_rule(np.array([[1.0, 2.0], [2.0, 1.0]]), smooth=True)
    with pytest.raises(ValueError, match="symmetric"):
        joint_rule(np.array([[1.0, 0.1], [0.2, 1.0]]), smooth=True)
    with pytest.raises(ValueError, match="finite square"):
        joint_rule(np.array([[np.nan]]), smooth=True)


@each("slopes", [(0.0, 1.0), (0.3, 1.0), (-1.0, 1.0), (1.0, 1.0)])
@each("legs", [((0,), (0,)), ((0, 0), (0, 0)), ((0, 0, 0), (0,)), ((0, 1), (1,))])
def test_pairs_by_angle_against_nested_quadrature(slopes: tuple, legs: tuple) -> None:
    A, B = np.full(5, 0.7), np.full(5, 2.0)
    C = np.array([-1.0, -0.4, 0.0, 0.9, 1.0]) * np.sqrt(A * B)

    def factor(z: np.ndarray, orders: tuple[int, ...]) -> np.ndarray:
        slope = np.where(z >= 0, slopes[1], slopes[0])
        return slope ** len(orders) * z ** orders.count(0)

    want, _ = pair_quadrature(
        lambda z: factor(z, legs[0]), lambda z: factor(z, legs[1]), A, B, C, (0.0,)
    )
    np.testing.assert_allclose(polar_moment(slopes, A, B, C, *legs), want, rtol=1e-9, atol=1e-12)


def test_pair_moment_of_powers_of_tanh() -> None:
    A, B, C = np.array([0.5]), np.array([1.4]), np.array([0.6])
    got = pair_moment("tanh", A, B, C, (0, 0, 0), (0, 1))
    assert got.engine == "hermite"
    sigma = sw.activation("tanh")
    want, _ = pair_quadrature(
        lambda z: sigma(z) ** 3, lambda z: sigma(z) * sigma.derivative(z), A, B, C
    )
    np.testing.assert_allclose(got.value, want, rtol=1e-11)
