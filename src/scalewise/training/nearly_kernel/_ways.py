r"""Ways to train a nearly-linear model: all agree at $\epsilon=0$ and differ at order $\epsilon$.

Each is two weights of pairs of eigendirections of the kernel of the training samples, $Z_A$ of
$\mu_{\tilde\alpha_1\dot\beta\tilde\alpha_2}$ and $Z_B$ of $\mu_{\dot\beta\tilde\alpha_1\tilde\alpha_2}$.

| way | $Z_Bh_1h_2$ | $Z_Ah_1h_2$ |
|---|---|---|
| `DirectOptimisation` | 1/2 | 0 |
| `TrainedKernel` | 1/2 | 1/2 |
| `MinimumNorm` | 1/2 | 1 |
| `Descent` | 1/2 once symmetrised | by rate and directions |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scalewise._checked import NotNegative, checked
from scalewise._readable import readable
from scalewise.training.width._weights import converged

Directions = Float[np.ndarray, " direction"]
Pairs = Float[np.ndarray, "direction direction_1"]


class _Divided:
    """A way that fits at once: fixed shares of 1/(h_1 h_2)."""

    def projectors(self, h: Directions) -> tuple[Pairs, Pairs]:
        """Z_A and Z_B over pairs of directions with eigenvalues `h`."""
        both = 1 / np.multiply.outer(h, h)
        return self._share_of_A * both, both / 2

    _share_of_A: float


@dataclass(frozen=True)
@readable
class DirectOptimisation(_Divided):
    """The pseudoinverse solution of `nearly_linear_regression`.

    Source: PDLT (11.132).
    """

    _share_of_A = 0.0


@dataclass(frozen=True)
@readable
class TrainedKernel(_Divided):
    r"""Kernel regression with the mean of the kernels at the start and at the end of training.

    Footnote 25 of the text says that it equals `DirectOptimisation`; expanding (11.142) shows half of $Z_A$ more.

    Source: PDLT (11.140)-(11.142), footnote 25 corrected.
    """

    _share_of_A = 0.5


@dataclass(frozen=True)
@readable
class MinimumNorm(_Divided):
    r"""The interpolant of least $\sum W^2$, which a ridge $a\to0^+$ finds.

    Source: derived from PDLT (11.116) with (10.124).
    """

    _share_of_A = 1.0


@checked
@dataclass(frozen=True)
@readable
class Descent:
    r"""Gradient descent from $W=0$ to the end; the flow at a rate of 0.

    $$Z_A=\frac1{h_1h_2}-\frac{X_{II}}{h_2},\qquad Z_B=Z_A+\frac\eta2X_{II}\;\to\;\frac1{2h_1h_2},\qquad
      X_{II}=\frac1{h_1+h_2-\eta h_1h_2}$$

    those of a network's dNTK, symmetrised.

    Args:
        rate: $\eta$, for $\frac12\sum(z-y)^2$.

    Source: PDLT (11.133)-(11.136), where the sum of (11.134) runs over $\tilde\alpha_5$, printed
        $\tilde\alpha_7$.
    """

    rate: NotNegative

    def projectors(self, h: Directions) -> tuple[Pairs, Pairs]:
        """Z_A and Z_B over pairs of directions with eigenvalues `h`.

        Raises:
            ValueError: If training diverges at this rate.
        """
        if self.rate * h.max() >= 2:
            raise ValueError(
                f"`Descent.rate` must be below {2 / h.max():.6g}, two over the largest eigenvalue of the kernel; "
                f"at {self.rate:g} training diverges."
            )
        found = converged(h, self.rate)
        return found.A, found.B


Way = DirectOptimisation | TrainedKernel | MinimumNorm | Descent
