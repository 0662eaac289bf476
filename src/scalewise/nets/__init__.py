"""Measurement: ensembles of real networks, and unbiased estimators with their standard errors."""

from scalewise.nets._measure import measure
from scalewise.nets._networks import Parameters, empirical_ntk, init_weights

__all__ = ["Parameters", "empirical_ntk", "init_weights", "measure"]
