"""Where a measured curve has its minimum, and how that moves with the width."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def parabola_minimum(
    x: Float[np.ndarray, " point"], y: Float[np.ndarray, "*curve point"]
) -> np.ndarray:
    r"""Vertex of the parabola through the lowest point of each curve and its two neighbours.

    $$x_0=x_k+\frac h2\frac{y_{k-1}-y_{k+1}}{y_{k-1}-2y_k+y_{k+1}}$$

    Args:
        x: Evenly spaced by $h$, at least three.
        y: Curves over the last axis. One whose lowest point is an end takes the point beside it for
            $y_k$, and its vertex is held within $h$ of that.

    Example:
        >>> import numpy as np
        >>> from scalewise.experiments._optimum import parabola_minimum
        >>> x = np.arange(6.0)
        >>> float(parabola_minimum(x, (x - 2.25) ** 2 + 1))
        2.25
    """
    h = x[1] - x[0]
    k = np.clip(np.argmin(y, axis=-1), 1, len(x) - 2)
    left, here, right = (
        np.take_along_axis(y, (k + shift)[..., None], axis=-1)[..., 0] for shift in (-1, 0, 1)
    )
    bend = left - 2 * here + right
    # A flat or inverted triple can only come from an end; its lower side is all there is to say.
    vertex = np.divide(
        (left - right) / 2, bend, out=np.asarray(np.sign(left - right)), where=bend > 0
    )
    return np.asarray(x[k] + h * np.clip(vertex, -1, 1))


def below_best(x: Float[np.ndarray, " point"], y: Float[np.ndarray, " point"], at: float) -> float:
    """How far a curve lies above its lowest point at `at`, linear between points."""
    return float(np.interp(at, x, y) - y.min())


def drift(
    width: Float[np.ndarray, " size"], optimum: Float[np.ndarray, "*more size"]
) -> np.ndarray:
    r"""Slope of the optimum, in powers of 2, against $\log_2 n$: least squares with equal weights."""
    u = np.log2(width)
    u = u - u.mean()
    return np.asarray(optimum @ u / (u @ u))


def bootstrap_rows(seeds: int, resamples: int, seed: int) -> tuple[np.ndarray, float]:
    """Rows of resampled seeds, (resample, seed), and what makes their spread a standard error.

    A resample of m seeds scatters by the biased variance of the sample, hence sqrt(m / (m - 1)).
    """
    rows = np.random.default_rng([seed, 2]).integers(seeds, size=(resamples, seeds))
    return rows, float(np.sqrt(seeds / (seeds - 1)))
