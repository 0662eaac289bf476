"""Golden and property tests: moments of tiles of labels against those of single pairs."""

import numpy as np
import pytest

from scalewise.activations import activation
from scalewise.gaussian import pair_moments
from scalewise.gaussian._products import pair_products
from scalewise.gaussian.spi import PairTables

EVEN = ((0, 0), (1, 1), (2, 0), (0, 2), (2, 2), (3, 1), (1, 3))
ODD = ((1, 0), (0, 1), (2, 1), (1, 2))


def labels(count: int) -> np.ndarray:
    """Covariances, two of which are those of the same label."""
    z = np.random.default_rng(0).normal(size=(count, 6))
    z[3] = z[0]
    return z @ z.T / 6


@pytest.mark.parametrize("name", ["tanh", "gelu", "relu", "sin"])
def test_tiles_have_the_moments_of_their_pairs(name: str) -> None:
    sigma, K = activation(name), labels(30)
    tables = PairTables(sigma, np.diagonal(K).copy())
    rows, columns = slice(2, 9), slice(0, 30)
    A, B = np.broadcast_arrays(np.diagonal(K)[rows, None], np.diagonal(K)[None, columns])
    found = tables.moments(rows, columns, K[rows, columns], EVEN)
    known = pair_moments(
        sigma, A, B, np.clip(K[rows, columns], -np.sqrt(A * B), np.sqrt(A * B)), EVEN
    )
    for pq in EVEN:
        np.testing.assert_allclose(found[pq], known[pq].value, rtol=1e-7, atol=1e-8)
    if tables.is_series:
        found = tables.moments(rows, columns, K[rows, columns], ODD)
        asked = [((p,), (q,)) for p, q in ODD]
        beside = pair_products(sigma, A.ravel(), B.ravel(), K[rows, columns].ravel(), asked)
        for (p, q), values in found.items():
            np.testing.assert_allclose(
                values.ravel(), beside[(p,), (q,)].value, rtol=1e-7, atol=1e-8
            )


def test_labels_with_themselves_are_the_diagonal() -> None:
    K = labels(12)
    tables = PairTables(activation("tanh"), np.diagonal(K).copy())
    whole = tables.moments(slice(0, 12), slice(0, 12), K, [(3, 1)])[3, 1]
    np.testing.assert_allclose(np.diagonal(whole), tables.at_equal(3, 1), rtol=1e-12)


def test_a_label_that_is_always_0_is_a_constant() -> None:
    K = labels(6)
    K[2] = K[:, 2] = 0.0
    sigma = activation("gelu")
    found = PairTables(sigma, np.diagonal(K).copy()).moments(
        slice(0, 6), slice(2, 3), K[:, 2:3], [(1, 1)]
    )
    mean = pair_products(sigma, np.diagonal(K), np.diagonal(K), 0 * np.diagonal(K), [((1,), (1,))])
    slope = np.sqrt(mean[(1,), (1,)].value)
    np.testing.assert_allclose(found[1, 1].ravel(), 0.5 * slope, rtol=1e-9)
