"""Between and beyond two nearby training inputs: inter- and extrapolation."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from scalewise._checked import checked
from scalewise.theory.single import NearbyInputs

Outputs = Annotated[Any, Float[np.ndarray, " output"]]


@checked
def star_polation(
    flow: NearbyInputs,
    s: Annotated[Any, Float[np.ndarray, " place"]],
    plus: Outputs,
    minus: Outputs,
) -> Float[np.ndarray, "place output"]:
    r"""The mean output at $sx_++(1-s)x_-$ of networks trained on $x_\pm$, two inputs of equal norm.

    $$m=sy_++(1-s)y_--s(1-s)\frac{\delta\delta\Theta_{[0]}}{\Theta_{00}}(y_++y_-)+O(\delta^3).$$

    The straight line between the targets, and what the activation bends. The exact answer, at any distance, is that
    of `predict_training` with this test input.

    Args:
        flow: `nearby_inputs_flow` of the network and one pair of inputs of equal norm.
        s: Places: 1 at $x_+$, 0 at $x_-$.
        plus: $y_+$ (output,).
        minus: $y_-$ (output,), which differs from $y_+$ as little as the inputs do.

    Raises:
        ValueError: If the inputs are more than one pair, or their norms differ: pieces of third order then count.

    Source: PDLT (10.99)-(10.117), in which the bent part is printed four times too large.

    Example:
        >>> import scalewise as sw
        >>> from scalewise.theory.single import nearby_inputs_flow
        >>> from scalewise.training.kernels import star_polation
        >>> net = sw.MLP(2, 10, "linear", input_dim=2, output_dim=1)
        >>> flow = nearby_inputs_flow(net, [[1.0, 0.0]], [[0.0, 0.1]])
        >>> star_polation(flow, [0.5], [1.0], [0.9]).round(12)
        array([[0.95]])
    """
    if flow.Theta00.shape[1] != 1 or abs(flow.dTheta1[-1, 0]) > 1e-12 * flow.Theta00[-1, 0]:
        raise ValueError(
            "`flow` must be of one pair of inputs of equal norm. For others take `predict_training` with the "
            "places between them as test inputs, which is exact."
        )
    bent = flow.ddTheta0[-1, 0] / flow.Theta00[-1, 0] * (plus + minus)
    t = s[:, None]
    return t * plus + (1 - t) * minus - t * (1 - t) * bent
