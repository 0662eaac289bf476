"""How hyperparameters scale with width and depth: exact exponents, in pure Python."""

from scalewise.scaling import shallow
from scalewise.scaling._aspect import (
    LIMITS,
    Limit,
    depth_for_gamma,
    gamma,
    limit_of,
    width_for_gamma,
)
from scalewise.scaling._classify import (
    Classification,
    Regime,
    classify,
    readout_exponents,
    update_exponents,
)
from scalewise.scaling._conditions import (
    feature_learning,
    has_equivalent_rates,
    is_meta_critical,
    learns_at_finite_rate,
    maximal_initialisation,
    maximal_updates,
    metaparameter_of,
)
from scalewise.scaling._exponents import ABC, Layer, Strategy, abc, pqr
from scalewise.scaling._general import maximal_update_exponents
from scalewise.scaling._orders import OBSERVED, Order, differential_order, observable_order
from scalewise.scaling._strategies import mean_field, meta, mup, ntk, standard, uniform

__all__ = [
    "ABC",
    "LIMITS",
    "OBSERVED",
    "Classification",
    "Layer",
    "Limit",
    "Order",
    "Regime",
    "Strategy",
    "abc",
    "classify",
    "depth_for_gamma",
    "differential_order",
    "feature_learning",
    "gamma",
    "has_equivalent_rates",
    "is_meta_critical",
    "learns_at_finite_rate",
    "limit_of",
    "maximal_initialisation",
    "maximal_update_exponents",
    "maximal_updates",
    "mean_field",
    "meta",
    "metaparameter_of",
    "mup",
    "ntk",
    "observable_order",
    "pqr",
    "readout_exponents",
    "shallow",
    "standard",
    "uniform",
    "update_exponents",
    "width_for_gamma",
]
