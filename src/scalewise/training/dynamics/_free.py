r"""The free theory: training with the NTK that the network starts with, and the sums over its steps.

Everything is a function of the eigendirections of the NTK of the training points, $\widehat H=UhU^T$; a step
multiplies the error in a direction by $p=1-\eta h$.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from scalewise._checked import Positive, checked
from scalewise._readable import readable
from scalewise.training._spectrum import Spectrum, regular
from scalewise.training.dynamics._state import NetworkState, Targets, error_of

Train = Float[np.ndarray, " train"]


@dataclass(frozen=True, eq=False)
@readable
class FreeTheory:
    r"""Training of one network with its NTK held fixed.

    Args:
        state: The network at the start.
        error: $e=z-y$ on the training points.
        rate: $\eta$.
        modes: The eigendecomposition of the NTK of the training points.

    Source: PDLT (∞.84)-(∞.93), (∞.106), (∞.109), (∞.111)-(∞.116).
    """

    state: NetworkState
    error: Train
    rate: float
    modes: Spectrum

    @property
    def count(self) -> int:
        """How many training points there are."""
        return len(self.error)

    def evolution(self, t: int) -> Float[np.ndarray, "train train"]:
        r"""$U(t)=(1-\eta\widehat H)^t$.

        Source: PDLT (∞.89).
        """
        return (self.modes.U * self._left(t)) @ self.modes.U.T

    def errors(self, t: int) -> Train:
        r"""$\varepsilon^F(t)=U(t)e$.

        Source: PDLT (∞.88).
        """
        return self.modes.U @ (self._left(t) * self._turned)

    def a(self, t: int) -> Train:
        r"""$a(t)=\eta\sum_{s<t}\varepsilon^F(s)=\widehat H^{-1}\{e-\varepsilon^F(t)\}$.

        Source: PDLT (∞.92), where the sum is printed with $U(t)$ for $U(s)$; (∞.114).
        """
        return self.modes.U @ ((1 - self._left(t)) / self.modes.h * self._turned)

    def b(self, t: int) -> Float[np.ndarray, "train train"]:
        r"""$b(t)=\eta\sum_{s<t}\varepsilon^F\varepsilon^F=X_{II}\{ee-\varepsilon^F\varepsilon^F(t)\}$.

        Source: PDLT (∞.106), (∞.107), (∞.115).
        """
        return self._sum(t, 2)

    def c(self, t: int) -> Float[np.ndarray, "train train train"]:
        r"""$c(t)=\eta\sum_{s<t}\varepsilon^F\varepsilon^F\varepsilon^F=X_{III}\{eee-\dots\}$.

        Source: PDLT (∞.108)-(∞.110), (∞.116).
        """
        return self._sum(t, 3)

    def outputs(self, t: int) -> Float[np.ndarray, " point"]:
        r"""$z^F(t)=z-\widehat Ha(t)$ on all points; $z-\widehat H\widehat H^{-1}e$ at the end.

        Source: PDLT (∞.91), (∞.93).
        """
        return self.state.outputs - self.state.ntk[:, : self.count] @ self.a(t)

    @cached_property
    def _turned(self) -> Train:
        return self.modes.U.T @ self.error

    def _left(self, t: int) -> np.ndarray:
        return (1 - self.rate * self.modes.h) ** t

    def _sum(self, t: int, power: int) -> np.ndarray:
        """Eta times the sum over steps of a product of errors, in a geometric series for each set of directions."""
        p, left, found = 1 - self.rate * self.modes.h, self._left(t), self._turned
        each, gone, product = p, left, found
        for _ in range(power - 1):
            each, gone = np.multiply.outer(each, p), np.multiply.outer(gone, left)
            product = np.multiply.outer(product, found)
        series = self.rate * (1 - gone) / (1 - each) * product
        return self.modes.on_samples(series)


@checked
def free_theory(state: NetworkState, targets: Targets, rate: Positive) -> FreeTheory:
    r"""Solution of training with a constant NTK, for one network and its targets (the free theory).

    Args:
        state: The network at the start.
        targets: $y$ of the training points, which come first.
        rate: $\eta$.

    Raises:
        ValueError: If the NTK of the training points is singular, or training diverges at this rate.

    Source: PDLT (∞.84)-(∞.93), footnote 16.

    Example:
        >>> import numpy as np
        >>> from scalewise.training.dynamics import NetworkState, free_theory
        >>> flat = NetworkState([1.0], np.eye(1), *(np.zeros((1,) * k) for k in (3, 4, 4)))
        >>> free_theory(flat, [0.0], 0.5).b(2)
        array([[0.625]])
    """
    error = error_of(state, targets)
    modes = regular(state.ntk[: len(error), : len(error)], "NTK of the training points")
    if rate * modes.h[-1] >= 2:
        raise ValueError(
            f"`rate` must be below {2 / modes.h[-1]:.6g}, two over the largest eigenvalue of this network's NTK; "
            f"at {rate:g} training diverges."
        )
    return FreeTheory(state, error, rate, modes)
