r"""Expectations in a nearly Gaussian layer, for any function, to first order in $1/n$.

$$\mathbb E[F]=\langle F\rangle_K+\frac1{n_{\ell-1}}\Big[
  \tfrac12G^{\{1\}}_{ab}\sum_i\langle\partial_{ia}\partial_{ib}F\rangle_K
  +\tfrac18V_{(ab)(cd)}\sum_{ij}\langle\partial_{ia}\partial_{ib}\partial_{jc}\partial_{jd}F\rangle_K
  \Big]+O(1/n^2)$$
Derivatives are moved from $F$ to the Gaussian, in coordinates $u=R^+z$ with $RR^T=K$: there is no
inverse kernel, so coincident inputs are allowed, and $F$ may have kinks.

Source: PDLT (4.46), (4.61)-(4.64), (4.112), (8.41) with the couplings of (4.82), (4.109) put in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise._checked import Count, checked
from scalewise.gaussian.spi import joint_rule
from scalewise.networks.spi import Width
from scalewise.theory.correlators._gaussian_derivatives import check_square, lowered

Values = Float[np.ndarray, "*out"]
Kernel = Float[np.ndarray, "_ _"]
Vertex = Float[np.ndarray, "_ _ _ _"]


@checked
def nearly_gaussian_expectation(
    F: Callable[[Float[np.ndarray, "neuron sample node"]], Any],
    K: Kernel,
    V: Vertex,
    n: Width,
    *,
    G1: Kernel | None = None,
    neurons: Count = 1,
    smooth: bool = True,
) -> tuple[Values, Values]:
    r"""The expectation of a function of a few neurons of one layer, through $O(1/n)$.

    Args:
        F: From preactivations (neuron, sample, node) to values (..., node).
        K: Kernel of the layer, positive semidefinite; preactivation².
        V: Its four-point vertex; preactivation⁴.
        n: $n_{\ell-1}$, the width that `V` and `G1` are coefficients of $1/n$ of.
        G1: NLO metric; ``None`` for 0.
        neurons: How many different neurons `F` looks at.
        smooth: Whether `F` is smooth; if so, up to four variables take a product rule.

    Returns:
        Value and numerical error, shaped like what `F` returns without its last axis. The neglected
        order is $1/n^2$.

    Raises:
        ValueError: If shapes do not fit, `n` or `neurons` is below 1, or `V` or `G1` lets inputs
            vary that `K` holds equal.

    Source: PDLT (4.46), (4.61); for $F=\sigma\sigma$ it is (4.115).

    Example:
        >>> import numpy as np
        >>> from scalewise.theory.correlators import nearly_gaussian_expectation
        >>> K, V = np.ones((1, 1)), np.full((1, 1, 1, 1), 2.0)
        >>> value, _ = nearly_gaussian_expectation(lambda z: z[0, 0] ** 4, K, V, 100.0)
        >>> print(f"{value:.10f}")  # 3 (K^2 + V/n)
        3.0600000000
    """
    R_plus = _whitening(K)
    V_u = _lowered("V", V, K, R_plus)
    G1_u = np.zeros((len(R_plus),) * 2) if G1 is None else _lowered("G1", G1, K, R_plus)
    rule = joint_rule(np.kron(np.eye(neurons), K), smooth=smooth)
    estimates = []
    for nodes, weights in rule.nodes():
        z = nodes.reshape(neurons, len(K), -1)
        u = np.einsum("ra,iam->irm", R_plus, z)
        tilt = weights * (1 + _hermite_weight(u, G1_u, V_u) / n)
        estimates.append(np.asarray(F(z)) @ tilt)
    return rule.combine(np.stack(estimates))


@checked
def intralayer_covariance(
    F: Callable[[Float[np.ndarray, "sample node"]], Any],
    H: Callable[[Float[np.ndarray, "sample node"]], Any],
    K: Kernel,
    V: Vertex,
    n: Width,
    *,
    smooth: bool = True,
) -> tuple[Values, Values]:
    r"""Covariance of a function of one neuron with a function of another of the same layer.

    $$\mathrm{Cov}[F(z_i),H(z_j)]=\frac1{4n_{\ell-1}}V_{(ab)(cd)}\langle\partial_a\partial_bF\rangle_K
      \langle\partial_c\partial_dH\rangle_K+O(1/n^2),\qquad i\ne j$$

    Args:
        F: From preactivations of one neuron (sample, node) to values (node).
        H: The same for the other neuron.
        K: Kernel of the layer; preactivation².
        V: Its four-point vertex; preactivation⁴.
        n: $n_{\ell-1}$.
        smooth: Whether both functions are smooth.

    Returns:
        Value and numerical error; the neglected order is $1/n^2$.

    Raises:
        ValueError: As `nearly_gaussian_expectation`.

    Source: PDLT (4.64), (8.41).

    Example:
        >>> import numpy as np
        >>> from scalewise.theory.correlators import intralayer_covariance
        >>> square = lambda z: z[0] ** 2
        >>> K, V = np.ones((1, 1)), np.full((1, 1, 1, 1), 2.0)
        >>> print(f"{intralayer_covariance(square, square, K, V, 100.0)[0]:.10f}")  # V/n
        0.0200000000
    """
    R_plus = _whitening(K)
    V_u = _lowered("V", V, K, R_plus)
    rule = joint_rule(K, smooth=smooth)
    estimates = []
    for nodes, weights in rule.nodes():
        u = R_plus @ nodes
        quadratic = u[:, None] * u - np.eye(len(u))[:, :, None]
        left, right = (quadratic @ (weights * np.asarray(f(nodes))) for f in (F, H))
        estimates.append(np.einsum("abcd,ab,cd", V_u, left, right) / (4 * n))
    return rule.combine(np.stack(estimates))


def _hermite_weight(u: np.ndarray, G1: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Weights in place of derivatives, by node: Hermite polynomials of the neurons' coordinates."""
    count = len(u)
    outer = np.einsum("iam,ibm->abm", u, u)
    A = outer - count * np.eye(u.shape[1])[:, :, None]
    # Both pairs on one neuron: take out the contractions between the pairs.
    self_pairs = np.einsum("acbc->ab", V)
    contracted = np.einsum("ab,abm->m", 4 * self_pairs, outer) - 2 * count * np.trace(self_pairs)
    quartic = np.einsum("abcd,abm,cdm->m", V, A, A, optimize=True) - contracted
    return 0.5 * np.einsum("ab,abm->m", G1, A) + 0.125 * quartic


def _whitening(K: np.ndarray) -> np.ndarray:
    """$R^+$ with $RR^T=K$: rows for the directions in which the inputs differ."""
    check_square("K", K)
    value, vector = np.linalg.eigh(K)
    keep = value > 1e-12 * max(value[-1], 1e-300)
    return (vector[:, keep] / np.sqrt(value[keep])).T


def _lowered(name: str, tensor: np.ndarray, K: np.ndarray, R_plus: np.ndarray) -> np.ndarray:
    """A tensor in the coordinates of `_whitening`, refused if it leaves their span."""
    if tensor.shape != (len(K),) * tensor.ndim:
        raise ValueError(
            f"`{name}` must have every axis as long as `K`; got shape {tensor.shape} "
            f"for {len(K)} inputs."
        )
    return lowered(name, tensor, K @ R_plus.T, R_plus, range(tensor.ndim))
