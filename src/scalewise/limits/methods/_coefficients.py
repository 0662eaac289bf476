r"""Linear networks at infinite width where features move: exact, at any depth.

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
from dataclasses import dataclass

import numpy as np

from scalewise.limits._loop import Job, Recorded, Records, descend
from scalewise.limits._network import powers

_SEEN = 1e-10  # a direction whose new part is below this fraction of it has been seen


def train_coefficients(job: Job) -> Records:
    """Train a linear network of infinite width."""
    _check(job)
    return descend(CoefficientMethod(job), job)


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
    """Number of coordinates of a hidden space that are in use."""

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


class CoefficientMethod:
    """All coefficients of a network; rows of `h` are the images of the basis of inputs."""

    def __init__(self, job: Job) -> None:
        self.job, self.at = job, powers(job.net.strategy, math.inf)
        task, net = job.task, job.net
        everything = task.all_inputs
        # Only the span of the inputs is ever looked at: U in an orthonormal basis of it.
        basis = _basis(everything)
        self.points = everything @ basis.T
        sigmas = [math.sqrt(c) for c in net.C_W]
        inputs, outputs, depth = len(basis), task.targets.shape[1], net.hidden_layers
        rows = (job.steps + 1) * max(inputs, outputs)
        room = (job.steps + 2) * (inputs + outputs)
        self.spaces = [_Space(0) for _ in range(depth)]
        self.U = np.zeros((inputs, room))
        self.U[:, :inputs] = sigmas[0] * np.eye(inputs)
        self.spaces[0].used += inputs
        self.V = np.zeros((outputs, room))
        first = self.spaces[-1].used
        self.V[:, first : first + outputs] = self.at.iota * sigmas[-1] * np.eye(outputs)
        self.spaces[-1].used += outputs
        self.W = [_Matrix(sigma, rows, room, room) for sigma in sigmas[1:-1]]
        self.h: list[np.ndarray] = []
        self.C_x: list[np.ndarray] = []
        self._rows: np.ndarray = np.arange(len(task.inputs))

    def look(self, chosen: np.ndarray | None, watched: bool) -> Recorded:
        """Outputs, and overlaps of features."""
        self._rows = np.arange(len(self.job.task.inputs)) if chosen is None else chosen
        self.h, self.C_x = [self.U.copy()], []
        for W, space in zip(self.W, self.spaces[1:], strict=True):
            image, C = W.forward(self.h[-1], space)
            self.h.append(image)
            self.C_x.append(C)
        f = self.at.kappa * self.points @ (self.h[-1] @ self.V.T)
        taught = f[None, self._rows]
        if not watched:
            return Recorded(taught)
        kernel = np.stack([self.points @ (h @ h.T) @ self.points.T for h in self.h])
        return Recorded(taught, f[None], kernel[None])

    def step(self, errors: np.ndarray) -> None:
        r"""Plain descent: $-\eta\,dh^1\chi\,\xi^\top$ for $U$, $-\frac\eta n\,dh^l\chi\,h^{l-1\top}$ for $W^l$."""
        errors = errors[0]
        eta, at, rates = self.job.sgd.eta, self.at, self.job.net.lambda_W
        S = errors.T @ self.points[self._rows]  # output by basis: what all gradients share
        back = self.V.copy()
        self.V -= eta * at.upsilon * rates[-1] * S @ self.h[-1]
        for k in reversed(range(len(self.W))):
            below, C_dh = self.W[k].backward(back, self.spaces[k])
            self.W[k].update(C_dh, S @ self.C_x[k], eta * at.theta[k + 1] * rates[k + 1])
            back = below
        self.U -= eta * at.theta[0] * rates[0] * S.T @ back


def _basis(x: np.ndarray) -> np.ndarray:
    _, s, rows = np.linalg.svd(x, full_matrices=False)
    return rows[s > 1e-13 * max(s.max(initial=0.0), 1e-300)] if s.any() else rows[:1]


def _check(job: Job) -> None:
    net, sgd = job.net, job.sgd
    if net.activation.slopes != (1.0, 1.0):
        raise ValueError(
            f"Exact() trains linear networks, and this one has the activation {net.activation.name!r}. Take "
            "Infinite(tolerance)."
        )
    if any(net.has_biases) or set(net.ratios) != {1.0} or job.decoupled:
        raise ValueError(
            "Exact() trains networks without biases, of equal widths, with `decoupled=False`. Set `C_b` and "
            "`lambda_b` to 0, `ratios` to 1 and `decoupled` to False, or take Infinite(tolerance)."
        )
    if sgd.momentum or sgd.weight_decay or sgd.clip is not None:
        raise ValueError(
            "Exact() takes plain descent. Set `momentum` and `weight_decay` to 0 and `clip` to None, or take "
            "Infinite(tolerance)."
        )
    if job.features:
        raise ValueError(
            f"`features` are coordinates of particles, and Exact() has none; got {job.features}. Set it to 0."
        )
