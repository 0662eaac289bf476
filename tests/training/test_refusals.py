"""Conformance: what cannot be predicted is refused in one sentence that names it, never answered by NaN."""

import math

import numpy as np
import pytest

import scalewise as sw
from refusals import unlike
from scalewise import limits
from scalewise.training import (
    NTKGP,
    OUTCOMES,
    Bayes,
    GradientDescent,
    GradientFlow,
    TwoStepNewton,
    hypothesis_probabilities,
    leave_one_out,
    log_evidence,
    log_evidence_slope,
    log_score,
    sample_outputs,
)
from small_task import NET, TASK, TEST, TRAIN, Y, kernels

K, THETA = kernels(x=TRAIN)
MOST = 2 / np.linalg.eigvalsh(THETA).max()
TWICE = np.concatenate([TRAIN, TRAIN[2:3]])
OPPOSED = sw.Task(TWICE, np.concatenate([Y, -Y[2:3]]), test_inputs=TEST)
PLAIN = sw.Task(TRAIN, Y, test_inputs=TEST)


def predict(*args, **options):
    return lambda: sw.predict_training(NET, *args, **options)


def test_what_does_not_train_is_refused() -> None:
    line = sw.MLP(1, (), "linear", input_dim=3, output_dim=2)
    other = sw.MLP(2, 10, "tanh", input_dim=3, output_dim=1)
    frozen = sw.MLP(2, 10, "tanh", input_dim=3, output_dim=2, lambda_b=0.0, lambda_W=0.0)
    cases = [
        (predict(OPPOSED), "samples 2 and 5 are the same .* different targets.* `ridge`"),
        (predict(OPPOSED, GradientDescent()), "samples 2 and 5 are the same"),
        (predict(OPPOSED, Bayes()), "samples 2 and 5 .* `noise_variance`"),
        (predict(OPPOSED, NTKGP()), "samples 2 and 5 .* `noise_variance`"),
        (
            predict(OPPOSED, TwoStepNewton()),
            "samples 2 and 5 .* GradientDescent for a time, or .* `ridge`",
        ),
        (
            lambda: sw.predict_training(line, PLAIN),
            r"5 training samples is singular .*rank 4.* Stop training",
        ),
        (lambda: sw.predict_training(other, PLAIN), "2 outputs, but .* output_dim=1"),
        (
            lambda: sw.predict_training(frozen, PLAIN),
            "NTK of the training samples must be positive semidefinite and not 0",
        ),
        (predict(TASK, GradientDescent(MOST * (1 + 1e-9))), f"rate` must be below {MOST:.6g}"),
        (predict(TASK, GradientDescent(1.01 * MOST, 3)), "training diverges"),
        (
            predict(TASK, GradientDescent(1.7 * MOST, momentum=0.6)),
            f"must be below {1.6 * MOST:.6g}",
        ),
        (predict(TASK, GradientDescent([1e3 * MOST] * 400)), "overflows"),
        (predict(TASK, GradientDescent([100 * MOST] * 3)), r"after 3 steps .* times what it was"),
        (predict(TASK, GradientDescent(100 * MOST, 3)), "must be below"),
        (predict(TASK, GradientDescent([0.1] * 3), times=[4]), "up to 3, the number of rates"),
        (predict(TASK, GradientDescent(), times=[0.5]), "must be whole numbers of steps"),
        (predict(TASK, times=[]), "at least one time"),
        (predict(TASK, times=[-1.0]), "none below 0"),
        (predict(TASK, Bayes(), times=[1.0]), "None for Bayes, which conditions at once"),
        (predict(PLAIN, observables=["test_loss"]), "the task has no test targets"),
        (predict(sw.Task(TRAIN, Y), observables=["output_mean"]), "has no test inputs"),
        (predict(TASK, observables=["test_error"]), "targets do not name classes"),
        (predict(TASK, observables=["log_evidence"]), "only Bayes has an evidence"),
        (predict(TASK, observables=["variance"], covariance=None), "covariance=None leaves it out"),
        (
            predict(TASK, observables=["output_covariance"], covariance="diagonal"),
            "covariance='diagonal' leaves it out",
        ),
        (predict(TASK, observables=["train_mean"], at="test"), "at='test' leaves out"),
        (predict(TASK, observables=["variance"], at="train"), "at='train' leaves out"),
        (predict(TASK, observables=["varience"]), "Did you mean 'variance'"),
        (
            predict(TASK, limits.SGD(0.1)),
            "`algorithm` must be an? Algorithm such as training.GradientFlow",
        ),
        (predict(sw.Task(TRAIN, Y, batches=[[0, 1]])), "must have no batches"),
        (lambda: GradientDescent([]), "a rate for each step; got 0 rates"),
        (lambda: GradientDescent([0.1], 2), "got 1 rates for 2 steps"),
        (lambda: GradientDescent(-0.1), r"`GradientDescent.rate` must be"),
        (lambda: GradientDescent(momentum=1.0), "from 0 to below 1"),
        (lambda: GradientFlow(-1.0), "a number of at least 0, or infinite"),
        (lambda: GradientFlow(math.nan), "a number of at least 0, or infinite"),
        (lambda: GradientFlow(loss_units="half"), "'sum' or 'mean'"),
        (lambda: Bayes(-1.0), "`Bayes.noise_variance` must be"),
    ]
    assert unlike(cases) == []


def test_numbers_that_do_not_fit_are_refused() -> None:
    double = np.array([[1.0, 1.0], [1.0, 1.0]])
    found = sw.predict_training(NET, TASK)
    met = sw.predict_training(NET, sw.Task(TRAIN, Y, test_inputs=TRAIN[:2]))
    early = sw.predict_training(NET, TASK, times=[1.0])
    cases = [
        (lambda: log_evidence(double, [[1.0], [0.0]]), "samples 0 and 1 are the same"),
        (lambda: log_evidence(double, [[1.0], [1.0]]), "targets that it does not represent"),
        (lambda: leave_one_out(double, [[1.0], [1.0]]), "targets that it does not represent"),
        (lambda: log_evidence(K, Y[:3]), "a row for each of the 5 samples"),
        (lambda: log_evidence(K[:, :3], Y), "must be square"),
        (lambda: log_evidence(K + np.triu(K), Y), "must be symmetric"),
        (lambda: log_evidence(-K, Y), "must be positive semidefinite"),
        (lambda: log_evidence(K - np.trace(K) / 5 * np.eye(5), Y), "must be positive semidefinite"),
        (lambda: log_evidence_slope(K, Y, K[:2, :2]), "the shape of `kernel`"),
        (
            lambda: hypothesis_probabilities([]),
            "`log_evidences` must hold the log evidence of at least one",
        ),
        (lambda: hypothesis_probabilities([1.0], []), "one number for each of 1 hypotheses"),
        (lambda: hypothesis_probabilities([1.0], [0.0]), "not all 0"),
        (lambda: log_score(found, Y), "a row for each test sample"),
        (lambda: log_score(met, Y[:2]), "singular covariance of test samples"),
        (lambda: sample_outputs(early, 3), "at one time"),
        (lambda: sample_outputs(sw.predict(NET, TRAIN), 3), "what `predict_training` returned"),
    ]
    assert unlike(cases) == []


def test_what_is_left_out_says_why_and_the_rest_is_finite() -> None:
    leading = {name for name, row in OUTCOMES.items() if not row.order}
    same = sw.Task(TWICE, np.concatenate([Y, Y[2:3]]), test_inputs=np.concatenate([TEST, TRAIN]))
    wrong = []
    for algorithm in (GradientFlow(), GradientFlow(1e12), GradientDescent(), Bayes(), NTKGP(0.1)):
        for task in (same, OPPOSED):
            if task is OPPOSED and not np.isfinite(getattr(algorithm, "time", np.inf)):
                continue
            found = sw.predict_training(NET, task, algorithm)
            names = {*found.data_vars, *found.attrs["left_out"]}
            finite = all(np.isfinite(v).all() for v in found.data_vars.values() if v.dtype == float)
            positive = all(
                (found[n] >= 0).all() for n in ("variance", "train_variance", "train_loss")
            )
            if names != leading or not finite or not positive:
                wrong.append(algorithm)
            assert len(found.attrs["left_out"]) == len(found.attrs["left_out_because"])
    assert wrong == []
    singular = sw.predict_training(NET, same, Bayes())
    reasons = dict(zip(singular.attrs["left_out"], singular.attrs["left_out_because"], strict=True))
    assert reasons["log_evidence"] == "the kernel is singular and there is no noise"
    with pytest.raises(ValueError, match="targets that it does not represent"):
        sw.predict_training(NET, same, Bayes(), observables=["log_evidence"])
    assert sw.predict_training(NET, same, Bayes(0.3)).attrs["noise_variance"] == 0.3


def test_coefficients_of_one_over_n_are_named_or_come_with_all() -> None:
    leading = sw.predict_training(NET, TASK, NTKGP())
    for found in (leading, sw.predict_training(NET, TASK, NTKGP(), observables="all")):
        assert all(not OUTCOMES[name].order for name in found.data_vars if name in OUTCOMES)
    left_out = dict(zip(found.left_out, found.left_out_because, strict=True))
    assert left_out["output_mean_nlo"] == "no coefficient of 1/n of it is known for NTKGP"
    assert "output_mean_nlo" not in leading.left_out


def test_a_schedule_of_one_rate_is_refused_where_the_rate_is() -> None:
    """And what climbs only on the way is not: one step too large among small ones."""
    h = np.array([0.01, 0.3, 1.0])
    for momentum in (0.0, 0.5, 0.9):
        most = GradientDescent(1.0, momentum=momentum).maximal_rate(h)
        for factor in (0.1, 0.9, 0.99, 1.3, 3.0):
            for steps in (60, 61):
                one = GradientDescent(factor * most, steps, momentum=momentum)
                each = GradientDescent([factor * most] * steps, momentum=momentum)
                if factor < 1:
                    np.testing.assert_allclose(each.filter(h).left, one.filter(h).left, atol=1e-12)
                else:
                    assert unlike([(lambda a=a: a.filter(h), "diverge") for a in (one, each)]) == []
    catapult = GradientDescent([3.0] + [1.0] * 9)
    np.testing.assert_allclose(catapult.filter(h).left[0, 2], 0.0, atol=1e-12)
