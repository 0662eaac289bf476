"""Checks of a task: squared errors, of all samples at every step, and targets that can be learned."""

from __future__ import annotations

import numpy as np

from scalewise.tasks.spi import known_loss
from scalewise.training._asked import Asked
from scalewise.training._spectrum import refuse_pair

_NONE, _SOME = 0.0, 1e-100  # a direction that nobody learns, beside one that sets the rate
_LARGEST = 1e35  # order 1/n multiplies four of them, and squares what it finds


def check_task(asked: Asked) -> None:
    """Refuse a task that does not fit the network, or that is not one of squared errors of all samples."""
    check_fit(asked)
    if asked.task.loss != known_loss("mse"):
        raise ValueError(
            "`task` must have the loss 'mse', whose gradient is linear in the outputs; got "
            f"{asked.task.loss.name!r}."
        )


def check_asked(asked: Asked) -> None:
    """Refuse a task that does not fit the network, or times that are none."""
    check_fit(asked)
    times = asked.times
    if times is not None and (not times.size or times.min() < 0):
        raise ValueError("`times` must hold at least one time, and none below 0.")


def check_fit(asked: Asked) -> None:
    """Refuse a task that does not fit the network, or whose samples do not all teach at every step."""
    net, task = asked.net, asked.task
    shape = task.inputs.shape[1:]
    if shape != net.input_shape or task.targets.shape[1] != net.output_dim:
        plain = len(shape) == len(net.input_shape) == 1
        what = f"{shape[0]} features" if plain else f"inputs of {shape}"
        ours = f"input_dim={net.input_shape[0]}" if plain else f"input_shape={net.input_shape}"
        raise ValueError(
            f"`task` has {what} and {task.targets.shape[1]} outputs, but the network has {ours} and "
            f"output_dim={net.output_dim}. Change one of the two."
        )
    largest = max(
        np.abs(y).max(initial=0.0) for y in (task.targets, task.test_targets) if y is not None
    )
    if largest > _LARGEST:
        raise ValueError(
            f"`task` must have targets of at most {_LARGEST:g}, as products of larger ones overflow; got "
            f"{largest:g}. Rescale them."
        )
    if task.batches is not None:
        raise ValueError(
            "`task` must have no batches: all samples teach at every step of a predicted training."
        )


def check_targets(asked: Asked) -> None:
    """Refuse a training that ends only where two equal inputs have their different targets."""
    algorithm, task = asked.algorithm, asked.task
    gain = algorithm.filter(np.array([_NONE, _SOME]), asked.times, targets=task.targets.size).gain
    if not np.isinf(gain[:, 0]).any():
        return
    first: dict[bytes, int] = {}
    for place, row in enumerate(task.inputs + 0.0):
        before = first.setdefault(row.tobytes(), place)
        if (task.targets[before] != task.targets[place]).any():
            refuse_pair(before, place, algorithm.remedy)
