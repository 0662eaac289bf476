r"""Polynomial regression: what goes wrong, or not, where a linear model has more features than samples."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from scalewise._checked import FiniteNumber, Index, checked


@checked
def polynomial_features(
    x: Annotated[Any, Float[np.ndarray, " sample"]], degree: Index
) -> Float[np.ndarray, "sample feature"]:
    r"""Features $\phi_j(x)=x^j$, $j=0,\dots,n_f$, of $z(x)=\sum_jw_jx^j$.

    Args:
        x: One number for each sample.
        degree: $n_f$.

    Source: PDLT (11.123).

    Example:
        >>> from scalewise.training.nearly_kernel import polynomial_features
        >>> polynomial_features([2.0], 3)
        array([[1., 2., 4., 8.]])
    """
    return np.vander(x, degree + 1, increasing=True)


@checked
def turning_points(
    weights: Annotated[Any, Float[np.ndarray, " feature"]], low: FiniteNumber, high: FiniteNumber
) -> int:
    r"""How often $\sum_jw_jx^j$ turns round between two points.

    A polynomial that fits a noisy line through as many samples as it has coefficients turns about $n_f$ times.

    Args:
        weights: $w_j$, the constant first.
        low: Where counting starts.
        high: Where it ends.

    Returns:
        The number of simple real zeros of the derivative in between.

    Source: PDLT (11.123) and the text below it.

    Example:
        >>> from scalewise.training.nearly_kernel import turning_points
        >>> turning_points([0.0, -1.0, 0.0, 1.0], -1.0, 1.0)
        2
    """
    slope = np.polynomial.polynomial.polyder(weights)
    edges = np.sort(np.polynomial.polynomial.polyroots(slope).real)
    inside = edges[(edges > low) & (edges < high)]
    middles = np.concatenate([[low], inside, [high]])
    signs = np.sign(np.polynomial.polynomial.polyval((middles[1:] + middles[:-1]) / 2, slope))
    return int(np.count_nonzero(np.diff(signs)))
