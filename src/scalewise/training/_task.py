"""Whether a task is one that is known of: squared errors, of all samples at every step."""

from __future__ import annotations

from scalewise.tasks._losses import known_loss
from scalewise.training._asked import Asked

__all__ = ["check_task"]


def check_task(asked: Asked) -> None:
    """Refuse a task that does not fit the network, or that is not one of squared errors of all samples."""
    net, task = asked.net, asked.task
    if task.inputs.shape[1] != net.input_dim or task.targets.shape[1] != net.output_dim:
        raise ValueError(
            f"`task` has {task.inputs.shape[1]} features and {task.targets.shape[1]} outputs, but the network has "
            f"input_dim={net.input_dim} and output_dim={net.output_dim}. Change one of the two."
        )
    if task.loss != known_loss("mse"):
        raise ValueError(
            f"`task` must have the loss 'mse', whose gradient is linear in the outputs; got {task.loss.name!r}."
        )
    if task.batches is not None:
        raise ValueError(
            "`task` must have no batches: all samples teach at every step of a predicted training."
        )
