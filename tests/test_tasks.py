"""Property: tasks are values, equal if all of their numbers and their losses are."""

from typing import Any

import numpy as np
import pytest

import scalewise as sw
from scalewise.tasks import Loss

X, Y = np.eye(3), np.array([1.0, -1.0, 0.0])
GIVEN: dict[str, Any] = {
    "test_inputs": X[:2] + 1,
    "test_targets": [0.5, -0.5],
    "batches": np.array([[0, 1], [1, 2]]),
}


def test_equal_numbers_make_equal_tasks_with_one_hash() -> None:
    one = sw.Task(X, Y, **GIVEN)
    more = {**GIVEN, "batches": GIVEN["batches"].astype(np.int32)}
    other = sw.Task(X.tolist(), -0.0 + Y[:, None], **more)
    assert one == other
    assert hash(one) == hash(other)
    assert len({one, other, sw.Task(X, Y)}) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": 2 * X},
        {"targets": Y + 1},
        {"test_inputs": X[:2]},
        {"test_targets": [0.5, 0.5]},
        {"test_targets": None},
        {"batches": None},
        {"batches": np.array([[0, 1], [1, 0]])},
        {"loss": Loss(lambda f, y: f[..., 0], lambda f, y: f, "mse")},
    ],
    ids=lambda change: next(iter(change)),
)
def test_tasks_that_differ_anywhere_are_not_equal(change: dict[str, Any]) -> None:
    given: dict[str, Any] = {"inputs": X, "targets": Y, **GIVEN}
    assert sw.Task(**given) != sw.Task(**{**given, **change})
    assert sw.Task(**given) != "a task"


def test_arrays_of_a_task_cannot_be_written_to() -> None:
    task = sw.Task(X, Y, **GIVEN)
    for name in ("inputs", "targets", "test_inputs", "test_targets", "batches"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(task, name)[0] = 0
