"""Golden: averages over the quadratic part of a neuron against the Gaussian integral that they are."""

from itertools import product

import numpy as np

from scalewise.training.posterior._neurons import Push
from scalewise.training.posterior._point import Point
from scalewise.training.posterior._wick import (
    after_inverse,
    learned,
    products,
    squares,
    weight_variance,
)


def test_averages_of_the_quadratic_part_are_gaussian_integrals() -> None:
    """Three nodes in each direction are exact for polynomials of degree 5; these are of degree 4."""
    rng, count, samples = np.random.default_rng(0), 3, 5
    root = rng.standard_normal((samples, samples))
    K, alpha = root @ root.T, rng.standard_normal((samples, samples))
    beta = rng.standard_normal((samples, samples))
    beta = beta @ beta.T
    L, u = rng.standard_normal((count, count)), rng.standard_normal((count, 2))
    T = np.zeros((samples - count, samples))
    none = np.zeros(samples - count)
    Q = Push(Point(count, L, u, T, none, T[:, :2], True), K, alpha, beta, False)

    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    z = root @ np.array(list(product(nodes, repeat=samples))).T
    w = np.prod(list(product(weights / weights.sum(), repeat=samples)), axis=1)
    d = z**2 - np.diagonal(K)[:, None]
    moved = beta[:, :, None] * (z[:, None] * z - K[:, :, None])
    moved += alpha[:, :, None] * d[:, None] + alpha.T[:, :, None] * d
    trained, own = moved[:, :count], moved[:count, :count]
    on_first, on_second = (np.einsum("abm,b->am", trained, v) for v in u.T)
    Y = L + L.T
    pushed = 0.5 * np.einsum("ab,abm->m", Y, own)
    wanted = {
        "products": (products(Q, *u.T), np.einsum("m,am,bm->ab", w, on_first, on_second)),
        "of one": (products(Q, u[:, 0]), np.einsum("m,am,bm->ab", w, on_first, on_first)),
        "inverse": (
            after_inverse(Q, u[:, 0]),
            np.einsum("m,abm,bc,cm->a", w, trained, Q.point.S, on_first[:count]),
        ),
        "square": (
            next(squares(Q, [L])),
            np.einsum("m,abm,bc,dcm->ad", w, trained, Q.point.S, trained),
        ),
        "sum": (Q.total(z, z[:count]), np.einsum("abm,bm->a", trained, z[:count])),
        # With a mean of its own, beside which the means of what is summed do not cancel.
        "sum, of one sign": (Q.total(z, z[:count] + 1), Q.times(z, z[:count] + 1).sum(axis=1)),
        "learned": (learned(Q, Y), np.einsum("m,m,am,bm->ab", w, pushed, z, z)),
        "variance": (weight_variance(Q, Y), w @ pushed**2),
    }
    assert [k for k, (here, there) in wanted.items() if not np.allclose(here, there)] == []
