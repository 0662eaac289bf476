"""Networks with skip connections: how to choose their branches, beyond what `predict` says of them."""

from scalewise.theory.residual._blocks import block_norm, residual_block_scale
from scalewise.theory.residual._growth import (
    gamma_star,
    printed_gamma_star,
    printed_residual_growth,
    residual_aspect_ratio,
    residual_growth,
    residual_susceptibilities,
)

__all__ = [
    "block_norm",
    "gamma_star",
    "printed_gamma_star",
    "printed_residual_growth",
    "residual_aspect_ratio",
    "residual_block_scale",
    "residual_growth",
    "residual_susceptibilities",
]
