"""Training tasks: samples, targets, and a loss."""

from scalewise.tasks._losses import Loss as Loss
from scalewise.tasks._task import Task as Task
