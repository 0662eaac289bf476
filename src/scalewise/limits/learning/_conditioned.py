r"""Last weights that give a network the initial outputs it is asked for, and are Gaussian in all else.

Where $A=\frac12$ the initial outputs are a Gaussian process. Given their values $g$ on a set of inputs, training at
infinite width is deterministic; a finite network is brought to the same values by moving its last weights within
the span of the features, by $O(n^{-1/2})$ each.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from scalewise._checked import checked

_RANK = 1e-12  # what is smaller, relative to the largest eigenvalue, rounding may have made


@checked
def conditioned_readout(
    readout: Float[np.ndarray, "_output _width"],
    features: Float[np.ndarray, "_sample _width"],
    outputs: Float[np.ndarray, "_sample _output"],
) -> Float[np.ndarray, "_output _width"]:
    r"""Gaussian last weights, given the outputs $\frac1{\sqrt n}XW=g$.

    $$W=X^\top\Sigma^+\frac g{\sqrt n}+\widetilde W-X^\top\Sigma^+\frac{X\widetilde W}n,\qquad
      \Sigma=\frac{XX^\top}n$$
    That is the conditional law: with $g\sim N(0,\Sigma)$ the weights are independent standard Gaussians again.

    Args:
        readout: $\widetilde W^\top$, independent Gaussians.
        features: $X$, features of the last hidden layer, one input a row.
        outputs: $g$.

    Returns:
        $W^\top$; exact to rounding.

    Raises:
        ValueError: If shapes do not fit, a number is not finite, or features that are linearly dependent cannot
            have these outputs.

    Source: TP4 N.4.1, any number of outputs.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits.learning import conditioned_readout
        >>> x = np.random.default_rng(0).normal(size=(2, 100))
        >>> W = conditioned_readout(np.ones((1, 100)), x, np.array([[1.0], [-2.0]]))
        >>> (x @ W.T / 10).round(12).ravel().tolist()
        [1.0, -2.0]
    """
    (samples, n), rows = features.shape, (readout.shape[1], len(features))
    if rows != (n, samples) or outputs.shape != (samples, len(readout)):
        raise ValueError(
            f"`features` of shape {features.shape} need `readout` of shape (outputs, {n}) and `outputs` of shape "
            f"({samples}, outputs); got {readout.shape} and {outputs.shape}."
        )
    missing = outputs / math.sqrt(n) - features @ readout.T / n
    inverse = np.linalg.pinv(features @ features.T / n, rcond=_RANK, hermitian=True)
    moved = readout + missing.T @ inverse @ features
    reached = features @ moved.T / math.sqrt(n)
    if not np.allclose(reached, outputs, rtol=1e-6, atol=1e-6 * max(1.0, np.abs(outputs).max())):
        worst = int(np.abs(reached - outputs).max(axis=1).argmax())
        raise ValueError(
            f"No last weights give these outputs: features are linearly dependent, and output {worst} contradicts "
            "the others. Drop inputs that repeat, or draw `outputs` from `initial_kernel`."
        )
    return moved
