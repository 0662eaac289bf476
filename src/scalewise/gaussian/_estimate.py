"""A number with its uncertainty and the engine it came from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scalewise._readable import readable


@dataclass(frozen=True)
@readable
class Estimate:
    """The value of a Gaussian expectation, its estimated absolute error, and how it was found.

    Args:
        value: The expectation, in the shape of the broadcast arguments.
        error: Estimated absolute error, the same shape.
        engine: ``"closed"``, ``"hermite"``, ``"quadrature"``, ``"product"`` or ``"samples"``; joined
            by ``"+"`` where entries come from more than one.
    """

    value: Float[np.ndarray, "*shape"]
    error: Float[np.ndarray, "*shape"]
    engine: str

    def times(self, other: Estimate) -> Estimate:
        """The product with `other`, an expectation that is independent of it."""
        error = np.abs(self.value) * other.error + np.abs(other.value) * self.error
        return Estimate(self.value * other.value, error, self.engine)
