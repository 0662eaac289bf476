"""Linear recursions over layers, in blocks: a Python step for every square root of the depth."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

_SHORT = 64


def scan(
    alpha: Float[np.ndarray, "map input"],
    beta: Float[np.ndarray, "map input"],
    start: Float[np.ndarray, " input"] | float = 0.0,
) -> Float[np.ndarray, "layer input"]:
    r"""Every layer of $X^{(\ell+1)}=\alpha^{(\ell)}X^{(\ell)}+\beta^{(\ell)}$, the first one included.

    In each block all partial solutions advance together; afterwards the end of each block is handed to the next. No
    division, so nothing is lost where a factor is small.
    """
    count, inputs = beta.shape
    first = np.broadcast_to(np.asarray(start, dtype=np.float64), (inputs,))
    if count <= _SHORT:
        return _stepwise(alpha, beta, first)
    steps = math.isqrt(count)
    blocks = -(-count // steps)
    a, x = _folded(alpha, blocks, steps, 1.0), _folded(beta, blocks, steps, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        for step in range(1, steps):
            x[step] += a[step] * x[step - 1]
            a[step] *= a[step - 1]
        ends = _stepwise(a[-1], x[-1], first)
        x += a * ends[:-1]
    result = np.concatenate([first[None], x.swapaxes(0, 1).reshape(-1, inputs)[:count]])
    # A product of factors may overflow where the recursion itself does not.
    return result if np.isfinite(result).all() else _stepwise(alpha, beta, first)


def _stepwise(alpha: np.ndarray, beta: np.ndarray, first: np.ndarray) -> np.ndarray:
    out = np.empty((len(beta) + 1, first.size))
    out[0] = first
    for layer in range(len(beta)):
        np.multiply(alpha[layer], out[layer], out=out[layer + 1])
        out[layer + 1] += beta[layer]
    return out


def _folded(values: np.ndarray, blocks: int, steps: int, fill: float) -> np.ndarray:
    """(map, input) as a writable (step, block, input), padded at the end."""
    padded = np.full((blocks * steps, values.shape[1]), fill)
    padded[: len(values)] = values
    return np.ascontiguousarray(padded.reshape(blocks, steps, -1).swapaxes(0, 1))
