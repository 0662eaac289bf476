r"""Information in a network: Gaussian at infinite width, and what finite width adds.

Finite width is measured by one number, $x=V/n_{\ell-1}G^2$. For one input and $m$ neurons of a layer
$$\mathcal S=\tfrac m2\log2\pi eG-\tfrac{m^2+2m}{16}x^2+\tfrac{m^3+10m^2+16m}{48}x^3+O(1/n^4),$$
so that the mutual information of two groups first grows and then falls with depth, see
`aspect_ratio`. Natural logarithms throughout: nats.

Source: PDLT appendix A.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise._arrays import float_array
from scalewise._checked import Count, Index, NotNegative, Positive, checked


@checked
def gaussian_entropy(K: float | Float[np.ndarray, "sample sample"], neurons: Count = 1) -> float:
    r"""Entropy of neurons of an infinitely wide layer on given inputs.

    $$\mathcal S=\frac m2\log\det(2\pi eK)$$

    Args:
        K: Kernel of the inputs, positive definite; a number for one input. Preactivation².
        neurons: $m$.

    Returns:
        The entropy in nats; exact. It shifts when the preactivations are rescaled.

    Raises:
        ValueError: If the kernel is not symmetric and positive definite, or `neurons` below 1.

    Source: PDLT (A.26).

    Example:
        >>> from scalewise.theory.information import gaussian_entropy
        >>> print(f"{gaussian_entropy(1.0):.6f}")
        1.418939
    """
    kernel = _kernel(K)
    return (
        0.5
        * neurons
        * (len(kernel) * math.log(2 * math.pi * math.e) + float(np.linalg.slogdet(kernel)[1]))
    )


@checked
def gaussian_mutual_information(
    K: Float[np.ndarray, "sample sample"], first: list[int], second: list[int], neurons: Count = 1
) -> float:
    r"""Mutual information of the same neurons on two groups of inputs, at infinite width.

    $$\mathcal I=\frac m2\log\frac{\det K_{AA}\det K_{BB}}{\det K_{A\cup B}}$$
    Between different neurons it is 0, whatever the inputs (A.27).

    Args:
        K: Kernel of the inputs, positive definite on both groups together.
        first: Which inputs make the first group.
        second: Which make the second; disjoint from the first.
        neurons: $m$.

    Returns:
        The information in nats, at least 0; exact.

    Raises:
        ValueError: If the groups overlap or are empty, or a kernel is not positive definite.

    Source: PDLT (A.28) for one input each.

    Example:
        >>> import numpy as np
        >>> from scalewise.theory.information import gaussian_mutual_information
        >>> K = np.array([[1.0, 0.6], [0.6, 1.0]])
        >>> print(f"{gaussian_mutual_information(K, [0], [1]):.6f}")  # -log 0.8
        0.223144
    """
    if not first or not second or set(first) & set(second):
        raise ValueError(
            f"The two groups of inputs must be disjoint and not empty; got {first} and {second}."
        )
    both = [*first, *second]
    parts = [gaussian_entropy(K[np.ix_(g, g)], neurons) for g in (first, second, both)]
    return parts[0] + parts[1] - parts[2]


@checked
def two_input_mutual_information(ratio: Positive) -> float:
    r"""Mutual information of one neuron on two inputs of equal norm, at infinite width.

    $$\mathcal I=\frac12\log\frac{(1+\rho)^2}{4\rho},\qquad\rho=\frac{K_{[2]}}{K_{[0]}}
      =\tan^2\frac\psi2$$
    with $\psi$ the angle of the kernel, so $\mathcal I=-\log\sin\psi$: for ReLU it grows as
    $\log(\ell/3\pi)$, for the odd class $K^\star=0$ it stays.

    Args:
        ratio: $\rho$, positive, dimensionless.

    Returns:
        The information in nats; exact.

    Source: PDLT (A.29).

    Example:
        >>> from scalewise.theory.information import two_input_mutual_information
        >>> print(f"{two_input_mutual_information(0.1):.6f}")
        0.553456
    """
    return 0.5 * math.log((1 + ratio) ** 2 / (4 * ratio))


@checked
def entropy_correction(neurons: Index, x: NotNegative) -> tuple[float, float]:
    r"""The loss of entropy of $m$ neurons by finite width, at two orders.

    $$-\frac{m^2+2m}{16}x^2,\qquad+\frac{m^3+10m^2+16m}{48}x^3,\qquad x=\frac V{n_{\ell-1}G^2}$$

    Args:
        neurons: $m$, at least 0.
        x: Relative variance of the metric, at least 0, dimensionless.

    Returns:
        The terms of order $1/n^2$ and $1/n^3$, nats.

    Source: PDLT (A.52), (A.66).

    Example:
        >>> from scalewise.theory.information import entropy_correction
        >>> entropy_correction(2, 0.5)
        (-0.125, 0.20833333333333334)
    """
    m = neurons
    return -(m * m + 2 * m) / 16 * x**2, (m**3 + 10 * m**2 + 16 * m) / 48 * x**3


@checked
def finite_width_entropy(G: Positive, x: NotNegative, neurons: Count = 1) -> float:
    r"""Entropy of $m$ neurons of a layer on one input, through $O(1/n^3)$.

    Args:
        G: Metric of the input to the order wanted, positive; preactivation².
        x: $V/n_{\ell-1}G^2$, dimensionless.
        neurons: $m$.

    Returns:
        The entropy in nats; error $O(x^4)$.

    Source: PDLT (A.66).
    """
    return gaussian_entropy(G, neurons) + sum(entropy_correction(neurons, x))


@checked
def finite_width_mutual_information(m1: Count, m2: Count, x: NotNegative) -> tuple[float, float]:
    r"""Mutual information of two groups of neurons of one layer on one input, at two orders.

    $$\frac{m_1m_2}8x^2,\qquad-\frac{m_1m_2(20+3m_1+3m_2)}{48}x^3$$

    Args:
        m1: Neurons of the first group.
        m2: Neurons of the second.
        x: $V/n_{\ell-1}G^2$, dimensionless.

    Returns:
        The terms of order $1/n^2$ and $1/n^3$, nats; their sum errs by $O(x^4)$.

    Source: PDLT (A.53), (A.67).

    Example:
        >>> from scalewise.theory.information import finite_width_mutual_information
        >>> print(f"{sum(finite_width_mutual_information(1, 1, 0.02)):.5e}")
        4.56667e-05
    """
    parts = zip(*(entropy_correction(m, x) for m in (m1, m2, m1 + m2)), strict=True)
    second, third = (first + other - both for first, other, both in parts)
    return second, third


@checked
def finite_width_tripartite_information(m1: Count, m2: Count, m3: Count, x: NotNegative) -> float:
    r"""Tripartite information of three groups of neurons, leading order.

    $$\mathcal I_3=\frac{m_1m_2m_3}8x^3>0$$
    Positive: what two groups tell of a third is redundant.

    Args:
        m1: Neurons of the first group.
        m2: Neurons of the second.
        m3: Neurons of the third.
        x: $V/n_{\ell-1}G^2$, dimensionless.

    Returns:
        The information in nats; error $O(x^4)$.

    Source: PDLT (A.75).
    """
    return m1 * m2 * m3 / 8 * x**3


@checked
def conditional_variance(G: Positive, x: NotNegative, z: float | Float[np.ndarray, "*_"]) -> Any:
    r"""Variance of one neuron, given what another neuron of the layer answered to the same input.

    $$\mathbb E[z_2^2\,|\,z_1]=G+\tfrac12(z_1^2-G)\,x+O(1/n^2)$$

    Args:
        G: Metric, positive; preactivation².
        x: $V/n_{\ell-1}G^2$, dimensionless.
        z: $z_1$, any shape; preactivation.

    Returns:
        The variance, shaped like `z`; preactivation².

    Source: PDLT (6.78).

    Example:
        >>> from scalewise.theory.information import conditional_variance
        >>> conditional_variance(1.0, 0.1, 3.0)
        1.4
    """
    return G + 0.5 * (z * z - G) * x


def _kernel(K: Any) -> np.ndarray:
    kernel = np.atleast_2d(float_array("`K`", K))
    square = kernel.ndim == 2 and kernel.shape[0] == kernel.shape[1]
    if not square or not np.all(np.isfinite(kernel)) or not np.allclose(kernel, kernel.T):
        raise ValueError(f"`K` must be a finite symmetric matrix; got shape {kernel.shape}.")
    if np.linalg.eigvalsh(kernel)[0] <= 0:
        raise ValueError(
            "`K` must be positive definite, or the entropy is minus infinity; its smallest "
            f"eigenvalue is {np.linalg.eigvalsh(kernel)[0]:.3g}. Leave out coincident inputs."
        )
    return kernel
