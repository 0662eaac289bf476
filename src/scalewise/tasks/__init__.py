"""What a network is trained on: samples, targets, and a loss."""

from scalewise.tasks._losses import Loss
from scalewise.tasks._task import Task

__all__ = ["Loss", "Task"]
