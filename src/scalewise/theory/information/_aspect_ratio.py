r"""The optimal aspect ratio: where the outputs of a network know most of each other.

$$\mathcal I(r)=\frac{m_1m_2}8\nu^2r^2-\frac{m_1m_2(20+3m_1+3m_2)}{48}\nu^3r^3,\qquad
  r=\frac Ln,\qquad\frac V{nG^2}=\nu r.$$

Source: PDLT (A.68)-(A.74).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scalewise._checked import Positive, checked
from scalewise.activations import Activation, activation
from scalewise.critical import criticality
from scalewise.networks.spi import Plain

Source = str | Activation | Callable[[Any], Any]


@checked
def vertex_growth(source: Source) -> float:
    r"""$\nu$ in $V^{(L)}/nG^2\simeq\nu L/n$, at criticality.

    $$\nu=\frac{3A_4}{A_2^2}-1\ \text{(scale-invariant)},\qquad\nu=\tfrac23\ (K^\star=0)$$
    A half-stable activation grows with the source of its vertex at $K^\star$, as if it were
    scale-invariant, for all depths that are built.

    Args:
        source: Name, callable or `Activation`.

    Returns:
        $\nu$, dimensionless.

    Raises:
        ValueError: If the activation has no critical initialisation.

    Source: PDLT (A.69), (A.70); half-stable and kinks at 0 derived.

    Example:
        >>> from scalewise.theory.information import vertex_growth
        >>> print(f"{vertex_growth('relu'):.6f} {vertex_growth('tanh'):.6f}")
        5.000000 0.666667
    """
    record = criticality(activation(source))
    if record.point is None:
        raise ValueError(
            f"{record.activation.name!r} has no critical initialisation, so its vertex grows or "
            f"falls exponentially: {record.reason} Choose another activation."
        )
    return float(record.coefficients["nu"])


@checked
def optimal_aspect_ratio(nu: Positive, m1: Positive, m2: Positive) -> float:
    r"""The aspect ratio at which the mutual information of two groups is largest.

    $$r^\star=\frac4{20+3m_1+3m_2}\,\frac1\nu$$

    Args:
        nu: $\nu$, positive; see `vertex_growth`.
        m1: Neurons of the first group, positive; half a neuron is allowed.
        m2: Neurons of the second.

    Returns:
        $r^\star=L/n$, dimensionless. There the second term is $-\frac23$ of the first, always: an
        estimate of where the expansion ends, not a converged maximum.

    Source: PDLT (A.72), (A.73).

    Example:
        >>> from scalewise.theory.information import optimal_aspect_ratio
        >>> print(f"{optimal_aspect_ratio(2 / 3, 5, 5):.4f}")
        0.1200
    """
    return 4 / (20 + 3 * m1 + 3 * m2) / nu


@checked
def optimal_information(m1: Positive, m2: Positive) -> float:
    r"""The mutual information at the optimal aspect ratio, for every activation the same.

    $$\mathcal I^\star=\frac23\,\frac{m_1m_2}{(20+3m_1+3m_2)^2}$$

    Args:
        m1: Neurons of the first group, positive.
        m2: Neurons of the second.

    Returns:
        The information in nats, below 1/54.

    Source: PDLT (A.74) for $m_1=m_2$; otherwise derived.

    Example:
        >>> from scalewise.theory.information import optimal_information
        >>> print(f"{optimal_information(5, 5):.6e}")
        6.666667e-03
    """
    return 2 / 3 * m1 * m2 / (20 + 3 * m1 + 3 * m2) ** 2


@dataclass(frozen=True)
class OptimalDepth:
    r"""The depth at which two halves of the output know most of each other.

    Args:
        depth: $L^\star=r^\star n$, not rounded.
        aspect_ratio: $r^\star$.
        nu: $\nu$ of the activation.
        information: $\mathcal I^\star$ in nats.
        width: $n$, the harmonic mean of the hidden widths.
        caveat: What the number is worth.
    """

    depth: float
    aspect_ratio: float
    nu: float
    information: float
    width: float
    caveat: str

    def __str__(self) -> str:
        return (
            f"L* = {self.depth:.4g} (r* = {self.aspect_ratio:.4g} at width {self.width:.4g}, "
            f"nu = {self.nu:.4g}, I* = {self.information:.3g} nats). {self.caveat}"
        )


@checked
def optimal_depth(net: Plain) -> OptimalDepth:
    r"""The depth that suits a network's activation, width and number of outputs.

    $$L^\star=r^\star n,\qquad r^\star=\frac4{20+3n_L}\,\frac1\nu$$
    Shallower, the outputs are independent draws and nothing is learned of their features together;
    deeper, networks of one ensemble differ too much from each other.

    Args:
        net: The network; its depth does not enter. It needs a hidden layer, whose width counts.

    Returns:
        The depth and what it is made of.

    Raises:
        ValueError: If the network has no hidden layer or its activation no critical point.

    Source: PDLT (A.73), (A.74).

    Example:
        >>> import scalewise as sw
        >>> from scalewise.theory.information import optimal_depth
        >>> best = optimal_depth(sw.MLP(4, 100, "tanh", input_dim=64, output_dim=10))
        >>> print(f"{best.depth:.6f}")
        12.000000
    """
    if not net.hidden_widths:
        raise ValueError("The optimal depth is a multiple of the width; give `net` a hidden layer.")
    nu = vertex_growth(net.activation)
    half = net.output_dim / 2
    r = optimal_aspect_ratio(nu, half, half)
    width = len(net.hidden_widths) / sum(1 / n for n in net.hidden_widths)
    caveat = (
        "An order of magnitude: at r* the second term of the expansion is two thirds of the first."
    )
    if net.output_dim == 1:
        caveat += " With one output there are no two halves; the formula is only continued to it."
    if criticality(net.activation).universality == "half-stable":
        caveat += " nu is that of depths far below the asymptotic ones of a half-stable activation."
    return OptimalDepth(r * width, r, nu, optimal_information(half, half), width, caveat)
