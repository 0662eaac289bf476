r"""Deep linear networks in maximal update at infinite width: exact, at any depth.

$$h^1=U\xi,\qquad h^l=W^lh^{l-1},\qquad f=Vh^L$$
Every vector of hidden space $l$ is a combination of independent standard Gaussians, so it is stored as its
coefficients, and $\mathbb EZ^xZ^y$ is their inner product. A matrix is revealed only where the program looks:
for a new unit direction $e$ of space $l-1$
$$W_0^le=\sum_jF_j\langle B_j,e\rangle+\sigma_w\,g,$$
with $F$ the directions in which $W_0^{l\top}$ has been seen, $B=W_0^{l\top}F$, and $g$ one fresh coordinate of
space $l$. The sum is $\dot Z$, the rest $\hat Z$. Updates live in the span of what has been seen,
$\Delta W^l=F^\top RE$.

Backward vectors need no sample: $dx^L$ is $nV_t$, the same for all. So a step reveals at most
(inputs + outputs) directions per matrix, and costs the square of (steps × that).

Source: TP4 Theorem F.2 and N.5 for the identity, generalising Algorithm 3; derived.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise._arrays import float_array, real_array
from scalewise.limits._checks import not_negative, whole
from scalewise.limits.linear import LossFunction, half_square

__all__ = ["DeepLinearRun", "deep_linear_limit"]

_DIVERGED = 1e50
_SEEN = 1e-10  # a direction whose new part is below this fraction of it has been seen


@dataclass(frozen=True)
class DeepLinearRun:
    r"""A training run at infinite width.

    Args:
        outputs: $\mathring f_t(\xi)$ of training inputs, then test inputs: ``(step + 1, sample, output)``.
        losses: LossFunction of each step before it, ``(step,)``.
        kernels: $\mathbb EZ^{h^l(\xi)}Z^{h^l(\xi')}$ after training, ``(layer, sample, sample)``.
    """

    losses: Float[np.ndarray, " step"]
    outputs: Float[np.ndarray, "step+1 sample output"]
    kernels: Float[np.ndarray, "layer sample sample"]


class _Matrix:
    """A hidden matrix of the limit, revealed direction by direction."""

    def __init__(self, sigma: float, rows: int, below: int, above: int) -> None:
        self.sigma = sigma
        self.E, self.A = np.zeros((rows, below)), np.zeros((rows, above))
        self.F, self.B = np.zeros((rows, above)), np.zeros((rows, below))
        self.R = np.zeros((rows, rows))  # F by E
        self.seen_E = self.seen_F = 0

    def forward(self, X: np.ndarray, target: _Space) -> tuple[np.ndarray, np.ndarray]:
        """(W X, coefficients of X on E) for rows X."""
        E, A, F, B = self.E, self.A, self.F, self.B
        self.seen_E = _reveal(X, E, A, F, B, self.seen_E, self.seen_F, self.sigma, target)
        C = X @ E[: self.seen_E].T
        return C @ A[: self.seen_E] + (C @ self.R[: self.seen_F, : self.seen_E].T) @ F[
            : self.seen_F
        ], C

    def backward(self, Y: np.ndarray, target: _Space) -> tuple[np.ndarray, np.ndarray]:
        """(W^T Y, coefficients of Y on F) for rows Y."""
        E, A, F, B = self.E, self.A, self.F, self.B
        self.seen_F = _reveal(Y, F, B, E, A, self.seen_F, self.seen_E, self.sigma, target)
        C = Y @ F[: self.seen_F].T
        return C @ B[: self.seen_F] + (C @ self.R[: self.seen_F, : self.seen_E]) @ E[
            : self.seen_E
        ], C

    def update(self, C_dh: np.ndarray, C_x: np.ndarray, rate: float) -> None:
        """W <- W - rate dh^T x, in coefficients; rows of both are summed over."""
        self.R[: C_dh.shape[1], : C_x.shape[1]] -= rate * C_dh.T @ C_x


@dataclass
class _Space:
    """How many coordinates of a hidden space are in use."""

    used: int


def _reveal(
    X: np.ndarray,
    E: np.ndarray,
    A: np.ndarray,
    F: np.ndarray,
    B: np.ndarray,
    seen: int,
    seen_back: int,
    sigma: float,
    target: _Space,
) -> int:
    """Orthonormalise what is new in X into E, and give each direction its image in A."""
    for row in X:
        size = math.sqrt(row @ row)
        rest = row.copy()
        for _ in range(2):  # twice is enough for orthogonality to rounding
            rest -= (E[:seen] @ rest) @ E[:seen]
        norm = math.sqrt(rest @ rest)
        if norm <= _SEEN * size:
            continue
        E[seen] = rest / norm
        A[seen] = (B[:seen_back] @ E[seen]) @ F[:seen_back]
        A[seen, target.used] += sigma
        target.used += 1
        seen += 1
    return seen


def deep_linear_limit(
    x: Any,
    y: Any,
    *,
    depth: int,
    steps: int,
    learning_rate: float,
    test: Any = None,
    batches: Sequence[Sequence[int]] | None = None,
    loss: LossFunction = half_square,
    sigma_u: float = 1.0,
    sigma_w: float = 1.0,
    sigma_v: float = 1.0,
) -> DeepLinearRun:
    r"""Train the infinitely wide deep linear network, exactly.

    $$U\leftarrow U-\eta\,dh^1\chi\,\xi^\top,\quad W^l\leftarrow W^l-\tfrac\eta n\,dh^l\chi\,h^{l-1\top},\quad
      nV\leftarrow nV-\eta\,\chi h^L$$

    Args:
        x: Training inputs, shape (train, input).
        y: Labels, one number for each output, shape (train, output).
        depth: $L$, the number of hidden layers, at least 1.
        steps: $t$, at least 0.
        learning_rate: $\eta$, at least 0.
        test: Inputs to follow without training on them.
        batches: Rows of `x` for each step; all of them for ``None``.
        loss: ``loss(f, y)`` gives the loss and $\chi=\mathcal L'(f)$, the mean over the batch included.
        sigma_u: Standard deviation of the entries of $U_0$.
        sigma_w: Of $\sqrt n\,W^l_0$.
        sigma_v: Of $nV_0$.

    Returns:
        Outputs, losses and kernels; exact to rounding.

    Raises:
        ValueError: If a number is out of its range, shapes do not fit, or training diverges.

    Source: TP4 Theorem F.2 at $\phi=\mathrm{id}$, any depth; derived.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits import deep_linear_limit
        >>> one = np.ones((1, 1))
        >>> run = deep_linear_limit(one, one, depth=2, steps=2, learning_rate=0.5)
        >>> run.outputs[:, 0, 0].tolist()
        [0.0, 1.5, 0.40234375]
    """
    x, y = (float_array(f"`{name}`", given) for name, given in (("x", x), ("y", y)))
    test = None if test is None else float_array("`test`", test)
    _check(x, y, test, depth, steps, batches)
    for name, value in (("learning_rate", learning_rate), ("sigma_u", sigma_u),
                        ("sigma_w", sigma_w), ("sigma_v", sigma_v)):  # fmt: skip
        not_negative(name, value)
    everything = np.concatenate([x, x[:0] if test is None else test]).astype(float)
    # Only the span of the inputs is ever looked at: U in an orthonormal basis of it.
    basis = _basis(everything)
    points = everything @ basis.T
    net = _Net(basis.shape[0], y.shape[1], depth, steps, (sigma_u, sigma_w, sigma_v))
    f, losses = [], []
    for t in range(steps + 1):
        with np.errstate(over="ignore", invalid="ignore"):
            f.append(net.run_forward(points))
        if not np.all(np.abs(f[-1]) < _DIVERGED):
            raise ValueError(
                f"`deep_linear_limit` diverged at step {t}: outputs exceed {_DIVERGED:g}. Lower "
                f"`learning_rate`, which is {learning_rate}."
            )
        if t < steps:
            rows = (
                np.arange(len(x))
                if batches is None
                else real_array("`batches`", batches[t], "whole")
            )
            value, chi = loss(f[-1][rows], y[rows])
            losses.append(float(value))
            net.step(points[rows], chi, learning_rate)
    kernels = [points @ (h @ h.T) @ points.T for h in net.h]
    return DeepLinearRun(np.array(losses, dtype=float), np.array(f), np.array(kernels))


class _Net:
    """All coefficients; rows of `h` are the images of the basis of inputs."""

    def __init__(
        self, inputs: int, outputs: int, depth: int, steps: int, sigmas: tuple[float, float, float]
    ) -> None:
        sigma_u, sigma_w, sigma_v = sigmas
        rows = (steps + 1) * max(inputs, outputs)
        room = (steps + 2) * (inputs + outputs)
        self.spaces = [_Space(0) for _ in range(depth)]
        self.U = np.zeros((inputs, room))
        self.U[:, :inputs] = sigma_u * np.eye(inputs)
        self.spaces[0].used += inputs
        self.V = np.zeros((outputs, room))
        first = self.spaces[-1].used
        self.V[:, first : first + outputs] = sigma_v * np.eye(outputs)
        self.spaces[-1].used += outputs
        self.W = [_Matrix(sigma_w, rows, room, room) for _ in range(depth - 1)]
        self.h: list[np.ndarray] = []
        self.C_x: list[np.ndarray] = []

    def run_forward(self, points: np.ndarray) -> np.ndarray:
        self.h, self.C_x = [self.U.copy()], []
        for W, space in zip(self.W, self.spaces[1:], strict=True):
            image, C = W.forward(self.h[-1], space)
            self.h.append(image)
            self.C_x.append(C)
        return points @ (self.h[-1] @ self.V.T)

    def step(self, points: np.ndarray, chi: np.ndarray, rate: float) -> None:
        S = chi.T @ points  # output by basis: what all gradients share
        back = self.V.copy()
        self.V -= rate * S @ self.h[-1]
        for k in reversed(range(len(self.W))):
            below, C_dh = self.W[k].backward(back, self.spaces[k])
            self.W[k].update(C_dh, S @ self.C_x[k], rate)
            back = below
        self.U -= rate * S.T @ back


def _basis(x: np.ndarray) -> np.ndarray:
    _, s, rows = np.linalg.svd(x, full_matrices=False)
    return rows[s > 1e-13 * max(s.max(initial=0.0), 1e-300)] if s.any() else rows[:1]


def _check(
    x: np.ndarray,
    y: np.ndarray,
    test: np.ndarray | None,
    depth: int,
    steps: int,
    batches: Sequence[Sequence[int]] | None,
) -> None:
    for name, array in (("x", x), ("y", y), ("test", x if test is None else test)):
        if np.ndim(array) != 2:
            raise ValueError(
                f"`{name}` must be a matrix with a row per sample; got shape {np.shape(array)}. "
                "Labels of one output are y[:, None]."
            )
    if test is not None and (test.shape[1] != x.shape[1] or not np.isfinite(test).all()):
        raise ValueError(
            f"`test` must be finite and have {x.shape[1]} features like `x`; got shape {test.shape}."
        )
    if isinstance(depth, Integral) and depth < 1:
        raise ValueError(f"`depth` counts hidden layers and must be at least 1; got {depth}.")
    whole("depth", depth, 1)
    whole("steps", steps, 0)
    if len(x) != len(y) or not len(x):
        raise ValueError(
            f"`x` and `y` must have equally many rows, at least one; got {len(x)} and {len(y)}."
        )
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(y))):
        raise ValueError("`x` and `y` must be finite; they hold inf or NaN.")
    if batches is not None and len(batches) != steps:
        raise ValueError(
            f"`batches` must hold one choice of rows per step, {steps}; got {len(batches)}."
        )
    for t, rows in enumerate(batches or ()):
        chosen = real_array("`batches`", rows, "whole")
        if (
            chosen.dtype.kind not in "iu"
            or not chosen.size
            or chosen.min() < 0
            or chosen.max() >= len(x)
        ):
            raise ValueError(
                f"`batches` must hold rows from 0 to {len(x) - 1}, at least one per step; got "
                f"{chosen.tolist()} at step {t}."
            )
