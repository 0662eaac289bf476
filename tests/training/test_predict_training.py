"""Golden, agreement: printed numbers, steps taken matrix by matrix, networks drawn from their prior."""

import math

import mpmath
import numpy as np
import pytest

import scalewise as sw
from scalewise.training import (
    NTKGP,
    Bayes,
    GradientDescent,
    GradientFlow,
    LastLayer,
    log_score,
    sample_outputs,
)
from scalewise.training._filters import Filter, after_flow
from scalewise.training._kernel import LearnedTask, UnseenSamples, mean_of_samples, prior_of, usable
from scalewise.training._spectrum import spectrum
from small_task import NET, TASK, TEST, TRAIN, WANTED, Y, kernels

N = len(TRAIN)
HALF = math.sqrt(0.5)
RELU = sw.MLP(3, 100, "relu", input_dim=2, output_dim=1, C_W=2.0)
PRINTED = sw.Task([[1, 0], [0, 1]], [1, 0.5], test_inputs=[[HALF, HALF]], test_targets=[0.25])


@pytest.mark.covers("B3", "B5", "B26")
def test_printed_means_variances_and_rates() -> None:
    trained = sw.predict_training(RELU, PRINTED)
    bayes = sw.predict_training(RELU, PRINTED, Bayes())
    got = [x.item() for d in (trained, bayes) for x in (d.output_mean, d.variance)]
    assert got == pytest.approx([0.721315, 0.167076, 0.795499, 0.159769], abs=6e-7)
    assert bayes.log_evidence.item() == pytest.approx(-2.198198, abs=6e-7)
    steps = sw.predict_training(RELU, PRINTED, GradientDescent(0.1, 10))
    assert steps.attrs["maximal_rate"] == pytest.approx(0.296405, abs=6e-7)


@pytest.mark.covers("B25")
def test_printed_steps_from_given_outputs() -> None:
    """A network that starts at z follows the mean of one whose targets are y - z."""
    z, y, expected = (
        (0.3, -0.2, 0.1),
        np.array([1.0, 0.5]),
        {
            1: (0.772327, 0.272327, 0.554262),
            10: (0.999991, 0.499991, 0.773218),
            None: (1.0, 0.5, 0.773227),
        },
    )
    wrong = []
    for steps, printed in expected.items():
        task = sw.Task(PRINTED.inputs, y - z[:2], test_inputs=PRINTED.test_inputs)
        found = sw.predict_training(RELU, task, GradientDescent(0.1, steps))
        moved = np.concatenate([found.train_mean.values[0], found.output_mean.values[0]]) + z
        wrong += [] if np.allclose(moved, printed, atol=6e-7) else [(steps, moved)]
    assert wrong == []


def brute(rates: list[float], momentum: float, ridge: float) -> tuple[np.ndarray, np.ndarray]:
    """What the steps make of initial outputs and of targets: z = P z_0 + Q y."""
    _, Theta = kernels()
    size = len(Theta)
    P, Q = np.eye(size), np.zeros((size, N))
    coefficients = np.zeros((2, N, size + N))  # of Theta_{.A}, and their velocity, for z_0 and y
    for rate in rates:
        error = np.concatenate([P, Q], axis=1)[:N].copy()
        error[:, size:] -= np.eye(N)
        coefficients[1] = momentum * coefficients[1] - rate * (error + ridge * coefficients[0])
        coefficients[0] += coefficients[1]
        moved = Theta[:, :N] @ coefficients[0]
        P, Q = np.eye(size) + moved[:, :size], moved[:, size:]
    return P, Q


@pytest.mark.covers("B25", "B26", "B27")
def test_steps_are_those_of_the_printed_recursion() -> None:
    K, Theta = kernels()
    most = 1 / np.linalg.eigvalsh(Theta[:N, :N]).max()
    cases = {
        GradientDescent(most): [most] * 9,
        GradientDescent(1.5 * most, momentum=0.6): [1.5 * most] * 9,
        GradientDescent(1.5 * most, momentum=0.6, ridge=0.2): [1.5 * most] * 9,
        GradientDescent([most, 0.3 * most, *[1.3 * most] * 7], momentum=0.4): [
            most,
            0.3 * most,
            *[1.3 * most] * 7,
        ],
    }
    wrong = []
    for algorithm, rates in cases.items():
        found = sw.predict_training(NET, TASK, algorithm, times=[0, 1, 4, 9])
        for step in (0, 1, 4, 9):
            P, Q = brute(rates[:step], algorithm.momentum, algorithm.ridge)
            mean, covariance = Q @ Y, P @ K @ P.T
            bias = mean[N:] - WANTED
            loss = 0.5 * (bias**2).sum(axis=1) + np.diag(covariance)[N:]
            at = found.sel(time=step)
            pairs = [
                (at.train_mean, mean[:N].T),
                (at.output_mean, mean[N:].T),
                (at.train_covariance, covariance[:N, :N]),
                (at.output_covariance, covariance[N:, N:]),
                (at.variance, np.diag(covariance)[N:]),
                (at.bias, bias.T),
                (at.test_loss, loss),
                (at.train_loss, 0.5 * ((mean[:N] - Y) ** 2).sum(axis=1) + np.diag(covariance)[:N]),
            ]
            wrong += [
                (algorithm, step, x.name)
                for x, y in pairs
                if not np.allclose(x, y, rtol=1e-10, atol=1e-12)
            ]
    assert wrong == []


@pytest.mark.covers("B26")
def test_networks_drawn_from_their_prior_train_to_the_predicted_gaussian() -> None:
    K, Theta = kernels()
    draws = 20_000
    rng = np.random.default_rng(1)
    z = rng.multivariate_normal(np.zeros(len(K)), K, size=draws, method="eigh")
    R = Theta[N:, :N] @ np.linalg.inv(Theta[:N, :N])
    trained = z[:, N:] - (z[:, :N] - Y[:, 0]) @ R.T
    found = sw.predict_training(NET, TASK)
    mean, C = found.output_mean.values[0], found.output_covariance.values
    assert np.abs((trained.mean(axis=0) - mean) / np.sqrt(np.diag(C) / draws)).max() < 4.5
    d = np.diag(C)
    error = np.sqrt((np.outer(d, d) + C**2) / draws)
    assert np.abs((np.cov(trained.T) - C) / error).max() < 4.5
    own = sample_outputs(found, draws, seed=5).values
    assert np.abs((own[:, 0].mean(axis=0) - mean) / np.sqrt(d / draws)).max() < 4.5
    assert np.abs((np.cov(own[:, 1].T) - C) / error).max() < 4.5
    across = (own[:, 0] - mean).T @ (own[:, 1] - found.output_mean.values[1]) / draws
    assert np.abs(across / np.sqrt(np.outer(d, d) / draws)).max() < 4.5


@pytest.mark.covers("B26")
def test_training_the_last_layer_is_bayes_and_so_are_its_rates() -> None:
    rates = sw.MLP(
        3,
        50,
        "tanh",
        input_dim=3,
        output_dim=2,
        C_b=0.1,
        C_W=1.4,
        lambda_b=(0, 0, 0.1),
        lambda_W=(0, 0, 1.4),
    )
    results = [
        sw.predict_training(NET, TASK, Bayes()),
        sw.predict_training(NET, TASK, LastLayer()),
        sw.predict_training(rates, TASK, GradientFlow()),
        sw.predict_training(rates, TASK, NTKGP()),
    ]
    for other in results[1:]:
        for name in ("output_mean", "output_covariance", "train_mean", "train_covariance"):
            np.testing.assert_allclose(other[name], results[0][name], rtol=1e-9, atol=1e-12)


@pytest.mark.covers("B5")
def test_posteriors_are_conditional_gaussians() -> None:
    K, Theta = kernels()
    for kernel, kind in ((K, Bayes), (Theta, NTKGP)):
        for noise in (0.0, 0.3):
            found = sw.predict_training(NET, TASK, kind(noise))
            S = np.linalg.inv(kernel[:N, :N] + noise * np.eye(N))
            mean, spread = kernel[:, :N] @ S @ Y, kernel - kernel[:, :N] @ S @ kernel[:N]
            for name, expected in {
                "output_mean": mean[N:].T,
                "train_mean": mean[:N].T,
                "output_covariance": spread[N:, N:],
                "train_covariance": spread[:N, :N],
            }.items():
                np.testing.assert_allclose(found[name], expected, rtol=1e-9, atol=1e-11)
            y = WANTED - mean[N:]
            total = spread[N:, N:] + 0.2 * np.eye(len(TEST))
            score = -0.5 * ((y * np.linalg.solve(total, y)).sum())
            score -= np.linalg.slogdet(2 * np.pi * total)[1]
            got = log_score(found, WANTED, noise_variance=0.2)
            assert got == pytest.approx(score, rel=1e-9)


def test_an_ill_conditioned_kernel_keeps_what_its_condition_leaves() -> None:
    """Beside 50 digits: nothing is added to the diagonal, and no variance is negative."""
    mpmath.mp.dps = 50
    x = np.array([0.0, 1e-5, 0.4, 1.0, 0.2, 0.7])
    H = np.exp(-((x[:, None] - x) ** 2) / 2)
    K, y, n = H**2, np.array([[0.3], [0.3], [-0.5], [0.9]]), 4
    found = spectrum(H[:n, :n], "kernel")
    assert 1e9 < found.condition < 1e13
    assert found.rank == n
    learned = LearnedTask(found, prior_of(found, K[:n, :n]), y)
    none = np.full(2, -1)
    tests = UnseenSamples.of(learned, H[n:, :n], K[:n, n:], K[n:, n:], none)
    for t, allowed in ((1e3, 1e-11), (math.inf, np.finfo(float).eps * found.condition)):
        filters = usable(found, after_flow(found.h, np.array([t])))
        exact = mpmath.matrix(H[:n, :n].tolist())
        if math.isinf(t):
            g = exact**-1
        else:
            e, Q = mpmath.eigsy(exact)
            g = Q * mpmath.diag([(1 - mpmath.exp(-v * t)) / v for v in e]) * Q.T
        R = mpmath.matrix(H[n:, :n].tolist()) * g
        mean = R * mpmath.matrix(y.tolist())
        P = mpmath.matrix(2, 6)
        for a in range(2):
            P[a, n + a] = 1
            for b in range(n):
                P[a, b] = -R[a, b]
        C = P * mpmath.matrix(K.tolist()) * P.T
        np.testing.assert_allclose(
            tests.mean(filters).ravel(), [float(v) for v in mean], rtol=0, atol=allowed
        )
        variance = np.diag(tests.covariance(filters)[0])
        np.testing.assert_allclose(variance, [float(C[0, 0]), float(C[1, 1])], rtol=0, atol=allowed)
        assert (variance >= 0).all()
    learned_all = Filter(1 / found.h[None], np.zeros((1, n)))
    np.testing.assert_array_equal(mean_of_samples(learned, learned_all)[0].T, y)


def test_samples_met_twice_are_known_and_repeated_rows_share_their_answer() -> None:
    again = sw.Task(TRAIN, Y, test_inputs=np.concatenate([TEST[:1], TRAIN[1:3], TEST[1:2]]))
    plain = sw.predict_training(NET, TASK)
    for algorithm in (GradientFlow(), GradientDescent(), Bayes(), LastLayer(), NTKGP()):
        found = sw.predict_training(NET, again, algorithm)
        assert (found.variance.values[1:3] == 0).all()
        assert (found.output_covariance.values[1:3] == 0).all()
        np.testing.assert_array_equal(found.output_mean.values[:, 1:3], Y[1:3].T)
    known = sw.Task(TRAIN, Y, test_inputs=TRAIN)
    for algorithm in (GradientFlow(), Bayes(), NTKGP()):
        alone = sw.predict_training(NET, known, algorithm, covariance="diagonal")
        assert (alone.variance.values == 0).all()
    early = sw.predict_training(NET, again, GradientFlow(0.7))
    np.testing.assert_allclose(early.variance[1:3], early.train_variance[1:3], rtol=1e-13)
    np.testing.assert_array_equal(early.output_mean[:, 1:3], early.train_mean[:, 1:3])
    # The same rows twice, with the same targets: a kernel of rank 5 for 10 samples.
    double = sw.Task(np.tile(TRAIN, (2, 1)), np.tile(Y, (2, 1)), test_inputs=TEST)
    found = sw.predict_training(NET, double)
    assert found.attrs["rank"] == 5
    assert math.isinf(found.attrs["condition"])
    assert found.attrs["jitter"] == 0
    np.testing.assert_allclose(found.output_mean, plain.output_mean, rtol=1e-8)
    np.testing.assert_allclose(found.variance, plain.variance, rtol=1e-8)
    # Targets that differ are met halfway, as far as one trains.
    apart = np.tile(Y, (2, 1)) + 0.5 * np.repeat([[1.0], [-1.0]], 5, axis=0)
    for time, rtol in ((2.0, 1e-9), (1e9, 1e-6)):
        opposed = sw.predict_training(
            NET, sw.Task(double.inputs, apart, test_inputs=TEST), GradientFlow(time)
        )
        same = sw.predict_training(NET, double, GradientFlow(time))
        np.testing.assert_allclose(opposed.output_mean, same.output_mean, rtol=rtol)


def test_many_times_at_once_are_those_of_a_direct_formula() -> None:
    """Filters of neighbouring directions are combined; hundreds of samples make several groups of them."""
    n, rng = 300, np.random.default_rng(3)
    x = rng.standard_normal((n + 6, 3)) * np.linspace(0.3, 2, n + 6)[:, None]
    x[n + 1] = x[7]  # a test that repeats a sample
    net = sw.MLP(2, 10, "relu", input_dim=3, output_dim=1, C_b=0.1, C_W=2.0)
    task = sw.Task(x[:n], np.sin(x[:n, :1]), test_inputs=x[n:])
    both = sw.predict(net, x, observables=["kernel", "ntk"], layers=2)
    K, Theta = both.kernel.values[0], both.ntk.values[0]
    h, U = np.linalg.eigh(Theta[:n, :n])
    times = np.r_[0.0, np.geomspace(1e-3, 1e6, 30), 1e12]
    steps = np.r_[0, 1, 2, 3, np.unique(np.geomspace(4, 1e5, 20).astype(int)), 10**9]
    missed = []
    for algorithm, at in ((GradientFlow(), times), (GradientDescent(momentum=0.5), steps)):
        found = sw.predict_training(net, task, algorithm, times=at)
        f = algorithm.filter(h, at)
        for k in range(len(at)):
            R = (Theta[:, :n] @ U * f.gain[k]) @ U.T
            R[:n] = np.eye(n) - (U * f.left[k]) @ U.T
            R[n + 1] = R[7]
            P = np.eye(n + 6) - np.pad(R, ((0, 0), (0, 6)))
            cov = P @ K @ P.T
            cov[n + 1] = cov[:, n + 1] = 0  # below, as the sample itself
            own = found.isel(time=k)
            expected = {
                "output_covariance": (P @ K @ P.T)[n:, n:],
                "train_covariance": (P @ K @ P.T)[:n, :n],
                "output_mean": (R @ task.targets)[n:].T,
                "train_mean": (R @ task.targets)[:n].T,
            }
            for name, value in expected.items():
                gap = float(np.abs(own[name].values - value).max())
                if gap > 1e-9 * max(1.0, np.abs(value).max()):
                    missed.append((type(algorithm).__name__, name, at[k], gap))
        end = found.isel(time=-1)
        assert (end.train_covariance.values == 0).all()
        assert (end.output_covariance.values[1] == 0).all()
    assert not missed
