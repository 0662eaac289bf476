r"""Nearly-linear quadratic regression: the weights that fit, to first order in $\epsilon$.

Two readings of the same limit disagree where there are more features than samples. Without a regulator, $M^{-1}$ is
the pseudoinverse and the correction stays in the span of the features; this is what is printed. With a ridge
$a\sum W^2$ the first two terms of (11.116) cancel up to $O(a)$ only, $M^{-1}$ is $1/(2a)$ outside of the span, and
a finite piece survives there as $a\to0^+$: the interpolant of least norm.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from scalewise._checked import Positive, checked
from scalewise._readable import readable
from scalewise.training.kernels._linear_models import ridge_responses
from scalewise.training.nearly_kernel._quadratic import QuadraticModel

Targets = Annotated[Any, Float[np.ndarray, "train output"]]


@readable
class Fitted(NamedTuple):
    r"""Weights $W^F+W^I+O(\epsilon^2)$, (outputs, features) each.

    Args:
        free: $W^F$, those of the linear model.
        interacting: $W^I$, of order $\epsilon$.
    """

    free: Float[np.ndarray, "output feature"]
    interacting: Float[np.ndarray, "output feature"]

    @property
    def weights(self) -> Float[np.ndarray, "output feature"]:
        """Both together."""
        return self.free + self.interacting


@checked
def nearly_linear_regression(model: QuadraticModel, targets: Targets) -> Fitted:
    r"""Fit without a regulator, $M^{-1}$ the pseudoinverse of $M=\sum_{\tilde\alpha}\phi\phi^T$.

    $$W^F=y\phi M^{-1},\qquad
      W^I_{ij}=-\frac\epsilon2\sum W^F_{ij_1}W^F_{ij_2}\sum_{\tilde\alpha}
      \psi_{j_1j_2}\phi_{j_3}(M^{-1})_{j_3j}+O(\epsilon^2)$$

    Args:
        model: On training samples first, then on any others.
        targets: Of the training samples, (samples, outputs).

    Returns:
        The weights; the training error they leave is $O(\epsilon^2)$ where there are at least as many features as
        samples.

    Raises:
        ValueError: If there are more targets than samples.

    Source: PDLT (11.113)-(11.119).
    """
    phi, psi = _of_training(model, targets)
    inverse, _ = ridge_responses(phi, 0.0)
    free = (inverse @ targets).T
    bent = np.einsum("ij,ajk,ik->ai", free, psi, free, optimize=True)
    return Fitted(free, -model.epsilon / 2 * (inverse @ bent).T)


@checked
def ridge_regression(model: QuadraticModel, targets: Targets, regulator: Positive) -> Fitted:
    r"""The minimum of $\frac12\sum(z-y)^2+a\sum W^2$ to first order in $\epsilon$.

    $$W^F=y\phi(M+2a)^{-1},\qquad W^I=-\epsilon\sum_{\tilde\alpha}\big[\psi W^F(\phi W^F-y)+
      \tfrac12\phi\,W^F\psi W^F\big](M+2a)^{-1}$$

    Args:
        model: On training samples first, then on any others.
        targets: Of the training samples, (samples, outputs).
        regulator: $a$.

    Returns:
        The weights. As $a\to0^+$ they become those of the interpolant of least norm.

    Raises:
        ValueError: If there are more targets than samples.

    Source: PDLT (11.116) with the regulator of (10.124); both terms kept (derived).
    """
    phi, psi = _of_training(model, targets)
    response, dual = ridge_responses(phi, regulator)
    free = (response @ targets).T
    bent = np.einsum("ajk,ik->aij", psi, free)
    # What is missed is -2a (k+2a)^-1 y, and 2a (M+2a)^-1 is what the response leaves of a direction.
    pulled = np.einsum("aij,ai->ij", bent, dual @ targets)
    own = np.einsum("aij,ij->ai", bent, free).T @ response.T / 2
    return Fitted(free, model.epsilon * (pulled - pulled @ phi.T @ response.T - own))


def _of_training(model: QuadraticModel, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    count = len(targets)
    if not 0 < count <= len(model.features):
        raise ValueError(
            f"`targets` must have 1 to {len(model.features)} rows, for the training samples, which come first "
            f"in the model; got {count}."
        )
    return model.features[:count], model.meta_features[:count]
