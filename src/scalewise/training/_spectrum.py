r"""One eigendecomposition of the kernel of the training samples, which serves all times, rates and ridges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import scipy.linalg
from jaxtyping import Float

from scalewise._threads import blas_threads_for
from scalewise._warn import warn

KERNEL_ERROR = 1e-12  # relative to the variances: the tolerance of series and quadratures
DRAWN_ERROR = 1e-3  # likewise of averages without a formula, about
_TOLD = 1e-6  # from here on a user is told

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
        """The number of directions whose eigenvalue is more than rounding."""
        return int(np.count_nonzero(self.h))

    @property
    def condition(self) -> float:
        """The largest eigenvalue over the smallest; infinite below full rank."""
        return self.with_diagonal(0.0)[0]

    def with_diagonal(self, added: float) -> tuple[float, int]:
        """Condition and rank of the matrix with a number added to its diagonal, as noise or ridge do."""
        low, high = self.h[0] + added, self.h[-1] + added
        condition = float(high / low) if low else float("inf")
        return condition, len(self.h) if added else self.rank

    def solve(
        self, v: Float[np.ndarray, "sample column"], added: float = 0.0
    ) -> Float[np.ndarray, "sample column"]:
        r"""$(\tilde H+\rho)^{-1}v$, without a part in directions that have no kernel and get none.

        Args:
            v: Columns.
            added: $\rho$, on the diagonal.
        """
        h = self.h + added
        gain = np.where(h > 0, 1 / np.where(h > 0, h, 1.0), 0.0)
        return self.U @ (gain[:, None] * (self.U.T @ v))

    @property
    def inverse(self) -> Float[np.ndarray, "sample sample"]:
        r"""$\tilde H^{-1}$."""
        return self.solve(np.eye(len(self.h)))

    def on_samples(self, T: np.ndarray) -> np.ndarray:
        """A tensor on directions, every axis turned to samples."""
        for _ in range(T.ndim):  # each turn takes the first axis and puts it last
            T = np.tensordot(T, self.U, axes=(0, 1))
        return T


def spectrum(H: Float[np.ndarray, "sample _square"], name: str) -> Spectrum:
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
    if np.abs(H - H.T).max() > 1e-8 * np.abs(H).max():
        raise ValueError(f"The {name} must be symmetric; it is not.")
    with blas_threads_for(H.size):
        h, U = scipy.linalg.eigh(H.T, driver="evd", check_finite=False)
    if h[0] < -_WRONG * h[-1] or h[-1] <= 0:
        raise ValueError(
            f"The {name} must be positive semidefinite and not 0; its eigenvalues go from "
            f"{h[0]:.3g} to {h[-1]:.3g}."
        )
    tolerance = max(len(H) * np.finfo(float).eps * h[-1], -h[0])
    return Spectrum(np.where(h > tolerance, h, 0.0), U, float(tolerance))


def regular(H: Float[np.ndarray, "sample sample"], name: str) -> Spectrum:
    """As `spectrum`, of a kernel with which every target can be met.

    Args:
        H: Symmetric.
        name: What a message calls it.

    Raises:
        ValueError: If it is singular, or `spectrum` refuses it.
    """
    found = spectrum(H, name)
    if found.rank < len(H):
        raise ValueError(
            f"The {name} is singular in float64 (rank {found.rank} of {len(H)}), so that not all targets can be "
            "met. Drop samples that repeat others, or add features."
        )
    return found


def tell_of_kernel_error(condition: float, *, drawn: bool = False) -> float:
    """The error of the outputs, relative to them, that the kernels' own may make; a warning if it is large.

    Args:
        condition: The factor by which a relative error of the kernel that learns may grow.
        drawn: Whether averages of the network have no formula, so that its kernels are drawn.
    """
    accuracy = DRAWN_ERROR if drawn else KERNEL_ERROR
    error = accuracy * condition
    if error > _TOLD:
        warn(
            f"Kernels are computed to {accuracy:g}, and this training may make a relative error of {error:.1e} "
            "of it in the outputs, as the kernel of the training samples is ill-conditioned. Stop training "
            "earlier, or give a ridge or `noise_variance`, if that is too much.",
        )
    return error


def untaught(found: Spectrum, y: Float[np.ndarray, "sample output"]) -> bool:
    """True if targets have a part in directions that the kernel does not have, which nobody can learn."""
    part = found.U[:, found.h == 0].T @ y
    return bool(np.abs(part).max(initial=0.0) > _TARGETS * np.abs(y).max(initial=0.0))


def refuse_pair(first: int, second: int, remedy: str) -> NoReturn:
    """Refuse two samples that no network can have both."""
    raise ValueError(
        f"Training samples {min(first, second)} and {max(first, second)} are the same to the network but have "
        "different targets, so no network has them both: the kernel is singular. Drop one of them, or "
        f"{remedy}."
    )


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
        refuse_pair(int(first), int(second), remedy)
    raise ValueError(
        f"The kernel of the {len(H)} training samples is singular in float64 (rank {rank}): there are targets that "
        f"it does not represent. {remedy[0].upper()}{remedy[1:]}."
    )
