r"""First- and second-order MAML of linear networks, all tasks at once, at any width and in the limit.

A linear network with one hidden layer learns through three products of its weights: with
$P=(u,\beta)$ acting on $\tilde\xi=(\xi,\alpha)$,
$$M=vP,\qquad A=vv^\top,\qquad C=P^\top P,\qquad f(\xi)=M\tilde\xi .$$
They close under gradient descent, whatever the width: for $G=\chi^\top\tilde\Xi$ a step is
$$M'=M-\epsilon AG-\epsilon GC+\epsilon^2GM^\top G,\quad A'=A-\epsilon(GM^\top+MG^\top)+\epsilon^2GCG^\top,\quad
  C'=C-\epsilon(M^\top G+G^\top M)+\epsilon^2G^\top AG .$$
An adapted task differs by rank 2 × outputs, so adaptation needs only the kernels $\tilde\Xi\tilde\Xi^\top$ and
$\tilde\Xi C\tilde\Xi^\top$ of the task's own samples; a meta-step over all tasks is then two products of $C$'s
size with the samples of the batch, and no loop.

The products of a network that is narrower than its inputs are of low rank, which rounding does not keep: its error
grows by one or two orders of magnitude every 250 meta-steps. Such a network is meta-trained as it is, by its
weights, which is cheaper besides.

Source: TP4 J.2.1, J.2.2 (Algorithms 2 and 3 with adaptation); the closed form is derived. The gradients of the
tasks are added, not averaged, and clipped once; the loss of a task is a mean over its samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from jaxtyping import Float

from scalewise._checked import Index, Precision, checked
from scalewise._readable import readable
from scalewise.limits._few_shot import (
    Rate,
    augmented,
    contrasts,
    softmax_loss,
    through_softmax,
)
from scalewise.limits.linear import LinearNet
from scalewise.limits.maml._tasks import Maml, Tasks

# By which the squared norm of a gradient, relative to its terms, may miss being positive.
_ROUNDING = 1e-3


@checked
@dataclass(frozen=True)
@readable
class GramNet:
    r"""A linear network of any width, or the limit, by the products that decide its training.

    Args:
        M: $M=vP$, ``(output, input + 1)``.
        A: $A=vv^\top$, ``(output, output)``.
        C: $C=P^\top P$, ``(input + 1, input + 1)``.
        alpha: $\alpha$, the last entry of every $\tilde\xi$.

    Raises:
        ValueError: If shapes do not fit, or a number is not finite.
    """

    M: Float[np.ndarray, "output augmented"]
    A: Float[np.ndarray, "output output"]
    C: Float[np.ndarray, "augmented augmented"]
    alpha: float
    _such_as = "limits.maml.gram_net(net)"

    def __post_init__(self) -> None:
        outputs, inputs = self.M.shape
        if self.A.shape != (outputs, outputs) or self.C.shape != (inputs, inputs):
            raise ValueError(
                f"`GramNet.M` of shape {self.M.shape} needs `A` and `C` square, of its rows and of its columns; "
                f"got {self.A.shape} and {self.C.shape}. Take gram_net(net)."
            )


@checked
def gram_net(net: LinearNet, *, dtype: Precision = np.float64) -> GramNet:
    r"""The products $M,A,C$ of a network or of the limit.

    Args:
        net: From `linear.limit`, `linear.network` or `linear.sample`.
        dtype: ``numpy.float64``, or ``numpy.float32`` for half the time: enough for the limit.

    Returns:
        What adaptation and meta-steps need, exactly.

    Source: derived from TP4 Algorithm 3.

    Example:
        >>> from scalewise.limits.maml import gram_net
        >>> from scalewise.limits import linear
        >>> gram_net(linear.limit(784, 5, sigma_v=1 / 32)).M.shape
        (5, 785)
    """
    P = _weights(net)
    M, A, C = net.v @ P, net.v @ net.v.T, P.T @ P
    return GramNet(M.astype(dtype), A.astype(dtype), C.astype(dtype), net.alpha)


def _weights(net: LinearNet) -> np.ndarray:
    """P = (u, beta)."""
    beta = net.b / net.alpha if net.alpha else np.zeros_like(net.b)
    return np.column_stack([net.u, beta])


# Either is trained; the limit by its products, a narrow network by its weights.
Net = TypeVar("Net", GramNet, LinearNet)


@checked
def adapted_outputs(
    net: GramNet | LinearNet, tasks: Tasks, *, steps: Index = 20, inner_rate: Rate = 0.4
) -> Float[np.ndarray, "task query output"]:
    r"""Outputs on the queries after adapting to each task on its own.

    With $F=\tilde\Xi M^\top$, $Q=\tilde\Xi C\tilde\Xi_s^\top$, $K=\tilde\Xi\tilde\Xi_s^\top$ over all samples of
    a task ($s$: its support) a step is
    $$F'=F-\epsilon K\chi A-\epsilon Q\chi+\epsilon^2K\chi F_s^\top\chi,\qquad
      Q'=Q-\epsilon(F\chi^\top K_s+K\chi F_s^\top)+\epsilon^2K\chi A\chi^\top K_s$$

    Args:
        net: The meta-trained net.
        tasks: Any number of them.
        steps: Of gradient descent on the support; 20 in the source's meta-tests.
        inner_rate: $\epsilon$.

    Returns:
        Shape ``(task, query, output)``; exact.

    Raises:
        ValueError: If shapes do not fit, or adaptation diverges.

    Source: TP4 J.2.1; the closed form is derived.
    """
    net = products_of(net)
    X = augmented(np.concatenate([tasks.support, tasks.query], axis=1), net.alpha, net.M)
    T, _, D = X.shape
    s = tasks.support.shape[1]
    A = np.repeat(net.A[None], T, axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        F = X @ net.M.T
        K = X @ X[:, :s].transpose(0, 2, 1)
        CX = (X[:, :s].reshape(T * s, D) @ net.C).reshape(T, s, D)
        Q = X @ CX.transpose(0, 2, 1)
        for _ in range(steps):
            _, chi = softmax_loss(F[:, :s], tasks.support_class)
            F, Q, A = _adapt(F, Q, A, K, chi, inner_rate)
    if not np.all(np.isfinite(F)):
        raise ValueError(
            f"Adaptation diverged within {steps} steps: outputs are not finite. Lower `inner_rate`, which is "
            f"{inner_rate}."
        )
    return F[:, s:]


def products_of(net: GramNet | LinearNet) -> GramNet:
    """The products of either kind of net."""
    return gram_net(net) if isinstance(net, LinearNet) else net


def _adapt(
    F: np.ndarray, Q: np.ndarray, A: np.ndarray, K: np.ndarray, chi: np.ndarray, eps: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    s = chi.shape[1]
    chi_T, F_s, Q_s, K_s = chi.transpose(0, 2, 1), F[:, :s], Q[:, :s], K[:, :s]
    MG = F_s.transpose(0, 2, 1) @ chi  # M G^T
    Kchi = K @ chi
    new_F = F - eps * (Kchi @ A + Q @ chi) + eps**2 * Kchi @ MG
    cross = F @ (chi_T @ K_s) + Kchi @ F_s.transpose(0, 2, 1)
    new_Q = Q - eps * cross + eps**2 * Kchi @ A @ (chi_T @ K_s)
    new_A = A - eps * (MG + MG.transpose(0, 2, 1)) + eps**2 * chi_T @ Q_s @ chi
    return new_F, new_Q, new_A


@checked
def step(net: Net, tasks: Tasks, settings: Maml) -> tuple[Net, float]:
    r"""One meta-step over a batch of tasks: adapt each, add the gradients on the queries, clip, update.

    With $G_i=\chi_i^\top\tilde\Xi_i$ of the supports and $\hat G_i=\hat\chi_i^\top\hat\Xi_i$ of the queries
    after adaptation, the sum of the gradients at $P-\epsilon v^\top G_i$ and $v-\epsilon G_iP^\top$ is
    $$dP=v^\top\Gamma-\epsilon PS,\quad dv=\Gamma P^\top-\epsilon Nv,\qquad\Gamma=\sum_i\hat G_i,\quad
      S=\sum_iG_i^\top\hat G_i,\quad N=\sum_i\hat G_iG_i^\top .$$
    The second order replaces $S$ and $N$ by $S+S^\top$ and $N+N^\top$, and adds to $\Gamma$ both
    $\epsilon^2G_i\hat G_i^\top G_i$ and the slope through $\chi_i$.

    Args:
        net: Before the step: the limit, or a network as wide as its inputs, by its products (`gram_net`); a
            narrower one by its weights.
        tasks: The batch.
        settings: Rates, clipping, order.

    Returns:
        The net after the step, and the mean loss of the queries before it; exact.

    Raises:
        ValueError: If shapes do not fit, the step diverges, or rounding has left products that no network has.

    Source: TP4 J.2.1 steps 1-6 with Algorithm 3; the closed form is derived. The source's code adds the
        gradients of the tasks, as is done here.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(net, GramNet):
            value, gradient = _gradient(net.M, net.A, (net.C,), net.alpha, tasks, settings)
            return _updated(net, value, gradient, settings), value
        P = _weights(net)
        M, A = net.v @ P, net.v @ net.v.T
        value, gradient = _gradient(M, A, (P.T, P), net.alpha, tasks, settings)
        return _descended(net, P, value, gradient, settings), value


@dataclass(frozen=True)
class _Gradient:
    r"""$\Gamma$ and $N$, $S=L^\top R$, and $W=CL^\top$."""

    Gamma: np.ndarray  # output, augmented
    N: np.ndarray  # output, output
    L: np.ndarray  # row, augmented
    R: np.ndarray  # row, augmented
    W: np.ndarray  # augmented, row


def _gradient(
    M: np.ndarray,
    A: np.ndarray,
    C: tuple[np.ndarray, ...],
    alpha: float,
    tasks: Tasks,
    settings: Maml,
) -> tuple[float, _Gradient]:
    """Mean loss, and its gradient, with C as a product of matrices."""

    def through(columns: np.ndarray) -> np.ndarray:
        for factor in reversed(C):
            columns = factor @ columns
        return columns

    X_s, X_q = (augmented(x, alpha, M) for x in (tasks.support, tasks.query))
    eps = settings.inner_rate
    T, _, D = X_s.shape
    # Slopes of a softmax add up to zero over the classes: one row less per task carries all of G.
    Z = contrasts(len(A)).astype(M.dtype)
    F_s = X_s @ M.T
    _, chi = softmax_loss(F_s, tasks.support_class)
    chi_T = chi.transpose(0, 2, 1)
    L = ((Z.T @ chi_T) @ X_s).reshape(-1, D)
    W = through(L.T)
    K, MG = X_q @ X_s.transpose(0, 2, 1), F_s.transpose(0, 2, 1) @ chi
    CG = (X_q.reshape(-1, D) @ W).reshape(T, -1, T, Z.shape[1])[np.arange(T), :, np.arange(T)] @ Z.T
    Kchi = K @ chi
    F_q = X_q @ M.T - eps * (Kchi @ A + CG) + eps**2 * Kchi @ MG
    losses, chi_q = softmax_loss(F_q, tasks.query_class)
    N = chi_q.transpose(0, 2, 1) @ Kchi
    R = (Z.T @ chi_q.transpose(0, 2, 1) @ X_q).reshape(-1, D)
    Gamma = Z @ R.reshape(T, -1, D).sum(0)
    value = float(np.mean(losses))
    if not settings.second_order:
        return value, _Gradient(Gamma, N.sum(0), L, R, W)
    # X_s C G-hat^T, and with it the slope of the query's loss with respect to chi.
    CR = through(R.T)
    CG_q = (X_s.reshape(-1, D) @ CR).reshape(T, -1, T, Z.shape[1])[
        np.arange(T), :, np.arange(T)
    ] @ Z.T
    Kchi_q = K.transpose(0, 2, 1) @ chi_q
    slope = Kchi_q @ (A - eps * MG.transpose(0, 2, 1)) + CG_q - eps * F_s @ N.transpose(0, 2, 1)
    g = eps**2 * chi @ N - eps * through_softmax(slope, chi, tasks.support_class)
    Gamma = Gamma + g.reshape(-1, len(A)).T @ X_s.reshape(-1, D)
    both = np.concatenate([L, R]), np.concatenate([R, L])
    N = N.sum(0)
    return value, _Gradient(Gamma, N + N.T, *both, np.concatenate([W, CR], axis=1))


def _rate(square: float, size: float, value: float, settings: Maml) -> float:
    """The rate that clipping leaves to a gradient of this squared norm; a norm that is not finite is refused."""
    if not (math.isfinite(square) and math.isfinite(value)):
        raise ValueError(
            f"`maml.step` diverged: mean loss {value}, squared norm of the gradient {square}. Lower "
            f"`Maml.rate` ({settings.rate}) or `Maml.inner_rate` ({settings.inner_rate})."
        )
    if square < -_ROUNDING * size:
        raise ValueError(
            f"The squared norm of the gradient came out as {square:.3g}: rounding has left products `M`, `A`, `C` "
            "that no network has. Give `maml.step` the network itself, a `LinearNet`, instead of its `gram_net`."
        )
    norm = math.sqrt(max(square, 0.0))
    return settings.rate * (settings.clip / norm if settings.clip < norm else 1.0)


def _descended(
    net: LinearNet, P: np.ndarray, value: float, gradient: _Gradient, settings: Maml
) -> LinearNet:
    eps, keep = settings.inner_rate, 1 - settings.rate * settings.weight_decay
    dP = net.v.T @ gradient.Gamma - (eps * (P @ gradient.L.T)) @ gradient.R
    dv = gradient.Gamma @ P.T - eps * gradient.N @ net.v
    square = float(np.vdot(dP, dP) + np.vdot(dv, dv))
    b = _rate(square, square, value, settings)
    P, v = keep * P - b * dP, keep * net.v - b * dv
    return LinearNet(P[:, :-1], v, net.alpha * P[:, -1], net.alpha)


def _updated(net: GramNet, value: float, gradient: _Gradient, settings: Maml) -> GramNet:
    M, A, C, N = net.M, net.A, net.C, gradient.N
    Gamma, R, W = gradient.Gamma, gradient.R, gradient.W
    Z = gradient.L @ W  # C S = W R and S^T C S = R^T Z R
    MS, GC, GM = (M @ gradient.L.T) @ R, Gamma @ C, Gamma @ M.T
    eps, keep = settings.inner_rate, 1 - settings.rate * settings.weight_decay
    dP = np.vdot(A @ Gamma, Gamma) - 2 * eps * np.vdot(MS, Gamma) + eps**2 * np.vdot(Z, R @ R.T)
    dv = np.vdot(GC, Gamma) - 2 * eps * np.vdot(N, GM) + eps**2 * np.vdot(N @ A, N)
    b = _rate(float(dP + dv), float(abs(dP) + abs(dv)), value, settings)
    a = b * eps
    left = (keep * np.eye(len(A)) + a * N).astype(M.dtype)
    new_M = left @ (keep * M + a * MS - b * A @ Gamma) - b * (keep * GC + a * (Gamma @ W) @ R)
    new_M += b**2 * GM @ Gamma
    cross = left @ GM.T
    new_A = left @ A @ left.T - b * (cross + cross.T) + b**2 * GC @ Gamma.T
    # Half of the change of C, as one product.
    wide = keep * a * W + R.T @ (0.5 * a**2 * Z)
    thin = 0.5 * b**2 * Gamma.T @ A - b * (keep * M + a * MS).T
    half = np.concatenate([wide, thin], axis=1) @ np.concatenate([R, Gamma])
    new_C = half + half.T
    new_C += C if keep == 1 else keep**2 * C
    return GramNet(new_M, new_A, new_C, net.alpha)
