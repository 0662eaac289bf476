r"""Models quadratic in their parameters: what a linear model becomes when its features can learn.

The parameters of the output $i$ are $W_{ij}$; features and meta features are the same for all outputs, so that no
output sees the targets of another. Samples come in one order everywhere: the training samples first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from scalewise._checked import FiniteNumber, checked
from scalewise._readable import readable

Weights = Float[np.ndarray, "output feature"]


@checked
@dataclass(frozen=True, eq=False)
@readable
class QuadraticModel:
    r"""$z_i=\sum_jW_{ij}\phi_j+\frac\epsilon2\sum_{j_1j_2}W_{ij_1}W_{ij_2}\psi_{j_1j_2}$ on given samples.

    Args:
        features: $\phi_j(x_\delta)$, (samples, features); one of them is usually the constant 1.
        meta_features: $\psi_{j_1j_2}(x_\delta)$, (samples, features, features), symmetric.
        epsilon: $\epsilon$; at 0 the model is linear.

    Raises:
        ValueError: If the shapes disagree or the meta features are not symmetric.

    Source: PDLT (11.104), (11.105).

    Example:
        >>> import numpy as np
        >>> from scalewise.training.nearly_kernel import QuadraticModel
        >>> QuadraticModel(np.array([[1.0, 2.0]]), np.ones((1, 2, 2)), 0.5).outputs(np.ones((1, 2)))
        array([[4.]])
    """

    features: Annotated[Any, Float[np.ndarray, "sample feature"]]
    meta_features: Annotated[Any, Float[np.ndarray, "sample feature feature"]]
    epsilon: FiniteNumber = 1.0

    def __post_init__(self) -> None:
        samples, features = self.features.shape
        if self.meta_features.shape != (samples, features, features):
            raise ValueError(
                f"`QuadraticModel.meta_features` must have shape {(samples, features, features)} for features of "
                f"shape {self.features.shape}; got {self.meta_features.shape}."
            )
        if not np.allclose(self.meta_features, self.meta_features.transpose(0, 2, 1)):
            raise ValueError(
                "`QuadraticModel.meta_features` must be symmetric in its last two axes; take their mean."
            )

    @property
    def kernel(self) -> Float[np.ndarray, "sample sample_1"]:
        r"""$k_{\delta_1\delta_2}=\sum_j\phi_j(x_{\delta_1})\phi_j(x_{\delta_2})$.

        Source: PDLT (11.126).
        """
        return self.features @ self.features.T

    @property
    def meta_kernel(self) -> Float[np.ndarray, "sample sample_1 sample_2"]:
        r"""$\mu_{\delta_0\delta_1\delta_2}=\epsilon\,\phi(x_{\delta_1})\psi(x_{\delta_0})\phi(x_{\delta_2})$.

        Symmetric in its last two samples.

        Source: PDLT (11.130).
        """
        phi, psi = self.features, self.meta_features
        return self.epsilon * np.einsum("ajk,bj,ck->abc", psi, phi, phi, optimize=True)

    def outputs(self, weights: Weights) -> Float[np.ndarray, "sample output"]:
        r"""$z_i(x_\delta)$ at `weights` $W_{ij}$, (outputs, features).

        Source: PDLT (11.105).
        """
        psi = np.einsum("ij,ajk,ik->ai", weights, self.meta_features, weights, optimize=True)
        return self.features @ weights.T + self.epsilon / 2 * psi

    def effective_features(self, weights: Weights) -> Float[np.ndarray, "output sample feature"]:
        r"""$\phi^E_{ij}=\frac{dz_i}{dW_{ij}}=\phi_j+\epsilon\sum_kW_{ik}\psi_{kj}$ at `weights` $W$.

        A step $dW$ moves them by $\epsilon\sum_kdW_{ik}\psi_{kj}$ and the outputs by
        $\sum_jdW_{ij}\phi^E_{ij}+\frac\epsilon2\sum dW\,dW\,\psi$, both exactly.

        Source: PDLT (11.106)-(11.108).
        """
        bent = np.einsum("ik,akj->iaj", weights, self.meta_features, optimize=True)
        return self.features + self.epsilon * bent

    def effective_kernel(self, weights: Weights) -> Float[np.ndarray, "output sample sample_1"]:
        r"""$k^E_{ii}=\sum_j\phi^E_{ij}\phi^E_{ij}$, the kernel that the output $i$ has at these `weights`.

        Source: PDLT (11.137).
        """
        features = self.effective_features(weights)
        return features @ features.transpose(0, 2, 1)

    def descended(
        self,
        weights: Weights,
        targets: Float[np.ndarray, "train output"],
        rate: FiniteNumber,
    ) -> Float[np.ndarray, "output feature"]:
        r"""`weights` after one step of descent at some `rate` on $\frac12\sum(z-y)^2$, $y$ being `targets`.

        $$W_{ij}\leftarrow W_{ij}-\eta\sum_{\tilde\alpha}\phi^E_{ij}(x_{\tilde\alpha})[z_i-y_i]$$

        It stops where (11.110) does.

        Source: PDLT (11.109), (11.110).
        """
        count = len(targets)
        error = self.outputs(weights)[:count] - targets
        slope = np.einsum("ai,iaj->ij", error, self.effective_features(weights)[:, :count])
        return weights - rate * slope
