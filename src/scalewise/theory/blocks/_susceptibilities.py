r"""Susceptibilities of a block: what becomes of small changes of a signal that passes it.

Two inputs of the same size $K$ at every position enter as Gaussian fields,
$$\langle x_ax_a\rangle_{st}=KR_{st},\qquad\langle x_ax_b\rangle_{st}=KC_{st},\qquad R_{ss}=1,$$
and leave as such: $K'$, $R'$ and $C'$. With $T'=J[T]$ the linear map of small changes of $KC$ at fixed $KR$,
$$\chi_\parallel=\frac{dK'}{dK}\Big|_R,\qquad\chi_\perp=\max_T\frac{\operatorname{tr}J[T]}{\operatorname{tr}T}
  \text{ at }C=R\text{ over its eigenvectors},\qquad\chi_c\text{ likewise at }C=C^\star,\text{ times }K/K'.$$
$J$ takes covariances to covariances, so its largest eigenvalue is positive: by it small differences between inputs
are multiplied in the long run. Where positions do not mix, $J$ takes what differs at equal positions to itself; if
windows are circular, its eigenvectors are waves along the positions, of factors $\lambda_k$, and of the uniform one
$\lambda_0=\chi_\perp$. Two positions of one input follow the same rule as two inputs there.

Source: PDLT (5.50)-(5.53); Schoenholz et al., arXiv:1611.01232, for $c^\star$ and depth scales; Xiao et al.,
    arXiv:1806.05393, for waves; with norms, skips and attention derived.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise._checked import FiniteNumber, NotNegative, Positive, checked
from scalewise._readable import readable
from scalewise.networks.spi import Hyperparameters, LayerLike, Shape
from scalewise.theory.blocks._block import Block
from scalewise.theory.blocks._repeated import RepeatedBlock
from scalewise.theory.flow._units import SCRAMBLES


@dataclass(frozen=True)
@readable
class BlockSusceptibilities:
    r"""Sizes, correlations and small differences behind a block.

    Args:
        K: The size of signals $K$ at which all else holds, of what enters the block.
        K_next: $K'$, the size of what leaves it; `K` at a fixed point.
        chi_parallel: $\chi_\parallel=dK'/dK$, of signals that are larger at all positions; dimensionless, as all
            below.
        chi_perp: $\chi_\perp$, by which small differences between two inputs grow, in $\langle(x_a-x_b)^2\rangle$.
        correlation: $c^\star$, to which the correlation of two inputs at equal positions tends from 1/2, at `K`.
        chi_correlation: $\chi_c$, the factor of what is left of the way; $\chi_\perp K/K'$ where $c^\star=1$.
        between: The mean correlation of different positions of one input, to which it tends from 1/2. ``None``
            where positions do not mix: there any two of them follow the rule of two inputs.
        chi_between: By what small changes of it are multiplied; where it is 1, as ranks have collapsed, by what
            small differences between positions are.
        modes_parallel: Where positions do not mix, by what waves of sizes along them are multiplied, in the order
            of `numpy.fft.fftn`, the uniform one first; magnitudes if windows look to one side.
        modes_perp: Likewise of waves of small squared differences between two inputs.
        modes_correlation: Likewise of waves of what is left of the way to $c^\star$.
        errors: Standard errors by name, where heads or channels are drawn; else empty.
    """

    K: float
    K_next: float
    chi_parallel: float
    chi_perp: float
    correlation: float
    chi_correlation: float
    between: float | None
    chi_between: float | None
    modes_parallel: Float[np.ndarray, "*positions"] | None
    modes_perp: Float[np.ndarray, "*positions"] | None
    modes_correlation: Float[np.ndarray, "*positions"] | None
    errors: dict[str, Any] = field(default_factory=dict)

    @property
    def depth_parallel(self) -> float:
        r"""Blocks in which a small change of size falls by $e$, $-1/\log\chi_\parallel$; or infinite."""
        return depth_scale(self.chi_parallel)

    @property
    def depth_correlation(self) -> float:
        r"""Blocks in which correlations of two inputs come nearer to $c^\star$ by $e$, $-1/\log\chi_c$."""
        return depth_scale(self.chi_correlation)


@checked
def depth_scale(chi: FiniteNumber) -> float:
    r"""Blocks in which what is multiplied by a factor falls by $e$: $\xi=-1/\log|\chi|$.

    Args:
        chi: The factor of a block.

    Returns:
        At least 0, and infinite from $|\chi|=1$ on.

    Source: Schoenholz et al., arXiv:1611.01232, (9).

    Example:
        >>> from scalewise.theory.blocks import depth_scale
        >>> round(depth_scale(0.9), 2)
        9.49
    """
    if abs(chi) >= 1 - 1e-12:
        return math.inf
    return -1 / math.log(abs(chi)) if chi else 0.0


@checked
def susceptibilities(
    *layers: LayerLike,
    input_shape: Shape,
    C_b: NotNegative = 0.0,
    C_W: Positive = 1.0,
    K: NotNegative | None = None,
) -> BlockSusceptibilities:
    r"""Susceptibilities of a block of layers that is repeated in depth, and where it leads.

    With a norm at the beginning of a branch and none behind it, sizes grow by as much with each block: there is no
    fixed point, $\chi_\parallel$ is that of the trunk, and all else depends on `K`. A norm of the whole makes
    $\chi_\parallel=0$.

    Args:
        layers: Layers, or activations: names, functions or `Activation`. What leaves them has the shape of what
            enters.
        input_shape: That shape: channels; with positions their number along each axis, then the channels.
        C_b: Bias variance of every layer that does not say its own; at least 0.
        C_W: Rescaled weight variance; positive.
        K: The size of signals; by default the fixed point to which sizes tend from 1, or from the square of the
            scale of an activation. Where all sizes stay, this is where the search begins.

    Returns:
        The record; of activations, norms, convolutions and heads that grow to 1e-9 (fixed points that attract by a
        power of the depth to 1e-6); where averages are drawn with standard errors, and fixed points to 1e-4.

    Raises:
        ValueError: If the block changes positions or channels, or treats positions differently; if sizes have no
            fixed point and `K` is not given; or if an activation jumps.

    Source: PDLT (5.50)-(5.53); Schoenholz et al., arXiv:1611.01232; Xiao et al., arXiv:1806.05393, in which
        $\lambda_k=\chi\frac1{\text{taps}}\sum_\tau\cos k\tau$; of skips, norms and attention derived.

    Example:
        >>> import scalewise as sw
        >>> from scalewise.theory.blocks import susceptibilities
        >>> ring = sw.Conv(3, padding="circular")
        >>> found = susceptibilities("relu", ring, input_shape=(4, 64), C_W=2)
        >>> round(found.chi_perp, 6), found.modes_perp.round(4).tolist()
        (1.0, [1.0, 0.3333, -0.3333, 0.3333])
        >>> block = sw.Skip(sw.LayerNorm(), sw.Dense(), "gelu", sw.Dense()), sw.LayerNorm()
        >>> round(susceptibilities(*block, input_shape=64).chi_parallel, 4)
        0.0
    """
    if not layers:
        raise ValueError(
            "`susceptibilities` needs the layers of a block, such as susceptibilities('tanh', Dense(), ...)."
        )
    shape = (input_shape,) if isinstance(input_shape, int) else tuple(input_shape)
    block = Block.of(layers, shape, Hyperparameters(float(C_b), float(C_W), 0.0, 0.0))
    size = None if K is None else float(K)
    parts, near = [], None
    for scramble in range(SCRAMBLES if block.drawn else 1):
        found, at = RepeatedBlock(block, scramble).all_of_it(size, near)
        parts.append(found)
        near = near or at
    means = {name: _mean([part[name] for part in parts]) for name in parts[0]}
    errors = {}
    if block.drawn:
        errors = {
            name: np.std([part[name] for part in parts], axis=0, ddof=1) / math.sqrt(len(parts))
            for name, value in means.items()
            if value is not None
        }
    return BlockSusceptibilities(
        **means, errors={k: float(v) if not np.ndim(v) else v for k, v in errors.items()}
    )


def _mean(values: list[Any]) -> Any:
    if values[0] is None:
        return None
    found = np.mean(values, axis=0)
    return found if found.ndim else float(found)
