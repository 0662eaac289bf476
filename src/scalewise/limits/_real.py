r"""Real Gaussian matrices, one for each seed, moved and multiplied as `LazyMatrix` is."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.linalg import get_blas_funcs

from scalewise.limits._noise import normal


def check_memory(width: int, replicas: int, numbers: float | int, dtype: Any) -> None:
    """Refuse real matrices, `numbers` of each network, that do not fit into the memory of this machine."""
    there = _memory()
    needed = replicas * numbers * np.dtype(dtype).itemsize
    if needed > there:
        raise ValueError(
            f"Finite({width}) with {replicas} replicas needs {needed:.2g} bytes for its matrices, and this machine "
            f"has {there:.2g}. Take Lazy({width}), equal in law at a cost linear in the width, fewer replicas, or "
            "a smaller width."
        )


def _memory() -> float:
    """Bytes of this machine; infinite where it does not tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return math.inf


class RealMatrix:
    r"""Gaussian matrices with entries $N(0,\sigma^2/n_\text{in})$, all seeds side by side.

    The coordinates that `forward` and `backward` return beside their products are the vectors themselves.
    `decoupled` lets $W^\top$ be an independent copy, which moves as the other does.
    """

    def __init__(
        self,
        n_out: int,
        n_in: int,
        *,
        streams: Sequence[np.random.Generator],
        sigma: float | int = 1.0,
        dtype: Any = np.float64,
        decoupled: bool = False,
    ) -> None:
        self.n_out, self.n_in = n_out, n_in
        self._gemm: Any = get_blas_funcs("gemm", dtype=np.dtype(dtype))

        def drawn() -> np.ndarray:
            W = np.empty((len(streams), n_out, n_in), dtype)
            for own, stream in zip(W, streams, strict=True):
                normal(stream, own)
            W *= sigma / math.sqrt(n_in)
            return W

        self.W = drawn()
        self._copies = [self.W, drawn()] if decoupled else [self.W]
        self._velocity: list[np.ndarray] | None = None

    def forward(
        self, X: Float[np.ndarray, "seed batch n_in"], *, keep: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The products $Wx$, and the vectors."""
        return X @ self.W.swapaxes(-1, -2), X

    def backward(self, Y: Float[np.ndarray, "seed batch n_out"]) -> tuple[np.ndarray, np.ndarray]:
        r"""The products $W^\top y$, and the vectors."""
        return Y @ self._copies[-1], Y

    def update(
        self,
        y: Float[np.ndarray, "seed batch n_out"],
        x: Float[np.ndarray, "seed batch n_in"],
        weights: Float[np.ndarray, "*seed batch"],
        *,
        momentum: float | int = 0.0,
        shrink: float | int = 0.0,
    ) -> None:
        """As `LazyMatrix.update`, with the vectors themselves."""
        left = y * (weights[..., None] / self.n_in).astype(y.dtype, copy=False)
        if momentum == 0.0 and shrink == 0.0:
            for W in self._copies:
                for own, a, b in zip(W, left, x, strict=True):
                    # In place: a second array of n² numbers would double the cost of a step.
                    self._gemm(1.0, b.T, a.T, trans_b=1, beta=1.0, c=own.T, overwrite_c=1)
            return
        if self._velocity is None:
            self._velocity = [np.zeros_like(W) for W in self._copies]
        for W, V in zip(self._copies, self._velocity, strict=True):
            V *= momentum
            V += left.swapaxes(-1, -2) @ x
            V -= shrink * W
            W += V
