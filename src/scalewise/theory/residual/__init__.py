"""Networks with skip connections: flows, metric, and how to choose their branches."""

from scalewise.theory.residual._residual import (
    residual_flow,
    residual_susceptibilities,
)
from scalewise.theory.residual._residual_design import (
    block_norm,
    gamma_star,
    printed_gamma_star,
    printed_residual_growth,
    residual_aspect_ratio,
    residual_block_scale,
    residual_growth,
)
from scalewise.theory.residual._residual_metric import residual_metric
from scalewise.theory.residual._residual_single_input import (
    printed_single_input,
    residual_single_input,
)

__all__ = [
    "block_norm",
    "gamma_star",
    "printed_gamma_star",
    "printed_residual_growth",
    "printed_single_input",
    "residual_aspect_ratio",
    "residual_block_scale",
    "residual_flow",
    "residual_growth",
    "residual_metric",
    "residual_single_input",
    "residual_susceptibilities",
]
