"""Golden tests: sixth-order moments next to kinks, and moments of jumps, against roads of their own.

By Price's theorem they are derivatives of lower ones with respect to the kernel; at coincidence they add
up to the derivatives of single-input expectations, which know nothing of pairs.
"""

from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from kinked import bent, hard_tanh
from scalewise.gaussian import pair_moments
from scalewise.gaussian._geometry import PairGeometry
from scalewise.gaussian._kinks import LegAtKink
from scalewise.gaussian.spi import high_moments
from scalewise.theory._tables._line_moments import line_moments, moment_names

ORDERS = [(5, 1), (1, 5), (4, 2), (2, 4), (3, 3)]


@cache
def off_0() -> sw.Activation:
    def function(z):
        return jnp.where(z > 0.3, jnp.sin(z), 2 * z - 0.6 + jnp.sin(0.3))

    return sw.activation(function, kinks=(0.3,))


MADE = {"hard tanh": hard_tanh, "bent": bent, "off 0": off_0}

POINT = np.array([1.1, 0.7, 0.4])


def slopes(sigma: sw.Activation, orders: list[tuple[int, int]]) -> dict[tuple, np.ndarray]:
    """Of moments with respect to A, B and C at `POINT`, by differences."""
    step = 1e-3 * np.array([-2.0, -1.0, 1.0, 2.0])
    found = pair_moments(sigma, *(POINT[:, None, None] + np.eye(3)[:, :, None] * step), orders)
    return {order: part.value @ [1, -8, 8, -1] / 12e-3 for order, part in found.items()}


@pytest.mark.parametrize("name", ["hard tanh", "bent", *thorough("off 0")])
def test_they_are_derivatives_of_lower_ones(name: str) -> None:
    sigma = MADE[name]()
    high = high_moments(sigma, *POINT[:, None], ORDERS)
    slope = slopes(sigma, [(3, 1), (1, 3), (2, 2)])
    want = {
        (5, 1): 2 * slope[3, 1][0],
        (1, 5): 2 * slope[1, 3][1],
        (4, 2): slope[3, 1][2],
        (2, 4): 2 * slope[2, 2][1],
        (3, 3): slope[2, 2][2],
    }
    for order, value in want.items():
        found = high[order]
        assert found.value[0] == pytest.approx(value, rel=1e-9), order
        assert found.error[0] < 1e-10 * max(1.0, abs(value)), order


@pytest.mark.parametrize("name", ["hard tanh", "bent", *thorough("off 0")])
def test_at_coincidence_they_add_up_to_a_derivative_of_one_variance(name: str) -> None:
    sigma, K = MADE[name](), np.array([0.2, 1.3, 30.0])
    M = high_moments(sigma, K, K, K, ORDERS)
    total = 0.25 * (M[5, 1].value + M[1, 5].value) + 1.5 * M[3, 3].value
    total = total + M[4, 2].value + M[2, 4].value
    want = line_moments(sigma, K)[0][moment_names(sigma).index("p2")]
    np.testing.assert_allclose(total, want, rtol=1e-7)


def test_at_a_point_a_slope_is_the_mean_of_both_sides() -> None:
    """Where the law of the other leg is a point at a kink: one-sided derivatives, known in closed form."""
    pair = PairGeometry.of(np.array([0.7]), np.array([0.7]), np.array([0.7]))
    leg = LegAtKink(off_0(), (), pair, 0.3)
    for k, want in ((1, 0.5 * (np.cos(0.3) + 5.0)), (2, 0.5 * (6.0 - np.sin(0.3)))):
        found, error = leg.weighted(lambda z: np.where(z > 0.3, np.sin(z), 3 * z**2 + 3.2 * z), k)
        assert found[0] == pytest.approx(want, rel=1e-5)
        assert abs(found[0] - want) <= error[0] + 1e-9


def test_moments_of_a_users_step_are_those_of_the_perceptron() -> None:
    step = sw.activation(lambda z: jnp.where(z >= 0, 1.0, 0.0), kinks=(0.0,), name="step")
    A, B, C = np.array([0.7, 2.0, 1.0]), np.array([1.9, 0.3, 1.0]), np.array([0.5, -0.6, 1.0])
    orders = [(0, 0), (1, 1), (2, 0), (0, 2), (2, 2), (3, 1), (1, 3), (4, 0), (0, 4)]
    ours, closed = (pair_moments(s, A, B, C, orders) for s in (step, "perceptron"))
    for order in orders:
        np.testing.assert_allclose(
            ours[order].value, closed[order].value, rtol=1e-11, atol=1e-13, err_msg=str(order)
        )


def test_moments_of_several_jumps_are_derivatives_of_the_kernel() -> None:
    sigma = sw.activation(
        lambda z: jnp.where(z > 0.4, 1.0, jnp.where(z > -0.7, 0.3, 0.0)) + jnp.tanh(z),
        kinks=(-0.7, 0.4),
    )
    found = pair_moments(sigma, *POINT[:, None], [(1, 1), (2, 0), (2, 2), (3, 1), (4, 0)])
    slope = slopes(sigma, [(0, 0), (1, 1), (2, 0)])
    want = {
        (1, 1): slope[0, 0][2],
        (2, 0): 2 * slope[0, 0][0],
        (2, 2): slope[1, 1][2],
        (3, 1): slope[2, 0][2],
        (4, 0): 2 * slope[2, 0][0],
    }
    for order, value in want.items():
        assert found[order].value[0] == pytest.approx(value, rel=1e-9), order
