"""What is left at great depth: classes, leading forms, exponents, angles."""

from scalewise.theory.deep._angles import (
    AngleFlow,
    angle_flow,
    crossover_depth,
    deep_angle,
    deep_ntk_angle,
    kernel_angle,
)
from scalewise.theory.deep._asymptotics import (
    Asymptotics,
    asymptotics,
    leading_forms,
)
from scalewise.theory.deep._ratios import (
    finite_width_ratios,
    output_scale,
)
from scalewise.theory.deep._scale_invariant import (
    critical_forms,
    semi_critical_forms,
)
from scalewise.theory.deep._scaling_ansatz import (
    ScalingFit,
    fit_scaling,
    normalised_exponents,
    relevance,
)
from scalewise.theory.deep._vanishing_kernel import (
    distance_forms,
    perturbation_series,
    tuned_metric,
    uniform_rate_forms,
)

__all__ = [
    "AngleFlow",
    "Asymptotics",
    "ScalingFit",
    "angle_flow",
    "asymptotics",
    "critical_forms",
    "crossover_depth",
    "deep_angle",
    "deep_ntk_angle",
    "distance_forms",
    "finite_width_ratios",
    "fit_scaling",
    "kernel_angle",
    "leading_forms",
    "normalised_exponents",
    "output_scale",
    "perturbation_series",
    "relevance",
    "semi_critical_forms",
    "tuned_metric",
    "uniform_rate_forms",
]
