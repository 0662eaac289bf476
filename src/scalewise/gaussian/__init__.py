r"""Gaussian expectations of activations: one interface, several engines, every error estimated."""

from scalewise.gaussian._estimate import Estimate
from scalewise.gaussian._four import (
    FourPoint,
    feature_means,
    four_point_covariances,
)
from scalewise.gaussian._geometry import clipped
from scalewise.gaussian._increments import increment
from scalewise.gaussian._interface import (
    PAIR_ORDERS,
    pair_moment,
    pair_moments,
    product,
    single_moment,
    why_unconverged,
)
from scalewise.gaussian._joint import (
    SCRAMBLES,
    SHAKES,
    JointRule,
    at_least_usual,
    combined,
    joint_rule,
    joint_work,
    resolved,
    shaken,
    with_shakes,
)
from scalewise.gaussian._kernel_map import KernelMap, Workspace, kernel_map
from scalewise.gaussian._products import high_moments, pair_products
from scalewise.gaussian._quadrature import line_rule
from scalewise.gaussian._two_inputs import two_input_covariances

__all__ = [
    "PAIR_ORDERS",
    "SCRAMBLES",
    "SHAKES",
    "Estimate",
    "FourPoint",
    "JointRule",
    "KernelMap",
    "Workspace",
    "at_least_usual",
    "clipped",
    "combined",
    "feature_means",
    "four_point_covariances",
    "high_moments",
    "increment",
    "joint_rule",
    "joint_work",
    "kernel_map",
    "line_rule",
    "pair_moment",
    "pair_moments",
    "pair_products",
    "product",
    "resolved",
    "shaken",
    "single_moment",
    "two_input_covariances",
    "why_unconverged",
    "with_shakes",
]
