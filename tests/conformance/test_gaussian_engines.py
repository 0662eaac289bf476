"""Conformance: every built-in activation through every engine that serves it.

The engines share no code beyond the activation itself: closed forms, a Hermite series, nested
quadrature, and the in-place maps of the kernel recursion must give the same numbers. Errors are
relative to the natural size sqrt(<f²>_A <g²>_B), since a moment itself may vanish.
"""

import numpy as np
import pytest

import scalewise as sw
from grids import each, thorough
from scalewise.activations import BUILTIN_NAMES
from scalewise.gaussian import pair_moments, single_moment
from scalewise.gaussian._kinked_moments import kinked_pair_moments
from scalewise.gaussian._quadrature import pair_quadrature
from scalewise.gaussian.spi import Places, Workspace, kernel_map

NAMES = [*BUILTIN_NAMES, "leaky_relu(0.3)", "monomial(3)"]
VARIANCES = [1e-6, 1e-3, 0.3, 1.0, 30.0, 1e3]
CORRELATIONS = [-1.0, -0.6, 0.0, 0.3, 0.95, 0.999999, 1.0]
RTOL = 1e-10


def exists(sigma: sw.Activation, pq: tuple[int, int]) -> bool:
    return sigma.is_continuous or pq == (0, 0)


# Every function takes the corners of the grid; on the full one each engine meets every kind of function.
FULL = ["relu", "tanh", "sin", "softplus", "gelu", "swish", "erf", "exp", "hard_tanh"]


def grid(name: str, thin: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    # <e^{2z}> = e^{2K}: beyond K = 1 its weight leaves the range of the quadrature.
    top = 1.0 if name == "exp" else 1e3
    K = [k for k in VARIANCES[thin - 1 :: thin] if k <= top]
    a, b, c = np.meshgrid(K, K, CORRELATIONS[::thin], indexing="ij")
    # Every other point, as on a chessboard: each value is met beside most of the others.
    keep = (a >= b) & (np.indices(a.shape).sum(0) % 2 == 0)
    a, b, c = a[keep], b[keep], c[keep]
    return a, b, c * np.sqrt(a * b)


def size(sigma: sw.Activation, pq: tuple[int, int], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    p, q = pq
    return np.sqrt(single_moment(sigma, a, (p, p)).value * single_moment(sigma, b, (q, q)).value)


@pytest.mark.parametrize(
    ("names", "thin"),
    [(NAMES[::3], 2), *thorough((NAMES[1::3] + NAMES[2::3], 2), (FULL, 1))],
    ids=["corners", "others' corners", "full grid"],
)
@each("pq", [(0, 0), (1, 1)])
def test_automatic_engine_agrees_with_nested_quadrature(
    names: list[str], thin: int, pq: tuple[int, int]
) -> None:
    for name in names:
        _agrees_with_nested_quadrature(name, thin, pq)


def _agrees_with_nested_quadrature(name: str, thin: int, pq: tuple[int, int]) -> None:
    sigma = sw.activation(name)
    if not exists(sigma, pq):
        # A jump: the product almost everywhere is 0, and the delta functions are all there is.
        general, closed = (
            kinked_pair_moments(sigma, 1.0, 1.0, 0.5, [pq])[0][pq],
            pair_moments(sigma, 1.0, 1.0, 0.5, [pq])[pq].value,
        )
        assert general == pytest.approx(closed, rel=1e-11)
        return
    a, b, c = grid(name, thin)
    found = pair_moments(sigma, a, b, c, [pq])[pq]
    p, q = pq
    truth, error = pair_quadrature(
        sigma.derivatives[p], sigma.derivatives[q], a, b, c, sigma.split_points
    )
    scale = size(sigma, pq, a, b)
    gap = np.abs(found.value - truth) / scale
    assert np.all(gap <= (error + found.error) / scale + 1e-12)
    assert np.all(found.error <= RTOL * scale)
    # Quadrature does not follow sin through a hundred periods; its error bar says so.
    reached = error <= RTOL * scale
    assert np.all(reached | ((name == "sin") & (a > 30)))
    assert np.all(gap[reached] < RTOL)


@pytest.mark.covers("A4.1", "A10.1")
@pytest.mark.parametrize(
    "name", ["tanh", "softplus", "gelu", "sin", *thorough("sigmoid", "swish", "erf")]
)
def test_series_closed_forms_and_quadrature_agree_on_every_order(name: str) -> None:
    sigma = sw.activation(name)
    a, b = np.array([0.02, 0.5, 1.3]), np.array([0.3, 0.4, 1.3])
    c = np.array([-0.7, 0.2, 1.0]) * np.sqrt(a * b)
    orders = [(0, 0), (1, 1), (2, 0), (0, 2), (2, 2), (3, 1), (1, 3), (4, 0), (0, 4)]
    series = pair_moments(sigma, a, b, c, orders, engine="hermite")
    direct = pair_moments(sigma, a, b, c, orders, engine="quadrature")
    auto = pair_moments(sigma, a, b, c, orders)
    for pq in orders:
        # Orders 4 come from the third derivative; their natural size is that of a unit slope.
        scale = np.maximum(np.abs(direct[pq].value), 1e-2)
        # Stein's identity divides by A or B = 0.02 in the quadrature of order 4.
        rtol = 1e-9 if 4 in pq else 1e-10
        assert np.all(np.abs(series[pq].value - direct[pq].value) < rtol * scale), pq
        assert np.all(np.abs(auto[pq].value - direct[pq].value) < rtol * scale), pq


ALIKE = [
    "celu",
    "selu",
    "softsign",
    "hardsigmoid",
    "hardswish",
    "relu6",
]  # kinks, and no closed form


@pytest.mark.parametrize(
    "name", [n for n in NAMES if n not in ("perceptron", *ALIKE)] + thorough(*ALIKE)
)
def test_in_place_map_is_the_pair_moment(name: str) -> None:
    sigma = sw.activation(name)
    rng = np.random.default_rng(1)
    z = rng.normal(size=(7, 5))
    z[3] = z[0]  # coincident
    z[4] = -z[1]  # opposite
    z[5] = 2 * z[2]  # parallel
    K = z @ z.T / 5
    here = kernel_map(sigma, np.diag(K).copy(), slope=True)
    tile, slope = K[1:4].copy(), np.empty((3, 7))
    here.apply(
        Places(slice(1, 4), slice(0, 7)), tile, slope, Workspace(here.scratch, 21).take((3, 7))
    )
    A, B = np.diag(K)[1:4, None], np.diag(K)[None]
    limit = np.sqrt(A * B)
    want = pair_moments(sigma, A, B, np.clip(K[1:4], -limit, limit))
    np.testing.assert_allclose(tile, want[0, 0].value, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(slope, want[1, 1].value, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(
        here.diagonal, single_moment(sigma, here.K, (0, 0)).value, rtol=1e-11
    )
    np.testing.assert_allclose(
        here.diagonal_slope, single_moment(sigma, here.K, (1, 1)).value, rtol=1e-11
    )
