r"""One input: couplings that run with the number of neurons, and the six-point vertex.

$$p(z_1,\dots,z_m)\propto\exp\Big[-\tfrac{g_m}2t+\tfrac{v_m}8t^2-\tfrac{u_m}{24}t^3\Big],\qquad
  t=\sum_{i=1}^mz_i^2.$$

Source: PDLT (4.97)-(4.103), (A.46)-(A.63), (ε.18)-(ε.21).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from scalewise._checked import Count, FiniteNumber, Positive, checked
from scalewise.critical import susceptibilities
from scalewise.gaussian import single_moment
from scalewise.networks.spi import Plain, Width


@checked
def quartic_coupling(G: Positive, V: FiniteNumber, n: Width) -> float:
    r"""$v=V/nG^4$, the same for any number of neurons at this order.

    Args:
        G: Metric, positive; preactivation².
        V: Four-point vertex; preactivation⁴.
        n: $n_{\ell-1}$.

    Returns:
        The coupling, preactivation⁻⁴; error $O(1/n^2)$.

    Source: PDLT (4.103), (A.48).

    Example:
        >>> from scalewise.theory.action import quartic_coupling
        >>> quartic_coupling(2.0, 32.0, 100.0)
        0.02
    """
    return V / (n * G**4)


@checked
def quadratic_coupling(G: Positive, V: FiniteNumber, n: Width, neurons: Count) -> float:
    r"""The quadratic coupling of $m$ neurons.

    $$\frac1{g_m}=G-\frac{m+2}2\frac V{nG}$$

    Args:
        G: Metric to $O(1/n)$, positive; preactivation².
        V: Four-point vertex; preactivation⁴.
        n: $n_{\ell-1}$.
        neurons: $m$.

    Returns:
        $g_m$, preactivation⁻²; error $O(1/n^2)$. It depends on $m$ but not on $n_\ell$.

    Raises:
        ValueError: If a number is not finite, `G` or `n` not positive, `neurons` below 1, or the
            correction as large as the metric.

    Source: PDLT (4.102), (A.47).

    Example:
        >>> from scalewise.theory.action import quadratic_coupling
        >>> quadratic_coupling(1.0, 2.0, 100.0, 3)
        1.0526315789473684
    """
    inverse = G - 0.5 * (neurons + 2) * V / (n * G)
    if inverse <= 0:
        raise ValueError(
            f"The 1/n correction of the quadratic coupling is as large as the metric {G}: "
            f"(m + 2)V/2nG = {G - inverse:.4g}. Take fewer neurons or a wider layer."
        )
    return 1 / inverse


@checked
def running_quadratic_coupling(g: Positive, v: FiniteNumber, neurons: Count, kept: Count) -> float:
    r"""The quadratic coupling of fewer neurons from that of more: the others are integrated out.

    $$g_{m}=g_{n_\ell}-\frac{n_\ell-m}2\,\frac v{g_{n_\ell}}+O(v^2)$$

    Args:
        g: $g_{n_\ell}$, positive; preactivation⁻².
        v: Quartic coupling; preactivation⁻⁴.
        neurons: $n_\ell$.
        kept: $m$, from 1 to `neurons`.

    Returns:
        $g_m$, preactivation⁻²; error $O(v^2)$.

    Raises:
        ValueError: If `g` is not positive, or `kept` not from 1 to `neurons`.

    Source: PDLT (4.100).

    Example:
        >>> from scalewise.theory.action import running_quadratic_coupling
        >>> running_quadratic_coupling(1.0, 0.02, 10, 5)
        0.95
    """
    if not 1 <= kept <= neurons:
        raise ValueError(f"`kept` must be from 1 to neurons = {neurons}; got {kept}.")
    return g - 0.5 * (neurons - kept) * v / g


@checked
def sextic_coupling(G: Positive, V: FiniteNumber, U: float, n: Width) -> float:
    r"""The sextic coupling from the second and third cumulant of the metric.

    $$u=\frac1{2n^2G^6}\Big[\frac{6V^2}G-U_6\Big]$$

    Args:
        G: Metric, positive; preactivation².
        V: Four-point vertex; preactivation⁴.
        U: Six-point vertex, $n^2$ times the third cumulant of the metric; preactivation⁶.
        n: $n_{\ell-1}$.

    Returns:
        $u$, preactivation⁻⁶; error $O(1/n^3)$.

    Source: derived by expanding the scale mixture $\mathbb E_{\widehat G}[N(0,\widehat G)]$; PDLT
    (ε.19) gives the order.

    Example:
        >>> from scalewise.theory.action import sextic_coupling
        >>> sextic_coupling(1.0, 2.0, 8.0, 10.0)
        0.08
    """
    return (6 * V**2 / G - U) / (2 * n**2 * G**6)


@checked
def nlo_couplings(
    G: Positive, V: FiniteNumber, u: float, n: Width, neurons: Count
) -> tuple[float, float]:
    r"""Quadratic and quartic coupling of $m$ neurons through $O(1/n^2)$.

    $$v_m=\frac V{nG^4}-\frac{m+8}2\Big(\frac V{nG^3}\Big)^2+(m+4)u\,G,$$
    $$g_m=\frac1G+\frac{m+2}2v_mG-\frac{(m+2)(m+4)}4uG^2+\frac{m+2}2v_m^2G^3.$$

    Args:
        G: Exact metric, positive; preactivation².
        V: Exact vertex, its $1/n$ corrections included; preactivation⁴.
        u: Sextic coupling; preactivation⁻⁶.
        n: $n_{\ell-1}$.
        neurons: $m$.

    Returns:
        $(g_m,v_m)$; errors $O(1/n^3)$.

    Source: PDLT (A.59), (A.63).
    """
    m = neurons
    v = V / (n * G**4) - 0.5 * (m + 8) * (V / (n * G**3)) ** 2 + (m + 4) * u * G
    g = 1 / G + 0.5 * (m + 2) * v * G - 0.25 * (m + 2) * (m + 4) * u * G**2
    return g + 0.5 * (m + 2) * v**2 * G**3, v


@checked
def action_cumulants(neurons: Count, x: float) -> tuple[float, float]:
    r"""Variance and third cumulant of the interaction $S_I$ in the Gaussian of the exact metric.

    $$\frac{m(m+2)}8\big[x^2-(m+8)x^3\big],\qquad-\frac{m(m+2)(m+8)}8x^3,\qquad x=\frac V{nG^2}$$
    The entropy is $\frac m2\log2\pi eG$ less half the first plus a third of the second.

    Args:
        neurons: $m$.
        x: Relative variance of the metric, dimensionless.

    Returns:
        Both, dimensionless; errors $O(1/n^4)$.

    Source: PDLT (A.51), (A.64), (A.65).

    Example:
        >>> from scalewise.theory.action import action_cumulants
        >>> action_cumulants(2, 0.5)
        (-1.0, -1.25)
    """
    m = neurons
    return m * (m + 2) / 8 * (x**2 - (m + 8) * x**3), -m * (m + 2) * (m + 8) / 8 * x**3


@checked
def six_point_vertex(net: Plain, K1: Positive) -> Float[np.ndarray, " layer"]:
    r"""The six-point vertex of one input: $n_{\ell-1}^2$ times the third cumulant of the metric.

    With $s(K)=\langle\sigma^2\rangle$, $w(K)=\mathrm{Var}[\sigma^2]$, $r=n_\ell/n_{\ell-1}$,
    $$U^{(\ell+1)}=C_W^3\big[\kappa_3[\sigma^2]+3r\,s'w'\,V^{(\ell)}+r^2s'^3\,U^{(\ell)}
      +3r^2s'^2s''(V^{(\ell)})^2\big],\qquad U^{(1)}=0.$$

    Args:
        net: The network; its activation is continuous.
        K1: $K^{(1)}$, positive, preactivation².

    Returns:
        $U$ by layer, preactivation⁶; quadrature, rtol 1e-9.

    Source: derived; for ReLU it is PDLT (ε.20), $\frac18C_W^3[U+30VK+44K^3]$, and at criticality
    $(\ell-1)(75\ell-106)K^3$ with the leading term of (ε.21).

    Example:
        >>> import scalewise as sw
        >>> from scalewise.theory.action import six_point_vertex
        >>> net = sw.MLP(4, 100, "relu", input_dim=1, output_dim=1).at_criticality()
        >>> six_point_vertex(net, 1.0).round(6)
        array([  0.,  44., 238., 582.])
    """
    sigma, n = net.activation, net.widths
    K, V, U, out = float(K1), 0.0, 0.0, [0.0]
    for layer in range(1, net.depth):
        C_W, r = net.C_W[layer], n[layer] / n[layer - 1] if layer > 1 else 1.0
        s, fourth, sixth = (float(single_moment(sigma, K, (0,) * k).value) for k in (2, 4, 6))
        z2, z4 = (float(single_moment(sigma, K, (0, 0), power=k).value) for k in (2, 4))
        of_fourth = float(single_moment(sigma, K, (0,) * 4, power=2).value)
        slope = float(susceptibilities(sigma, K, 1.0)[0])
        bend = (z4 / K**2 - 6 * z2 / K + 3 * s) / (4 * K**2)
        widening = (of_fourth - K * fourth) / (2 * K**2) - 2 * s * slope
        own = sixth - 3 * fourth * s + 2 * s**3
        mixed = 3 * r * slope * widening * V + 3 * (r * slope * V) ** 2 * bend
        U = C_W**3 * (own + mixed + r**2 * slope**3 * U)
        V = C_W**2 * (fourth - s * s + r * slope**2 * V)
        K = net.C_b[layer] + C_W * s
        out.append(U)
    return np.array(out)
