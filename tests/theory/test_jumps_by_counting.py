"""Golden tests: the metric of a step at order 1/n, by counting which neurons of the layer below are on.

Neurons of the first layer are on or off independently, so the metric of the second is a count over the width, and
the mean kernel of the third a finite sum: exact at any width, with nothing of the recursions in it.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import owens_t
from scipy.stats import binom, multinomial, norm

import scalewise as sw
from grids import thorough

C_W = 1.5
X = np.array([[1.0, -0.4], [0.9, 0.5]])


def network(place: float, width: int = 32) -> sw.Network:
    step = sw.activation(lambda z: jnp.where(z >= place, 1.0, 0.0), kinks=(place,), name="step")
    return sw.MLP(3, width, step, input_dim=2, output_dim=1, C_W=C_W)


def on(place: float, K: np.ndarray) -> np.ndarray:
    """How often a neuron is on; never where nothing comes from below."""
    return norm.sf(place / np.sqrt(np.maximum(K, 1e-300)))


def both_on(place: float, A: np.ndarray, B: np.ndarray, C: np.ndarray) -> np.ndarray:
    """Two inputs at once, by Owen's function."""
    h, k = -place / np.sqrt(A), -place / np.sqrt(B)
    c = np.clip(C / np.sqrt(A * B), -1 + 1e-9, 1 - 1e-9)
    s = np.sqrt(1 - c * c)
    return (
        0.5 * (norm.cdf(h) + norm.cdf(k))
        - owens_t(h, (k / h - c) / s)
        - owens_t(k, (h / k - c) / s)
    )


@pytest.mark.parametrize("place", [0.3, 1.0])
def test_one_input(place: float) -> None:
    predicted = sw.predict(network(place), X[:1], observables=["kernel", "metric_nlo"])
    p, n = on(place, C_W * np.mean(X[0] ** 2)), 40_000
    counts = np.arange(n + 1)
    mean = np.sum(binom.pmf(counts, n, p) * C_W * on(place, C_W * counts / n))
    limit = float(predicted.kernel[-1, 0, 0])
    assert limit == pytest.approx(C_W * on(place, C_W * p), rel=1e-9)
    assert n * (mean - limit) == pytest.approx(float(predicted.metric_nlo[-1, 0, 0]), rel=5e-4)


@pytest.mark.parametrize("place", [0.3, *thorough(1.0)])
def test_two_inputs(place: float) -> None:
    predicted = sw.predict(network(place), X, observables=["kernel", "metric_nlo"])
    K = C_W * X @ X.T / 2
    (p_a, p_b), p_ab = on(place, np.diagonal(K)), both_on(place, K[0, 0], K[1, 1], K[0, 1])
    limit = float(predicted.kernel[-1, 0, 1])
    assert limit == pytest.approx(C_W * both_on(place, C_W * p_a, C_W * p_b, C_W * p_ab), rel=1e-8)
    corrections = []
    for n in (24, 48, 96):
        i, j, k = (axis.ravel() for axis in np.indices((n + 1,) * 3))
        few = i + j + k <= n
        i, j, k = i[few], j[few], k[few]
        law = [p_ab, p_a - p_ab, p_b - p_ab, 1 - p_a - p_b + p_ab]
        weight = multinomial.pmf(np.stack([i, j, k, n - i - j - k], axis=-1), n, law)
        seen = (weight > 1e-13) & (i + j > 0) & (i + k > 0)
        i, j, k, weight = i[seen], j[seen], k[seen], weight[seen]
        A, B, C = C_W * (i + j) / n, C_W * (i + k) / n, C_W * i / n
        corrections.append(n * (np.sum(weight * C_W * both_on(place, A, B, C)) - limit))
    # A polynomial in 1/n, at 0.
    one, two, four = corrections
    found = (8 * four - 6 * two + one) / 3
    wanted = float(predicted.metric_nlo[-1, 0, 1])
    assert found == pytest.approx(wanted, rel=0.02)
    assert abs(four - wanted) > abs(found - wanted)
