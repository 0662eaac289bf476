r"""A training task: inputs, targets, inputs to watch, a loss, and which samples at which step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float, Int

from scalewise._checked import Count, checked
from scalewise._readable import readable
from scalewise.tasks._losses import LOSSES, Loss, known_loss


@checked
@dataclass(frozen=True, init=False, eq=False)
@readable
class Task:
    r"""Training samples, inputs that are only watched, and a loss that is averaged over a batch.

    Two tasks are equal if their numbers and their losses are; arrays are copied and cannot be written to.

    Args:
        inputs: (samples, features), or with positions ``(samples, *positions, features)``.
        targets: (samples,) or (samples, outputs).
        test_inputs: (tests, features), likewise: their outputs and features are recorded, they teach nothing.
        test_targets: (tests,) or (tests, outputs), if they are known: what a test loss is measured against.
        loss: ``"mse"`` (half the square), ``"logistic"`` (targets -1 and 1), ``"cross_entropy"`` (targets of one
            column per class: one-hot rows, or others that sum to 1), or a `Loss`.
        batches: (steps, batch): indices of the samples of each step, repeated if training is longer. All samples
            at every step by default. (2, steps, batch) for networks of one hidden layer (`train_shallow`): samples
            of the last weights, and others of the first weights.

    Raises:
        ValueError: If shapes disagree, a number is not finite, an index is out of range, a loss unknown, or
            targets are none of a logistic loss (-1 or 1) or of a cross-entropy (rows that sum to 1).
        TypeError: If a loss is neither a name nor a `Loss`.

    Example:
        >>> import numpy as np
        >>> from scalewise.tasks import Task
        >>> Task(np.eye(3), np.array([1.0, -1.0, 1.0])).targets.shape
        (3, 1)
    """

    inputs: np.ndarray
    targets: np.ndarray
    test_inputs: np.ndarray
    test_targets: np.ndarray | None
    loss: Loss
    batches: np.ndarray | None

    def __init__(
        self,
        inputs: Annotated[Any, Float[np.ndarray, "sample *positions feature"]],
        targets: Annotated[Any, Float[np.ndarray, "..."]],
        *,
        test_inputs: Annotated[Any, Float[np.ndarray, "test *positions feature"]] | None = None,
        test_targets: Annotated[Any, Float[np.ndarray, "..."]] | None = None,
        loss: str | Loss = "mse",
        batches: Annotated[Any, Int[np.ndarray, "..."]] | None = None,
    ) -> None:
        X, y = _own(inputs), _own(targets)
        if not X.size:
            raise ValueError(
                f"`Task.inputs` must hold at least one sample of at least one feature; got shape {X.shape}."
            )
        y = _columns(y)
        if y.ndim != 2 or len(y) != len(X) or not y.size:
            raise ValueError(
                f"`Task.targets` must have one row for each of {len(X)} samples; got shape {y.shape}."
            )
        tests = np.empty((0, *X.shape[1:])) if test_inputs is None else _own(test_inputs)
        if tests.shape[1:] != X.shape[1:]:
            ours, its = (v.shape[-1] if v.ndim == 2 else v.shape[1:] for v in (X, tests))
            raise ValueError(
                f"`Task.test_inputs` must have as many features as `inputs`, {ours}; got {its}."
            )
        wanted = None if test_targets is None else _columns(_own(test_targets))
        if wanted is not None and wanted.shape != (len(tests), y.shape[1]):
            raise ValueError(
                f"`Task.test_targets` must have one row for each of {len(tests)} test inputs and {y.shape[1]} "
                f"columns as `targets`; got shape {wanted.shape}."
            )
        known = known_loss(loss)
        if isinstance(loss, str):
            for given in (y, wanted):
                if given is not None:
                    _check_targets(loss, given)
        store = object.__setattr__
        store(self, "inputs", X)
        store(self, "targets", y)
        store(self, "test_inputs", tests)
        store(self, "test_targets", wanted)
        store(self, "loss", known)
        store(self, "batches", None if batches is None else _indices(batches, len(X)))

    @classmethod
    def of_classes(
        cls,
        inputs: Any,
        labels: Any,
        *,
        test_inputs: Any = None,
        test_labels: Any = None,
        loss: str = "mse",
    ) -> Task:
        r"""A task of classification: classes become targets that the loss can use.

        Two classes are -1 and 1, in the order of the labels. More are one-hot rows, for the squared error less
        their mean $1/k$, so that a network that knows nothing, whose output is 0, prefers no class.

        Args:
            inputs: (samples, features).
            labels: (samples,): numbers or texts, two kinds of them or more.
            test_inputs: (tests, features).
            test_labels: (tests,), each of them one of `labels`.
            loss: ``"mse"``, ``"logistic"`` (two classes) or ``"cross_entropy"``.

        Raises:
            ValueError: If there is one class, a sample has no label, a test label is not among the labels, or the
                loss does not fit.

        Example:
            >>> import numpy as np
            >>> from scalewise.tasks import Task
            >>> Task.of_classes(np.eye(3), [3, 8, 3]).targets.ravel()
            array([-1.,  1., -1.])
        """
        known = _labels("labels", labels, "inputs", inputs)
        classes, places = np.unique(known, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"`labels` must name at least two classes; got {len(classes)}. Give numbers as targets of `Task`."
            )
        pairs = loss != "cross_entropy" and len(classes) == 2
        if loss == "logistic" and not pairs:
            raise ValueError(
                f"The logistic loss tells two classes apart; got {len(classes)}. Take loss='cross_entropy'."
            )
        rows = np.array([[-1.0], [1.0]]) if pairs else np.eye(len(classes))
        if loss == "mse" and not pairs:
            rows -= 1 / len(classes)
        tests = None
        if test_labels is not None:
            given = _labels("test_labels", test_labels, "test_inputs", test_inputs)
            strange = np.setdiff1d(given, classes)
            if strange.size:
                raise ValueError(
                    f"`test_labels` must be among the labels, {classes.tolist()}; got {strange.tolist()}."
                )
            tests = rows[np.searchsorted(classes, given)]
        return cls(inputs, rows[places], test_inputs=test_inputs, test_targets=tests, loss=loss)

    @checked
    def shaped(self, *shape: Count) -> Task:
        """This task with every input in another shape: flat images as positions with channels.

        Args:
            shape: Of one input: positions along each axis, then channels.

        Raises:
            ValueError: If an input has another number of entries.

        Example:
            >>> import numpy as np
            >>> from scalewise.tasks import Task
            >>> Task(np.ones((3, 64)), np.ones(3)).shaped(8, 8, 1).inputs.shape
            (3, 8, 8, 1)
        """
        entries = math.prod(self.inputs.shape[1:])
        if math.prod(shape) != entries:
            raise ValueError(
                f"`shape` must have {entries} entries, as an input has; got {shape}, which has {math.prod(shape)}."
            )
        given = {**self._given(), "inputs": self.inputs.reshape(-1, *shape)}
        given["test_inputs"] = (
            self.test_inputs.reshape(-1, *shape) if len(self.test_inputs) else None
        )
        return Task(**given)

    def _given(self) -> dict[str, Any]:
        """The arguments that make it again."""
        named = self.loss.name if LOSSES.get(self.loss.name) == self.loss else self.loss
        tests = self.test_inputs if len(self.test_inputs) else None
        return vars(self) | {"loss": named, "test_inputs": tests}

    def __eq__(self, other: object) -> bool:
        """Equality of all numbers and of the loss; a minus before a 0 does not count."""
        if not isinstance(other, Task):
            return NotImplemented
        pairs = zip(self._arrays, other._arrays, strict=True)
        return self.loss == other.loss and all(
            one is two or (one is not None and two is not None and np.array_equal(one, two))
            for one, two in pairs
        )

    def __hash__(self) -> int:
        """A hash of the numbers, the same for equal tasks."""
        numbers = [None if a is None else (a.shape, (a + 0.0).tobytes()) for a in self._arrays]
        return hash((self.loss.name, *numbers))

    @property
    def _arrays(self) -> tuple[np.ndarray | None, ...]:
        return self.inputs, self.targets, self.test_inputs, self.test_targets, self.batches

    def batch(self, step: int) -> np.ndarray | None:
        """Which samples teach at `step`, (batch,) or (2, batch); ``None`` for all in order."""
        if self.batches is None:
            return None
        return self.batches[..., step % self.batches.shape[-2], :]

    @property
    def all_inputs(self) -> np.ndarray:
        """Training samples, then test inputs."""
        return np.concatenate([self.inputs, self.test_inputs])

    @property
    def paired(self) -> bool:
        """True if last and first weights have samples of their own."""
        return self.batches is not None and self.batches.ndim == 3


def _labels(name: str, given: Any, of: str, samples: Any) -> np.ndarray:
    """Labels of samples, one each, and none missing."""
    labels, count = np.asarray(given), 0 if samples is None else len(samples)
    if labels.shape != (count,):
        raise ValueError(
            f"`{name}` must hold one label for each of {count} `{of}`; got shape {labels.shape}."
        )
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError(
            f"`{name}` must name a class for every sample; sample {np.isnan(labels).argmax()} has nan. Drop it."
        )
    return labels


def _columns(y: np.ndarray) -> np.ndarray:
    return y[:, None] if y.ndim == 1 else y


def _own(values: np.ndarray) -> np.ndarray:
    """A copy that nobody changes."""
    array = np.array(values, dtype=np.float64)
    array.setflags(write=False)
    return array


def _check_targets(loss: str, y: np.ndarray) -> None:
    if loss == "logistic" and not (np.abs(y) == 1).all():
        raise ValueError(
            f"`Task.targets` of the logistic loss must be -1 or 1; got values from {y.min():g} to {y.max():g}. "
            "Take 2 y - 1 of targets 0 and 1."
        )
    shared = (y >= 0).all() and np.allclose(y.sum(axis=1), 1.0)
    if loss == "cross_entropy" and not (y.shape[1] > 1 and shared):
        raise ValueError(
            "`Task.targets` of the cross-entropy must have a column per class and rows that sum to 1; got shape "
            f"{y.shape}. Take np.eye(classes)[labels] of numbered classes."
        )


def _indices(batches: np.ndarray, samples: int) -> np.ndarray:
    array = np.array(batches)
    array.setflags(write=False)
    fits = array.ndim == 2 or (array.ndim == 3 and len(array) == 2)
    if not fits or not array.size:
        raise ValueError(
            "`Task.batches` must be a table of indices, one row per step, or a pair of such tables; got shape "
            f"{array.shape}."
        )
    if array.min() < 0 or array.max() >= samples:
        raise ValueError(
            f"`Task.batches` must hold indices from 0 to {samples - 1}; got {array.min()} to {array.max()}."
        )
    return array
