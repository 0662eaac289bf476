"""From several widths to infinite width: a polynomial in 1/n or its root, fitted with its error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise.networks import Network


def check_widths(net: Network, widths: Sequence[int]) -> tuple[Any, ...]:
    """The network at each of the widths, which must be two or more different numbers."""
    if len(set(widths)) < 2 or len(set(widths)) != len(widths):
        raise ValueError(
            f"`widths` must be two or more different numbers, such as [64, 128, 256]; got {widths!r}."
        )
    return tuple(rescale(net, w) for w in sorted(widths))


def rescale(net: Any, width: int) -> Any:
    """The network with first hidden width `width` and the same ratios between its hidden widths."""
    if not net.is_stacked:
        return net.at_width(width)
    hidden = net.hidden_widths
    if any(n * width % hidden[0] for n in hidden):
        raise ValueError(
            f"`widths` scales all hidden widths {hidden} in proportion, and width {width} for the "
            f"first does not give whole numbers for the others. Use multiples of {hidden[0]}."
        )
    return net.at_width([n * width // hidden[0] for n in hidden])


def extrapolation(widths: Sequence[Any] | None, most: int = 2) -> dict[str, int]:
    """Attributes of an extrapolation over widths; none without widths."""
    if widths is None:
        return {"extrapolated": 0}
    return {"extrapolated": 1, "extrapolation_degree": degree(len(widths), most)}


def degree(widths: int, most: int = 2) -> int:
    """Degree of the polynomial: what the widths determine, and never above `most`."""
    return min(widths - 1, most)


def fit(
    values: Float[np.ndarray, "width ..."],
    sems: Float[np.ndarray, "width ..."],
    epsilon: Float[np.ndarray, " width"],
    *,
    most: int = 2,
) -> tuple[Any, Any]:
    r"""Weighted least squares of $y=\sum_pc_p\epsilon^p$ entry by entry.

    Args:
        values: $y$ at each width.
        sems: Their standard errors; 0 where nothing fluctuates.
        epsilon: $1/n_{\ell-1}$ at each width, or what else the polynomial is in.
        most: Degree that the polynomial has at most.

    Returns:
        The coefficients $c_0,c_1,\dots$ and their standard errors, each (degree + 1, \*shape). The
        errors are those of the data carried through the fit, whatever the weights.
    """
    shape = values.shape[1:]
    y, s = values.reshape(len(values), -1), sems.reshape(len(sems), -1)
    largest = s.max(axis=0)
    # An entry without any error is fitted with equal weights.
    w = np.where(largest > 0, 1 / np.maximum(s, 1e-6 * np.where(largest > 0, largest, 1)), 1.0)
    unit = epsilon.max()
    powers = np.vander(epsilon / unit, degree(len(epsilon), most) + 1, increasing=True)
    pseudo_inverse = np.linalg.pinv(w.T[:, :, None] * powers) * w.T[:, None, :]
    rescaled = pseudo_inverse / unit ** np.arange(powers.shape[1])[None, :, None]
    coefficients = np.einsum("epk,ke->pe", rescaled, y)
    errors = np.sqrt(np.einsum("epk,ke->pe", rescaled**2, s**2))
    return coefficients.reshape(-1, *shape), errors.reshape(-1, *shape)
