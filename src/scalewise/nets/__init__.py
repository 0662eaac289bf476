"""Measurement: ensembles of real networks, and unbiased estimators with their standard errors."""

from scalewise._extras import require

require("jax", "zarr", for_="Measuring networks (`scalewise.nets`)", extra="nets")

from scalewise.nets._backprop import error_factors, parameter_step
from scalewise.nets._differentials import empirical_differential, sample_differentials
from scalewise.nets._empirical import empirical_ddntk, empirical_dntk
from scalewise.nets._forward import LayerTensors, layer_tensors
from scalewise.nets._measure import measure
from scalewise.nets._networks import Parameters, empirical_ntk, init_weights
from scalewise.nets._pooled import pooled

__all__ = [
    "LayerTensors",
    "Parameters",
    "empirical_ddntk",
    "empirical_differential",
    "empirical_dntk",
    "empirical_ntk",
    "error_factors",
    "init_weights",
    "layer_tensors",
    "measure",
    "parameter_step",
    "pooled",
    "sample_differentials",
]
