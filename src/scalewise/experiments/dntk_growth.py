r"""The differential of the NTK: its two correlations with the output, layer by layer.

Shown: $P/n\Theta^2$ and $Q/n\Theta^2$, recursions as lines, ensembles as points, deep forms broken.
$$\frac P{n\Theta^2}\to-\frac13\frac{2-p_\perp}{5-p_\perp}\frac\ell n,\qquad
  \frac Q{n\Theta^2}\to\frac1{(5-p_\perp)^2}\Big[1-p_\perp-\frac{\tilde\lambda_b}X\Big]\frac\ell n,\qquad
  \frac Q{n\Theta^2}=\frac{A_4}{6A_2}\frac{\tilde\lambda_WK}{\tilde\lambda_b+\tilde\lambda_WA_2K}
  \frac{\ell^2-1}{\ell n}$$
the last for scale-invariant activations, whose $P$ is 0.
Look for: straight lines; the sign of $Q$ tells the classes apart.

Source: PDLT (11.55)-(11.56), (11.79)-(11.81), (11.98)-(11.102): F11-1 and F11-2.
"""

from __future__ import annotations

from scalewise.experiments._form import settings
from scalewise.experiments._growth import Settings, TensorGrowth

TITLE = "How the NTK begins to move"
TEXT = (
    "P and Q measure how the output correlates with the first differential of the NTK: without them a "
    "network learns no features. Both grow with ℓ/n. For tanh and sin both are negative, with limits "
    "−1/12, and −1/24 and −1/32 of ℓ/n; for scale-invariant activations P vanishes to leading order "
    "and Q is known exactly. Points are ensembles at the width stated, which know higher orders too."
)


# Small: two activations, small ensembles.
@settings(activations=("tanh", "relu"), depth=3, deep=2_000, width=24, networks=800)
class Config(Settings):
    """Settings with continuous activations; see `Settings`."""

    activations: tuple[str, ...] = ("tanh", "sin", "relu", "leaky_relu(0.2)", "linear")
    width: int = 96
    networks: int = 3_000


_GROWTH = TensorGrowth(
    {letter: f"dntk_{letter}" for letter in "PQ"},
    unit=lambda Theta, K: Theta**2,
    over="/Θ²",
)
run, numbers, figure = _GROWTH.run, _GROWTH.numbers, _GROWTH.figure
