r"""Residual blocks of any kind: the factor that keeps the norm of the preactivations.

Source: PDLT (B.38)-(B.45).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from scalewise._checked import at_least, checked
from scalewise.theory.residual._growth import Skip


@dataclass(frozen=True)
class BlockScale:
    r"""The factor of a residual block that keeps the norm of the preactivations.

    Args:
        xi: $\xi$ in $z'=\xi R(z)+\gamma z$.
        xi_error: Its standard error over the draws.
        G_zz: Mean square of the preactivations, $\overline G_{zz}$.
        G_RR: Mean square of the block, $\overline G_{RR}$.
        G_Rz: Mean product of both, $\overline G_{Rz}$; 0 for a block that ends in fresh weights.
    """

    xi: float
    xi_error: float
    G_zz: float
    G_RR: float
    G_Rz: float


@checked
def residual_block_scale(
    block: Callable[[Float[np.ndarray, "sample neuron"]], Float[np.ndarray, "sample neuron"]],
    z: Float[np.ndarray, "sample neuron"],
    gamma: Skip,
    *,
    draws: Annotated[int, at_least(2)] = 32,
) -> BlockScale:
    r"""Measure a residual block on given preactivations and solve for its factor.

    $$(1-\gamma^2)\overline G_{zz}=\xi^2\overline G_{RR}+2\gamma\xi\overline G_{Rz}$$

    Args:
        block: $R$: from (samples, neurons) to the same shape, with fresh weights at every call.
        z: Preactivations that enter the block, of any layer.
        gamma: $\gamma$, from 0 to 1; at 1 only $\xi=0$ is left (or $-2\overline G_{Rz}/
            \overline G_{RR}$).
        draws: How often the block is called, at least 2.

    Returns:
        $\xi\ge0$ with its standard error and the three averages.

    Raises:
        ValueError: If an argument is out of range, the block changes the shape, or it returns
            nothing but zeros or something not finite.

    Source: PDLT (B.38)-(B.45); the root is derived. Whether the ratio of the norms within the block
    grows exponentially with its own depth is not seen here: initialise the block critically.

    Example:
        >>> import numpy as np
        >>> from scalewise.theory.residual import residual_block_scale
        >>> rng = np.random.default_rng(0)
        >>> def block(z):  # one ReLU layer at C_W = 2
        ...     w = rng.normal(size=(200, 200)) * np.sqrt(2 / 200)
        ...     return np.maximum(z, 0) @ w
        >>> scale = residual_block_scale(block, rng.normal(size=(64, 200)), 0.6)
        >>> bool(abs(scale.xi - 0.8) < 4 * scale.xi_error + 0.01)
        True
    """
    points = np.asarray(z, dtype=np.float64)
    if not np.any(points):
        raise ValueError(f"`z` must not be all 0; got zeros of shape {points.shape}.")
    G_zz = float(np.mean(points**2))
    squares, products = [], []
    for _ in range(draws):
        R = np.asarray(block(points), dtype=np.float64)
        if R.shape != points.shape:
            raise ValueError(
                f"`block` must keep the shape of its input; got {R.shape} for {points.shape}."
            )
        squares.append(float(np.mean(R**2)))
        products.append(float(np.mean(R * points)))
    total = np.array([np.mean(squares), np.mean(products)])
    if not np.all(np.isfinite(total)) or not total[0]:
        raise ValueError(
            f"`block` returned values of mean square {total[0]}; no factor can scale that. Check "
            "its weights."
        )
    xi = _block_root(G_zz, float(total[0]), float(total[1]), gamma)
    # Leave one draw out at a time.
    rest = (total * draws - np.stack([squares, products], axis=1)) / (draws - 1)
    left_out = [_block_root(G_zz, a, b, gamma) for a, b in rest]
    error = math.sqrt((draws - 1) * np.var(left_out))
    return BlockScale(xi, error, G_zz, float(total[0]), float(total[1]))


@checked
def block_norm(scale: BlockScale, gamma: float, xi: float) -> float:
    r"""Mean square of the preactivations behind a block.

    $$\overline G_{zz}'=\gamma^2\overline G_{zz}+2\gamma\xi\overline G_{Rz}
      +\xi^2\overline G_{RR}$$

    Args:
        scale: The three averages, from `residual_block_scale`.
        gamma: $\gamma$.
        xi: $\xi$.

    Source: PDLT (B.44).
    """
    return gamma**2 * scale.G_zz + 2 * gamma * xi * scale.G_Rz + xi**2 * scale.G_RR


def _block_root(G_zz: float, G_RR: float, G_Rz: float, gamma: float) -> float:
    inside = (gamma * G_Rz) ** 2 + (1 - gamma**2) * G_RR * G_zz
    return (math.sqrt(inside) - gamma * G_Rz) / G_RR
