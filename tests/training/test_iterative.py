"""Golden and property: conjugate gradients beside factorisations, and what they refuse."""

import numpy as np
import pytest

import scalewise as sw
from refusals import unlike
from scalewise.theory.flow import _kernel_flow
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
        monkeypatch.setattr(_kernel_flow, "_TILE", 25 * (N + TESTS))  # several strips of rows

    return now


@pytest.mark.covers("B26")
def test_iterations_end_where_factorisations_do(large) -> None:
    wrong, ways = [], (
        Bayes(0.1), NTKGP(0.01), LastLayer(), Bayes(), GradientFlow(), GradientFlow(ridge=0.1),
        GradientDescent(), GradientDescent(1e-4, ridge=0.2), TwoStepNewton(),
    )  # fmt: skip
    relu = sw.MLP(3, 50, "relu", input_dim=3, output_dim=2, C_b=0.1)
    expected = {(net, way): sw.predict_training(net, TASK, way, observables=NAMES)
                for net in (NET, relu) for way in ways}  # fmt: skip
    for kept in (True, False):
        large(kept=kept)
        for (net, way), one in expected.items():
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
