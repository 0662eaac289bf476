"""Agreement of the hot path with pairs one by one, at every correlation and with few orders or many."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from scalewise.activations import BUILTIN_NAMES
from scalewise.gaussian import (
    Places,
    Workspace,
    _kernel_map,
    kernel_map,
    pair_moments,
    single_moment,
)
from scalewise.gaussian._hermite import low_orders

LARGEST = (0.0, 0.2, 0.5, -0.7, 0.9, 0.99, 1.0, -1.0)
SMOOTH = [n for n in BUILTIN_NAMES if sw.activation(n).is_smooth]


def moments_of(sigma, K, C):
    """Both moments of a tile, by the map; the inputs of its columns are others, with the same variances."""
    here = kernel_map(sigma, np.concatenate([K, K]), slope=True)
    tile, slope, count = C.copy(), np.empty_like(C), len(K)
    work = Workspace(here.scratch, C.size).take(C.shape)
    here.apply(Places(slice(0, count), slice(count, 2 * count)), tile, slope, work)
    return (here.diagonal[:count], here.diagonal_slope[:count]), tile, slope


@pytest.mark.parametrize("scale", [1.0, *thorough(1e-6, 30.0)])
def test_every_correlation_is_right_for_every_smooth_activation(scale: float) -> None:
    # One tile for each largest correlation, so that each has its own number of orders.
    failures = []
    K = scale * np.linspace(0.5, 2.0, 4)
    root = np.sqrt(np.outer(K, K))
    for name in SMOOTH:
        if name in ("exp", "monomial", "quadratic") and scale > 1.0:
            continue  # they leave no room above them in float64 for a relative error to be small
        sigma = sw.activation(name)
        tiles = np.multiply.outer(LARGEST, np.linspace(0.1, 1.0, 16).reshape(4, 4)) * root
        exact = pair_moments(sigma, K[:, None], K[None], tiles)
        for place, largest in enumerate(LARGEST):
            sizes, tile, slope = moments_of(sigma, K, tiles[place])
            for kind, (got, pq, size) in enumerate(
                zip((tile, slope), ((0, 0), (1, 1)), sizes, strict=True)
            ):
                unit = np.sqrt(np.outer(size, size))
                want, stated = exact[pq].value[place], exact[pq].error[place]
                error = np.max((np.abs(got - want) - stated) / unit)
                # Of orders k the slope sees k times as much: at |c| = 1 some hundred times.
                if error > (3e-12, 3e-11)[kind]:
                    failures.append((name, largest, kind, float(error)))
        for pq, got in zip(((0, 0), (1, 1)), sizes, strict=True):
            want = single_moment(sigma, K, pq).value
            if not np.allclose(got, want, rtol=1e-12):
                failures.append((name, "diagonal", pq))
    assert not failures


def test_a_tile_alone_gives_what_it_gives_beside_others() -> None:
    # Orders learnt for one tile are there for the next: results agree far below the tolerance.
    sigma, K = sw.activation("tanh"), np.linspace(0.5, 2.0, 4)
    root = np.sqrt(np.outer(K, K))
    alone = moments_of(sigma, K, 0.3 * root)[1:]
    here = kernel_map(sigma, np.concatenate([K, K]), slope=True)
    work = Workspace(here.scratch, 16).take((4, 4))
    for c in (0.999, 0.3):
        tile, slope = c * root, np.empty((4, 4))
        here.apply(Places(slice(0, 4), slice(4, 8)), tile, slope, work)
    np.testing.assert_allclose(tile, alone[0], rtol=2e-12)
    np.testing.assert_allclose(slope, alone[1], rtol=2e-12)


def test_what_bends_too_sharply_for_few_nodes_goes_the_general_way() -> None:
    K = np.array([1.0, 2.0])
    assert low_orders(np.abs, np.sign, K, 32, parity=1) is None
    sharp = sw.activation(lambda z: jnp.tanh(300.0 * z), name="sharp")
    C = np.array([[1.0, 0.6], [0.6, 2.0]])
    (diagonal, _), tile, slope = moments_of(sharp, K, C)
    want = pair_moments(sharp, K[:, None], K[None], C)
    np.testing.assert_allclose(tile, want[0, 0].value, rtol=1e-9)
    np.testing.assert_allclose(slope, want[1, 1].value, rtol=1e-9)
    np.testing.assert_allclose(diagonal, np.diag(tile), rtol=1e-9)


def bent(z):
    return jnp.abs(jnp.tanh(z) - 0.5)


def broken(z):
    return jnp.tanh(z) + jnp.where(z > 0.4, 1.0, 0.0)


OWN = {"bent": (bent, math.atanh(0.5)), "broken": (broken, 0.4)}
MORE = ("selu", "celu", "softsign", "hardtanh", "hardswish", "relu6", "hardsigmoid")


def kinked(name: str) -> sw.Activation:
    if name not in OWN:
        return sw.activation(name)
    function, kink = OWN[name]
    return sw.activation(function, name=name, kinks=(kink,))


@pytest.mark.parametrize("name", ["elu", "broken", *thorough("bent", *MORE)])
def test_kinks_have_a_series_up_to_correlations_near_1(name: str, monkeypatch) -> None:
    sigma, direct = kinked(name), []

    def counted(sigma, A, B, C, orders):
        direct.append(np.size(C))
        return pair_moments(sigma, A, B, C, orders)

    monkeypatch.setattr(_kernel_map, "pair_moments", counted)
    K = np.array([0.3, 2.0, 50.0])
    root = np.sqrt(np.outer(K, K))
    kinds = ((0, 0), (1, 1))[: 1 + sigma.is_continuous]
    for c, most in (
        (np.array([[0.3, 0.5, -0.2], [0.7, 0.1, 0.0], [0.4, -0.8, 0.6]]), 0),
        (np.array([[0.9, 0.97, -0.2], [0.1, -0.999, 1.0], [-0.95, 0.8, 0.998]]), 3),
    ):
        here = kernel_map(sigma, np.concatenate([K, K]), slope=sigma.is_continuous)
        tile, slope = c * root, np.empty((3, 3)) if sigma.is_continuous else None
        here.apply(
            Places(slice(0, 3), slice(3, 6)), tile, slope, Workspace(here.scratch, 9).take((3, 3))
        )
        assert max(direct, default=0) <= most
        want = pair_moments(sigma, K[:, None], K[None], c * root, kinds)
        for found, own, pq in zip(
            (tile, slope), (here.diagonal, here.diagonal_slope), kinds, strict=False
        ):
            np.testing.assert_allclose(own[:3], single_moment(sigma, K, pq).value, rtol=1e-11)
            unit = np.sqrt(np.outer(own[:3], own[:3]))
            np.testing.assert_allclose(found / unit, want[pq].value / unit, rtol=0, atol=1e-11)
    assert direct, "1 is beyond every series"


def test_a_tile_of_inputs_with_themselves_is_computed_once(monkeypatch) -> None:
    """With its upper triangle, in part of a wider tile too; what an input has with itself is known."""
    direct = []

    def counted(sigma, A, B, C, orders):
        direct.append(np.size(C))
        return pair_moments(sigma, A, B, C, orders)

    monkeypatch.setattr(_kernel_map, "pair_moments", counted)
    K = np.linspace(0.5, 2.0, 5)
    C = 0.9999 * np.sqrt(np.outer(K, K))
    np.fill_diagonal(C, K)
    here = kernel_map(sw.activation("elu"), K, slope=True)
    tile, slope = C[1:3].copy(), np.empty((2, 5))
    here.apply(Places(slice(1, 3), slice(0, 5)), tile, slope, Workspace(5, 10).take((2, 5)))
    assert direct == [7, 7]
    assert tile[0, 2] == tile[1, 1]
    np.testing.assert_allclose([tile[0, 1], tile[1, 2]], here.diagonal[1:3], rtol=1e-14)
    want = pair_moments(
        "elu", K[1:3, None], K[None], np.minimum(C[1:3], np.sqrt(np.outer(K[1:3], K)))
    )
    np.testing.assert_allclose(tile, want[0, 0].value, rtol=1e-11)
    np.testing.assert_allclose(slope, want[1, 1].value, rtol=1e-11)


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "tanh", "gelu", "elu"])
def test_a_label_that_does_not_vary_has_the_slope_at_0_and_with_a_kink_the_left_one(name) -> None:
    sigma = sw.activation(name)
    here = kernel_map(sigma, np.array([0.0, 1.3, 0.0, 0.4]), slope=True)
    C, slope = np.zeros((2, 2)), np.empty((2, 2))
    here.apply(Places(slice(0, 2), slice(2, 4)), C, slope, Workspace(here.scratch, 4).take((2, 2)))
    value = float(sigma(np.zeros(1))[0])
    left = sigma.slopes[0] if sigma.slopes else float(sigma.derivatives[1](np.zeros(1))[0])
    z = np.linspace(-12.0, 12.0, 200_002)
    w = np.exp(-z * z / 2)
    means = [
        [(w * f(np.sqrt(K) * z)).sum() / w.sum() for K in (1.3, 0.4)] for f in sigma.derivatives[:2]
    ]
    for found, at_0, (first, second) in ((C, value, means[0]), (slope, left, means[1])):
        np.testing.assert_allclose(found[0], [at_0 * at_0, at_0 * second], rtol=1e-6, atol=1e-13)
        np.testing.assert_allclose(found[1, 0], first * at_0, rtol=1e-6, atol=1e-13)
    np.testing.assert_allclose(here.diagonal_slope[[0, 2]], left**2, rtol=1e-13)
