r"""Exact expectations over one layer's weights: an observable above, weights inserted, a layer below.

Given the activations below, preactivations and weights of a layer are jointly Gaussian:
$$z_{i;a}=b_i+\sum_jW_{ij}\sigma_{j;a},\qquad\widehat G_{ab}=C_b+\frac{C_W}n\sum_j\sigma_{j;a}\sigma_{j;b},
  \qquad\mathbb E[W_{ij}z_{i';a}]=\delta_{ii'}\frac{C_W}n\sigma_{j;a}.$$
A weight is therefore a derivative of the observable, plus what it contracts with other weights. The
vectors $\sigma_j$ lie in the span of $\widehat G$, so coincident inputs and fewer neurons than inputs do
no harm.

Source: PDLT (8.49), (8.53)-(8.55), (10.10), (11.33)-(11.35).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from scalewise._checked import Count, NotNegative, Positive, checked
from scalewise.theory.correlators._gaussian_derivatives import Observable, gaussian_neurons

MOST_WEIGHTS = 3
Activations = Float[np.ndarray, "below sample"]
Values = Float[np.ndarray, "*out"]


@checked
def stochastic_metric(
    activations: Activations, *, C_b: NotNegative, C_W: Positive
) -> Float[np.ndarray, "sample sample"]:
    r"""The metric of a layer given the layer below.

    $$\widehat G_{ab}=C_b+\frac{C_W}n\sum_j\sigma_{j;a}\sigma_{j;b}$$

    Args:
        activations: $\sigma_{j;a}$ of one network, (neurons below, samples).
        C_b: Bias variance of the layer.
        C_W: Weight variance times width below, above 0.

    Returns:
        (samples, samples); preactivation², exact.

    Source: PDLT (8.49).
    """
    return C_b + C_W / len(activations) * (activations.T @ activations)


@checked
def weight_moments(
    observable: Observable,
    activations: Activations,
    count: int,
    *,
    C_b: NotNegative,
    C_W: Positive,
    neurons: Count = 1,
    smooth: bool = True,
) -> tuple[Values, Values]:
    r"""Expectation of an observable times 0, 1, 2 or 3 weights, given the layer below.

    $$\mathbb E[O\,W_{ij}]=\tfrac{C_W}n\sum_a\langle\partial_{i;a}O\rangle_{\widehat G}\,\sigma_{j;a}$$
    $$\mathbb E[O\,W_{ij}W_{i'j'}]=\tfrac{C_W}n\delta_{ii'}\delta_{jj'}\langle O\rangle_{\widehat G}
      +\big(\tfrac{C_W}n\big)^2\sum_{ab}\langle\partial_{i;a}\partial_{i';b}O\rangle_{\widehat G}
      \,\sigma_{j;a}\sigma_{j';b}$$
    and with three weights the three contractions of two of them, plus three derivatives.

    Args:
        observable: From preactivations (neuron, sample, node) to values (..., node).
        activations: $\sigma_{j;a}$ of one network, (neurons below, samples).
        count: How many weights, 0 to 3.
        C_b: Bias variance of the layer.
        C_W: Weight variance times width below, above 0.
        neurons: How many neurons of the layer are kept.
        smooth: Whether the observable is smooth; if so, up to six coordinates take a product rule.

    Returns:
        Values (..., $i_0$, $j_0$, $i_1$, $j_1$, …) and their numerical errors; exact at any width.

    Raises:
        ValueError: If an argument is out of range, or the observable returns what is not finite.

    Source: PDLT (8.54), (10.10) = (11.34), (8.55) and (11.35), derivatives in place of inverse metrics.

    Example:
        >>> import numpy as np
        >>> from scalewise.theory.correlators import weight_moments
        >>> below = np.array([[1.0], [3.0]])  # two neurons, one input
        >>> value, _ = weight_moments(lambda z: z[0, 0], below, 1, C_b=0.0, C_W=1.0)
        >>> np.round(value, 10)  # E[z W_j] = C_W sigma_j / n
        array([[0.5, 1.5]])
    """
    if count not in range(MOST_WEIGHTS + 1):
        raise ValueError(f"`count` must be 0, 1, 2 or 3 weights; got {count}.")
    metric = stochastic_metric(activations, C_b=C_b, C_W=C_W)
    layer = gaussian_neurons(metric, neurons, smooth=smooth, name="stochastic metric")
    variance = C_W / len(activations)
    w = variance * activations @ layer.inverse.T
    pair = variance * np.einsum("ik,jl->ijkl", np.eye(neurons), np.eye(len(activations)))
    estimates = []
    for moments in layer.moments(observable, count):
        plain = [_on_weights(t, w, k) for k, t in enumerate(moments.hermite)]
        total = plain[count]
        if count == 2:
            total = total + np.multiply.outer(plain[0], pair)
        if count == 3:
            total = total + np.einsum("...ab,cdef->...abcdef", plain[1], pair)
            total = total + np.einsum("...cd,abef->...abcdef", plain[1], pair)
            total = total + np.einsum("...ef,abcd->...abcdef", plain[1], pair)
        estimates.append(total)
    return layer.combine(estimates)


@checked
def weight_generating_function(
    observable: Observable,
    J: Float[np.ndarray, "neuron _below"],
    activations: Activations,
    *,
    C_b: NotNegative,
    C_W: Positive,
    smooth: bool = True,
) -> tuple[Values, Values]:
    r"""Generating function of insertions of any number of weights, given the layer below.

    $$\mathbb E\big[O\,e^{\sum J_{ij}W_{ij}}\big]=e^{\frac{C_W}{2n}\sum J_{ij}^2}\,\Big\langle
      O\big(z_{i;a}+\tfrac{C_W}n\sum_jJ_{ij}\sigma_{j;a}\big)\Big\rangle_{\widehat G}$$

    Args:
        observable: From preactivations (neuron, sample, node) to values (..., node).
        J: Sources; dimension of an inverse weight. Its first axis says how many neurons are kept.
        activations: $\sigma_{j;a}$ of one network, (neurons below, samples).
        C_b: Bias variance of the layer.
        C_W: Weight variance times width below, above 0.
        smooth: Whether the observable is smooth.

    Returns:
        Value and numerical error, shaped like the values of the observable; exact at any width.

    Raises:
        ValueError: If shapes do not fit, or an argument is out of range.

    Source: PDLT (8.53) = (11.33).

    Example:
        >>> import numpy as np
        >>> from scalewise.theory.correlators import weight_generating_function
        >>> below, J = np.array([[1.0], [3.0]]), np.array([[0.0, 2.0]])
        >>> value, _ = weight_generating_function(lambda z: z[0, 0], J, below, C_b=0.0, C_W=1.0)
        >>> print(f"{value / np.exp(1.0):.10f}")  # the shift C_W/n J sigma
        3.0000000000
    """
    metric = stochastic_metric(activations, C_b=C_b, C_W=C_W)
    if J.ndim != 2 or J.shape[1] != len(activations):
        raise ValueError(
            f"`J` must be (neurons, {len(activations)}) as `activations` has that many "
            f"neurons; got shape {J.shape}."
        )
    layer = gaussian_neurons(metric, len(J), smooth=smooth, name="stochastic metric")
    variance = C_W / len(activations)
    shift = variance * (J @ activations)[:, :, None]
    factor = np.exp(0.5 * variance * np.sum(J * J))
    shifted = layer.moments(lambda z: observable(z + shift), 0)
    return layer.combine([factor * moments.hermite[0] for moments in shifted])


def _on_weights(tensor: np.ndarray, w: np.ndarray, legs: int) -> np.ndarray:
    """Each of the last pairs of axes (neuron, direction) turned into (neuron, neuron below)."""
    for leg in range(legs):
        axis = -1 - 2 * leg
        tensor = np.moveaxis(np.tensordot(tensor, w, axes=(axis, 1)), -1, axis)
    return tensor
