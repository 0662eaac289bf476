"""Golden, property: evidence against closed forms, refits, differences, and an independent library."""

import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Kernel

import scalewise as sw
from scalewise.training import (
    Bayes,
    hypothesis_probabilities,
    leave_one_out,
    log_evidence,
    log_evidence_slope,
    log_score,
)
from scalewise.training._generalisation import class_error, class_error_nlo, true_classes
from small_task import NET, TASK, TEST, TRAIN, Y, kernels

N = len(TRAIN)


class Given(Kernel):
    """A kernel that is known between numbered samples."""

    def __init__(self, K: np.ndarray) -> None:
        self.K = K

    def __call__(self, X, Y=None, eval_gradient=False):
        rows = X[:, 0].astype(int)
        return self.K[np.ix_(rows, rows if Y is None else Y[:, 0].astype(int))]

    def diag(self, X):
        return np.diag(self.K)[X[:, 0].astype(int)]

    def is_stationary(self):
        return False


@pytest.mark.covers("B3")
def test_printed_evidence_of_one_and_two_inputs() -> None:
    got = [math.exp(log_evidence([[K]], [[1.0]])) for K in (0.1, 1.0, 2.0, 10.0)]
    assert got == pytest.approx([0.00850037, 0.24197072, 0.21969564, 0.12000389], abs=6e-9)
    one_hot = np.eye(10)[:1]
    got = [log_evidence([[K]], one_hot) for K in (0.1, 1.0)]
    assert got == pytest.approx([-2.676460, -9.689385], abs=6e-7)
    y, K0, K2 = [[0.7, -0.2], [0.1, 0.9]], 1.2, 0.4
    got = [log_evidence([[K0 + K1 + K2, K0 - K2], [K0 - K2, K0 - K1 + K2]], y) for K1 in (0.3, 0.0)]
    assert got == pytest.approx([-4.942092, -4.936413], abs=6e-7)
    half = log_evidence([[K0 + K2, K0 - K2], [K0 - K2, K0 + K2]], y, per_sample=True)
    assert half == pytest.approx(-4.936413 / 2, abs=6e-7)
    # (6.45): the optimum over K_[0] and K_[2] is where each equals its part of the targets.
    Y0, Y2 = 0.4**2 + 0.35**2, 0.3**2 + 0.55**2
    best = [[(Y0 + Y2) / 2, (Y0 - Y2) / 2], [(Y0 - Y2) / 2, (Y0 + Y2) / 2]]
    for change in (np.ones((2, 2)), np.array([[1.0, -1.0], [-1.0, 1.0]])):
        assert log_evidence_slope(best, y, change) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.covers("B3", "B5", "B76")
def test_an_independent_library_agrees() -> None:
    K, _ = kernels()
    places = np.arange(len(K))[:, None]
    for noise in (1e-10, 0.3):
        other = GaussianProcessRegressor(Given(K), alpha=noise, optimizer=None)
        other.fit(places[:N], Y)
        mean, C = other.predict(places[N:], return_cov=True)
        found = sw.predict_training(NET, TASK, Bayes(noise))
        np.testing.assert_allclose(found.output_mean, mean.T, rtol=1e-8)
        np.testing.assert_allclose(found.output_covariance, C[..., 0], rtol=1e-7, atol=1e-10)
        evidence = other.log_marginal_likelihood()
        assert found.log_evidence.item() == pytest.approx(evidence, rel=1e-8)
        assert log_evidence(K[:N, :N], Y, noise_variance=noise) == pytest.approx(evidence, rel=1e-8)
    K_of_A = K[:N, :N]
    direct = sum(multivariate_normal(np.zeros(N), K_of_A).logpdf(y) for y in Y.T)
    assert log_evidence(K_of_A, Y) == pytest.approx(direct, rel=1e-10)
    assert sw.predict_training(NET, TASK, Bayes()).log_evidence.item() == pytest.approx(direct)


@pytest.mark.covers("B3")
def test_slopes_are_differences_of_evidences() -> None:
    for noise in (0.0, 0.2):
        found = sw.predict_training(NET, TASK, Bayes(noise)).log_evidence_slope
        assert list(found.hyperparameter.values) == ["noise_variance", "C_b", "C_W"]
        step = 1e-4

        def at(noise: float, C_b: float, C_W: float) -> float:
            net = sw.MLP(
                3, 50, "tanh", input_dim=3, output_dim=2, C_b=(0.1, 0.1, C_b), C_W=(1.4, 1.4, C_W)
            )
            return sw.predict_training(net, TASK, Bayes(noise), at="train").log_evidence.item()

        here = np.array([noise + step, 0.1, 1.4])
        slopes = [(at(*(here + d)) - at(*(here - d))) / (2 * step) for d in np.eye(3) * step]
        moved = sw.predict_training(NET, TASK, Bayes(noise + step)).log_evidence_slope
        np.testing.assert_allclose(moved, slopes, rtol=1e-5)
        K = kernels()[0][:N, :N]
        changes = (np.eye(N), np.ones((N, N)), (K - 0.1) / 1.4)
        general = [log_evidence_slope(K, Y, change, noise_variance=noise) for change in changes]
        np.testing.assert_allclose(found, general, rtol=1e-9)
    assert np.abs(found).min() > 1e-3
    layered = sw.MLP(
        3, 50, "tanh", input_dim=3, output_dim=2, C_b=(0.1, 0.1, 0.4), C_W=(1.4, 1.4, 2.0)
    )
    found = sw.predict_training(layered, TASK, Bayes(0.2)).log_evidence_slope
    K = kernels(layered)[0][:N, :N]
    general = log_evidence_slope(K, Y, (K - 0.4) / 2.0, noise_variance=0.2)
    assert found[2].item() == pytest.approx(general, rel=1e-9)


@pytest.mark.covers("B3")
def test_hypotheses_share_one_probability() -> None:
    evidences = np.array([-1000.0, -1001.0, -1e6])
    odds = hypothesis_probabilities(evidences)
    assert odds[0] / odds[1] == pytest.approx(math.e)
    assert odds.sum() == pytest.approx(1.0)
    assert odds[2] == 0
    prior = hypothesis_probabilities([5.0, 5.0, 800.0], [1.0, 3.0, 0.0])
    np.testing.assert_allclose(prior, [0.25, 0.75, 0.0], rtol=1e-15)


@pytest.mark.covers("B5")
def test_leaving_one_out_is_fitting_without_it() -> None:
    K = kernels()[0][:N, :N]
    for noise in (0.0, 0.3):
        found = leave_one_out(K, Y, noise_variance=noise)
        for a in range(N):
            rest = np.delete(np.arange(N), a)
            R = K[a, rest] @ np.linalg.inv(K[np.ix_(rest, rest)] + noise * np.eye(N - 1))
            mean, variance = R @ Y[rest], K[a, a] + noise - R @ K[rest, a]
            np.testing.assert_allclose(found.output_mean[a], mean, rtol=1e-8)
            np.testing.assert_allclose(found.variance[a], variance, rtol=1e-8)
            score = norm(mean, math.sqrt(variance)).logpdf(Y[a]).sum()
            np.testing.assert_allclose(found.log_score[a], score, rtol=1e-8)


@pytest.mark.covers("B5")
def test_joint_scores_add_up_to_the_evidence() -> None:
    """p(y_A, y_B) = p(y_A) p(y_B | y_A), whatever noise both have."""
    rng = np.random.default_rng(4)
    wanted = rng.standard_normal((len(TEST), 2))
    K, _ = kernels()
    for noise in (0.0, 0.3):
        found = sw.predict_training(NET, TASK, Bayes(noise))
        score = log_score(found, wanted, noise_variance=noise)
        both = log_evidence(K, np.concatenate([Y, wanted]), noise_variance=noise)
        assert found.log_evidence.item() + score == pytest.approx(both, rel=1e-9)


@pytest.mark.covers("C76")
@pytest.mark.parametrize("outputs", [1, 4])
def test_cumulants_move_errors_of_classes_as_moved_means_do(outputs: int) -> None:
    """A cumulant of one direction is a derivative along it; any other is a sum of such."""
    rng = np.random.default_rng(7)
    variance = np.array([0.3, 1.0, 4.0, 0.0])
    mean = rng.standard_normal((outputs, 4))
    y = np.sign(rng.standard_normal((1, 4))) if outputs == 1 else np.eye(4) - 0.25
    points, weights, wrong = np.arange(-4, 5), [], []
    for order in range(1, 5):  # central differences, of eighth order or of sixth
        weights.append(np.linalg.solve(np.vander(points, 9, increasing=True).T,
                                       math.factorial(order) * np.eye(9)[order]))  # fmt: skip
    step = 0.08
    w = rng.standard_normal((2, outputs)) / 2
    wanted, cumulants = np.zeros(4), []
    for order, weight in enumerate(weights, 1):
        total = np.zeros((outputs,) * order)
        for one in w:
            at = [class_error(mean + step * k * one[:, None], variance, y) for k in points]
            wanted += weight @ np.array(at) / step**order / math.factorial(order)
            power = one
            for _ in range(order - 1):
                power = np.multiply.outer(power, one)
            total += power
        cumulants.append(np.repeat(total[..., None], 4, axis=-1))
        found = class_error_nlo(mean, variance, y, cumulants)
        if not np.allclose(found[:3], wanted[:3], rtol=1e-4, atol=1e-5) or found[3]:
            wrong.append((order, found, wanted))
    assert not wrong


@pytest.mark.covers("B27")
def test_errors_of_classes_are_those_of_drawn_outputs() -> None:
    rng = np.random.default_rng(2)
    variance = np.array([0.3, 1.0, 4.0])
    spread = np.sqrt(variance)
    mean = rng.standard_normal((1, 3))
    sign = np.array([[1.0, -1.0, 1.0]])
    expected = norm.cdf(0, mean[0] * sign[0], spread)
    np.testing.assert_allclose(class_error(mean, variance, sign), expected, rtol=1e-12)
    two, y = rng.standard_normal((2, 3)), np.array([[0.5, -0.5, 0.5], [-0.5, 0.5, -0.5]])
    apart = (y[0] - y[1]) * (two[0] - two[1])
    expected = norm.cdf(-apart / (spread * math.sqrt(2)))
    np.testing.assert_allclose(class_error(two, variance, y), expected, rtol=1e-9)
    four, y = rng.standard_normal((2, 4, 3)), np.eye(4)[:, :3] - 0.25
    draws = four[:, None] + spread * rng.standard_normal((2, 40_000, 4, 3))
    found = class_error(four, np.tile(variance, (2, 1)), y)
    measured = (draws.argmax(axis=2) != np.arange(3)).mean(axis=1)
    assert np.abs((measured - found) / np.sqrt(found * (1 - found) / 40_000)).max() < 4.5
    sure = class_error(
        np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]]), np.zeros(2), np.eye(3)[:, :2]
    )
    np.testing.assert_allclose(sure, [0.5, 1.0])
    assert (
        class_error(np.array([[2.0, -2.0, 0.0]]), np.zeros(3), np.ones((1, 3))).tolist()
        == [[0.0, 1.0, 0.5]][0]
    )
    assert true_classes(np.eye(3), np.eye(3)[:1])
    assert true_classes(np.eye(3) - 1 / 3)
    assert not true_classes(np.array([[1.0], [0.5]]))
    assert not true_classes(np.eye(3), 2 * np.eye(3))
    assert not true_classes(np.array([[1.0, 0.2, 0.0]]))
