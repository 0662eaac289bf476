r"""Correlations of any observable of a layer with its NTK and with the differential of its NTK.

Inside an expectation, to leading order, a fluctuation acts on the observable as a differential operator
whose coefficients are its correlations with the preactivations:
$$\widehat{\Delta H}_{i_3i_4;34}\to\frac1{2}\sum\mathbb E[z_{m_1;1}z_{m_2;2}\widehat{\Delta H}_{i_3i_4;34}]\,
  \partial_{m_1;1}\partial_{m_2;2},\qquad
  \widehat{dH}_{i_0i_1i_2;012}\to\sum\mathbb E[z_{m;3}\widehat{dH}_{i_0i_1i_2;012}]\,\partial_{m;3}.$$
The third of the family, for the metric, is `nearly_gaussian`. Derivatives are moved onto the Gaussian
and no kernel is inverted: inputs may coincide, and observables may have kinks.

Source: PDLT (8.71), (11.42), (11.46).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from scalewise._checked import Count, checked
from scalewise.networks.spi import Width
from scalewise.theory.correlators._gaussian_derivatives import Observable, gaussian_neurons

Kernel = Float[np.ndarray, "sample sample"]
Tensor = Float[np.ndarray, "sample sample sample sample"]
NTKArray = Float[np.ndarray, "*out neuron neuron sample sample"]
DNTKArray = Float[np.ndarray, "*out neuron neuron neuron sample sample sample"]


@checked
def ntk_correlation(
    observable: Observable,
    K: Kernel,
    D: Tensor,
    F: Tensor,
    n: Width,
    *,
    neurons: Count = 1,
    smooth: bool = True,
) -> tuple[NTKArray, NTKArray]:
    r"""Correlation of an observable with the fluctuation of the NTK of the same layer.

    $$\mathbb E[O\,\widehat{\Delta H}_{i_3i_4;34}]=\frac1{n_{\ell-1}}\sum_{ab}\Big[\tfrac12\delta_{i_3i_4}
      D_{ab34}\sum_m\langle\partial_{m;a}\partial_{m;b}O\rangle_K
      +F_{a3b4}\langle\partial_{i_3;a}\partial_{i_4;b}O\rangle_K\Big]+O(1/n^2)$$

    Args:
        observable: From preactivations (neuron, sample, node) to values (..., node).
        K: Kernel of the layer, positive semidefinite; preactivation².
        D: ``ntk_D`` of the layer; preactivation² times NTK.
        F: ``ntk_F`` of the layer, in the order 1, 3, 2, 4.
        n: $n_{\ell-1}$.
        neurons: How many neurons are kept; the observable need not look at all of them, so one more
            gives the NTK of a neuron that it does not see.
        smooth: Whether the observable is smooth; if so, up to six coordinates take a product rule.

    Returns:
        Values (..., $i_3$, $i_4$, sample 3, sample 4) and their numerical errors; the neglected order is
        $1/n^2$, and there is none in layer 2 for quadratic observables.

    Raises:
        ValueError: If shapes do not fit, `n` or `neurons` is below 1, the observable returns what is
            not finite, or a tensor lets samples vary that `K` holds equal.

    Source: PDLT (8.71), with (8.56) used to remove the inverse metrics.

    Example:
        >>> import numpy as np
        >>> from scalewise.theory.correlators import ntk_correlation
        >>> K, D, F = np.ones((1, 1)), np.full((1,) * 4, 2.0), np.full((1,) * 4, 3.0)
        >>> square = lambda z: z[0, 0] ** 2
        >>> value, _ = ntk_correlation(square, K, D, F, 100, neurons=2)
        >>> print(np.round(value[..., 0, 0], 10))  # (D + 2F)/n and D/n
        [[0.08 0.  ]
         [0.   0.02]]
    """
    layer = gaussian_neurons(K, neurons, smooth=smooth)
    D_u, F_u = layer.lowered("D", D, (0, 1)), layer.lowered("F", F, (0, 2))
    estimates = []
    for moments in layer.moments(observable, 2):
        second = moments.hermite[2]
        shared = 0.5 * np.einsum("...xrxs,rscd->...cd", second, D_u)
        total = np.einsum("...cd,ij->...ijcd", shared, np.eye(neurons))
        estimates.append((total + np.einsum("...irjs,rcsd->...ijcd", second, F_u)) / n)
    return layer.combine(estimates)


@checked
def dntk_correlation(
    observable: Observable,
    K: Kernel,
    P: Tensor,
    Q: Tensor,
    n: Width,
    *,
    neurons: Count = 1,
    smooth: bool = True,
) -> tuple[DNTKArray, DNTKArray]:
    r"""Correlation of an observable with the differential of the NTK of the same layer.

    $$\mathbb E[O\,\widehat{dH}_{i_0i_1i_2;012}]=\frac1{n_{\ell-1}}\sum_a\Big[
      \delta_{i_1i_2}P_{012a}\langle\partial_{i_0;a}O\rangle_K
      +\delta_{i_0i_1}Q_{012a}\langle\partial_{i_2;a}O\rangle_K
      +\delta_{i_0i_2}Q_{021a}\langle\partial_{i_1;a}O\rangle_K\Big]+O(1/n^2)$$

    Args:
        observable: From preactivations (neuron, sample, node) to values (..., node).
        K: Kernel of the layer, positive semidefinite; preactivation².
        P: ``dntk_P`` of the layer; NTK².
        Q: ``dntk_Q`` of the layer; NTK².
        n: $n_{\ell-1}$.
        neurons: How many neurons are kept; the observable need not look at all of them.
        smooth: Whether the observable is smooth; if so, up to six coordinates take a product rule.

    Returns:
        Values (..., $i_0$, $i_1$, $i_2$, sample 0, sample 1, sample 2) and their numerical errors; the
        neglected order is $1/n^2$, and there is none in layer 2 for linear observables.

    Raises:
        ValueError: As `ntk_correlation`.

    Source: PDLT (11.42), (11.46).

    Example:
        >>> import numpy as np
        >>> from scalewise.theory.correlators import dntk_correlation
        >>> K, P, Q = np.ones((1, 1)), np.full((1,) * 4, 2.0), np.full((1,) * 4, 3.0)
        >>> value, _ = dntk_correlation(lambda z: z[0, 0] ** 3, K, P, Q, 300)
        >>> print(f"{value.item():.10f}")  # <3 z^2> (P + 2Q)/n
        0.0800000000
    """
    layer = gaussian_neurons(K, neurons, smooth=smooth)
    P_u, Q_u = layer.lowered("P", P, (3,)), layer.lowered("Q", Q, (3,))
    eye = np.eye(neurons)
    estimates = []
    for moments in layer.moments(observable, 1):
        first = moments.hermite[1]
        total = np.einsum("...ir,abcr,jk->...ijkabc", first, P_u, eye)
        total = total + np.einsum("...kr,abcr,ij->...ijkabc", first, Q_u, eye)
        total = total + np.einsum("...jr,acbr,ik->...ijkabc", first, Q_u, eye)
        estimates.append(total / n)
    return layer.combine(estimates)
