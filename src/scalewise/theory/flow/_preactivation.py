r"""The four-point vertex $V$ and the next-to-leading-order metric $G^{\{1\}}$, layer to layer.

Both are pushforwards through the map $K^{(\ell)}\mapsto K^{(\ell+1)}$ (no inverse kernels). With
$M_{pq}=\langle\sigma^{(p)}_a\sigma^{(q)}_b\rangle_{K^{(\ell)}}$, $r_\ell=n_\ell/n_{\ell-1}$ and
$\delta$ a variation of $(K_{aa},K_{ab},K_{bb})$,
$$(J\delta)_{ab}=\tfrac12M_{20}\,\delta_{aa}+M_{11}\,\delta_{ab}+\tfrac12M_{02}\,\delta_{bb},$$
$$V^{(\ell+1)}=C_W^2\big[\langle\sigma\sigma\sigma\sigma\rangle-\langle\sigma\sigma\rangle
  \langle\sigma\sigma\rangle+r_\ell\,JV^{(\ell)}J^T\big],\qquad V^{(1)}=0,$$
$$G^{\{1\}(\ell+1)}=C_Wr_\ell\big[JG^{\{1\}(\ell)}+\tfrac12\,H\!:\!V^{(\ell)}\big],\qquad
  G^{\{1\}(1)}=0,$$
with $H$ the second derivative of $\langle\sigma_a\sigma_b\rangle$. Both are kept on unordered
pairs: a quarter of the memory.

Source: PDLT (4.119), (4.115) in the inverse-free form that Price's theorem gives.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from scalewise.theory.flow._layer import Expectations
from scalewise.theory.flow._pairs import curvature

Vertex = Float[np.ndarray, "_estimate pair pair"]
Metric = Float[np.ndarray, "_estimate pair"]


def next_V(layer: Expectations, V: Vertex, *, C_W: float, r: float) -> Vertex:
    r"""$V$ of the next layer, on pairs of unordered pairs; preactivation⁴. $r=n_\ell/n_{\ell-1}$."""
    J = layer.jacobian
    vertex = np.stack([J @ (J @ one).T for one in V])
    vertex *= r
    vertex = vertex + layer.source
    vertex *= C_W**2
    return vertex


def next_G1(layer: Expectations, G1: Metric, V: Vertex, *, C_W: float, r: float) -> Metric:
    r"""$G^{\{1\}}$ of the next layer, on unordered pairs; preactivation²."""
    second = layer.on_pairs((2, 2), (3, 1), (1, 3), (4, 0), (0, 4))
    push = G1 @ layer.jacobian.T
    return C_W * r * (push + 0.5 * curvature(second, layer.pairs, V))
