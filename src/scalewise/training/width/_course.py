r"""Weights of networks on their way: nested responses, of steps with rates and momentum, or of a flow.

A source $F(t)$ in a direction of eigenvalue $x$, of which training removes what it sees, has at time $T$ added up
to

$$\mathcal R_x[F](T)=\sum_sk_x(s)F(s),\qquad a'=F-xa\ \text{ or }\ v\leftarrow mv+\eta_s(F-xa),\ a\leftarrow a+v.$$

With a ridge $\rho$, $W=\mathcal R_\rho$ and errors are removed by $\mathcal R_{h+\rho}$, so
$g=\mathcal R_{h+\rho}[1]$. All weights are products at equal times under one or two of these: a forward pass makes
what stands inside, a backward pass the kernels $k$ outside.

Source: PDLT (∞.84)-(∞.93), (∞.118)-(∞.124), at any time, with any rates; derived.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise.training._filters import Rule, heavy_ball
from scalewise.training.width._weights import Reach, Reaches

_NODES = 16  # of each panel of a flow's time
_STIFF = 2.0  # largest eigenvalue times the length of a panel at either end
Sources = Float[np.ndarray, "_time ..."]


class OutOfRoom(ValueError):
    """More than the memory has room for.

    Args:
        why: A clause.
    """

    def __init__(self, why: str) -> None:
        super().__init__(f"Order 1/n cannot be had here, because {why}.")
        self.why = why


class Clock(ABC):
    """Times from the start to the end, and responses to sources along them."""

    @property
    @abstractmethod
    def weights(self) -> Float[np.ndarray, " time"]:
        """Weights of the times in a sum over them."""

    @abstractmethod
    def forward(self, F: Sources, x: np.ndarray) -> tuple[Sources, np.ndarray]:
        r"""$\mathcal R_x[F]$ at each time, and at the end.

        Args:
            F: Sources, the shape of `x` behind the time.
            x: Eigenvalues.
        """

    @abstractmethod
    def backward(self, F: Sources, x: np.ndarray, end: float = 0.0) -> Sources:
        r"""The kernel of $\text{end}\,\mathcal R_x[\cdot](T)+\sum_sF(s)\mathcal R_x[\cdot](s)$.

        Args:
            F: What multiplies the response at each time.
            x: Eigenvalues.
            end: What multiplies it at the end.
        """


@dataclass(frozen=True)
class StepClock(Clock):
    r"""Responses to sources along steps of any rule, $\Delta a=Av+Bf$, $v\leftarrow Cv+Df$ with $f=xa-F$.

    Args:
        rates: $\eta_s$ of every step.
        momentum: $m$.
        rule: The rule; its matrix is read off what it makes of 0 and 1.
    """

    rates: Float[np.ndarray, " step"]
    momentum: float = 0.0
    rule: Rule = heavy_ball

    @property
    def weights(self) -> np.ndarray:
        """A sum."""
        return np.ones(self.rates.size)

    def _matrix(self, step: int) -> tuple[float, float, float, float]:
        """A, B, C and D of a step."""
        (A, C), (B, D) = (
            self.rule(v, f, float(self.rates[step]), self.momentum)
            for v, f in ((1.0, 0.0), (0.0, 1.0))
        )
        return A, B, C, D

    def forward(self, F: Sources, x: np.ndarray) -> tuple[Sources, np.ndarray]:
        """Step by step."""
        shape = np.broadcast_shapes(np.shape(F)[1:], np.shape(x))
        out = np.empty((len(F), *shape))
        a, v = np.zeros((2, *shape))
        for s, rate in enumerate(self.rates.tolist()):
            out[s] = a
            move, v = self.rule(v, x * a - F[s], rate, self.momentum)
            a = a + move
        return out, np.asarray(a)

    def backward(self, F: Sources, x: np.ndarray, end: float = 0.0) -> Sources:
        """The transposed steps, from the last."""
        shape = np.broadcast_shapes(np.shape(F)[1:], np.shape(x))
        out = np.empty((len(F), *shape))
        a, v = np.full(shape, end), np.zeros(shape)
        for s in range(len(F) - 1, -1, -1):
            A, B, C, D = self._matrix(s)
            pull: Any = B * a + D * v
            out[s] = -pull
            a, v = a + x * pull + F[s], A * a + C * v
        return out


@dataclass(frozen=True)
class FlowClock(Clock):
    """Gradient flow: collocation at Gauss points of panels that are short at both ends, where things are fast.

    Args:
        time: The end.
        fastest: Largest eigenvalue that moves.
    """

    time: float
    fastest: float

    @cached_property
    def edges(self) -> Float[np.ndarray, " edge"]:
        """Edges of the panels: lengths double from either end to the middle."""
        half, shortest = self.time / 2, _STIFF / self.fastest
        doublings = max(int(np.ceil(np.log2(max(half / shortest, 1.0)))), 0)
        first = half * np.array([0.0, *2.0 ** np.arange(-doublings, 1)])
        return np.concatenate([first, self.time - first[-2::-1]])

    @property
    def weights(self) -> np.ndarray:
        """Weights of Gauss and Legendre on each panel."""
        return np.multiply.outer(np.diff(self.edges), _GAUSS).ravel()

    def forward(self, F: Sources, x: np.ndarray) -> tuple[Sources, np.ndarray]:
        """Panel by panel."""
        shape = (len(F), *np.broadcast_shapes(F.shape[1:], x.shape))
        panels = np.broadcast_to(F, shape).reshape(-1, _NODES, *shape[1:])
        out, a = np.empty(panels.shape), np.zeros(shape[1:])
        for place, length in enumerate(np.diff(self.edges)):
            out[place] = _collocated(
                a + length * _apply(_INTEGRAL, panels[place]), np.asarray(x * length)
            )
            a = a + length * _apply(_GAUSS, panels[place] - x * out[place])
        return out.reshape(shape), np.asarray(a)

    def backward(self, F: Sources, x: np.ndarray, end: float = 0.0) -> Sources:
        """Panel by panel with time turned round: edges and nodes are symmetric."""
        turned, _ = self.forward(F[::-1], x)
        if not end:
            return turned[::-1]
        return turned[::-1] + end * np.exp(-np.multiply.outer(self.time - self._times, x))

    @cached_property
    def _times(self) -> Float[np.ndarray, " time"]:
        lengths = np.diff(self.edges)
        return (self.edges[:-1, None] + lengths[:, None] * _POINTS).ravel()


def on_the_way(h: Float[np.ndarray, " direction"], clock: Clock, ridge: float = 0.0) -> Reaches:
    r"""The weights at the end of a clock.

    Args:
        h: Eigenvalues, at least 0.
        clock: The training.
        ridge: $\rho$.

    Source: PDLT (∞.141), at any time; derived.
    """
    sum_, x, rho = clock.weights, h + ridge, np.array(ridge)
    g, end = clock.forward(np.ones((sum_.size, h.size)), x)
    p = 1 - h * g
    w = (sum_ * clock.backward(np.zeros(sum_.size), rho, 1.0))[:, None]  # of W at the end
    k = clock.backward(np.zeros_like(g), x, 1.0)  # of a training leg at the end
    chained = clock.backward(k, rho)  # of a training leg after W
    weighed, own = sum_[:, None] * k, sum_[:, None] * chained
    pg, late = clock.forward(p[:, :, None] * g[:, None], rho)
    inner = clock.backward(w * p / sum_[:, None], rho) * sum_[:, None]
    nested = clock.backward(chained[:, :, None] * p[:, None], rho) * sum_[:, None, None]
    second = clock.backward(k[:, :, None], x)
    g2, g3 = "tq,tr->qr", "tq,tr,ts->qrs"
    slope = _sum(g2, weighed, g)
    return {
        "H": Reach(end, slope),
        "HH": Reach(slope, _sum("tqr,ts->qrs", sum_[:, None, None] * second, g)),
        "A": Reach(_sum(g2, w * p, g), _sum("ta,tq,tr->aqr", own, p, g)),
        "B": Reach(0.5 * np.multiply.outer(end, end), 0.5 * _sum("ta,tq,tr->aqr", weighed, g, g)),
        "IA": Reach(-0.5 * _sum(g3, w * p, g, g), -0.5 * _sum("ta,tq,tr,ts->aqrs", own, p, g, g)),
        "IB": Reach(
            -np.einsum("q,r,s->qrs", end, end, end) / 6,
            -_sum("ta,tq,tr,ts->aqrs", weighed, g, g, g) / 6,
        ),
        "IIA": Reach(-_sum(g3, inner, p, g), -_sum("taq,tr,ts->aqrs", nested, p, g)),
        "IIB": Reach(-np.einsum("r,qs->qrs", end, late), -_sum("ta,tr,tqs->aqrs", weighed, g, pg)),
    }


def _sum(what: str, *factors: np.ndarray) -> np.ndarray:
    return np.einsum(what, *factors, optimize=True)


def _apply(matrix: np.ndarray, F: np.ndarray) -> np.ndarray:
    return np.tensordot(matrix, F, 1)


def _collocated(F: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The solution of a = F - x ∫a at the nodes."""
    eigenvalues = np.broadcast_to(x, F.shape[1:])
    different, places = np.unique(eigenvalues, return_inverse=True)
    solve = np.linalg.inv(np.eye(_NODES) + different[:, None, None] * _INTEGRAL)
    columns = np.moveaxis(F, 0, -1).reshape(-1, _NODES)
    solved = np.einsum("cij,cj->ci", solve[places.ravel()], columns)
    return np.moveaxis(solved.reshape(*F.shape[1:], _NODES), -1, 0)


def _rule() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gauss points in [0, 1], their weights, and the matrix that integrates from 0 to each."""
    legendre = np.polynomial.legendre
    points, weights = legendre.leggauss(_NODES)
    values = legendre.legvander(points, _NODES - 1)
    powers = np.eye(_NODES)
    integrals = np.stack(
        [legendre.legval(points, legendre.legint(c, lbnd=-1)) for c in powers], axis=1
    )
    return (points + 1) / 2, weights / 2, integrals @ np.linalg.inv(values) / 2


_POINTS, _GAUSS, _INTEGRAL = _rule()
