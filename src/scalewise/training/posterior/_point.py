r"""The posterior of infinite width, about which the one of finite width is expanded.

Source: PDLT (6.57), (6.64), noise (6.10).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from scalewise.training._spectrum import Spectrum

__all__ = ["Point"]


@dataclass(frozen=True)
class Point:
    r"""What the 1/n terms take from leading order; the training samples come first.

    Args:
        K: Kernel of the last layer on all samples.
        count: $N_A$.
        root: $L$ with $S=LL^T=(\tilde K+\sigma_\varepsilon^2)^{-1}$.
        u: $Sy_i$, by training sample and output.
        T: $(-R\;1)$ with $R=K_{\mathcal{BA}}S$: what a function on all samples has beyond what the training
            samples tell.
        whole: Whether covariances between test samples are wanted, or only variances.
    """

    K: Float[np.ndarray, "sample sample"]
    count: int
    root: Float[np.ndarray, "train direction"]
    u: Float[np.ndarray, "train output"]
    T: Float[np.ndarray, "test sample"]
    whole: bool

    @classmethod
    def of(
        cls,
        K: Float[np.ndarray, "sample sample"],
        y: Float[np.ndarray, "train output"],
        found: Spectrum,
        noise_variance: float,
        *,
        whole: bool,
    ) -> Point:
        """From a kernel, targets, and the spectrum of the kernel of the training samples."""
        count = len(y)
        h = found.h + noise_variance
        # What no kernel reaches has no part: targets there were refused.
        keep = h > 0
        root = found.U[:, keep] / np.sqrt(h[keep])
        R = (K[count:, :count] @ root) @ root.T
        T = np.hstack([-R, np.eye(len(K) - count)])
        return cls(K, count, root, root @ (root.T @ y), T, whole)

    @property
    def train(self) -> slice:
        """Which samples train."""
        return slice(0, self.count)

    @cached_property
    def S(self) -> Float[np.ndarray, "train train"]:
        r"""$(\tilde K+\sigma_\varepsilon^2)^{-1}$."""
        return self.root @ self.root.T

    @property
    def variance(self) -> Float[np.ndarray, " test"]:
        """Of each output on the test samples, at infinite width."""
        B = slice(self.count, None)
        seen = self.K[B, self.train] @ self.root
        return np.diagonal(self.K[B, B]) - (seen**2).sum(axis=1)

    def outer(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        r"""$ab^T$ over neurons, or its diagonal where no covariances are wanted."""
        return a @ b.T if self.whole else np.einsum("bm,bm->b", a, b)
