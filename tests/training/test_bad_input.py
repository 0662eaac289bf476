"""Property: whatever a task holds, a prediction is finite or refused in a sentence."""

import warnings
from itertools import product

import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from refusals import unlike
from scalewise.training import (
    Bayes,
    GradientDescent,
    GradientFlow,
    LastLayer,
)
from scalewise.training._asked import Asked
from scalewise.training._task import check_targets
from scalewise.training.width._tensors import shared_tensors

RNG = np.random.default_rng(3)
X, Y, TESTS = RNG.standard_normal((3, 3)), RNG.standard_normal((3, 1)), RNG.standard_normal((2, 3))
NET = sw.MLP(2, 20, "tanh", input_dim=3, output_dim=1, C_b=0.1, C_W=1.4, lambda_b=0.5, lambda_W=1.0)
WAYS = (GradientFlow(), GradientFlow(1.0), GradientDescent(momentum=0.5), Bayes(), Bayes(0.1))


def tasks() -> dict[str, sw.Task]:
    """Inputs, targets and tests that somebody may have."""
    twice, test = X[[0, 1, 0]], TESTS[:1]
    data = {
        "plain": (X, Y, test),
        "tests repeat": (X, Y, X[:1]),
        "inputs repeat": (twice, Y[[0, 1, 0]], test),
        "they contradict": (twice, Y, test),
        "no targets": (X, 0 * Y, test),
        "tiny targets": (X, 1e-300 * Y, test),
        "large targets": (X, 1e34 * Y, test),
        "larger targets": (X, 1e300 * Y, test),
        "one of them large": (X, Y * [[1.0], [1e12], [1.0]], test),
        "a large input": (1e6 * X[:1], Y[:1], 1e6 * X[:1]),
        "large inputs": (1e6 * X[:1], Y[:1], test),  # by quadrature: few, since each costs
        "nearly alike": (X[0] + 1e-7 * X, Y, test),
    }
    return {
        name: sw.Task(x, y, test_inputs=t, test_targets=y[: len(t)])
        for name, (x, y, t) in data.items()
    }


@pytest.mark.parametrize("ways", [2, *thorough(len(WAYS))])
@shared_tensors()  # which know no target and no algorithm
def test_a_prediction_is_finite_or_refused(ways: int) -> None:
    """In so many ways for each task, daily by turns."""
    wrong, refused, given = [], set(), tasks()
    large = given.pop("large inputs")
    cases = [
        (named, (WAYS * 2)[(2 * place + k) % len(WAYS)])
        for place, named in enumerate(given.items())
        for k in range(ways)
    ]
    cases += product([("large inputs", large)], WAYS[::4][: ways - 2])
    for (name, task), way in cases:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", UserWarning
            )  # ill-conditioned, and beyond the expansion
            try:
                found = sw.predict_training(NET, task, way, observables="all")
            except ValueError:
                refused.add(name)
                continue
        infinite = [k for k, v in found.data_vars.items() if not np.isfinite(v.values).all()]
        negative = [k for k in ("variance", "train_variance") if (found[k] < 0).any()]
        if infinite or negative:
            wrong.append((name, way, infinite, negative))
    assert wrong == []
    assert {"they contradict", "larger targets"} <= refused
    assert not refused & {"plain", "tests repeat", "inputs repeat", "no targets", "tiny targets"}


def test_both_verbs_refuse_a_contradiction_in_the_same_words() -> None:
    """Where training would never end, and nowhere else; before a network is drawn."""
    task, wrong = tasks()["they contradict"], []
    ways = (*WAYS, LastLayer(), GradientDescent(steps=5), GradientFlow(ridge=0.1), Bayes(0.5))
    for way in ways:
        ends = np.isinf(way.filter(np.array([0.0, 1e-9])).gain).any()
        if not ends:
            check_targets(Asked(NET, task, way))
            continue
        said = set()
        for verb in (sw.predict_training, sw.measure_training):
            with pytest.raises(
                ValueError, match=r"samples 0 and 2 .* different targets"
            ) as refused:
                verb(NET, task, way)
            said.add(str(refused.value))
        if len(said) > 1:
            wrong.append((way, said))
    assert wrong == []


def test_labels_that_name_no_class_are_refused() -> None:
    of = sw.Task.of_classes
    cases = [
        (lambda: of(X, [1, 1, 1]), "at least two classes; got 1"),
        (lambda: of(X, [1, 2]), "`labels` must hold one label for each of 3 `inputs`"),
        (lambda: of(X, np.eye(3)), r"`labels` must hold one label .* got shape \(3, 3\)"),
        (lambda: of(X, [1.0, np.nan, 2.0]), "a class for every sample; sample 1 has nan"),
        (lambda: of(X, [1, 2, 1], test_labels=[1]), "each of 0 `test_inputs`"),
        (
            lambda: of(X, [1, 2, 1], test_inputs=TESTS, test_labels=[1, 5]),
            r"among the labels, \[1, 2\]; got \[5\]",
        ),
        (
            lambda: sw.predict_training(NET, tasks()["they contradict"], LastLayer()),
            "samples 0 and 2 .* take Bayes with a `noise_variance`",
        ),
        (
            lambda: sw.predict_training(NET, tasks()["larger targets"]),
            r"targets of at most 1e\+35",
        ),
        (
            lambda: sw.predict_training(NET, tasks()["no targets"], observables="alignment_nlo"),
            "the targets are 0, and have no direction",
        ),
    ]
    assert unlike(cases) == []
