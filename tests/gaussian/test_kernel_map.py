"""Agreement of the hot path with pairs one by one, at every correlation and with few orders or many."""

import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from scalewise.activations import BUILTIN_NAMES
from scalewise.gaussian import Workspace, kernel_map, pair_moments, single_moment
from scalewise.gaussian._hermite import low_orders

LARGEST = (0.0, 0.2, 0.5, -0.7, 0.9, 0.99, 1.0, -1.0)
SMOOTH = [n for n in BUILTIN_NAMES if sw.activation(n).is_smooth]


def moments_of(sigma, K, C):
    """Both moments of a tile, by the map; the inputs of its columns are others, with the same variances."""
    here = kernel_map(sigma, np.concatenate([K, K]), slope=True)
    tile, slope, count = C.copy(), np.empty_like(C), len(K)
    work = Workspace(here.scratch, C.size).take(C.shape)
    here.apply(slice(0, count), slice(count, 2 * count), tile, slope, work)
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
    here = kernel_map(sigma, K, slope=True)
    work = Workspace(here.scratch, 16).take((4, 4))
    for c in (0.999, 0.3):
        tile, slope = c * root, np.empty((4, 4))
        here.apply(slice(0, 4), slice(0, 4), tile, slope, work)
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
