"""Networks and programs at infinite width, and at any finite one by the same text."""

from scalewise.limits._lazy import LazyMatrix
from scalewise.limits.backends import Backend, finite, infinite, lazy
from scalewise.limits.mlp import SGD, Loss, Network, Task, train

__all__ = [
    "SGD",
    "Backend",
    "LazyMatrix",
    "Loss",
    "Network",
    "Task",
    "finite",
    "infinite",
    "lazy",
    "train",
]
