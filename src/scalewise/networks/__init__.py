"""The networks whose behaviour is predicted and measured: values with a shape and hyperparameters, no weights."""

from scalewise.networks._mlp import MLP
from scalewise.networks._network import Network
from scalewise.networks._residual import ResidualMLP
from scalewise.networks._scaled import ScaledMLP, apply_strategy

__all__ = ["MLP", "Network", "ResidualMLP", "ScaledMLP", "apply_strategy"]
