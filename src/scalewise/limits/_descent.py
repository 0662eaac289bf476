"""Gradient descent with momentum, weight decay and clipping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from scalewise._checked import Must, NotNegative, Positive, checked
from scalewise._readable import readable


@checked
@dataclass(frozen=True)
@readable
class SGD:
    r"""Gradient descent.

    $$g\leftarrow g\min(1,c/\lVert g\rVert),\quad v\leftarrow\mu v-\eta_\ell g-\eta\gamma w,\quad w\leftarrow w+v,$$
    where $\eta_\ell$ is the learning rate of a tensor. The norm is that of all gradients with respect to
    parameters rescaled such that they share one rate,
    $\lVert g\rVert^2=\sum_\ell\frac{\eta_\ell}\eta\lVert\nabla_\ell\mathcal L\rVert^2$: of order one in every
    stable strategy and the same in every gauge.

    Args:
        eta: $\eta$, positive.
        momentum: $\mu$, from 0 to below 1.
        weight_decay: $\gamma$ of the weights, which shrink by $\eta\gamma$ per step whatever their own rate,
            initial values included; biases do not shrink. At least 0.
        clip: $c$, positive; ``None`` for no clipping.

    Example:
        >>> from scalewise.limits import SGD
        >>> SGD(0.1, momentum=0.9).clip is None
        True
    """

    eta: Positive
    momentum: Annotated[float | int, Must("a number from 0 to below 1", lambda v: 0 <= v < 1)] = 0.0
    weight_decay: NotNegative = 0.0
    clip: Positive | None = None
