"""Independent answers for Gaussian pair expectations.

Three roads that share nothing with the package: textbook formulas differentiated in multiple
precision (Price's theorem), one-dimensional multiple-precision integrals over a conditional mean that
is known in closed form (kinked activations), and a plain trapezoidal sum over the plane (smooth ones).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mpmath as mp
import numpy as np

ORDERS = ((0, 0), (1, 1), (2, 0), (0, 2), (2, 2), (3, 1), (1, 3), (4, 0), (0, 4))
# M_pq as (how often to differentiate M_00 in A, B and C; factor), from Price's theorem.
PRICE = {
    (0, 0): ((0, 0, 0), 1),
    (1, 1): ((0, 0, 1), 1),
    (2, 0): ((1, 0, 0), 2),
    (0, 2): ((0, 1, 0), 2),
    (2, 2): ((0, 0, 2), 1),
    (3, 1): ((1, 0, 1), 2),
    (1, 3): ((0, 1, 1), 2),
    (4, 0): ((2, 0, 0), 4),
    (0, 4): ((0, 2, 0), 4),
}


def _slopes(minus: float, plus: float) -> Callable:
    def value(A, B, C):
        psi = mp.acos(C / mp.sqrt(A * B))
        angle = mp.sin(psi) - psi * mp.cos(psi)
        jump = mp.mpf(plus) - mp.mpf(minus)
        mean = (mp.mpf(plus) ** 2 + mp.mpf(minus) ** 2) / 2
        return mp.sqrt(A * B) * jump**2 / (2 * mp.pi) * angle + mean * C

    return value


def _gelu(A, B, C):
    D = (1 + A) * (1 + B) - C**2
    P = mp.mpf(1) / 4 + mp.asin(C / mp.sqrt((1 + A) * (1 + B))) / (2 * mp.pi)
    return C * P + (A * (B - C**2 / (1 + A)) + C**2 / (1 + B)) / (2 * mp.pi * mp.sqrt(D))


# M_00 as textbooks print it: PDLT (5.159) with unequal norms, Williams 1997, Cho and Saul 2009.
TEXTBOOK: dict[str, Callable] = {
    "linear": lambda A, B, C: C,
    "relu": _slopes(0.0, 1.0),
    "leaky_relu(0.1)": _slopes(0.1, 1.0),
    "perceptron": lambda A, B, C: mp.mpf(1) / 4 + mp.asin(C / mp.sqrt(A * B)) / (2 * mp.pi),
    "erf": lambda A, B, C: 2 / mp.pi * mp.asin(2 * C / mp.sqrt((1 + 2 * A) * (1 + 2 * B))),
    "gelu": _gelu,
    "sin": lambda A, B, C: mp.exp(-(A + B) / 2) * mp.sinh(C),
    "exp": lambda A, B, C: mp.exp((A + B) / 2 + C),
    "quadratic": lambda A, B, C: A * B + 2 * C**2,
    "monomial(3)": lambda A, B, C: 9 * A * B * C + 6 * C**3,
    "monomial(5)": lambda A, B, C: 225 * A**2 * B**2 * C + 600 * A * B * C**3 + 120 * C**5,
}


def price(name: str, A: float, B: float, C: float, order: tuple[int, int]) -> mp.mpf:
    """M_pq of the floats given, by differentiating the textbook M_00 in 40 digits."""
    times, factor = PRICE[order]
    with mp.workdps(40):
        at = (mp.mpf(A), mp.mpf(B), mp.mpf(C))
        if times == (0, 0, 0):
            return +TEXTBOOK[name](*at)
        return +(factor * mp.diff(TEXTBOOK[name], at, times))


@dataclass(frozen=True)
class PiecewiseLinear:
    r"""$\sigma(z)=a+bz+\sum_i\Delta_i\max(z-\kappa_i,0)$, whose conditional means are elementary."""

    constant: float
    slope: float
    bends: tuple[tuple[float, float], ...]

    def __call__(self, z, ctx):
        return self.constant + self.slope * z + sum(d * max(z - k, 0) for k, d in self.bends)

    def mean(self, mu, tau, order: int, ctx):
        """The derivative of <sigma(mu + tau y)> with respect to mu."""
        total = [self.constant + self.slope * mu, self.slope, 0, 0, 0][order]
        for kappa, jump in self.bends:
            u = (mu - kappa) / tau
            total += jump * _ramp_mean(u, tau, order, ctx)
        return total


def _ramp_mean(u, tau, order: int, ctx):
    if order == 0:
        return tau * (u * ctx.ncdf(u) + ctx.npdf(u))
    if order == 1:
        return ctx.ncdf(u)
    return {2: 1, 3: -u, 4: u * u - 1}[order] * ctx.npdf(u) / tau ** (order - 1)


HARD_TANH = PiecewiseLinear(-1.0, 0.0, ((-1.0, 1.0), (1.0, -1.0)))
RELU6 = PiecewiseLinear(0.0, 0.0, ((0.0, 1.0), (6.0, -1.0)))
SOFT_SHRINK = PiecewiseLinear(0.5, 1.0, ((-0.5, -1.0), (0.5, 1.0)))


@dataclass(frozen=True)
class Elu:
    """z above 0 and alpha (exp(z) - 1) below: at 0 its slope jumps by 1 - alpha, and more."""

    alpha: float = 1.0
    bends = ((0.0, 0.0),)

    def __call__(self, z, ctx):
        return z if z > 0 else self.alpha * ctx.expm1(z)

    def mean(self, mu, tau, order: int, ctx):
        u = mu / tau
        # <e^z; z < 0>, whose derivative is itself less the density at 0
        low = ctx.exp(mu + tau * tau / 2) * ctx.ncdf(-u - tau)
        if order == 0:
            below = low - ctx.ncdf(-u)
        else:
            below = low - sum(_ramp_mean(u, tau, n, ctx) for n in range(2, order + 1))
        return _ramp_mean(u, tau, order, ctx) + self.alpha * below


def conditional(sigma, A: float, B: float, C: float, order: tuple[int, int], ctx=mp.fp):
    r"""M_pq for |c| < 1, as $\int\sigma(z)(-\partial_z)^p[N(z;A)h^{(q)}(\rho z)]dz$.

    With `ctx` the doubles of mpmath, or `mpmath.mp` for as many digits as it is set to.
    """
    p, q = order
    a, b, c = ctx.mpf(A), ctx.mpf(B), ctx.mpf(C)
    rho, tau, root = c / a, ctx.sqrt(b - c * c / a), ctx.sqrt(a)

    def integrand(x):
        z, total = root * x, 0
        hermite = (1, x, x * x - 1, x**3 - 3 * x, x**4 - 6 * x * x + 3)
        for j in range(p + 1):
            # (-d/dz)^n N = He_n(x) N / root^n, and each derivative of h carries a minus sign
            weight = math.comb(p, j) * hermite[p - j] / root ** (p - j) * (-rho) ** j
            total += weight * sigma.mean(rho * z, tau, q + j, ctx)
        return sigma(z, ctx) * total * ctx.npdf(x)

    bends = {0.0, *(k / root for k, _ in sigma.bends)}
    if rho != 0:
        bends |= {k / (rho * root) for k, _ in sigma.bends}
    nodes = [x for x in bends if abs(x) < 10]
    # The conditional mean bends on the scale tau/(rho root): it gets panels of its own.
    width = tau / max(abs(rho) * root, tau)
    around = [x + s * width for x in nodes for s in (-6, -1, 1, 6)] if width < 0.5 else []
    edges = sorted(x for x in {*nodes, *around, -10, -3, 3, 10} if abs(x) <= 10)
    return ctx.quad(integrand, edges)


def plane(
    f: Callable, g: Callable, A: float, B: float, C: float, step: float, reach: float = 9.0
) -> float:
    """<f(z_a) g(z_b)> by a trapezoidal sum over the plane: geometric for functions analytic there."""
    x = step * np.arange(-math.ceil(reach / step), math.ceil(reach / step) + 1)
    w = step * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    cosine = C / math.sqrt(A * B)
    sine = math.sqrt(max(0.0, 1 - cosine**2))
    left = w * f(math.sqrt(A) * x)
    rows = [w @ g(math.sqrt(B) * (cosine * u + sine * x)) for u in x]
    return float(left @ np.array(rows))


def grid(
    variances: Sequence[float], cosines: Sequence[float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A, B, C and c of all combinations, flat."""
    a, b, c = (x.ravel() for x in np.meshgrid(variances, variances, cosines, indexing="ij"))
    return a, b, c * np.sqrt(a * b), c
