r"""Gaussian expectations of activations: one interface, several engines, every error estimated."""

from scalewise.gaussian._estimate import Estimate
from scalewise.gaussian._four import four_point_products
from scalewise.gaussian._interface import (
    ENGINES,
    PAIR_ORDERS,
    pair_moment,
    pair_moments,
    product,
    single_moment,
)
from scalewise.gaussian._joint import SCRAMBLES, JointRule, joint_rule, joint_work
from scalewise.gaussian._kernel_map import KernelMap, Workspace, kernel_map
from scalewise.gaussian._products import high_moments, pair_products
from scalewise.gaussian._quadrature import line_rule

__all__ = [
    "ENGINES",
    "PAIR_ORDERS",
    "SCRAMBLES",
    "Estimate",
    "JointRule",
    "KernelMap",
    "Workspace",
    "four_point_products",
    "high_moments",
    "joint_rule",
    "joint_work",
    "kernel_map",
    "line_rule",
    "pair_moment",
    "pair_moments",
    "pair_products",
    "product",
    "single_moment",
]
