r"""One eigendecomposition of the kernel of the training samples, which serves all times, rates and ridges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import scipy.linalg
from jaxtyping import Float

from scalewise._threads import blas_threads_for

__all__ = ["Spectrum", "refuse_singular", "spectrum", "untaught"]

_MOST = 32766  # samples: beyond, LAPACK counts its workspace with too short a number
_WRONG = 1e-6  # relative to the largest eigenvalue: a kernel as negative as this is not one
_TARGETS = 1e-8  # relative to the targets: what rounding may leave of them where nothing is learned


@dataclass(frozen=True)
class Spectrum:
    r"""$\tilde H=UhU^T$ of the training samples.

    Args:
        h: Eigenvalues, ascending; those that rounding cannot tell from 0 are 0.
        U: Eigenvectors, one a column.
        tolerance: Below which an eigenvalue is 0: $N\epsilon h_{\max}$, or as much as the most negative one shows
            the kernel to be off.
    """

    h: Float[np.ndarray, " direction"]
    U: Float[np.ndarray, "sample direction"]
    tolerance: float

    @property
    def rank(self) -> int:
        """How many directions can be told from those that have no kernel."""
        return int(np.count_nonzero(self.h))

    @property
    def condition(self) -> float:
        """The largest eigenvalue over the smallest; infinite below full rank."""
        return float(self.h[-1] / self.h[0]) if self.h[0] else float("inf")


def spectrum(H: Float[np.ndarray, "sample sample"], name: str) -> Spectrum:
    """The eigendecomposition of a positive semidefinite matrix.

    Args:
        H: Symmetric.
        name: What a message calls it.

    Raises:
        ValueError: If it is not symmetric, has a negative eigenvalue beyond rounding, or is 0.
    """
    if H.shape[0] != H.shape[1] or not H.size or len(H) > _MOST:
        raise ValueError(
            f"The {name} must be square, of 1 to {_MOST} samples; got shape {H.shape}."
        )
    largest = np.abs(H).max()
    if np.abs(H - H.T).max() > 1e-8 * largest:
        raise ValueError(f"The {name} must be symmetric; it is not.")
    with blas_threads_for(H.size):
        h, U = scipy.linalg.eigh(H, check_finite=False)
    if h[0] < -_WRONG * h[-1] or h[-1] <= 0:
        raise ValueError(
            f"The {name} must be positive semidefinite and not 0; its eigenvalues go from "
            f"{h[0]:.3g} to {h[-1]:.3g}."
        )
    tolerance = max(len(H) * np.finfo(float).eps * h[-1], -h[0])
    return Spectrum(np.where(h > tolerance, h, 0.0), U, float(tolerance))


def untaught(found: Spectrum, y: Float[np.ndarray, "sample output"]) -> bool:
    """Whether targets have a part in directions that the kernel does not have, so that nobody can learn it."""
    part = found.U[:, found.h == 0].T @ y
    return bool(np.abs(part).max(initial=0.0) > _TARGETS * np.abs(y).max(initial=0.0))


def refuse_singular(
    H: Float[np.ndarray, "sample sample"],
    y: Float[np.ndarray, "sample output"],
    rank: int,
    remedy: str,
) -> NoReturn:
    """Refuse targets that no function of a singular kernel has, naming the two samples that are to blame."""
    d = np.diag(H)
    apart = d[:, None] + d - 2 * H
    unlike = np.abs(y[:, None] - y).max(axis=-1) > _TARGETS * np.abs(y).max()
    first, second = np.unravel_index(np.argmin(np.where(unlike, apart, np.inf)), H.shape)
    if unlike.any() and apart[first, second] <= len(H) * np.finfo(float).eps * d.max():
        raise ValueError(
            f"Training samples {min(first, second)} and {max(first, second)} are the same to the network but have "
            "different targets, so no network has them both: the kernel is singular. Drop one of them, or "
            f"{remedy}."
        )
    raise ValueError(
        f"The kernel of the {len(H)} training samples is singular in float64 (rank {rank}): there are targets that "
        f"it does not represent. {remedy[0].upper()}{remedy[1:]}."
    )
