"""Golden, conformance: kernels and predictions in fifty digits, where double precision has little left."""

import math
import warnings

import mpmath
import numpy as np
import pytest

import scalewise as sw
from scalewise.training import NTKGP, Bayes, GradientFlow, _routes

mpmath.mp.dps = 50
NET = sw.MLP(3, 100, "relu", input_dim=2, output_dim=1, C_b=0.1, C_W=2.0)
X = np.array([[0.3, 1.2], [-0.7, 0.4], [1.5, -0.2], [0.1, -1.1]])
Y = np.array([0.5, -1.0, 0.3, 0.8])
TESTS = np.array([[0.9, 0.9], [-0.2, 0.7], [1.5, -0.1]])


def exact_kernels(x: np.ndarray) -> tuple[mpmath.matrix, mpmath.matrix]:
    """K and Theta of NET by the arc cosine formulas, lambda_b = lambda_W = 1."""
    n = len(x)
    rows = [[mpmath.mpf(float(v)) for v in row] for row in x]
    dot = mpmath.matrix(n, n)
    for i in range(n):
        for j in range(n):
            dot[i, j] = sum(a * b for a, b in zip(rows[i], rows[j], strict=True)) / 2
    C_b, C_W = mpmath.mpf(0.1), mpmath.mpf(2)
    K, Theta = dot * C_W, dot.copy()
    for i in range(n):
        for j in range(n):
            K[i, j] += C_b
            Theta[i, j] += 1
    for _ in range(2):
        up, rise = mpmath.matrix(n, n), mpmath.matrix(n, n)
        for i in range(n):
            for j in range(n):
                size = mpmath.sqrt(K[i, i] * K[j, j])
                c = min(K[i, j] / size, mpmath.mpf(1))
                angle = mpmath.acos(c)
                moment = size * (mpmath.sin(angle) + (mpmath.pi - angle) * c) / (2 * mpmath.pi)
                slope = (mpmath.pi - angle) / (2 * mpmath.pi)
                up[i, j] = C_b + C_W * moment
                rise[i, j] = 1 + moment + C_W * slope * Theta[i, j]
        K, Theta = up, rise
    return K, Theta


def exactly(train, y, noise: float, *, of: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance on the tests: of a posterior of K or Theta, or of an ensemble ("flow")."""
    n = len(train)
    K, Theta = exact_kernels(np.concatenate([train, TESTS]))
    H = K if of == "kernel" else Theta
    S = mpmath.matrix(n, n)
    for a in range(n):
        for b in range(n):
            S[a, b] = H[a, b] + (mpmath.mpf(noise) if a == b else 0)
    means, variances = [], []
    prior = K if of == "flow" else H
    for t in range(n, n + len(TESTS)):
        row = mpmath.lu_solve(S, mpmath.matrix([H[a, t] for a in range(n)]))
        means.append(float(sum(row[a] * mpmath.mpf(float(y[a])) for a in range(n))))
        cross = sum(row[a] * prior[a, t] for a in range(n))
        if of == "flow":
            square = sum(row[a] * K[a, b] * row[b] for a in range(n) for b in range(n))
            variances.append(float(K[t, t] - 2 * cross + square))
        else:
            variances.append(float(prior[t, t] - cross))
    return np.array(means), np.array(variances)


CASES = {
    "plain": (X, Y),
    "nearly the same rows": (np.concatenate([X, X[:2] + 1e-4]), np.append(Y, Y[:2])),
    "inputs that hardly vary": (np.array([[1, 1], [1.01, 1], [1, 1.02], [1.03, 1.03]]), Y),
    "on one line": (np.outer([0.2, 0.5, 1.0, 1.7], [1.0, 1.0]), Y),
}


@pytest.mark.covers("B5", "B26")
def test_answers_are_as_good_as_they_say_beside_fifty_digits() -> None:
    wrong, ill = [], 0
    for case, (x, y) in CASES.items():
        task = sw.Task(x, y, test_inputs=TESTS)
        for algorithm, noise, of in (
            (Bayes(), 0.0, "kernel"),
            (Bayes(1e-6), 1e-6, "kernel"),
            (NTKGP(0.1), 0.1, "ntk"),
            (GradientFlow(), 0.0, "flow"),
            (GradientFlow(ridge=1e-3), 1e-3, "flow"),
        ):
            mean, variance = exactly(x, y, noise, of=of)
            for names in (None, ["output_mean", "variance"]):
                with warnings.catch_warnings(record=True) as told:
                    warnings.simplefilter("always")
                    found = sw.predict_training(NET, task, algorithm, observables=names)
                error = found.attrs["kernel_error"]
                if (error > 1e-6) != bool(told):
                    wrong.append((case, algorithm, "told"))
                ill += error > 1e-9
                allowed = 1e-13 + error
                if np.abs(found.output_mean.values[0] - mean).max() > allowed * np.abs(mean).max():
                    wrong.append(
                        (case, algorithm, names, "mean", found.output_mean.values[0], mean)
                    )
                if (
                    found.variance.values.min() < 0
                    or np.abs(found.variance.values - variance).max() > 10 * allowed
                ):
                    wrong.append((case, algorithm, names, found.variance.values, variance))
    assert wrong == []
    assert ill > 4


def test_what_rounding_grows_to_is_told() -> None:
    x = np.concatenate([X, X[:1] + 1e-5])
    task = sw.Task(x, np.append(Y, Y[0]), test_inputs=TESTS)
    with pytest.warns(UserWarning, match=r"Kernels are computed to 1e-12, .* ill-conditioned"):
        found = sw.predict_training(NET, task, Bayes())
    assert found.attrs["kernel_error"] > 1e-6
    early = sw.predict_training(NET, task, GradientFlow(1.0))
    assert early.attrs["kernel_error"] < 1e-9
    noisy = sw.predict_training(NET, task, Bayes(0.1))
    assert noisy.attrs["condition"] < 1e3
    assert noisy.attrs["rank"] == 5


def test_repeated_and_constant_inputs_give_finite_answers() -> None:
    """What makes NaN elsewhere: kernels of rank 1, rows twice, no diagonal added."""
    wrong = []
    constant = sw.Task(np.ones((4, 2)), np.ones(4), test_inputs=TESTS)
    one = sw.Task(np.ones((1, 2)), [1.0], test_inputs=TESTS)
    for algorithm in (GradientFlow(), GradientFlow(0.3), Bayes(), NTKGP()):
        for names in (None, ["output_mean", "output_covariance", "variance"]):
            found = sw.predict_training(NET, constant, algorithm, observables=names)
            time = algorithm.time if isinstance(algorithm, GradientFlow) else math.inf
            same = GradientFlow(4 * time) if math.isfinite(time) else algorithm
            plain = sw.predict_training(NET, one, same, observables=names)
            for name in ("output_mean", "variance"):
                if not np.allclose(found[name], plain[name], rtol=1e-12, atol=1e-14):
                    wrong.append((algorithm, name))
            if (found.variance < 0).any():
                wrong.append((algorithm, "negative"))
    assert wrong == []


@pytest.mark.covers("B3", "B5")
def test_one_factorisation_gives_what_the_spectrum_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 2))
    task = sw.Task(x, Y[rng.integers(0, 4, 30)], test_inputs=np.concatenate([TESTS, x[:2]]))
    names = ["output_mean", "output_covariance", "variance", "log_evidence"]
    wrong = []
    for algorithm in (Bayes(1e-2), Bayes(), NTKGP(0.1)):
        mine = [n for n in names if n != "log_evidence" or isinstance(algorithm, Bayes)]
        quick = sw.predict_training(NET, task, algorithm, observables=mine)
        with monkeypatch.context() as patch:
            patch.setattr(_routes, "factored", lambda *_: None)
            slow = sw.predict_training(NET, task, algorithm, observables=mine)
        wrong += [
            (algorithm, name)
            for name in mine
            if not np.allclose(quick[name], slow[name], rtol=1e-9, atol=1e-11)
        ]
        if not 0.9 < quick.attrs["condition"] / slow.attrs["condition"] < 1.0001:
            wrong.append((algorithm, quick.attrs["condition"], slow.attrs["condition"]))
        assert algorithm.noise_variance or (quick.variance[-2:] == 0).all()
    assert wrong == []
