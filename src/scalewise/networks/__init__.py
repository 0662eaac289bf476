"""The networks whose behaviour is predicted and measured: values with a shape and hyperparameters, no weights."""

from scalewise.networks._laws import WeightLaw as WeightLaw
from scalewise.networks._mlp import MLP as MLP
from scalewise.networks._mlp import ResidualMLP as ResidualMLP
from scalewise.networks._network import Network as Network
from scalewise.networks._scaled import Scaled as Scaled
from scalewise.networks._scaled import apply_strategy as apply_strategy
