"""What a network with one hidden layer asks of a task, and batches for it."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from scalewise._checked import Count, Index, checked
from scalewise.tasks import Task
from scalewise.tasks.spi import LOSSES


def check_task(task: Task) -> None:
    """Refuse what is not of two classes without inputs of 0 and without a sample twice in one step."""
    if task.loss != LOSSES["logistic"]:
        raise ValueError(
            f"Networks of one hidden layer learn two classes by the logistic loss; `task` has the loss "
            f"{task.loss.name!r}. Make it with loss='logistic' and targets of -1 and 1."
        )
    if task.targets.shape[1] != 1 or not np.all(np.abs(task.targets) == 1):
        raise ValueError(
            f"`targets` must be one column of -1 and 1; got shape {task.targets.shape} with values "
            f"{np.unique(task.targets)[:4].tolist()}."
        )
    for name in ("inputs", "test_inputs"):
        with np.errstate(over="ignore"):
            size = np.einsum("ij,ij->i", getattr(task, name), getattr(task, name))
        good = np.isfinite(size) & (size > 0)
        if not np.all(good):
            bad = int(np.argmin(good))
            raise ValueError(
                f"`{name}` must have finite squares and none of them 0, since without a bias an output there is "
                f"constant; row {bad} has |x|² = {size[bad]}. Drop or rescale it."
            )
    if task.batches is not None:
        ordered = np.sort(task.batches, axis=-1)
        if np.any(ordered[..., 1:] == ordered[..., :-1]):
            raise ValueError(
                "`batches` must not take a sample twice in one step. Draw without replacement."
            )


@checked
def independent_batches(
    samples: Count, steps: Count, *, batch: Count = 1, seed: Index = 0
) -> Int[np.ndarray, "2 step batch"]:
    r"""Batches for a `Task`: at each step one for $\hat a$ and, independent of it, one for $\hat w$.

    Args:
        samples: How many there are.
        steps: Number of steps.
        batch: Samples of one step, without replacement.
        seed: Seed of the draw.

    Raises:
        ValueError: If a count is out of its range.

    Source: Golikov, Section 2, where the two gradients see independent samples.

    Example:
        >>> from scalewise.limits import shallow
        >>> shallow.independent_batches(8, 5, batch=2).shape
        (2, 5, 2)
    """
    if batch > samples:
        raise ValueError(
            f"`batch` must be from 1 to the {samples} samples there are; got {batch!r}."
        )
    rng = np.random.Generator(np.random.Philox(seed))
    return rng.random((2, steps, samples)).argsort(axis=-1)[..., :batch]
