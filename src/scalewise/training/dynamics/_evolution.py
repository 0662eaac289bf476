r"""Effective dynamics: gradient descent of outputs, NTK and dNTK, step by step, without a parameter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from scalewise._checked import Index, Positive, checked
from scalewise.training.dynamics._state import NetworkState, Targets, error_of


@checked
def effective_step(state: NetworkState, targets: Targets, rate: Positive) -> NetworkState:
    r"""One step of gradient descent on $\frac12\sum(z-y)^2$; the ddNTKs stay as they are.

    $$\begin{aligned}
      z_I&\leftarrow z_I-\eta H_{IJ}\varepsilon_J+\tfrac{\eta^2}2dH_{IJK}\varepsilon_J\varepsilon_K
        -\tfrac{\eta^3}6dd_IH_{IJKL}\varepsilon_J\varepsilon_K\varepsilon_L\\
      H_{IJ}&\leftarrow H_{IJ}-\eta(dH_{IJK}+dH_{JIK})\varepsilon_K+\tfrac{\eta^2}2
        (dd_IH_{IJKL}+dd_IH_{JIKL}+2\,dd_{II}H_{IJKL})\varepsilon_K\varepsilon_L\\
      dH_{IJK}&\leftarrow dH_{IJK}-\eta(dd_IH_{IJKL}+dd_{II}H_{IJKL}+dd_{II}H_{IKJL})\varepsilon_L
      \end{aligned}$$

    Args:
        state: The network before the step.
        targets: $y$ of the training points, which come first.
        rate: $\eta$.

    Returns:
        The network after it, up to $O(1/n^2)$.

    Raises:
        ValueError: If there are more targets than points.

    Source: PDLT (∞.81)-(∞.83), (∞.4), (∞.6), (∞.9).
    """
    e, count = error_of(state, targets), len(targets)
    x = -rate * e  # along which parameters move, in units of lambda dz/dtheta
    H, dH = state.ntk, state.dntk
    first, second = state.dd_first[..., :count] @ x, state.dd_second[..., :count] @ x
    pair = dH[:, :, :count] @ x
    double, twice = first[:, :, :count] @ x, second[:, :, :count] @ x
    outputs = state.outputs + H[:, :count] @ x + pair[:, :count] @ x / 2
    return replace(
        state,
        outputs=outputs + double[:, :count] @ x / 6,
        ntk=H + pair + pair.T + (double + double.T) / 2 + twice,
        dntk=dH + first + second + np.swapaxes(second, 1, 2),
    )


@checked
def effective_dynamics(
    state: NetworkState, targets: Targets, rate: Positive, steps: Index
) -> Iterator[NetworkState]:
    r"""The network at the start and after each of `steps` effective steps.

    Args:
        state: The network at the start.
        targets: $y$ of the training points, which come first.
        rate: $\eta$.
        steps: How many.

    Source: PDLT (∞.81)-(∞.83).

    Example:
        >>> import numpy as np
        >>> from scalewise.training.dynamics import NetworkState, effective_dynamics
        >>> flat = NetworkState([1.0], np.eye(1), *(np.zeros((1,) * k) for k in (3, 4, 4)))
        >>> [float(s.outputs[0]) for s in effective_dynamics(flat, [0.0], 0.5, 2)]
        [1.0, 0.5, 0.25]
    """
    yield state
    for _ in range(steps):
        state = effective_step(state, targets, rate)
        yield state
