r"""The posterior of infinite width, about which the one of finite width is expanded.

Source: PDLT (6.57), (6.64), noise (6.10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from scalewise.training._asked import Asked
from scalewise.training._sample_kernels import between
from scalewise.training._spectrum import Spectrum

_FIXED = 1e-12  # of its kernel: a variance that rounding cannot tell from 0


@dataclass(frozen=True)
class Point:
    r"""The leading order that terms of order 1/n start from; the training samples come first.

    Args:
        count: $N_A$.
        root: $L$ with $S=LL^T=(\tilde K+\sigma_\varepsilon^2)^{-1}$.
        u: $Sy_i$, by training sample and output.
        T: $(-R\;1)$ with $R=K_{\mathcal{BA}}S$: what a function on all samples has beyond what the training
            samples tell. 0 where they tell all of it.
        variance: Of each output on the test samples, at infinite width.
        mean: Of the outputs on them.
        whole: Whether covariances between test samples are wanted, or only variances.
    """

    count: int
    root: Float[np.ndarray, "train direction"]
    u: Float[np.ndarray, "train output"]
    T: Float[np.ndarray, "test sample"]
    variance: Float[np.ndarray, " test"]
    mean: Float[np.ndarray, "test output"]
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
        seen = K[count:, :count] @ root
        own = np.diagonal(K)[count:]
        variance = own - (seen**2).sum(axis=1)
        # What training samples fix at infinite width, neuron by neuron, they fix at any.
        variance = np.where(variance > _FIXED * own, variance, 0.0)
        T = np.hstack([-seen @ root.T, np.eye(len(K) - count)])
        mean = seen @ (root.T @ y)
        T = np.where(variance[:, None] > 0, T, 0.0)
        return cls(count, root, root @ (root.T @ y), T, variance, mean, whole)

    @property
    def train(self) -> slice:
        """Which samples train."""
        return slice(0, self.count)

    @cached_property
    def S(self) -> Float[np.ndarray, "train train"]:
        r"""$(\tilde K+\sigma_\varepsilon^2)^{-1}$."""
        return self.root @ self.root.T


def kernels_of(
    asked: Asked, *, layers: Sequence[int] | None = None
) -> Float[np.ndarray, "layer sample sample"]:
    """Kernels of training samples, then the test samples that are wanted; of all layers unless some are named."""
    x = np.concatenate([asked.task.inputs, asked.tests])
    every = range(1, asked.net.depth + 1)
    return between(asked.net, x, kinds=["kernel"], layers=layers or every)[0]
