r"""The interacting theory: what dNTK and ddNTKs add to the free theory, to first order in each of them."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from scalewise.training.dynamics._free import FreeTheory
from scalewise.training.dynamics._state import Rank3

_sum = np.einsum


def dynamical_dntk(free: FreeTheory, t: int) -> Rank3:
    r"""$dH_{IJK}(t)=\widehat{dH}_{IJK}-(dd_IH_{IJKL}+dd_{II}H_{IJKL}+dd_{II}H_{IKJL})a_L(t)$.

    Args:
        free: The free theory, from `free_theory`.
        t: After how many steps.

    Source: PDLT (∞.101), (∞.102).
    """
    state, A = free.state, slice(free.count)
    first, second = state.dd_first[..., A] @ free.a(t), state.dd_second[..., A] @ free.a(t)
    return state.dntk - first - second - np.swapaxes(second, 1, 2)


def interaction_ntk(free: FreeTheory, t: int) -> Float[np.ndarray, "point point"]:
    r"""$H^I(t)=H(t)-\widehat H$, by how much training has moved the NTK.

    Args:
        free: The free theory, from `free_theory`.
        t: After how many steps.

    Returns:
        To first order in the dNTK and in the ddNTKs.

    Source: PDLT (∞.117).
    """
    state, A, a, b = free.state, slice(free.count), free.a(t), free.b(t)
    # [J, K]: eta times the sum of epsilon_J(s) a_K(s).
    spent = np.multiply.outer(a, free.modes.inverse @ free.error) - b @ free.modes.inverse
    one, two = state.dd_first[..., A], state.dd_second[..., A]
    half = -state.dntk[:, :, A] @ a
    half += _sum("ijkl,kl->ij", one[:, :, A] + two[:, :, A], spent)
    half += _sum("ikjl,kl->ij", two[:, A], spent)
    half += free.rate / 2 * _sum("ijkl,kl->ij", one[:, :, A] + two[:, :, A], b)
    return half + half.T


def damping_force(free: FreeTheory, t: int) -> Float[np.ndarray, " point"]:
    r"""By how much interaction pushes the outputs in a step, per unit of the rate.

    $$\mathbb F_I(t)=-H^I_{IJ}\varepsilon^F_J+\tfrac\eta2dH_{IJK}\varepsilon^F_J\varepsilon^F_K
      -\tfrac{\eta^2}6dd_IH_{IJKL}\varepsilon^F_J\varepsilon^F_K\varepsilon^F_L$$

    Args:
        free: The free theory, from `free_theory`.
        t: After how many steps.

    Source: PDLT (∞.119).
    """
    A, x, rate = slice(free.count), free.errors(t), free.rate
    force = -interaction_ntk(free, t)[:, A] @ x
    force += rate / 2 * (dynamical_dntk(free, t)[:, A, A] @ x @ x)
    return force - rate**2 / 6 * (free.state.dd_first[:, A, A, A] @ x @ x @ x)


def interacting_outputs(free: FreeTheory, t: int) -> Float[np.ndarray, " point"]:
    r"""Outputs that interaction adds to those of the free theory.

    $$z^I_\delta(t)=\eta\sum_{s<t}[\mathbb F_\delta-\widehat H\widehat H^{-1}\mathbb F](s)
      +\widehat H\widehat H^{-1}z^I_{\mathcal A}(t),\qquad
      z^I_{\mathcal A}(t)=\eta\sum_{s<t}U(t-1-s)\mathbb F(s)$$

    Args:
        free: The free theory, from `free_theory`.
        t: After how many steps.

    Returns:
        What is to be added to `free.outputs(t)`, to first order in the dNTK and in the ddNTKs.

    Source: PDLT (∞.118), (∞.121)-(∞.124), (∞.130).
    """
    A = slice(free.count)
    carried = free.state.ntk[:, A] @ free.modes.inverse
    force, left = np.zeros(len(free.state.outputs)), np.zeros(free.count)
    for s in range(t):
        now = damping_force(free, s)
        force += free.rate * now
        left += free.rate * (free.evolution(t - 1 - s) @ now[A])
    return force - carried @ force[A] + carried @ left
