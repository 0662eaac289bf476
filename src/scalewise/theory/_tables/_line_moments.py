r"""Every expectation over one Gaussian preactivation that the single-input recursions need.

Derivatives with respect to $K$ are expectations of derivatives of $\sigma$, by Stein's identity with
one power of $z$ at most wherever that is possible, so that nothing cancels as $K\to0$:
$$g=\langle\sigma^2\rangle,\quad g'=\frac{\langle z\sigma\sigma'\rangle}K,\quad
g''=\frac{\langle z(3\sigma'\sigma''+\sigma\sigma''')\rangle}{2K},\quad
p=\langle\sigma'^2\rangle,\quad p'=\frac{\langle z\sigma'\sigma''\rangle}K,\quad
p''=\frac{\langle(z^2/K-1)(\sigma''^2+\sigma'\sigma''')\rangle}{2K}.$$
These are derivatives in the sense of distributions: a kink adds its delta functions. The products
that stand in the recursions with their derivatives as autodiff takes them, almost everywhere, are
``s02``, ``s0112`` and ``z12``.

Source: PDLT (5.53), (9.8)-(9.11), (11.58)-(11.60).
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.critical.spi import jet
from scalewise.gaussian.spi import increment, line_rule, why_unconverged

# Value, its first two derivatives in K, and Var[sigma²].
_ANY = ("g", "g1", "g2", "vss")
# p = <σ'²> and its derivatives; <σ'⁴>; <σ²σ'²>; Cov[σ², σ'²]; Var[σ'²]; <σσ''>; <σσ'σ'σ''>; <zσ'σ''>/K
_CONTINUOUS = ("p", "p1", "p2", "p4", "m22", "vsp", "vpp", "s02", "s0112", "z12")
# <σ'σ'''>; <σ''²> and its derivative in K; <σ'³σ'''>; <σ'²σ''²>
_SMOOTH = ("s13", "s22", "s22_1", "s1113", "s1122")
# What the vertex alone needs: a sixth of the work.
VERTEX = ("g", "g1", "vss")
_COARSEST, _CAP = 1, 6
_TOLERANCE = 1e-9  # a change by doubling; the error of the finer rule is its square or better
_CHUNK = 64
_PART = 0.01  # of what is subtracted, or added to, counts as size: it leaves its rounding error


def moment_names(sigma: Activation) -> tuple[str, ...]:
    """The expectations that exist: a jump leaves those of the value, a kink those without S to U."""
    if not sigma.is_continuous:
        return _ANY
    return _ANY + _CONTINUOUS + (_SMOOTH if sigma.is_smooth else ())


def preactivation_names(sigma: Activation) -> tuple[str, ...]:
    """Names of the moments that the vertex and the metric need: a third of the work."""
    return _ANY + (("p",) if sigma.is_continuous else ())


def line_moments(
    sigma: Activation, K: Float[np.ndarray, " point"], names: tuple[str, ...] | None = None
) -> tuple[Float[np.ndarray, "moment point"], Float[np.ndarray, "moment point"]]:
    r"""All expectations at given kernels in the order of the names, and $\langle|f|\rangle$ of each integrand.

    The names are all that exist if ``None``, or `VERTEX`, or `preactivation_names`; rtol 1e-12 of the second.
    """
    closed = closed_line_moments(sigma, K)
    if closed is not None:
        known = dict(zip(moment_names(sigma), closed, strict=True))
        chosen = np.array([known[name] for name in names or known])
        return chosen, np.abs(chosen)
    names = names or moment_names(sigma)
    value, size = np.empty((2, len(names), K.size))
    for start in range(0, K.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        value[:, part], size[:, part] = _converged(sigma, K[part], names)
    return value, size


def _converged(
    sigma: Activation, K: np.ndarray, names: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray]:
    with np.errstate(over="ignore", invalid="ignore"):
        value, size = _regular(sigma, K, names, _COARSEST)
        # Each kernel for itself, so that what it gives does not depend on who comes along.
        todo, level = np.arange(K.size), _COARSEST
        while todo.size:
            coarse, level = value[:, todo], level + 1
            fine, scale = _regular(sigma, K[todo], names, level)
            value[:, todo], size[:, todo] = fine, scale
            change = np.max(np.abs(fine - coarse) / np.maximum(scale, 1e-300), axis=0)
            open_still = ~(change <= _TOLERANCE)
            todo = todo[open_still]
            if level == _CAP and todo.size:
                _refuse_unconverged(sigma, K[todo], change[open_still])
    if not sigma.is_smooth and sigma.is_continuous and names != VERTEX:
        scale = value[names.index("p")]
        for name, delta in _delta_functions(sigma, K).items():
            if name not in names:
                continue
            value[names.index(name)] += delta
            # A kink far out in the tail matters on the scale of p alone: K p', K g'', K² p''.
            natural = scale / K ** (2 if name == "p2" else 1)
            size[names.index(name)] += np.abs(delta) + _PART * natural
        if "vpp" not in names:
            return value, size
        # So do the fluctuations of the slope that it makes.
        size[names.index("vpp")] += _PART * scale**2
        size[names.index("vsp")] += _PART * K * scale**2
    return value, size


def moments_at_zero(sigma: Activation) -> dict[str, float]:
    r"""The expectations at $K=0$ that need no limit: $z$ is 0, and nothing fluctuates.

    Args:
        sigma: The activation, smooth at 0.
    """
    s0, s1, s2, s3 = (float(derivative(np.zeros(1))[0]) for derivative in sigma.derivatives)
    bend = s2 * s2 + s1 * s3
    return {
        **dict.fromkeys(("vss", "vsp", "vpp"), 0.0),
        "g": s0 * s0,
        "g1": s1 * s1 + s0 * s2,
        "p": s1 * s1,
        "p1": bend,
        "z12": bend,
        "p4": s1**4,
        "m22": (s0 * s1) ** 2,
        "s02": s0 * s2,
        "s0112": s0 * s1 * s1 * s2,
        "s13": s1 * s3,
        "s22": s2 * s2,
        "s1113": s1**3 * s3,
        "s1122": (s1 * s2) ** 2,
    }


def _refuse_unconverged(sigma: Activation, K: np.ndarray, change: np.ndarray) -> NoReturn:
    worst = K[np.argmax(np.where(np.isfinite(change), change, np.inf))]
    raise ValueError(
        f"The single-input expectations of {sigma.name!r} do not converge or overflow at "
        f"K = {worst:.3g}. " + why_unconverged(sigma, float(worst))
    )


class _Sums:
    """Expectations by one rule at each kernel: what is put in by name is summed, and so is its size."""

    def __init__(
        self, sigma: Activation, K: np.ndarray, names: tuple[str, ...], level: int
    ) -> None:
        z, w = line_rule(K, sigma.split_points, level)
        if sigma.parity:  # every integrand is even then, and 0 a split, not a node
            half = z.shape[-1] // 2
            z, w = z[:, half:], 2 * w[:, half:]
        self.z, self._w = z, w
        self._sigma, self._names = sigma, names
        self.value, self.size = np.empty((2, len(names), K.size))

    def put(
        self, name: str, integrand: np.ndarray, rounding: np.ndarray | float = 0.0
    ) -> np.ndarray:
        """An expectation, whose integrand has been rounded so much beside its size."""
        place = self._names.index(name)
        term = self._w * integrand
        self.value[place] = term.sum(axis=-1)
        self.size[place] = np.abs(term).sum(axis=-1) + _PART * rounding
        return self.value[place][:, None]

    def fluctuation(self, order: int) -> tuple[np.ndarray, np.ndarray]:
        """The square of a derivative less its mean, and that mean; both without the constant that it has near 0."""
        delta = increment(self._sigma, order)
        d = delta(self.z)
        grown = d * (d + 2 * delta.centre)
        mean = (self._w * grown).sum(axis=-1)[:, None]
        return grown - mean, np.abs(mean)


def _regular(
    sigma: Activation, K: np.ndarray, names: tuple[str, ...], level: int
) -> tuple[np.ndarray, np.ndarray]:
    """The parts without delta functions, from one rule for all of them."""
    sums = _Sums(sigma, K, names, level)
    z, put, found = sums.z, sums.put, (sums.value, sums.size)
    variance = K[:, None]
    s0 = sigma(z)
    square = s0 * s0
    put("g", square)

    rest, g = sums.fluctuation(0)
    root = np.sqrt(put("vss", rest * rest))
    put("vss", rest * rest, (root * g)[:, 0])
    if not sigma.is_continuous:
        u2 = z * z / variance
        put("g1", (u2 - 1) * square / (2 * variance))
        if names == VERTEX:
            return found
        put("g2", (u2 * u2 - 6 * u2 + 3) * square / (4 * variance**2))
        return found
    s1 = sigma.derivative(z, 1)
    put("g1", z * s0 * s1 / variance)
    if names == VERTEX:
        return found
    s2, s3 = sigma.derivative(z, 2), sigma.derivative(z, 3)
    slope = s1 * s1
    put("g2", z * (3 * s1 * s2 + s0 * s3) / (2 * variance))
    put("p", slope)
    if "vpp" not in names:
        return found
    rest_slope, p = sums.fluctuation(1)
    root_slope = np.sqrt(put("vpp", rest_slope * rest_slope))
    put("vpp", rest_slope * rest_slope, (root_slope * p)[:, 0])
    put("vsp", rest * rest_slope, (root * p + root_slope * g)[:, 0])
    put("p4", slope * slope)
    put("m22", square * slope)
    put("s02", s0 * s2)
    put("s0112", s0 * slope * s2)
    put("p1", z * s1 * s2 / variance)
    put("z12", z * s1 * s2 / variance)
    curvature = s2 * s2 + s1 * s3
    # A constant has mean 0 under z²/K - 1: without it the rounding error is smaller.
    sides = [jet(sigma, 0.0, side) for side in (-1, 1)]
    constant = float(np.mean([s[2] ** 2 + s[1] * s[3] for s in sides]))
    centre = curvature - constant
    put("p2", (z * z / variance - 1) * centre / (2 * variance), abs(constant) / K)
    if sigma.is_smooth:
        put("s13", s1 * s3)
        put("s22", s2 * s2)
        put("s22_1", z * s2 * s3 / variance)
        put("s1113", slope * s1 * s3)
        put("s1122", slope * s2 * s2)
    return found


def _delta_functions(sigma: Activation, K: np.ndarray) -> dict[str, np.ndarray]:
    r"""Delta functions of kinks in $g''$, $p'$ and $p''$.

    With $\Delta$ the jump at $\kappa$ and $\varphi$ the density of $N(0,K)$, $F=(\sigma'^2+\sigma
    \sigma'')'$ holds $\Delta[\sigma'^2+\sigma\sigma'']\,\delta+\sigma\Delta\sigma'\,\delta'$,
    $(\sigma'^2)'$ holds $\Delta[\sigma'^2]\,\delta$ and $(\sigma'^2)''$ holds
    $2\Delta[\sigma'\sigma'']\,\delta+\Delta[\sigma'^2]\,\delta'$.
    """
    total = {name: np.zeros_like(K) for name in ("g2", "p1", "p2")}
    for kappa in sigma.split_points:
        low, high = jet(sigma, kappa, -1), jet(sigma, kappa, 1)
        density = np.exp(-(kappa**2) / (2 * K)) / np.sqrt(2 * np.pi * K)
        u2 = kappa**2 / K
        slope = high[1] ** 2 - low[1] ** 2
        bend = high[0] * high[2] - low[0] * low[2]
        both = high[1] * high[2] - low[1] * low[2]
        corner = 0.5 * (high[0] + low[0]) * (high[1] - low[1])
        total["g2"] += density * (kappa * (slope + bend) - corner * (1 - u2)) / (2 * K)
        total["p1"] += density * kappa * slope / (2 * K)
        total["p2"] += density * (2 * both * (u2 - 1) - slope * kappa / K * (3 - u2)) / (4 * K)
    return total


def closed_line_moments(
    sigma: Activation, K: Float[np.ndarray, " point"]
) -> Float[np.ndarray, "moment point"] | None:
    r"""Closed forms: $\sigma(z)=a_\pm z$, PDLT (5.113), (9.36)-(9.38), and $\sigma(z)=e^z$; of others ``None``."""
    if sigma.slopes is not None:
        squares = np.square(sigma.slopes)
        A_2, A_4 = 0.5 * float(squares.sum()), 0.5 * float((squares**2).sum())
        known = {
            "g": A_2 * K,
            "g1": np.full_like(K, A_2),
            "vss": (3 * A_4 - A_2**2) * K**2,
            "p": np.full_like(K, A_2),
            "p4": np.full_like(K, A_4),
            "m22": A_4 * K,
            "vsp": (A_4 - A_2**2) * K,
            "vpp": np.full_like(K, A_4 - A_2**2),
        }
        return np.array([known.get(name, np.zeros_like(K)) for name in moment_names(sigma)])
    if sigma.family != "exp":
        return None
    two, four = np.exp(2 * K), np.exp(8 * K)  # <e^{2z}> and <e^{4z}>
    variance = np.exp(4 * K) * np.expm1(4 * K)
    known: dict[str, np.ndarray] = dict.fromkeys(("g1", "p1", "z12", "s22_1"), 2 * two)
    known |= dict.fromkeys(("g2", "p2"), 4 * two) | dict.fromkeys(("vss", "vsp", "vpp"), variance)
    known |= dict.fromkeys(("p4", "m22", "s0112", "s1113", "s1122"), four)
    return np.array([known.get(name, two) for name in moment_names(sigma)])
