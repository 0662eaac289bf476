r"""What an algorithm weighs the tensors of an output with, in eigendirections of the NTK of the training samples.

Parameters move by gradients of which step $s$ leaves $w_{ts}$ until $t$:
$\theta(t)-\theta(0)=-\lambda\,W[J^T\epsilon](t)$ with $W[f](t)=\sum_sw_{ts}f(s)$. Of an output, expanded in the
displacement, what is of order $1/n$ is

$$\begin{aligned}F_\delta&=\widehat{dH}_{1\delta2}\,W[\epsilon_1a_2]+\tfrac12\widehat{dH}_{\delta12}\,a_1a_2
  -\tfrac12\widehat{dd_IH}_{1\delta23}W[\epsilon_1a_2a_3]-\tfrac16\widehat{dd_IH}_{\delta123}\,a_1a_2a_3\\
  &\quad-\widehat{dd_{II}H}_{12\delta3}W\big[\epsilon_1W[\epsilon_2a_3]\big]
  -\widehat{dd_{II}H}_{\delta123}\,a_2W[\epsilon_1a_3],\end{aligned}$$

$\epsilon_1=p_1(t)e_1$ what is left of the error in a direction, $a_1=g_1(t)e_1$ its sum over training. The factors
of $e\cdots e$ are the projectors $Z_A$, $Z_B$, $Z_{IA}$, $Z_{IB}$, $Z_{IIA}$, $Z_{IIB}$. On training samples $F$
drives the error again, so that of a trained network $F_\delta-H_{\delta0}\tilde H^{-1}F_0$ is left.

Source: PDLT (∞.81)-(∞.83), (∞.107)-(∞.110), (∞.135)-(∞.153), (∞.168), (∞.169), summed again: every projector is a
    product of $X_{II}(12)=1/(h_1+h_2-\eta h_1h_2)$, $X_{III}=\eta/(1-p_1p_2p_3)$ and $p=1-\eta h$.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import scipy.linalg
from jaxtyping import Float

from scalewise.training._filters import after_flow, after_steps

PROJECTORS = {
    "A": 2,
    "B": 2,
    "IA": 3,
    "IB": 3,
    "IIA": 3,
    "IIB": 3,
}  # how many training legs each has
Directions = Float[np.ndarray, " direction"]
Pair = Float[np.ndarray, "direction direction"]
Triple = Float[np.ndarray, "direction direction direction"]
_NODES = 9  # of a grid of eigenvalues, on either scale
_CANDIDATES = 8  # times for each factor e
_ALL, _CHECKED = (
    16,
    48,
)  # directions that are a grid themselves, and of which all triples are held against the sums


class Reach(NamedTuple):
    r"""The weights $Z$ of a tensor in its part of an output, $T_{\delta12}Z_{12}-\Theta_{\delta0}T_{012}Z_{012}$.

    Args:
        beyond: Of $T_\delta$, legs in the order of its training legs.
        within: Of $T_0$ on the training samples, whose direction comes first.
    """

    beyond: np.ndarray
    within: np.ndarray


# By what is weighed: H and HH for the change of the NTK once and twice, and the six projectors.
Reaches = dict[str, Reach]


@dataclass(frozen=True)
class Projected:
    r"""The weights of networks trained to the end.

    Args:
        gain: $g$, of $\tilde H$ and of the training leg: $1/h$, with a ridge $1/(h+\rho)$.
        A: Of $\widehat{dH}_{1\delta2}$.
        B: Of $\widehat{dH}_{\delta12}$.
        IA: Of $\widehat{dd_IH}_{1\delta23}$.
        IB: Of $\widehat{dd_IH}_{\delta123}$.
        IIA: Of $\widehat{dd_{II}H}_{12\delta3}$.
        IIB: Of $\widehat{dd_{II}H}_{\delta123}$.
    """

    gain: Directions
    A: Pair
    B: Pair
    IA: Triple
    IB: Triple
    IIA: Triple
    IIB: Triple

    def reaches(self) -> Reaches:
        r"""The training leg of every weight is $g$, for nothing is left there that would still change."""
        g = self.gain
        beyond = {"H": g, "HH": np.multiply.outer(g, g)} | {x: getattr(self, x) for x in PROJECTORS}
        return {name: Reach(Z, np.multiply.outer(g, Z)) for name, Z in beyond.items()}


@dataclass(frozen=True)
class Separable:
    r"""Weights as sums of products of functions of one direction each, so that no array has three of them.

    Args:
        gain: As of `Projected`.
        A: Terms, legs in the order of the indices, directions; so are the others.
        B: Likewise.
        IA: Likewise.
        IB: Likewise.
        IIA: Likewise.
        IIB: Likewise.
        error: Largest error of a sum, relative to the projector's own value there.
    """

    gain: Directions
    A: Float[np.ndarray, "_a 2 direction"]
    B: Float[np.ndarray, "_b 2 direction"]
    IA: Float[np.ndarray, "_c 3 direction"]
    IB: Float[np.ndarray, "_d 3 direction"]
    IIA: Float[np.ndarray, "_e 3 direction"]
    IIB: Float[np.ndarray, "_f 3 direction"]
    error: float = 0.0

    @classmethod
    def of(cls, gain: Directions, sums: dict[str, np.ndarray], error: float = 0.0) -> Separable:
        """From the sums by name.

        Args:
            gain: As of `Projected`.
            sums: (terms, legs, directions) of each projector.
            error: Of the sums.
        """
        A, B, IA, IB, IIA, IIB = (sums[name] for name in PROJECTORS)
        return cls(gain, A, B, IA, IB, IIA, IIB, error)

    def whole(self) -> Projected:
        """Every sum carried out."""
        two, three = "kp,kq->pq", "kp,kq,kr->pqr"
        whole = {
            name: np.einsum(two if legs == 2 else three, *np.moveaxis(getattr(self, name), 1, 0))
            for name, legs in PROJECTORS.items()
        }
        return Projected(self.gain, **whole)


def converged(h: Directions, rate: float = 0.0) -> Projected:
    r"""Gradient descent at one rate to the end, or gradient flow for rate 0, without a difference of like numbers.

    $$Z_A=\tfrac{p_1}{h_1}X_{II}(12),\quad
      Z_{IA}=-\tfrac{p_1}{2h_1}\tfrac{1-p_1^2p_2p_3}\eta X_{II}(12)X_{II}(13)X_{III},$$
    $$Z_{IIA}=-\tfrac{p_1^2p_2}{h_1}X_{II}(12)X_{III},\quad Z_{IIB}=-\tfrac{p_1}{h_1h_2}X_{II}(13)$$

    Args:
        h: Eigenvalues, all above 0.
        rate: $\eta$, below $2/h_{\max}$.

    Source: PDLT (∞.142)-(∞.147), (∞.149)-(∞.153), in other words: $Z_B$ and $Z_{IB}$ symmetrised.
    """
    a, b, c = h[:, None, None], h[:, None], h
    p, q = 1 - rate * a, 1 - rate * b
    x12, x13 = 1 / (a + b - rate * a * b), 1 / (a + c - rate * a * c)
    pair = b + c - rate * b * c  # (1 - p2 p3) / η
    x3 = 1 / (a + p * pair)
    g = 1 / h
    products = stationary(g)
    return Projected(
        g,
        A=((1 - rate * a) / a * x12)[:, :, 0],
        B=products.B,
        # 1 - p1 p1 p2 p3 = η (2 h1 - η h1² + p1² (1 - p2 p3) / η)
        IA=-0.5 * p / a * (a * (1 + p) + p**2 * pair) * x12 * x13 * x3,
        IB=products.IB,
        IIA=-(p**2) * q / a * x12 * x3,
        IIB=-p / (a * b) * x13,
    )


def stationary(g: Directions) -> Projected:
    r"""Where every gradient vanishes, that of a ridge $\rho$ included: products of gains $1/(h+\rho)$.

    Args:
        g: Gains.

    Source: PDLT (∞.154), derived: $W[f]$ of what tends to $f$ tends to $f/\rho$, and $\epsilon$ to $\rho\,g\,e$.
    """
    two = np.multiply.outer(g, g)
    three = np.multiply.outer(two, g)
    return Projected(gain=g, A=two, B=two / 2, IA=-three / 2, IB=-three / 6, IIA=-three, IIB=-three)


def separable(h: Directions, rate: float = 0.0, *, accuracy: float = 1e-4) -> Separable:
    r"""Those of `converged` as sums over a few training times $s_k$, chosen among many.

    $$Z_A=\sum_kc_kp_1g_2,\quad Z_{IA}=-\tfrac12\sum_kc_kp_1g_2g_3,$$
    $$Z_{IIA}=-\sum_kc_k\tfrac{p_1(s_k+\eta)}{h_1}p_2g_3,\quad Z_{IIB}=-\sum_kc_kp_1\tfrac1{h_2}g_3$$

    with $p=(1-\eta h)^{s/\eta}$ or $e^{-hs}$ and $g=(1-p)/h$ at time $s_k$.

    Args:
        h: Eigenvalues, all above 0.
        rate: $\eta$; 0 for gradient flow.
        accuracy: Of most sums, relative; what was reached is in the result.
    """
    grid = h if h.size <= _ALL else _grid(h)
    times = _candidates(h, rate)
    rows, exact = _summands(grid, rate, times), _sums(grid, rate)
    # Each column as large as what is summed there.
    size = times + (rate or times[0])
    scaled = rows / exact[:, None] * size
    kept = _chosen(scaled, accuracy)
    c = size[kept] * np.linalg.lstsq(scaled[:, kept], np.ones(len(rows)), rcond=None)[0]
    p, g = _course(h, rate, times[kept])
    one, end = np.ones_like(p), 1 / h
    found = {
        "A": (c[:, None] * p, g),
        "B": (0.5 * end[None], end[None]),
        "IA": (-0.5 * c[:, None] * p, g, g),
        "IB": (-end[None] / 6, end[None], end[None]),
        "IIA": (-c[:, None] * p * (1 - rate * h) * end, p, g),
        "IIB": (-c[:, None] * p, one * end, g),
    }
    legs = {name: np.stack(np.broadcast_arrays(*parts), axis=1) for name, parts in found.items()}
    return Separable.of(end, legs, _largest_error(legs, h, rate))


def _course(
    h: Directions, rate: float, times: Float[np.ndarray, " time"]
) -> tuple[np.ndarray, ...]:
    """$p$ and $g$ at some times, (time, direction)."""
    found = after_steps(h, np.rint(times / rate), rate) if rate else after_flow(h, times)
    return found.left, found.gain


def _candidates(h: Directions, rate: float) -> Float[np.ndarray, " time"]:
    """Times at which something may still happen, denser at the start."""
    with np.errstate(divide="ignore"):
        speeds = -np.log(np.abs(1 - rate * h)) / rate if rate else h
    ends = 1e-3 / h.max(), 40 / speeds.min()
    spread = np.geomspace(*ends, int(_CANDIDATES * np.log(ends[1] / ends[0])))
    if not rate:
        return spread
    first = np.arange(12 * _CANDIDATES)
    return rate * np.unique(np.concatenate([first, np.rint(spread / rate)]))


def _grid(h: Directions) -> Float[np.ndarray, " node"]:
    """Few eigenvalues from the smallest to the largest, dense at both ends of two scales."""
    nodes = np.cos(np.pi * np.arange(_NODES) / (_NODES - 1))
    low, high = h.min(), h.max()
    linear = (low + high) / 2 + (high - low) / 2 * nodes
    return np.unique(
        np.concatenate([np.exp(np.log(low) + (nodes + 1) / 2 * np.log(high / low)), linear])
    )


def _summands(h: Directions, rate: float, times: Float[np.ndarray, " time"]) -> np.ndarray:
    """The summands over times, of all pairs and triples: (summand, time)."""
    p, g = _course(h, rate, times)
    b = p * (1 - rate * h) / h
    parts = [
        np.einsum("tp,tq->pqt", p, g),
        np.einsum("tp,tq,tr->pqrt", p, g, g),
        np.einsum("tp,tq,tr->pqrt", b, p, g),
    ]
    return np.concatenate([part.reshape(-1, len(times)) for part in parts])[_told(h, rate)]


def _sums(h: Directions, rate: float) -> np.ndarray:
    exact = converged(h, rate)
    parts = [exact.A, -2 * exact.IA, -exact.IIA]
    return np.concatenate([part.ravel() for part in parts])[_told(h, rate)]


def _told(h: Directions, rate: float) -> np.ndarray:
    """Summands that are not 0: a direction with $p=0$ is learned at once."""
    exact = converged(h, rate)
    return np.concatenate([np.abs(part.ravel()) > 0 for part in (exact.A, exact.IA, exact.IIA)])


def _chosen(rows: np.ndarray, accuracy: float) -> np.ndarray:
    """Columns of which all others are combinations, to an accuracy."""
    R, order = cast(tuple[np.ndarray, ...], scipy.linalg.qr(rows, mode="r", pivoting=True))
    size = np.abs(np.diag(R))
    return np.sort(order[: int(np.count_nonzero(size > 0.1 * accuracy * size[0]))])


def _largest_error(legs: dict[str, np.ndarray], h: Directions, rate: float) -> float:
    """Over all pairs, and triples of some directions."""
    few = np.unique(np.linspace(0, h.size - 1, _CHECKED).round().astype(int))
    exact = converged(h[few], rate)
    none = Separable.of(exact.gain, {name: part[:, :, few] for name, part in legs.items()})
    errors = []
    for name in PROJECTORS:
        wanted, found = getattr(exact, name), getattr(none.whole(), name)
        size = np.where(wanted == 0, np.abs(wanted).max() or 1.0, np.abs(wanted))
        errors.append(float((np.abs(found - wanted) / size).max()))
    return max(errors)
