"""Predict what a neural network of width n and depth L will do; check it; set yours up.

The public names; nothing else lives here. See ``docs/architecture.md`` for the rooms of the house.
"""

from scalewise._version import __version__
from scalewise.activations import Activation, activation
from scalewise.criticality import Criticality, criticality
from scalewise.network import MLP
from scalewise.observables import OBSERVABLES
from scalewise.theory import predict

__all__ = [
    "MLP",
    "OBSERVABLES",
    "Activation",
    "Criticality",
    "__version__",
    "activation",
    "criticality",
    "predict",
]
