r"""Angles of many correlations and their sines: by the library where it has vectors for them, else cheaper than it.

Of correlations that are not negative, with $q=\sin\frac\psi2$ and $p=\cos\frac\psi2$, $\psi=4\arctan\tau$,
$\tau=q/(1+p)=\tan\frac\psi4$, where $\arctan\tau/\tau$ is a polynomial in $\tau^2$ to 4e-17. The larger the least
correlation is, the fewer terms do.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from jaxtyping import Float

# By the least correlation: interpolated at Chebyshev points of the range of tau squared, in 60 digits.
_ARCTAN = {
    0.98: (1.0, -0.3333333333329814, 0.1999999988791036, -0.14285589312160088, 0.11054203756404664),
    0.9: (1.0, -0.33333333333332993, 0.19999999999574464, -0.142857140863616, 0.1111106659905568,
        -0.09085798602065939, 0.07400170513764047),
    0.5: (1.0, -0.3333333333332988, 0.19999999998714044, -0.14285714101112637, 0.11111097804486184,
        -0.09090368365760128, 0.07679323048884193, -0.0648280271071934, 0.044375920079045915),
    0.0: (1.0, -0.3333333333332844, 0.1999999999885511, -0.14285714180976467, 0.11111106180455946,
        -0.09090773074808414, 0.07689953496306857, -0.06640233930429408, 0.056883492268090106,
        -0.04348052215716462, 0.021135373157693246),
}  # fmt: skip


def angle_and_sine(
    c: Float[np.ndarray, "*tile"],
    least: float,
    angle: Float[np.ndarray, "*tile"],
    sine: Float[np.ndarray, "*tile"],
    work: tuple[Float[np.ndarray, "*tile"], Float[np.ndarray, "*tile"]],
) -> None:
    r"""$\psi=\arccos c$ and $\sin\psi$, the way that costs less on this processor.

    Args:
        c: From -1 to 1; it is left as it is.
        least: Of them.
        angle: Where the first goes.
        sine: Where the second goes.
        work: Scratch arrays.
    """
    if least >= 0.0 and not _has_vectors():
        by_quarters(c, least, angle, sine, work)
        return
    np.arccos(c, out=angle)
    np.multiply(c, c, out=sine)
    np.subtract(1.0, sine, out=sine)
    np.sqrt(sine, out=sine)


@cache
def _has_vectors() -> bool:
    """True if the arc cosine of numpy takes several numbers at a time on this processor."""
    found = np.lib.introspect.opt_func_info(func_name="^arccos$", signature="float64")
    return any(not own["current"].startswith("baseline") for own in found["arccos"].values())


def by_quarters(
    c: Float[np.ndarray, "*tile"],
    least: float,
    angle: Float[np.ndarray, "*tile"],
    sine: Float[np.ndarray, "*tile"],
    work: tuple[Float[np.ndarray, "*tile"], Float[np.ndarray, "*tile"]],
) -> None:
    r"""Angle and sine of correlations from `least` on, 0 or more, to rounding, by the polynomial."""
    terms = next(terms for level, terms in _ARCTAN.items() if least >= level)
    q, p = work
    for root, sign in ((q, -0.5), (p, 0.5)):
        np.multiply(c, sign, out=root)
        root += 0.5
        np.sqrt(root, out=root)
    np.multiply(q, p, out=sine)
    sine *= 2.0
    p += 1.0
    q /= p
    square = np.multiply(q, q, out=p)
    np.multiply(square, terms[-1], out=angle)
    for term in terms[-2:0:-1]:
        angle += term
        angle *= square
    angle += terms[0]
    q *= 4.0
    angle *= q
