"""Golden and property: conjugate gradients beside factorisations, and what they refuse."""

import numpy as np
import pytest

import scalewise as sw
from refusals import unlike
from scalewise.theory.flow import _pair_sets
from scalewise.training import (
    NTKGP,
    Bayes,
    GradientDescent,
    GradientFlow,
    LastLayer,
    TwoStepNewton,
    _iterative,
)
from small_task import NET, RNG

N, TESTS = 70, 9
X = RNG.standard_normal((N + TESTS, 3))
X[N] = X[4]  # a test that repeats a training input
Y = np.sign(RNG.standard_normal((N, 2)))
TASK = sw.Task(X[:N], Y, test_inputs=X[N:], test_targets=RNG.standard_normal((TESTS, 2)))
NAMES = ["output_mean", "variance", "bias", "test_loss"]


@pytest.fixture
def large(monkeypatch):
    """Few samples are many, and the kernel is kept or not."""

    def now(*, kept: bool = True) -> None:
        monkeypatch.setattr(_iterative, "DENSE", N - 1)
        monkeypatch.setattr(_iterative, "KEPT", 2**30 if kept else 0)
        monkeypatch.setattr(_iterative, "_PIVOTS", 20)
        monkeypatch.setattr(_pair_sets, "TILE", 25 * (N + TESTS))  # several strips of rows

    return now


@pytest.mark.covers("B26")
def test_iterations_end_where_factorisations_do(large) -> None:
    wrong, ways = [], (
        Bayes(0.1), NTKGP(0.01), LastLayer(), Bayes(), GradientFlow(), GradientFlow(ridge=0.1),
        GradientDescent(), GradientDescent(1e-4, ridge=0.2), TwoStepNewton(),
    )  # fmt: skip
    relu = sw.MLP(3, 50, "relu", input_dim=3, output_dim=2, C_b=0.1)
    expected = {(net, way): sw.predict_training(net, TASK, way, observables=NAMES)
                for net, some in ((NET, ways), (relu, ways[3:6])) for way in some}  # fmt: skip
    for kept in (True, False):
        large(kept=kept)
        # Where the kernel is made anew for every product, it is the same product.
        for (net, way), one in list(expected.items())[:: 1 if kept else 5]:
            found = sw.predict_training(net, TASK, way, observables=NAMES)
            assert found.attrs["solver"] == "conjugate gradients"
            assert found.attrs["kernel_kept"] == kept
            assert 0 < found.attrs["iterations"] < 1000
            assert found.attrs["residual"] <= 1e-7
            for name in NAMES:
                if not np.allclose(found[name], one[name], rtol=1e-6, atol=1e-6):
                    wrong.append((net.activation.name, way, kept, name))
    assert wrong == []
    alone = sw.predict_training(NET, TASK, observables="output_mean")
    np.testing.assert_allclose(
        alone.output_mean, expected[NET, GradientFlow()].output_mean, rtol=1e-6
    )


def test_what_iterations_do_not_give_is_left_out_or_refused(large, monkeypatch) -> None:
    large()
    found = sw.predict_training(NET, TASK)
    assert set(NAMES) == set(found.data_vars)
    assert {"output_covariance", "spectrum", "train_mean"} <= set(found.attrs["left_out"])
    twice = np.concatenate([X[: N - 1], X[:1]])
    again = sw.Task(twice, Y, test_inputs=X[N:])
    torn = sw.Task(twice, np.concatenate([Y[: N - 1], -Y[:1]]), test_inputs=X[N:])
    assert np.isfinite(sw.predict_training(NET, again, Bayes(0.1)).variance).all()

    def ask(*args, task=TASK, **options):
        return lambda: sw.predict_training(NET, task, *args, **options)

    cases = [
        (ask(observables="spectrum"), "'spectrum' here, because 70 training samples .* 69 fit"),
        (ask(GradientFlow(1.0)), "take an eigendecomposition, for which 70 training samples"),
        (ask(times=[1.0]), "take an eigendecomposition, for which 70 training samples"),
        (ask(GradientDescent(0.1, 3)), "take an eigendecomposition, for which 70 training samples"),
        (ask(GradientDescent(1e3)), "must be below .* at 1000 training diverges"),
        (ask(task=torn), "Training samples 0 and 69 are the same to the network"),
    ]
    assert unlike(cases) == []
    monkeypatch.setattr(_iterative, "_COLUMNS", 64 * N * 5)
    assert (
        unlike([(ask(), "9 test inputs, and beside 70 training samples there is room for 3")]) == []
    )


def test_long_ways_are_told_and_endless_ones_refused_early(large, monkeypatch) -> None:
    """In five dimensions a smooth kernel without noise takes hundreds of steps."""
    large()
    monkeypatch.setattr(_iterative, "_PATIENCE", 0.0)
    with pytest.warns(
        UserWarning, match=r"Variances by 70 .* take about \d+ steps .* minutes in all"
    ):
        patient = sw.predict_training(NET, TASK, Bayes(0.1), observables=NAMES)
    assert patient.attrs["iterations"] > 1
    alone = sw.predict_training(NET, TASK, Bayes(0.1), observables="output_mean")  # no warning
    np.testing.assert_array_equal(alone.output_mean, patient.output_mean)
    monkeypatch.setattr(_iterative, "_TRIED", 4)
    monkeypatch.setattr(_iterative, "_STEPS", 12)
    cases = [
        (
            lambda: sw.predict_training(NET, TASK, observables=NAMES),
            r"70 training samples is too ill-conditioned: 4 steps .* about \d+ steps and .* minutes",
        )
    ]
    assert unlike(cases) == []


def test_columns_that_are_solved_leave_the_others_alone() -> None:
    """Some right-hand sides are met at once, as one alone would be."""
    rng = np.random.default_rng(0)
    root = rng.standard_normal((N, N)) * np.geomspace(1, 1e-2, N)
    H = root @ root.T
    kernels = _iterative._Kernels(NET, X, N, "ntk", H, H[:20], H, H, np.diag(H))
    # Nothing, two pivots that the preconditioner knows, and the rest of the space.
    right = np.column_stack([np.zeros(N), H[:, 3:5], rng.standard_normal((N, 2))])
    found, *_ = _iterative._System(kernels, 1e-3).solved(right)
    exact = np.linalg.solve(H + 1e-3 * np.eye(N), right)
    np.testing.assert_allclose(found, exact, atol=1e-6 * np.abs(exact).max())
