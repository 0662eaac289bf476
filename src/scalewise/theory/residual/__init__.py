"""Networks with skip connections: how to choose their branches, beyond what `predict` says of them."""

from scalewise.theory.residual._blocks import block_norm as block_norm
from scalewise.theory.residual._blocks import residual_block_scale as residual_block_scale
from scalewise.theory.residual._growth import gamma_star as gamma_star
from scalewise.theory.residual._growth import printed_gamma_star as printed_gamma_star
from scalewise.theory.residual._growth import printed_residual_growth as printed_residual_growth
from scalewise.theory.residual._growth import residual_aspect_ratio as residual_aspect_ratio
from scalewise.theory.residual._growth import residual_growth as residual_growth
from scalewise.theory.residual._growth import residual_susceptibilities as residual_susceptibilities
