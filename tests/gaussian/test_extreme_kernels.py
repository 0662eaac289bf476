"""Golden: expectations at kernels from 1e-24 to 1e6, against mpmath and against closed forms."""

import mpmath as mp
import numpy as np
import pytest

from gaussian_oracle import ORDERS, price
from grids import thorough
from kinked import elu, hard_tanh
from rescaled import rescaled
from scalewise.activations import Activation, activation
from scalewise.gaussian import pair_moments, single_moment

KERNELS = (1e-24, 1e-8, 1.0, 1e4, 1e6)
EXACT = {
    "tanh": mp.tanh,
    "sigmoid": lambda z: 1 / (1 + mp.exp(-z)),
    "softplus_shifted": lambda z: mp.log((1 + mp.exp(z)) / 2),
    "swish": lambda z: z / (1 + mp.exp(-z)),
    "gelu": lambda z: z * mp.ncdf(z),
    "erf": mp.erf,
    "elu": lambda z: z if z > 0 else mp.expm1(z),
    "hard_tanh": lambda z: max(-1, min(1, z)),
}


def exact_square(name: str, K: float) -> mp.mpf:
    """<sigma^2>_K, panels graded around the scale of the function."""
    with mp.workdps(30):
        root = mp.sqrt(mp.mpf(K))
        ends = sorted(
            {mp.mpf(0)} | {sign * p for sign in (-1, 1) for p in (12 * root, *inner(root))}
        )
        sigma = EXACT[name]
        return mp.quad(
            lambda z: sigma(z) ** 2 * mp.exp(-z * z / (2 * K)) / (root * mp.sqrt(2 * mp.pi)), ends
        )


def inner(root: mp.mpf) -> list[mp.mpf]:
    return [p for p in (mp.mpf(1), mp.mpf(8), mp.mpf(60), root) if p < 12 * root]


@pytest.mark.parametrize(
    "names",
    [
        ["tanh", "softplus_shifted", "gelu", "elu"],
        *thorough(["sigmoid", "swish", "erf", "hard_tanh"]),
    ],
    ids=["some", "more"],
)
def test_single_moments_from_tiny_to_huge_kernels(names) -> None:
    found = []
    for name in names:
        sigma = {"elu": elu, "hard_tanh": hard_tanh}.get(name, lambda name=name: activation(name))()
        for K in KERNELS:
            value, exact = single_moment(sigma, K, (0, 0)), exact_square(name, K)
            if abs(value.value - exact) > 1e-12 * exact:
                found.append(f"{name} at K = {K:g}: {value.value}, not {mp.nstr(exact, 17)}")
    assert found == []


@pytest.mark.parametrize("name", ["erf", *thorough("gelu")])
def test_pair_moments_from_tiny_to_huge_kernels(name: str) -> None:
    """A function without its closed form goes through series and quadrature, whatever its units."""
    found, s = [], 2.0**20
    sigma = rescaled(activation(name), s)
    c = np.array([-0.97, 1 - 1e-9])
    for K in (1e-24, 1.0, 1e6):
        A, B = np.full(2, K), np.full(2, 0.6 * K)
        C = c * np.sqrt(A * B)
        for pq, moment in pair_moments(sigma, A / s**2, B / s**2, C / s**2, ORDERS).items():
            exact = np.array([float(price(name, *pair, pq)) for pair in zip(A, B, C, strict=True)])
            exact *= s ** (sum(pq) - 2)
            off = np.abs(moment.value - exact) > 1e-9 * natural(sigma, K / s**2, B[0] / s**2, pq)
            if off.any():
                found.append(f"{name} {pq} at K = {K:g}, c = {c}: {moment}, not {exact}")
    assert found == []


def natural(sigma: Activation, A: float, B: float, pq: tuple[int, int]) -> float:
    """What M_pq is compared with: root mean squares, and powers of z at tiny kernels."""
    size, powers = 1.0, 1.0
    for K, p in zip((A, B), pq, strict=True):
        q = min(p, 3)
        size *= np.sqrt(single_moment(sigma, K, (q, q)).value) / sigma.scale ** (p - q)
        powers *= np.sqrt(single_moment(sigma, K, (0, 0)).value) * K ** (-p / 2)
    return max(size, powers)


def test_what_cannot_be_had_says_why() -> None:
    with pytest.raises(ValueError, match="spread over 1e\\+03, and the activation goes on varying"):
        single_moment("sin", 1e6, (0, 0))
    sigma = activation("softplus_shifted")

    def cancelling(z):
        return np.logaddexp(0.0, z) - np.log(2.0)

    lossy = rescaled(sigma, 1.0)
    object.__setattr__(lossy, "derivatives", (cancelling, *lossy.derivatives[1:]))
    with pytest.raises(ValueError, match="lost in rounding: write it without cancellation"):
        single_moment(lossy, 1e-24, (0, 0))
