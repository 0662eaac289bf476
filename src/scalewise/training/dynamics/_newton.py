r"""Giant leaps at finite width: an update that would end training at infinite width, and a second one."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from scalewise._checked import Index, checked
from scalewise.training._spectrum import regular
from scalewise.training.dynamics._state import NetworkState, Targets, error_of

Kernel = Annotated[Any, Float[np.ndarray, "point point"]]
OnTrain = Float[np.ndarray, "train train"]


@checked
def leap(
    state: NetworkState, targets: Targets, newton: Annotated[Any, OnTrain]
) -> Float[np.ndarray, " point"]:
    r"""Outputs after the update $d\theta_\mu=-\lambda_{\mu\nu}\frac{dz_I}{d\theta_\nu}(\eta\kappa e)_I$.

    $$z_I(1)=z_I-\widehat H_{IJ}v_J+\tfrac12\widehat{dH}_{IJK}v_Jv_K-\tfrac16\widehat{dd_IH}_{IJKL}v_Jv_Kv_L,
      \qquad v=\eta\kappa e$$

    Args:
        state: The network before it.
        targets: $y$ of the training points, which come first.
        newton: $\eta\kappa$ on the training points; the first index is that of $dz/d\theta$. With the inverse of
            the mean NTK it is the leap of infinite width.

    Returns:
        Outputs on all points up to $O(1/n^2)$. On the training points the distance to the targets is the residual,
        minus the right-hand side that is printed in (∞.64), where $e_{j;\tilde\alpha_2}$ is meant.

    Source: PDLT (∞.57)-(∞.65), (∞.68), (∞.70), (∞.73).
    """
    v, A = newton @ error_of(state, targets), slice(len(targets))
    bent = state.dntk[:, A, A] @ v @ v / 2 - state.dd_first[:, A, A, A] @ v @ v @ v / 6
    return state.outputs - state.ntk[:, A] @ v + bent


@checked
def newton_tensor(state: NetworkState, mean: Annotated[Any, OnTrain], order: Index = 2) -> OnTrain:
    r"""The generalised Newton tensor, $\widehat H^{-1}$ expanded around the inverse of the mean NTK.

    $$\eta\kappa=\tilde H^{-1}-\tilde H^{-1}\widehat{\Delta H}\tilde H^{-1}
      +\tilde H^{-1}\widehat{\Delta H}\tilde H^{-1}\widehat{\Delta H}\tilde H^{-1}-\dots$$

    Args:
        state: The network.
        mean: $\tilde H$, the mean NTK of the training points.
        order: Up to which power of $\widehat{\Delta H}$; the text stops at 2.

    Source: PDLT (∞.71), (∞.72), (∞.77).
    """
    count, inverse = len(mean), regular(mean, "mean NTK of the training points").inverse
    step = -inverse @ (state.ntk[:count, :count] - mean)
    total = term = inverse
    for _ in range(order):
        term = step @ term
        total = total + term
    return total


@checked
def tuned_newton_tensor(state: NetworkState, targets: Targets) -> OnTrain:
    r"""The tensor of a single update that does what the two steps do.

    $$\eta\kappa=\widehat H^{-1}+\tfrac12\tilde H^{-1}\,\widehat{dH}\,\tilde H^{-1}(\tilde H^{-1}e)
      -\tfrac16\tilde H^{-1}\,\widehat{dd_IH}\,\tilde H^{-1}(\tilde H^{-1}e)(\tilde H^{-1}e)$$

    It is not symmetric, so it is not the step of any loss.

    Args:
        state: The network.
        targets: $y$ of the training points, which come first.

    Source: PDLT (∞.80), with $\widehat H^{-1}$ for the series (∞.71) and for $\tilde H^{-1}$.
    """
    A = slice(len(targets))
    inverse = regular(state.ntk[A, A], "NTK of the training points").inverse
    v = inverse @ error_of(state, targets)
    bent = state.dntk[A, A, A] @ v / 2 - state.dd_first[A, A, A, A] @ v @ v / 6
    return inverse + inverse @ bent @ inverse


@checked
def two_step_outputs(
    state: NetworkState, targets: Targets, mean: Kernel
) -> Float[np.ndarray, " point"]:
    r"""Outputs of the fully trained network after two Newton updates, expanded around the mean NTK.

    $$\begin{aligned}z(2)={}&z-H\tilde H^{-1}e-[\widehat{\Delta H}]\tilde H^{-1}e
      +[\widehat{\Delta H}]\tilde H^{-1}\widehat{\Delta H}\tilde H^{-1}e\\
      &+\tfrac12[\widehat{dH}](\tilde H^{-1}e)^2-\tfrac16[\widehat{dd_IH}](\tilde H^{-1}e)^3,\qquad
      [T]_\delta=T_\delta-H_{\delta\cdot}\tilde H^{-1}T_{\cdot}\end{aligned}$$

    Args:
        state: The network at the start.
        targets: $y$ of the training points, which come first.
        mean: $H$, the mean NTK on all points.

    Returns:
        Outputs on all points, up to $O(n^{-3/2})$ for one network.

    Source: PDLT (∞.74)-(∞.79); both signs of the lines with $\widehat{\Delta H}$ are opposite to the printed ones.
    """
    e, A = error_of(state, targets), slice(len(targets))
    inverse = regular(mean[A, A], "mean NTK of the training points").inverse
    v, shift = inverse @ e, (state.ntk - mean)[:, A]
    later = shift @ v - shift @ inverse @ shift[A] @ v
    later -= state.dntk[:, A, A] @ v @ v / 2
    later += state.dd_first[:, A, A, A] @ v @ v @ v / 6
    carried = mean[:, A] @ inverse
    return state.outputs - mean[:, A] @ v - (later - carried @ later[A])
