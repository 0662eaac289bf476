"""Multilayer perceptrons in any stable parametrisation, trained at finite and at infinite width."""

from scalewise.limits.mlp._descent import LOSSES, SGD, Loss
from scalewise.limits.mlp._network import Network, Powers, powers
from scalewise.limits.mlp._task import Task
from scalewise.limits.mlp._train import train

__all__ = ["LOSSES", "SGD", "Loss", "Network", "Powers", "Task", "powers", "train"]
