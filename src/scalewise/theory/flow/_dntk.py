r"""Correlations $P$ and $Q$ of the differential of the NTK with the preactivations, layer to layer.

With $r=n_\ell/n_{\ell-1}$,
$$P'_{0123}=C_W^2\big\{\langle\sigma''_0\sigma'_1\sigma'_2\sigma_3\rangle\Theta_{01}\Theta_{02}
  +r\langle\sigma'_1\sigma'_2\rangle\big[\langle\sigma''_0\sigma_3\rangle(P_{0120}+B_{0012})
  +\langle\sigma'_0\sigma'_3\rangle P_{0123}\big]\big\}$$
$$Q'_{0123}=C_W^2\big\{\langle\sigma''_0\sigma'_1\sigma'_2\sigma_3\rangle\Theta_{01}\Theta_{02}
  +r\langle\sigma'_0\sigma'_1\rangle\big[\langle\sigma''_2\sigma_3\rangle Q_{0122}
  +\langle\sigma'_2\sigma'_3\rangle Q_{0123}\big]
  +r\Theta_{01}\sum_{\gamma,\delta}\langle\partial_\gamma(\sigma''_0\sigma'_1)\rangle
  \langle\partial_\delta(\sigma'_2\sigma_3)\rangle F_{\gamma0\delta2}\big\}
  +\frac{\lambda_W}{C_W}F'_{1032}$$
starting from 0 in layer 1. For a piecewise linear activation the $\sigma''$ of the chain rule is 0 almost
everywhere; where $\sigma''$ comes from an integration by parts it is a delta function.

Source: PDLT (11.49), (11.52).
"""

from __future__ import annotations

import numpy as np

from scalewise.theory.flow._layer import Expectations, Tensor
from scalewise.theory.flow._ntk_statistics import Matrix, slide, swapped


def next_P(
    layer: Expectations, P: Tensor, B: Tensor, *, C_W: float, Theta: Matrix, r: float
) -> Tensor:
    r"""$P_{0123}$ of the next layer from $P$ and $B$ of this one; NTK²."""
    curved, bent, pp = layer.curved(2, 0), layer.M(2, 0), layer.M(1, 1)
    inner = (
        np.einsum("ad,eabca->eabcd", bent, P)
        + np.einsum("ad,eabcd->eabcd", pp, P)
        + np.einsum("ad,eaabc->eabcd", curved, B)
    )
    return C_W**2 * (_curvature(layer, Theta) + r * np.einsum("bc,eabcd->eabcd", pp, inner))


def next_Q(
    layer: Expectations,
    Q: Tensor,
    F: Tensor,
    F_next: Tensor,
    *,
    C_W: float,
    lambda_W: float,
    Theta: Matrix,
    r: float,
) -> Tensor:
    r"""$Q_{0123}$ of the next layer from $Q$, $F$ of this one and $F$ of the next; NTK²."""
    pp, bent = layer.M(1, 1), layer.M(2, 0)
    # Indices 0, 1, 2, 3 are a, b, c, d below.
    carried = swapped(slide(swapped(Q.transpose(0, 1, 2, 4, 3)), pp, bent.T))
    carried = np.einsum("ab,eabdc->eabcd", pp, carried)
    # F_(gamma 0 delta 2) with gamma in {1, 0} and delta in {3, 2}.
    first = slide(F, layer.curved(2, 2).T, layer.curved(3, 1).T)
    both = swapped(slide(swapped(first), pp, bent.T))
    through_F = np.einsum("ab,ebadc->eabcd", Theta, both)
    forward = lambda_W / C_W * F_next.transpose(0, 2, 1, 4, 3)
    return C_W**2 * (_curvature(layer, Theta) + r * (carried + through_F)) + forward


def _curvature(layer: Expectations, Theta: Matrix) -> Tensor:
    r"""$\langle\sigma''_0\sigma'_1\sigma'_2\sigma_3\rangle\Theta_{01}\Theta_{02}$."""
    return np.einsum("eadbc,ab,ac->eabcd", layer.four((2, 0, 1, 1)), Theta, Theta)
