"""Property: what a prediction does not depend on: order, units, other outputs, what else is asked, block sizes."""

import pickle

import numpy as np
import pytest

import scalewise as sw
from scalewise.training import (
    NTKGP,
    OUTCOMES,
    Bayes,
    GradientDescent,
    GradientFlow,
    LastLayer,
    _kernels,
)
from small_task import NET, TASK, TEST, TRAIN, WANTED, Y

ALGORITHMS = (
    GradientFlow(),
    GradientFlow(0.8),
    GradientDescent(0.05, 6, momentum=0.3, ridge=0.1),
    Bayes(),
    Bayes(0.2),
    LastLayer(),
    NTKGP(0.2),
)
CLASSES = np.array([[1.0], [-1.0], [-1.0], [1.0], [1.0]])


def same(found, expected, rtol=1e-9) -> list[str]:
    """Names of variables that differ."""
    assert set(found.data_vars) == set(expected.data_vars)
    return [
        name
        for name in found.data_vars
        if not np.allclose(found[name], expected[name], rtol=rtol, atol=1e-11)
    ]


def test_the_order_of_samples_and_of_outputs_is_the_order_of_the_answer() -> None:
    train, test = np.array([3, 1, 4, 0, 2]), np.array([2, 0, 3, 1])
    moved = sw.Task(
        TRAIN[train], Y[train, ::-1], test_inputs=TEST[test], test_targets=WANTED[test, ::-1]
    )
    wrong = []
    for algorithm in ALGORITHMS:
        found = sw.predict_training(NET, moved, algorithm)
        plain = sw.predict_training(NET, TASK, algorithm)
        plain = plain.isel(train=train, train_1=train, test=test, test_1=test, output=[1, 0])
        wrong += [(algorithm, name) for name in same(found, plain)]
    assert wrong == []


def test_other_outputs_do_not_matter() -> None:
    more = sw.Task(
        TRAIN,
        np.column_stack([Y, 10 * Y[:, 0]]),
        test_inputs=TEST,
        test_targets=np.column_stack([WANTED, WANTED[:, 0]]),
    )
    wide = sw.MLP(
        3, 50, "tanh", input_dim=3, output_dim=3, C_b=0.1, C_W=1.4, lambda_b=0.5, lambda_W=1.0
    )
    wrong = []
    for algorithm in ALGORITHMS:
        found = sw.predict_training(wide, more, algorithm)
        plain = sw.predict_training(NET, TASK, algorithm)
        for name in ("output_mean", "train_mean", "bias"):
            if not np.array_equal(found[name][:2], plain[name]):
                wrong.append((algorithm, name))
        for name in ("output_covariance", "variance", "train_covariance", "spectrum"):
            if not np.array_equal(found[name], plain[name]):
                wrong.append((algorithm, name))
    assert wrong == []


def test_units_of_the_outputs_come_out_as_they_went_in() -> None:
    c = 3.0
    large = sw.MLP(
        3,
        50,
        "tanh",
        input_dim=3,
        output_dim=2,
        C_b=(0.1, 0.1, 0.1 * c * c),
        C_W=(1.4, 1.4, 1.4 * c * c),
        lambda_b=(0.5, 0.5, 0.5 * c * c),
        lambda_W=(1.0, 1.0, c * c),
    )
    task = sw.Task(TRAIN, c * Y, test_inputs=TEST, test_targets=c * WANTED)
    pairs = (
        (GradientFlow(0.8), GradientFlow(0.8 / c**2)),
        (GradientDescent(0.05, 6, momentum=0.3), GradientDescent(0.05 / c**2, 6, momentum=0.3)),
        (GradientFlow(ridge=0.1), GradientFlow(ridge=0.1 * c**2)),
        (Bayes(0.2), Bayes(0.2 * c**2)),
        (LastLayer(), LastLayer()),
    )
    powers = {"output_mean": 1, "train_mean": 1, "bias": 1}
    wrong = []
    for one, other in pairs:
        plain = sw.predict_training(NET, TASK, one)
        found = sw.predict_training(large, task, other)
        for name in ("output_mean", "train_mean", "bias", "output_covariance", "test_loss"):
            scale = c ** powers.get(name, 2)
            if not np.allclose(found[name], scale * plain[name], rtol=1e-9, atol=1e-11):
                wrong.append((one, name))
        if "log_evidence" in plain and not np.isclose(
            found.log_evidence, plain.log_evidence - Y.size * np.log(c), rtol=1e-9
        ):
            wrong.append((one, "log_evidence"))
    assert wrong == []


def test_an_answer_does_not_depend_on_what_else_is_asked() -> None:
    task = sw.Task(TRAIN, CLASSES, test_inputs=TEST, test_targets=CLASSES[:4])
    net = sw.MLP(3, 50, "tanh", input_dim=3, output_dim=1, C_b=0.1, C_W=1.4)
    wrong, seen = [], set()
    for algorithm in (GradientFlow(0.8), Bayes(0.2)):
        whole = sw.predict_training(net, task, algorithm)
        for name in whole.data_vars:
            alone = sw.predict_training(net, task, algorithm, observables=[name])
            assert list(alone.data_vars) == [name]
            wrong += [(algorithm, n) for n in same(alone, whole[[name]], rtol=1e-13)]
        seen |= set(whole.data_vars)
        some = sw.predict_training(net, task, algorithm, covariance="diagonal", at="test")
        wrong += [(algorithm, n) for n in same(some, whole[list(some.data_vars)], rtol=1e-13)]
        assert {"variance", "test_loss", "test_error"} <= set(some.data_vars)
        assert not {"output_covariance", "train_mean"} & set(some.data_vars)
        means = sw.predict_training(net, task, algorithm, covariance=None, at="train")
        assert "train_mean" in means
        assert not {"train_variance", "output_mean"} & set(means.data_vars)
    times = np.array([0.0, 0.8, 3.0])
    many = sw.predict_training(net, task, times=times)
    for t in times:
        one = sw.predict_training(net, task, GradientFlow(t))
        wrong += [(t, n) for n in same(one, many.sel(time=t, drop=True), rtol=1e-13)]
    assert wrong == []
    assert seen == {name for name, row in OUTCOMES.items() if not row.order}


def test_blocks_of_test_samples_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    x, y = rng.standard_normal((23, 3)), rng.standard_normal((23, 2))
    x[7] = TRAIN[2]
    task = sw.Task(TRAIN, Y, test_inputs=x, test_targets=y)
    whole = sw.predict_training(NET, task, covariance="diagonal", times=[0.3, 2.0])
    monkeypatch.setattr(_kernels, "BLOCK", 1)
    parts = sw.predict_training(NET, task, covariance="diagonal", times=[0.3, 2.0])
    assert same(parts, whole) == []
    full = sw.predict_training(NET, task, times=[0.3, 2.0])
    np.testing.assert_allclose(whole.variance, full.variance, rtol=1e-9)
    np.testing.assert_allclose(
        full.variance, np.einsum("tbb->tb", full.output_covariance), rtol=1e-13
    )


def test_a_task_that_has_been_sent_is_the_same_task() -> None:
    """Losses are equal to themselves in another process."""
    for loss in ("mse", "logistic"):
        task = sw.Task(TRAIN, np.sign(Y), loss=loss)
        assert pickle.loads(pickle.dumps(task)).loss == task.loss
    task = pickle.loads(pickle.dumps(TASK))
    assert sw.predict_training(NET, task).identical(sw.predict_training(NET, TASK))
