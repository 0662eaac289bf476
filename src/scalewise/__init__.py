"""Predict what a neural network of width n and depth L will do; check it; set yours up.

The public names; nothing else lives here. See ``docs/architecture.md`` for the rooms of the house.
"""

from scalewise.activations import Activation, activation
from scalewise.criticality import Criticality, criticality
from scalewise.network import MLP

__all__ = ["MLP", "Activation", "Criticality", "activation", "criticality"]

__version__ = "0.1.0"
