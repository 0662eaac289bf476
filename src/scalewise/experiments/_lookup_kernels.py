r"""Kernels read off a coarse table, as the first published program did for want of formulas.

Averages over two Gaussian preactivations are sums on 501 x 501 points from -10 to 10; they are tabulated at 501
variances from 0 to 100 and 500 correlations from -.99999 to .99999, and interpolated linearly in both. In deep
networks all correlations come to lie in the last interval of the table, so that their kernels are not the exact
ones.

Source: Lee et al. 2018, arXiv:1711.00165, section 2.5 and its published program, which normalises the weights of
the interpolation, so that beyond the last correlation the last entry is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

_POINTS = np.linspace(-10.0, 10.0, 501)
_VARIANCES = np.linspace(1e-8, 100.0, 501)
_CORRELATIONS = np.linspace(-0.99999, 0.99999, 500)
_ROWS = 500  # of a kernel at a time
SIGMA: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda z: np.maximum(z, 0.0),
    "tanh": np.tanh,
}


@lru_cache(maxsize=64)
def tabulated(activation: str, place: int) -> tuple[float, np.ndarray]:
    """Mean squares of an activation and its covariances at all correlations, for one variance of the table.

    Args:
        activation: relu or tanh.
        place: Of the variance, from 0.
    """
    sigma, v, z = SIGMA[activation](_POINTS), _VARIANCES[place], _POINTS
    weights = np.exp(-(z**2) / (2 * v))
    square = float(sigma**2 @ weights / weights.sum())
    found = []
    for c in _CORRELATIONS:
        exponent = (z[:, None] ** 2 + z**2 - 2 * c * z[:, None] * z) / (2 * v * (1 - c**2))
        weights = np.exp(exponent.min() - exponent)
        found.append(sigma @ weights @ sigma / weights.sum())
    return square, np.array(found)


def lookup_kernel(
    x: np.ndarray, y: np.ndarray, activation: str, depth: int, C_W: float, C_b: float
) -> np.ndarray:
    """The kernel of the outputs between inputs whose mean square is 1.

    Args:
        x: (samples, features).
        y: (others, features).
        activation: relu or tanh.
        depth: Hidden layers.
        C_W: Of all layers.
        C_b: Likewise.
    """
    sizes, curves = [C_W + C_b], []
    for _ in range(depth):
        place = (sizes[-1] - _VARIANCES[0]) / (_VARIANCES[1] - _VARIANCES[0])
        below, share = int(place), place - int(place)
        two = [tabulated(activation, below + k) for k in (0, 1)]
        sizes.append(C_b + C_W * ((1 - share) * two[0][0] + share * two[1][0]))
        curves.append((1 - share) * two[0][1] + share * two[1][1])
    K = np.empty((len(x), len(y)))
    for start in range(0, len(x), _ROWS):
        k = C_b + C_W * (x[start : start + _ROWS] @ y.T) / x.shape[1]
        for size, curve in zip(sizes[:-1], curves, strict=True):
            # Beyond the last correlation, up to 1, `interp` takes the last entry.
            k = C_b + C_W * np.interp(k / size, _CORRELATIONS, curve)
        K[start : start + _ROWS] = k
    return K
