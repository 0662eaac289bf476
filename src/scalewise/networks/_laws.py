r"""Laws of weights: what a network remembers of them at order 1/n is their fourth cumulant.

Weights are $W_{ij}=\sqrt{C_W/kn}\,w_{ij}$ with independent $w$ of mean 0 and variance 1, drawn as an odd function
of standard normal numbers. Their excess $\mathbb E[w^4]-3$ is 0 for normal ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from scalewise._checked import FiniteNumber, checked
from scalewise._extras import require
from scalewise._readable import readable

_POINTS, _STEP = 2000, 0.005  # at which a function is tried, to the right of 0
_SLIP = 0.01  # of a variance and a fourth moment on these points
_CUT = 2.0  # standard deviations, beyond which truncated normal numbers are drawn again


@checked
@dataclass(frozen=True)
@readable
class WeightLaw:
    r"""The law of the weights of a random layer, up to their variance; biases are normal in any case.

    Args:
        name: What tables and results call it.
        excess: $\mathbb E[w^4]-3$ at variance 1, the fourth cumulant over the squared variance; at least -2.
        of_normal: From an array of standard normal numbers, NumPy's or JAX's, to numbers of this law at variance 1,
            entry by entry and odd: with third moments, means would shift by more.

    Raises:
        ValueError: If numbers made so have another variance or another excess, or are not odd.

    Example:
        >>> import numpy as np
        >>> from scalewise.networks import WeightLaw
        >>> WeightLaw("signs", -2.0, np.sign).name
        'signs'
    """

    name: str
    excess: FiniteNumber
    of_normal: Callable[[Any], Any]

    def __post_init__(self) -> None:
        right = (np.arange(_POINTS) + 0.5) * _STEP
        density = 2 * _STEP * np.exp(-(right**2) / 2) / math.sqrt(2 * math.pi)
        w, opposite = (np.asarray(self.of_normal(z), float) for z in (right, -right))
        if w.shape != right.shape or not np.allclose(w, -opposite, rtol=1e-5, atol=1e-5):
            raise ValueError(
                f"`of_normal` of the law {self.name!r} is not odd, entry by entry: weights of both signs must be "
                "as probable. Give a function with f(-z) = -f(z)."
            )
        square, fourth = float(w**2 @ density), float(w**4 @ density)
        if abs(square - 1) > _SLIP:
            raise ValueError(
                f"`of_normal` of the law {self.name!r} makes numbers of variance {square:.3g}, and must make them "
                f"of variance 1: C_W sets the size. Divide it by {math.sqrt(square):.3g}."
            )
        if abs(fourth - 3 - self.excess) > _SLIP * fourth:
            raise ValueError(
                f"`excess` of the law {self.name!r} is {self.excess:g}, and numbers made by `of_normal` have "
                f"{fourth - 3:.3g}. Change one of the two."
            )

    @property
    def is_normal(self) -> bool:
        """True for the normal law itself."""
        return self == NORMAL


def _itself(z: Any) -> Any:
    return z


def _uniform(z: Any) -> Any:
    return math.sqrt(3.0) * _erf(z / math.sqrt(2.0))


def _signs(z: Any) -> Any:
    return np.sign(z) if isinstance(z, np.ndarray) else _jax().numpy.sign(z)


def _truncated(z: Any) -> Any:
    within = math.erf(_CUT / math.sqrt(2.0)) * _erf(z / math.sqrt(2.0))
    return math.sqrt(2.0 / _variance_within()) * _erfinv(within)


def _share_within() -> float:
    r"""$2c\,\varphi(c)/(2\Phi(c)-1)$ of the cut."""
    density = math.exp(-(_CUT**2) / 2) / math.sqrt(2 * math.pi)
    return 2 * _CUT * density / math.erf(_CUT / math.sqrt(2.0))


def _variance_within() -> float:
    return 1 - _share_within()


def _erf(z: Any) -> Any:
    return np.vectorize(math.erf)(z) if isinstance(z, np.ndarray) else _jax().scipy.special.erf(z)


def _erfinv(y: Any) -> Any:
    if not isinstance(y, np.ndarray):
        return _jax().scipy.special.erfinv(y)
    return np.vectorize(NormalDist().inv_cdf)((1 + y) / 2) / math.sqrt(2.0)


def _jax() -> Any:
    """Whose arrays networks are drawn in."""
    require("jax", for_="Drawing weights", extra="nets")
    import jax

    return jax


NORMAL = WeightLaw("normal", 0.0, _itself)
UNIFORM = WeightLaw("uniform", -1.2, _uniform)
RADEMACHER = WeightLaw("rademacher", -2.0, _signs)
TRUNCATED = WeightLaw(
    "truncated normal",
    (3 - _share_within() * (_CUT**2 + 3)) / _variance_within() ** 2 - 3,
    _truncated,
)
LAWS = {law.name: law for law in (NORMAL, UNIFORM, RADEMACHER, TRUNCATED)}
LawLike = Literal["normal", "uniform", "rademacher", "truncated normal"] | WeightLaw


def law_of(given: LawLike) -> WeightLaw:
    """A law from its name or from itself."""
    return LAWS[given] if isinstance(given, str) else given
