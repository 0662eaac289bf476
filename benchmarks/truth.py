"""The kernel and NTK of a few pairs by other means than either side's: what the errors are against.

Smooth activations: the trapezoidal rule on a plane, whose error is exponentially small for functions
analytic in a strip (with this step below 1e-16 for every case here). ELU: its mean over one variable,
given the other, in closed form, and Gauss-Legendre panels that end at the kink over the other. ReLU: its
closed form in fifty digits, where the loss of digits at nearly parallel inputs does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import numpy as np
from cases import Case
from scipy import special

STEP, HALF_RANGE = 0.15, 9.6
PAIRS = [(0, 0), (1, 1), (2, 2), *((i, 63 - 5 * i) for i in range(12))]

Pair = tuple[float, float, float]
Moments = tuple[Pair, Pair]

_u = np.arange(-HALF_RANGE, HALF_RANGE + STEP / 2, STEP)
_w = STEP * np.exp(-_u * _u / 2) / math.sqrt(2 * math.pi)

SMOOTH: dict[str, tuple[Callable, Callable]] = {
    "tanh": (np.tanh, lambda z: 1 / np.cosh(z) ** 2),
    "erf": (special.erf, lambda z: 2 / math.sqrt(math.pi) * np.exp(-z * z)),
    "gelu": (
        lambda z: z * special.ndtr(z),
        lambda z: special.ndtr(z) + z * np.exp(-z * z / 2) / math.sqrt(2 * math.pi),
    ),
}


def exact(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """(pairs, 3) arrays of K and Theta in the last layer: entries aa, ab and bb of each pair."""
    x, y = case.x()[:64], case.y()[:64]
    moments = MOMENTS.get(case.activation) or _smooth(case.activation)
    found = [_flow(case, x[a], y[b], moments) for a, b in PAIRS]
    return np.array([k for k, _ in found]), np.array([t for _, t in found])


def errors(case: Case, kernel: np.ndarray, ntk: np.ndarray) -> tuple[float, float]:
    """Largest error of the off-diagonal and diagonal entries, relative to the diagonal."""
    a, b = np.array(PAIRS).T
    result = []
    for found, true in zip((kernel, ntk), exact(case), strict=True):
        size = np.sqrt(true[:, 0] * true[:, 2])
        result.append(float(np.max(np.abs(found[a, b] - true[:, 1]) / size)))
    return result[0], result[1]


def _flow(
    case: Case, x_a: np.ndarray, x_b: np.ndarray, moments: Callable[..., Moments]
) -> tuple[list[float], list[float]]:
    many = mpmath.mpf if case.activation == "relu" else float
    C_b, C_W = many(case.C_b), many(case.C_W)
    with mpmath.workdps(50):
        overlaps = [
            mpmath.fdot(map(float, u), map(float, v))
            for u, v in ((x_a, x_a), (x_a, x_b), (x_b, x_b))
        ]
        K = [C_b + C_W * many(o) / case.features for o in overlaps]
        Theta = list(K)  # the rates are C_b and C_W
        for _ in range(case.depth - 1):
            value, slope = moments(*K)
            Theta = [
                C_b + C_W * g + C_W * d * t for g, d, t in zip(value, slope, Theta, strict=True)
            ]
            K = [C_b + C_W * g for g in value]
        return [float(k) for k in K], [float(t) for t in Theta]


def hidden_layer(
    x: np.ndarray, activation: str, *, C_W: float, C_b: float
) -> tuple[np.ndarray, np.ndarray]:
    """K and Theta over all pairs of inputs of a network with one hidden layer, whose rates are its variances.

    Args:
        x: Inputs (samples, features).
        activation: In `MOMENTS` or `SMOOTH`.
        C_W: Rescaled weight variance of both layers.
        C_b: Bias variance of both layers.
    """
    moments = MOMENTS.get(activation) or _smooth(activation)
    below = C_b + C_W * x @ x.T / x.shape[1]
    K, Theta = np.empty_like(below), np.empty_like(below)
    for i, j in np.ndindex(below.shape):
        A, C, B = below[i, i], below[i, j], below[j, j]
        with mpmath.workdps(50):
            value, slope = moments(
                *(map(mpmath.mpf, (A, C, B)) if activation == "relu" else (A, C, B))
            )
        # The middle entry is that of the pair; the last one that of an input with itself.
        entry = 1 if i != j else 2
        K[i, j] = C_b + C_W * float(value[entry])
        Theta[i, j] = K[i, j] + C_W * float(slope[entry]) * C
    return K, Theta


def _smooth(name: str) -> Callable[..., Moments]:
    functions = SMOOTH[name]

    def moments(A: float, C: float, B: float) -> Moments:
        root = math.sqrt(A)
        c = C / root
        z_a = root * _u
        z_b = c * _u[:, None] + math.sqrt(max(B - c * c, 0.0)) * _u
        found = []
        for f in functions:
            f_a, f_b = _w * f(z_a), f(z_b)
            diagonal_b = f(math.sqrt(B) * _u) ** 2 @ _w
            found.append((float(f_a @ f(z_a)), float(f_a @ (f_b @ _w)), float(diagonal_b)))
        return found[0], found[1]

    return moments


def _elu(A: float, C: float, B: float) -> Moments:
    nodes, weights = np.polynomial.legendre.leggauss(16)
    half = 0.05
    x = (np.linspace(-12.0, 12.0, 241)[:-1, None] + half * (1 + nodes)).ravel()
    w = np.tile(half * weights, 240) * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    value: Callable = lambda z: np.where(z > 0, z, np.expm1(np.minimum(z, 0.0)))  # noqa: E731
    slope: Callable = lambda z: np.where(z > 0, 1.0, np.exp(np.minimum(z, 0.0)))  # noqa: E731
    z_a, tau = math.sqrt(A) * x, math.sqrt(max(B - C * C / A, 0.0))
    mean = C / A * z_a
    if tau == 0:
        means = value(mean), slope(mean)
    else:
        up = special.ndtr(mean / tau)
        below = np.exp(mean + 0.5 * tau**2 + special.log_ndtr(-mean / tau - tau))
        density = np.exp(-0.5 * (mean / tau) ** 2) / math.sqrt(2 * math.pi)
        means = mean * up + tau * density + below - (1 - up), up + below
    found = []
    for f, m in zip((value, slope), means, strict=True):
        squares = [float(w @ f(math.sqrt(K) * x) ** 2) for K in (A, B)]
        found.append((squares[0], float((w * f(z_a)) @ m), squares[1]))
    return found[0], found[1]


def _relu(A: mpmath.mpf, C: mpmath.mpf, B: mpmath.mpf) -> Moments:
    size = mpmath.sqrt(A * B)
    c = min(C / size, mpmath.mpf(1))
    psi = mpmath.acos(c)
    value = size * (mpmath.sqrt(1 - c * c) + (mpmath.pi - psi) * c) / (2 * mpmath.pi)
    half = mpmath.mpf(1) / 2
    return (A / 2, value, B / 2), (half, (mpmath.pi - psi) / (2 * mpmath.pi), half)


def _relu_squared(A: float, C: float, B: float) -> Moments:
    """Cho and Saul (2009), the arc-cosine kernels of degree 2 and 1."""
    size = math.sqrt(A * B)
    c = min(C / size, 1.0)
    theta, sine = math.acos(c), math.sqrt(1 - c * c)
    value = size**2 * (3 * sine * c + (math.pi - theta) * (1 + 2 * c * c)) / (2 * math.pi)
    slope = 4 * size * (sine + (math.pi - theta) * c) / (2 * math.pi)
    return (1.5 * A * A, value, 1.5 * B * B), (2 * A, slope, 2 * B)


MOMENTS: dict[str, Callable[..., Moments]] = {
    "relu": _relu,
    "elu": _elu,
    "relu squared": _relu_squared,
}
