"""Property, agreement: predictions and ensembles of trained networks, held against one another."""

import re

import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from scalewise.training import (
    OUTCOMES,
    Bayes,
    GradientDescent,
    GradientFlow,
    LastLayer,
    TwoStepNewton,
)
from scalewise.training.width._tensors import shared_tensors

X = np.array(
    [[1.5, 0.3, -0.4], [-0.2, 1.6, 0.5], [0.4, -0.8, 1.4], [0.9, 1.0, 0.2], [-0.9, 0.5, 1.2]]
)
Y = np.array([[1.0, -0.3], [-0.6, 0.8], [0.4, 0.7]])
TASK = sw.Task(X[:3], Y, test_inputs=X[3:], test_targets=[[0.3, 0.2], [-0.5, 0.9]])


def network(width, activation="tanh"):
    return sw.MLP(
        3,
        width,
        activation,
        input_dim=3,
        output_dim=2,
        C_b=0.1,
        C_W=1.4,
        lambda_b=0.5,
        lambda_W=1.0,
    )


NET = network(64)


@pytest.fixture(scope="module", autouse=True)
def tensors_once():
    """Of one network on the same samples, whatever algorithm is asked about."""
    with shared_tensors():
        yield


@pytest.fixture(scope="module")
def theory():
    return sw.predict_training(NET, TASK, GradientDescent(), observables="all")


def test_a_width_adds_what_the_table_says(theory) -> None:
    finite = sw.at_width(theory, 96)
    n = 96
    epsilon = float(theory.learning_parameter) / n
    assert finite.attrs["hidden_widths"] == [96, 96]
    assert float(finite.expansion_parameter) == pytest.approx(epsilon)
    between = np.einsum("ij,ab->ijab", np.eye(2), theory.output_covariance.values)
    pairs = {
        "output_mean": theory.output_mean + theory.output_mean_nlo / n,
        "bias": theory.bias + theory.output_mean_nlo / n,
        "output_covariance": between + theory.output_covariance_nlo.values / n,
        "variance": theory.variance.values + theory.variance_nlo.values / n,
        "test_loss": theory.test_loss + theory.test_loss_nlo / n,
        "ntk_change": theory.ntk_change_nlo / n,
    }
    for name, value in pairs.items():
        assert np.allclose(finite[name], value, rtol=1e-12), name
    for name, factors in (("output_mean", 1), ("ntk_change", 3)):
        largest = np.abs(theory[f"{name}_nlo"].values).max()
        assert np.allclose(finite[f"{name}_bias"], factors * epsilon * largest / n)
    assert np.allclose(finite.test_error_bias if "test_error" in finite else 0, 0)
    assert finite.output_covariance.dims == ("output", "output_1", "test", "test_1")


@pytest.mark.covers("C76")
@pytest.mark.parametrize(
    ("algorithm", "networks", "widths"),
    [
        (Bayes(0.3), 4000, (40, 80, 160)),
        *thorough((LastLayer(), 4000, (40, 80, 160)), (GradientDescent(), 20_000, (32, 64))),
    ],
    ids=["Bayes", "last layer", "descent"],
)
def test_wrong_classes_of_trained_networks(algorithm, networks: int, widths: tuple) -> None:
    """The coefficient of 1/n, extrapolated from the share of trained networks, or of posteriors, that are wrong."""
    task = sw.Task.of_classes(X[:3], [0, 1, 0], test_inputs=X[3:], test_labels=[1, 0])
    net = sw.MLP(2, 100, "tanh", input_dim=3, output_dim=1, C_b=0.1, C_W=1.4)
    names = ["test_error", "test_error_nlo", "learning_parameter"]
    predicted = sw.predict_training(net, task, algorithm, observables=names)
    options = {"networks": networks, "widths": widths, "observables": ["test_error"]}
    outcome = sw.compare(predicted, sw.measure_training(net, task, algorithm, **options))
    assert outcome.passed, str(outcome)
    assert {"test_error", "test_error_nlo"} <= set(outcome.summary.observable.values)


@pytest.mark.parametrize(
    "algorithms",
    [(Bayes(0.3), GradientFlow(0.5)), *thorough(((LastLayer(), TwoStepNewton()),))],
    ids=["some", "more"],
)
def test_every_algorithm_has_a_width_and_a_comparison(algorithms: tuple) -> None:
    """With numbers over no dimension at all among them, as the log evidence is."""
    wrong = []
    for algorithm in algorithms:
        predicted = sw.predict_training(NET, TASK, algorithm, observables="all")
        finite = sw.at_width(predicted, 64)
        for name, row in OUTCOMES.items():
            if row.corrects and name in predicted and row.corrects in predicted:
                change = finite[row.corrects] - predicted[row.corrects]
                if row.corrects != "output_covariance" and not np.allclose(
                    change, predicted[name] / 64
                ):
                    wrong.append((algorithm, name))
        options = {"networks": 400, "seed": 4} if isinstance(algorithm, Bayes) else {"networks": 30}
        outcome = sw.compare(predicted, sw.measure_training(NET, TASK, algorithm, **options))
        wrong += [] if outcome.passed is not False else [(algorithm, str(outcome))]
        # On training samples a width changes what is left, and at the end, or of a posterior, says nothing.
        stops = isinstance(algorithm, GradientFlow)
        assert ("train_loss" in outcome.summary.observable.values) == stops
        if isinstance(algorithm, Bayes):
            assert "log_evidence" in outcome.summary.observable.values
            shifted = predicted.assign(log_evidence_nlo=predicted.log_evidence_nlo + 100)
            assert float(
                sw.at_width(shifted, 64).log_evidence - finite.log_evidence
            ) == pytest.approx(100 / 64)
    assert wrong == []


def test_pairs_that_do_not_belong_together_are_refused(theory) -> None:
    def measured(task=TASK, algorithm=None, net=NET):
        given = algorithm or GradientDescent(theory.attrs["rate"])
        options = {"networks": 4, "control": None, "observables": ["output_mean"]}
        return sw.measure_training(net, task, given, **options)

    other = sw.Task(X[:3], Y + 0.1, test_inputs=X[3:], test_targets=TASK.test_targets)
    moved = sw.Task(X[:3], Y, test_inputs=X[3:] + 0.1, test_targets=TASK.test_targets)
    names = ["output_mean", "output_mean_nlo"]
    stopped = sw.predict_training(NET, TASK, GradientDescent(steps=9), observables=names)
    leading = sw.predict_training(NET, TASK, GradientDescent())
    timed = sw.predict_training(NET, TASK, GradientFlow(), times=[0.0, 1.0])
    usual, flow = measured(), measured(algorithm=GradientFlow())
    cases = [
        (theory, measured(other), "training targets are not the same"),
        (theory, measured(moved), "test inputs are not the same"),
        (theory, flow, "different algorithms"),
        (theory, measured(algorithm=GradientDescent(0.1, 5)), "different algorithms"),
        (theory, measured(algorithm=GradientDescent(0.05)), "different rates"),
        (stopped, measured(algorithm=GradientDescent(steps=9)), "different rates"),
        (theory, measured(net=network(64, "sin")), "`activation` is tanh"),
        (theory, sw.measure(NET, X, networks=10, observables="kernel"), "both of trained ones"),
        (sw.predict(NET, X, observables="kernel"), usual, "both of trained ones"),
        (leading, usual, "has no `learning_parameter`"),
        (timed, flow, "several times"),
    ]
    wrong = []
    for one, seen, words in cases:
        try:
            sw.compare(one, seen)
            wrong.append((words, "taken"))
        except ValueError as error:
            wrong += [] if re.search(words, str(error)) else [(words, str(error))]
    assert wrong == []
    with pytest.raises(ValueError, match="`observables`"):
        sw.compare(theory, usual, observables=["kernel"])
    with pytest.raises(ValueError, match="at a single width: measure with several"):
        sw.compare(theory, usual, observables=["output_mean_nlo"])


def test_where_the_expansion_ends_there_is_no_verdict(theory) -> None:
    narrow = network(16)
    seen = sw.measure_training(narrow, TASK, GradientDescent(0.1), networks=30, control="free")
    theory = sw.predict_training(NET, TASK, GradientDescent(0.1), observables="all")
    with pytest.warns(UserWarning, match="no verdict is given. Take wider networks"):
        outcome = sw.compare(theory, seen)
    assert outcome.passed is None
    assert "without a verdict" in str(outcome)
    assert outcome.to_dict()["passed"] is None


@pytest.mark.optimised
@pytest.mark.parametrize(
    ("activation", "width"), [("tanh", 64), *thorough(("tanh", 128), ("sin", 64))]
)
def test_order_one_over_n_is_what_trained_networks_do(theory, activation, width) -> None:
    """Mean, covariance between outputs and tests, loss and NTK change, at one width."""
    predicted = (
        theory
        if activation == "tanh"
        else sw.predict_training(network(64, "sin"), TASK, GradientDescent(), observables="all")
    )
    seen = sw.measure_training(
        network(width, activation), TASK, GradientDescent(), networks=200, seed=width
    )
    outcome = sw.compare(predicted, seen)
    names = set(outcome.summary.observable.values)
    assert {
        "output_mean",
        "output_covariance",
        "variance",
        "bias",
        "test_loss",
        "ntk_change",
    } == names
    assert outcome.summary["count"].sel(observable="output_covariance") == 10
    assert outcome.passed, str(outcome)
    if width == 64:
        for name in ("output_mean_nlo", "ntk_change_nlo"):
            turned = predicted.assign({name: -predicted[name]})
            assert not sw.compare(turned, seen).passed, name


@pytest.mark.optimised
@pytest.mark.thorough("test_order_one_over_n_is_what_trained_networks_do")
def test_order_one_over_n_is_what_several_widths_extrapolate_to(theory) -> None:
    seen = sw.measure_training(
        NET, TASK, GradientDescent(), networks=120, seed=3, widths=[32, 64, 128]
    )
    outcome = sw.compare(theory, seen)
    assert {"output_mean", "output_mean_nlo", "output_covariance_nlo", "ntk_change_nlo"} <= set(
        outcome.summary.observable.values
    )
    assert outcome.passed
