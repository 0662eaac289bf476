r"""Models cubic in parameters that all outputs share: what a network of finite width is near where it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from scalewise._checked import FiniteNumber, checked
from scalewise._readable import readable
from scalewise.training.dynamics import NetworkState, Targets

Theta = Float[np.ndarray, " parameter"]


@checked
@dataclass(frozen=True, eq=False)
@readable
class CubicModel:
    r"""A model of random features up to the third order in its parameters.

    $$z_I=z^0_I+\sum_\mu\theta_\mu\phi_{I\mu}+\tfrac12\sum\theta_\mu\theta_\nu\psi_{I\mu\nu}
      +\tfrac16\sum\theta_\mu\theta_\nu\theta_\rho\Psi_{I\mu\nu\rho}$$

    A point $I=(i,\delta)$ is an output at a sample, as in `NetworkState`. Since outputs share the parameters, what
    one learns changes the others: the wiring that `QuadraticModel` lacks.

    Args:
        offset: $z^0_I$, the outputs at $\theta=0$.
        features: $\phi_{I\mu}$.
        meta_features: $\psi_{I\mu\nu}$, $\epsilon$ included, symmetric in the parameters.
        cubic_features: $\Psi_{I\mu\nu\rho}$, symmetric; all 0 for a quadratic model.
        rates: $\lambda_\mu$, the learning rate of each parameter per unit of the global one.

    Raises:
        ValueError: If the shapes disagree.

    Source: PDLT (11.143)-(11.153).
    """

    offset: Annotated[Any, Float[np.ndarray, " point"]]
    features: Annotated[Any, Float[np.ndarray, "point parameter"]]
    meta_features: Annotated[Any, Float[np.ndarray, "point parameter parameter"]]
    cubic_features: Annotated[Any, Float[np.ndarray, "point parameter parameter parameter"]]
    rates: Annotated[Any, Theta]

    def __post_init__(self) -> None:
        points, parameters = len(self.offset), len(self.rates)
        parts = (self.features, self.meta_features, self.cubic_features)
        for power, part in enumerate(parts, 1):
            if part.shape != (points,) + (parameters,) * power:
                raise ValueError(
                    f"Features of a CubicModel must be about its {points} outputs and {parameters} rates; got "
                    f"shape {part.shape}."
                )

    def outputs(self, theta: Theta) -> Float[np.ndarray, " point"]:
        r"""$z_I$ at parameters $\theta$.

        Source: PDLT (11.150), (11.151).
        """
        second, third = self.meta_features @ theta @ theta, self.cubic_features @ theta @ theta
        return self.offset + self.features @ theta + second / 2 + third @ theta / 6

    def effective_features(self, theta: Theta) -> Float[np.ndarray, "point parameter"]:
        r"""$\phi^E_{I\mu}=dz_I/d\theta_\mu$ at parameters `theta`.

        Source: PDLT (11.143), (11.107).
        """
        bent = self.meta_features @ theta
        return self.features + bent + self.cubic_features @ theta @ theta / 2

    def effective_meta_features(self, theta: Theta) -> Float[np.ndarray, "point parameter mu"]:
        r"""$\psi^E_{I\mu\nu}=d^2z_I/d\theta_\mu d\theta_\nu$ at parameters `theta`.

        Source: PDLT (11.145), (11.152).
        """
        return self.meta_features + self.cubic_features @ theta

    def state(self, theta: Theta) -> NetworkState:
        r"""Outputs, effective kernel, effective meta kernel and what corresponds to the ddNTKs, at `theta`.

        $$H=\sum\lambda\,\phi^E\phi^E,\quad dH=\sum\lambda\lambda\,\psi^E\phi^E\phi^E,\quad
          dd_IH=\sum\lambda\lambda\lambda\,\Psi\phi^E\phi^E\phi^E,\quad
          dd_{II}H=\sum\lambda\lambda\lambda\,\psi^E\psi^E\phi^E\phi^E$$

        Source: PDLT (11.146), (11.149), (11.153).
        """
        phi, psi = self.effective_features(theta), self.effective_meta_features(theta)
        steps = phi * self.rates
        along = np.einsum(
            "imn,jn->ijm", psi, steps
        )  # the change of phi_i along the gradient of z_j
        crossed = np.einsum("imab,jm->ijab", self.cubic_features, steps, optimize=True)
        return NetworkState(
            self.outputs(theta),
            phi @ steps.T,
            along @ steps.T,
            np.einsum("ijab,ka,lb->ijkl", crossed, steps, steps, optimize=True),
            np.einsum("ikm,m,jlm->ijkl", along, self.rates, along, optimize=True),
        )

    def descended(self, theta: Theta, targets: Targets, rate: FiniteNumber) -> Theta:
        r"""Parameters after one step of gradient descent on $\frac12\sum(z-y)^2$ over the training points.

        Args:
            theta: Parameters before it.
            targets: $y$ of the training points, which come first.
            rate: $\eta$.
        """
        error = self.outputs(theta)[: len(targets)] - targets
        slope = error @ self.effective_features(theta)[: len(targets)]
        return theta - rate * self.rates * slope
