"""Predict what a neural network of width n and depth L will do; check it; set yours up.

The public names; nothing else is defined here. ``docs/architecture.md`` says where each part is.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scalewise._extras import Missing, MissingExtraError
from scalewise._version import __version__

if TYPE_CHECKING:
    from scalewise import activations as activations
    from scalewise import cli as cli
    from scalewise import comparison as comparison
    from scalewise import critical as critical
    from scalewise import data as data
    from scalewise import experiments as experiments
    from scalewise import explorer as explorer
    from scalewise import gaussian as gaussian
    from scalewise import jax as jax
    from scalewise import limits, nets, networks, plan, scaling, sweeps, tasks, theory, training
    from scalewise import observables as observables
    from scalewise import reading as reading
    from scalewise import report as report
    from scalewise import selection as selection
    from scalewise import signals as signals
    from scalewise import torch as torch
    from scalewise.activations import Activation, activation
    from scalewise.comparison import Comparison, at_width, compare
    from scalewise.critical import Criticality, criticality
    from scalewise.data import load_inputs, load_task
    from scalewise.nets import measure
    from scalewise.networks import MLP, Network
    from scalewise.networks.layers import (
        Aggregate,
        Attention,
        AvgPool,
        Conv,
        ConvTranspose,
        Dense,
        Dropout,
        Embedding,
        Features,
        Flatten,
        GlobalAvgPool,
        GlobalSumPool,
        GroupNorm,
        LayerNorm,
        Local,
        Mask,
        MaxPool,
        Parallel,
        Positions,
        Recurrent,
        Resize,
        RMSNorm,
        Shared,
        Skip,
        SumPool,
        Take,
        program,
    )
    from scalewise.observables import OBSERVABLES
    from scalewise.sweeps import sweep
    from scalewise.tasks import Task
    from scalewise.theory import predict
    from scalewise.theory.information import optimal_depth
    from scalewise.training import design, predict_training
    from scalewise.training.ensembles import measure_training

# Where each name lives. What is not used is not imported: networks need JAX and the adapters frameworks of their
# own, which are extras, and exponents need nothing at all. A name whose extra is not installed says so when it is
# used.
_HOME = {
    "MLP": "networks",
    "Network": "networks",
    **dict.fromkeys(
        (
            *("Aggregate", "Attention", "AvgPool", "Conv", "ConvTranspose", "Dense", "Dropout"),
            *("Embedding", "Features", "Flatten", "GlobalAvgPool", "GlobalSumPool"),
            *(
                "GroupNorm",
                "LayerNorm",
                "Local",
                "Mask",
                "MaxPool",
                "Parallel",
                "Positions",
                "RMSNorm",
            ),
            *("Recurrent", "Resize", "Shared", "Skip", "SumPool", "Take", "program"),
        ),
        "networks.layers",
    ),
    "OBSERVABLES": "observables",
    "Task": "tasks",
    "Activation": "activations",
    "Comparison": "comparison",
    "Criticality": "critical",
    "activation": "activations",
    "at_width": "comparison",
    "compare": "comparison",
    "criticality": "critical",
    "design": "training",
    "load_inputs": "data",
    "load_task": "data",
    "measure": "nets",
    "measure_training": "training.ensembles",
    "optimal_depth": "theory.information",
    "predict": "theory",
    "predict_training": "training",
    "sweep": "sweeps",
}
_ROOMS = (
    *(
        "activations",
        "cli",
        "comparison",
        "critical",
        "data",
        "experiments",
        "explorer",
        "gaussian",
        "jax",
    ),
    *(
        "limits",
        "nets",
        "networks",
        "observables",
        "plan",
        "reading",
        "report",
        "scaling",
        "selection",
        "signals",
        "sweeps",
    ),
    *("tasks", "theory", "torch", "training"),
)

__all__ = [
    "MLP",
    "OBSERVABLES",
    "Activation",
    "Aggregate",
    "Attention",
    "AvgPool",
    "Comparison",
    "Conv",
    "ConvTranspose",
    "Criticality",
    "Dense",
    "Dropout",
    "Embedding",
    "Features",
    "Flatten",
    "GlobalAvgPool",
    "GlobalSumPool",
    "GroupNorm",
    "LayerNorm",
    "Local",
    "Mask",
    "MaxPool",
    "Network",
    "Parallel",
    "Positions",
    "RMSNorm",
    "Recurrent",
    "Resize",
    "Shared",
    "Skip",
    "SumPool",
    "Take",
    "Task",
    "__version__",
    "activation",
    "at_width",
    "compare",
    "criticality",
    "design",
    "limits",
    "load_inputs",
    "load_task",
    "measure",
    "measure_training",
    "nets",
    "networks",
    "optimal_depth",
    "plan",
    "predict",
    "predict_training",
    "program",
    "scaling",
    "sweep",
    "sweeps",
    "tasks",
    "theory",
    "training",
]


def __getattr__(name: str) -> Any:
    try:
        if name in _ROOMS:
            return import_module(f"scalewise.{name}")
        if name in _HOME:
            found = getattr(import_module(f"scalewise.{_HOME[name]}"), name)
            globals()[name] = found
            return found
    except MissingExtraError as error:
        return Missing(error)
    raise AttributeError(f"module 'scalewise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS})
