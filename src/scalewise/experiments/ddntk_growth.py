r"""The second differentials of the NTK: their four means, layer by layer.

Shown: $RK/\Theta^3$, $SK/\Theta^3$, $TK/\Theta^3$, $UK/\Theta^3$ of a tanh and of a linear network,
recursions as lines, ensembles as points, deep forms broken.
$$R,S,T:\ -\tfrac5{72}\ell,\ \tfrac1{36}\ell,\ \tfrac1{72}\ell,\quad U:\ \tfrac1{2\ell}\quad(\tanh),
  \qquad S=T\cdot\frac{\tilde\lambda_b+\tilde\lambda_WK}{\tilde\lambda_WK}
  =\frac{\ell^2(\ell^2-1)}{12L^3}(\tilde\lambda_b+\tilde\lambda_WK)^2\tilde\lambda_W\quad(\text{linear})$$
Look for: three of them grow with $\ell/n$ in both; $U$ dies out.

Source: PDLT (∞.14)-(∞.17), (∞.34)-(∞.38), (∞.46)-(∞.48): F∞-1 and F∞-2.
"""

from __future__ import annotations

from scalewise.experiments._form import settings
from scalewise.experiments._growth import Settings, TensorGrowth

TITLE = "Second differentials of the NTK"
TEXT = (
    "Means of the two second differentials of the NTK. R, S and T grow with ℓ/n, so that deep networks "
    "learn features at this order too; U of tanh falls as 1/ℓ. In linear networks R and U vanish and S "
    "and T are known exactly. Points are ensembles at the width stated."
)


# Small: shallow and narrow networks, few of them.
@settings(activations=("tanh",), depth=2, deep=2_000, width=16, networks=500)
class Config(Settings):
    """Settings with smooth activations; see `Settings`."""


_GROWTH = TensorGrowth(
    {letter: f"ddntk_{letter}" for letter in "RSTU"},
    unit=lambda Theta, K: Theta**3 / K,
    over="K/Θ³",
    falling="U",
)
run, numbers, figure = _GROWTH.run, _GROWTH.numbers, _GROWTH.figure
