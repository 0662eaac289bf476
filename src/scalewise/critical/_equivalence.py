r"""Learning rates of each layer under the equivalence principle: equal contributions to the NTK.

Layer $\ell$ contributes $[\lambda_b^{(\ell)}+\lambda_W^{(\ell)}g^{(\ell-1)}]P_\ell$ to the NTK of
the output, with $P_\ell=\prod_{\ell'=\ell}^{L-1}\chi_\perp^{(\ell')}$, PDLT (9.28).
"""

from __future__ import annotations

import numpy as np

from scalewise._checked import Count, FiniteNumber, checked
from scalewise.activations import Activation
from scalewise.critical._moments import susceptibilities
from scalewise.critical._record import Criticality
from scalewise.gaussian import single_moment

Rates = tuple[tuple[float, ...], tuple[float, ...]]


@checked
def equivalent_rates(
    record: Criticality, depth: Count, lambda_b: float = 1.0, lambda_W: float = 1.0
) -> Rates:
    r"""The rates of a universality class, at its critical hyperparameters.

    Scale-invariant, and any class that keeps $K^\star>0$ (at $K=K^\star$):
    $$\lambda_b^{(\ell)}=\tilde\lambda_b/L,\qquad\lambda_W^{(\ell)}=\tilde\lambda_W/L.$$
    $K^\star=0$, with $P_\ell\simeq(\ell/L)^{p_\perp}$ and $g\sim\ell^{-p_0}$:
    $$\lambda_b^{(\ell)}=\tilde\lambda_b\,\ell^{-p_\perp}L^{p_\perp-1},\qquad
      \lambda_W^{(\ell)}=\tilde\lambda_W\,\ell^{p_0-p_\perp}L^{p_\perp-1}.$$

    Args:
        record: From `criticality`.
        depth: $L$.
        lambda_b: $\tilde\lambda_b$.
        lambda_W: $\tilde\lambda_W$.

    Returns:
        $\lambda_b^{(1)},\dots,\lambda_b^{(L)}$ and $\lambda_W^{(1)},\dots,\lambda_W^{(L)}$.

    Raises:
        ValueError: If the activation is in no class, or decays by no power law.

    Source: PDLT (9.94)-(9.96); for $p_0\ne1$ (a kink at 0, or $a_1=0$) and $K^\star>0$ by the same
    argument.

    Example:
        >>> from scalewise.critical import criticality, equivalent_rates
        >>> equivalent_rates(criticality("tanh"), 4)[0]
        (1.0, 0.5, 0.3333333333333333, 0.25)
    """
    exponents = record.exponents
    if record.K_star is None and record.C_b is not None:
        return (lambda_b / depth,) * depth, (lambda_W / depth,) * depth
    if record.K_star is not None and record.K_star > 0:
        return (lambda_b / depth,) * depth, (lambda_W / depth,) * depth
    p_0, p_perp = exponents.get("p_0"), exponents.get("p_perp")
    if p_0 is None or p_perp is None:
        why = record.reason or "its signals fall by no power of the depth."
        raise ValueError(
            f"{record.activation.name!r} belongs to no universality class with a rule for learning "
            f"rates: {why} Give `kernel`, the kernel of a typical input in the first layer."
        )
    layers = np.arange(1, depth + 1, dtype=np.float64)
    shape = layers**-p_perp * depth ** (p_perp - 1)
    return (
        tuple((lambda_b * shape).tolist()),
        tuple((lambda_W * shape * layers**p_0).tolist()),
    )


@checked
def rates_along(
    sigma: Activation,
    kernel: FiniteNumber,
    C_b: tuple[float, ...],
    C_W: tuple[float, ...],
    lambda_b: float,
    lambda_W: float,
) -> Rates:
    r"""The rates that make all contributions equal for one input, whatever the hyperparameters.

    $$\lambda_b^{(\ell)}=\frac{\tilde\lambda_b}{LP_\ell},\qquad
      \lambda_W^{(\ell)}=\frac{\tilde\lambda_W\,g^{(0)}}{LP_\ell\,g^{(\ell-1)}},\qquad
      g^{(0)}=\frac{K^{(1)}-C_b^{(1)}}{C_W^{(1)}}$$

    Args:
        sigma: The activation, continuous.
        kernel: $K^{(1)}$ of the input, preactivation².
        C_b: Bias variance of every layer.
        C_W: Rescaled weight variance of every layer.
        lambda_b: $\tilde\lambda_b$, what all biases together contribute.
        lambda_W: $\tilde\lambda_W$; all weights together contribute $\tilde\lambda_Wg^{(0)}$.

    Returns:
        $\lambda_b^{(1)},\dots,\lambda_b^{(L)}$ and $\lambda_W^{(1)},\dots,\lambda_W^{(L)}$.

    Raises:
        ValueError: If the kernel is not greater than $C_b^{(1)}$, or the signal explodes or vanishes.

    Source: derived from PDLT (9.28).
    """
    depth = len(C_W)
    if not kernel > C_b[0]:
        raise ValueError(
            "`kernel` is the kernel of an input in the first layer, C_b + C_W|x|^2/n_0, and must be "
            f"greater than C_b = {C_b[0]:g}; got {kernel}."
        )
    g, chi, K = [(kernel - C_b[0]) / C_W[0]], [], kernel
    for layer in range(1, depth):
        chi.append(float(susceptibilities(sigma, K, C_W[layer])[1]))
        g.append(float(single_moment(sigma, K, (0, 0)).value))
        K = C_b[layer] + C_W[layer] * g[-1]
    P = np.append(np.cumprod(np.array(chi)[::-1])[::-1], 1.0)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        bias = lambda_b / (depth * P)
        weight = lambda_W * g[0] / (depth * P * np.array(g))
    if not np.all(np.isfinite(bias)) or not np.all(np.isfinite(weight)):
        raise ValueError(
            "The contributions of the layers cannot be made equal: the signal of an input with "
            f"kernel {kernel:g} explodes or vanishes within {depth} layers. Use fewer layers, or "
            "critical hyperparameters: net.at_criticality()."
        )
    return tuple(bias.tolist()), tuple(weight.tolist())
