"""Predict what a neural network of width n and depth L will do; check it; set yours up.

The public names; nothing else lives here. See ``docs/architecture.md`` for the rooms of the house.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scalewise import scaling, theory
from scalewise._version import __version__
from scalewise.activations import Activation, activation
from scalewise.comparison import Comparison, at_width, compare
from scalewise.critical import Criticality, criticality
from scalewise.data import load_inputs
from scalewise.network import MLP
from scalewise.observables import OBSERVABLES
from scalewise.theory import predict
from scalewise.theory.information import optimal_depth

if TYPE_CHECKING:
    from scalewise import jax, limits, torch
    from scalewise.nets import measure

__all__ = [
    "MLP",
    "OBSERVABLES",
    "Activation",
    "Comparison",
    "Criticality",
    "__version__",
    "activation",
    "at_width",
    "compare",
    "criticality",
    "jax",
    "limits",
    "load_inputs",
    "measure",
    "optimal_depth",
    "predict",
    "scaling",
    "theory",
    "torch",
]


def __getattr__(name: str) -> Any:
    # Networks need JAX; the theory does not, and should not wait for its import.
    if name == "measure":
        from scalewise.nets import measure

        return measure
    # The adapters need frameworks of their own, which are extras; what is not used is not imported.
    if name in ("jax", "limits", "torch"):
        return import_module(f"scalewise.{name}")
    raise AttributeError(f"module 'scalewise' has no attribute {name!r}")
