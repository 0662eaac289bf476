"""The recursions of PDLT as they are printed, for two inputs: the oracle of the package's own form.

Inverse kernels, insertions of z z - K and a tensor Gauss-Hermite rule, layer by layer: nothing here is
shared with the package, which uses neither inverses nor insertions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

NODES = 80


@dataclass(frozen=True)
class Layer:
    """K, V, G^{1} of one layer."""

    K: np.ndarray
    V: np.ndarray
    G1: np.ndarray


def next_layer(
    here: Layer, sigma: Callable[[np.ndarray], np.ndarray], C_b: float, C_W: float, r: float
) -> Layer:
    """PDLT (4.118), (4.119) and (4.115), with r = n_l / n_{l-1}."""
    x, w = np.polynomial.hermite_e.hermegauss(NODES)
    u = np.stack(np.meshgrid(x, x, indexing="ij")).reshape(2, -1)
    p = np.outer(w, w).ravel() / w.sum() ** 2
    K = here.K
    z = np.linalg.cholesky(K) @ u
    s = sigma(z)
    ss = s[:, None] * s[None]
    zz = z[:, None] * z[None] - K[..., None]
    mean = np.einsum("abm,m->ab", ss, p)
    inverse = np.linalg.inv(K)
    ssz = np.einsum("abm,cdm,m->abcd", ss, zz, p)
    raised = np.einsum("ai,bj,ck,dl,ijkl->abcd", *(inverse,) * 4, here.V)
    cov = np.einsum("abm,cdm,m->abcd", ss, ss, p) - np.multiply.outer(mean, mean)
    V = C_W**2 * (cov + 0.25 * r * np.einsum("ijkl,abij,cdkl->abcd", raised, ssz, ssz))
    sszz = np.einsum("abm,ijm,klm,m->abijkl", ss, zz, zz, p)
    third = -2 * (ssz + np.multiply.outer(mean, K)) + np.multiply.outer(mean, K)
    G1 = (
        0.5 * np.einsum("ik,jl,kl,abij->ab", inverse, inverse, here.G1, ssz)
        + 0.125 * np.einsum("ijkl,abijkl->ab", raised, sszz)
        + 0.25 * np.einsum("ikjl,kl,abij->ab", raised, K, third)
    )
    return Layer(C_b + C_W * mean, V, C_W * r * G1)
