"""Golden, property and agreement tests of weights inserted into expectations over one layer.

Independent routes: Wick's theorem for monomials of preactivations and weights, printed forms with
inverse metrics, and draws of real weights.
"""

import itertools
import math

import numpy as np
import pytest

from grids import each
from scalewise.theory.correlators import (
    stochastic_metric,
    weight_generating_function,
    weight_moments,
)

C_b, C_W = 0.3, 1.7
# Three neurons below, two inputs; and four inputs, two of which coincide, on two neurons.
TWO = np.array([[0.8, -0.3], [0.2, 1.1], [-0.9, 0.5]])
FOUR = np.array([[0.8, -0.3, 0.8, 0.1], [0.4, 1.1, 0.4, -0.7]])


def covariance(activations, neurons, C_b=C_b, C_W=C_W) -> np.ndarray:
    """Of all (z_{i;a}, W_{ij}) of a layer, in this order."""
    below, samples = activations.shape
    row = np.zeros((samples + below,) * 2)
    row[:samples, :samples] = C_b + C_W / below * activations.T @ activations
    row[:samples, samples:] = C_W / below * activations.T
    row[samples:, :samples] = row[:samples, samples:].T
    row[samples:, samples:] = C_W / below * np.eye(below)
    size = samples + below
    full = np.zeros((neurons, size, neurons, size))
    for i in range(neurons):
        full[i, :, i] = row
    return full.reshape(neurons * size, -1)


def wick(cov, factors) -> float:
    """Mean of a product of jointly Gaussian variables."""
    if not factors:
        return 1.0
    first, rest = factors[0], factors[1:]
    return sum(
        cov[first, other] * wick(cov, rest[:k] + rest[k + 1 :])
        for k, other in enumerate(rest)
        if cov[first, other]
    )


MONOMIALS = [
    (TWO, [(0, 0), (0, 1), (1, 0)]),
    (TWO, [(0, 0), (0, 0), (1, 1), (1, 0)]),
    (TWO, [(0, 1)] * 5),
    (FOUR, [(0, 0), (1, 2), (1, 3)]),
    (FOUR, [(0, 0), (0, 2), (1, 1), (1, 3)]),
]


@pytest.mark.covers("B12", "C10")
@each("count", [0, 1, 2, 3])
@each(("below", "legs"), MONOMIALS)
def test_monomials_against_wick(below, legs, count) -> None:
    n, samples = below.shape
    cov = covariance(below, 2)
    value, error = weight_moments(
        lambda z: np.prod([z[i, a] for i, a in legs], axis=0),
        below,
        count,
        C_b=C_b,
        C_W=C_W,
        neurons=2,
    )
    assert value.shape == (2, n) * count
    base = [i * (samples + n) + a for i, a in legs]
    expected = np.zeros(value.shape)
    for places in itertools.product(range(2), range(n), repeat=count):
        pairs = zip(places[::2], places[1::2], strict=True)
        weights = [i * (samples + n) + samples + j for i, j in pairs]
        expected[places] = wick(cov, base + weights)
    np.testing.assert_allclose(value, expected, rtol=0, atol=1e-10)
    assert np.max(error) < 1e-9
    assert (np.max(np.abs(expected)) > 0.01) == ((len(legs) + count) % 2 == 0)


def observables(z) -> np.ndarray:
    return np.stack(
        [
            np.cos(z[0, 0] - 0.4 * z[1, 1]),
            np.tanh(z[0, 0]) * np.tanh(z[1, 0]) * z[0, 1],
            np.abs(z[0, 1]) + np.maximum(z[1, 0], 0.0) * z[1, 1],
        ]
    )


def draws(below, neurons, size, seed=0) -> tuple[np.ndarray, np.ndarray]:
    """Preactivations (neuron, sample, draw) and weights (neuron, below, draw)."""
    rng = np.random.default_rng(seed)
    n = len(below)
    W = rng.normal(size=(neurons, n, size)) * math.sqrt(C_W / n)
    b = rng.normal(size=(neurons, 1, size)) * math.sqrt(C_b)
    return np.einsum("ijm,ja->iam", W, below) + b, W


def agrees(products: np.ndarray, value: np.ndarray, error: np.ndarray) -> None:
    """Mean over the last axis within 5 standard errors, for some hundreds of entries."""
    noise = products.std(axis=-1) / math.sqrt(products.shape[-1])
    off = np.abs(products.mean(axis=-1) - value)
    assert np.all(off <= 5 * noise + 4 * error)
    assert np.max(np.abs(value)) > 20 * np.median(noise)


@pytest.mark.covers("B12", "C10")
@each("count", [0, 1, 2, 3])
def test_draws_of_real_weights(count) -> None:
    """With signs reversed too: a coarser noise, half the draws."""
    z, W = draws(TWO, 2, 40_000)
    flat = W.reshape(6, -1)
    products = (observables(z) + 0.0)[:, None]
    mirror = observables(-z)[:, None] * (-1.0) ** count
    both = 0.5 * (products + mirror)
    for _ in range(count):
        both = (both[:, :, None] * flat).reshape(3, -1, flat.shape[1])
    value, error = weight_moments(
        observables, TWO, count, C_b=C_b, C_W=C_W, neurons=2, smooth=False
    )
    agrees(both, value.reshape(3, -1), error.reshape(3, -1))


@pytest.mark.covers("B12")
def test_generating_function_of_draws() -> None:
    J = np.array([[0.5, -0.8, 0.1], [0.3, 0.2, -0.6]])
    z, W = draws(TWO, 2, 400_000, seed=3)
    value, error = weight_generating_function(observables, J, TWO, C_b=C_b, C_W=C_W, smooth=False)
    agrees(observables(z) * np.exp(np.einsum("ij,ijm->m", J, W)), value, error)


def smooth_observable(z) -> np.ndarray:
    return np.cos(z[0, 0] - 0.4 * z[1, 1]) + np.tanh(z[0, 0] + 0.2) * z[1, 0]


@pytest.mark.covers("B12")
def test_derivatives_of_the_generating_function_are_the_moments() -> None:
    rules = {"C_b": C_b, "C_W": C_W}

    def generate(direction) -> float:
        return float(weight_generating_function(smooth_observable, direction, TWO, **rules)[0])

    rng = np.random.default_rng(1)
    J, h = rng.normal(size=(2, 3)), 0.05
    samples = np.array([generate(k * h * J) for k in range(-4, 5)])
    series = np.polynomial.polynomial.polyfit(h * np.arange(-4, 5), samples, 8)
    legs = {0: "", 1: "ij", 2: "ijkl", 3: "ijklpq"}
    for count, letters in legs.items():
        value, _ = weight_moments(smooth_observable, TWO, count, **rules, neurons=2)
        sources = [letters[2 * k : 2 * k + 2] for k in range(count)]
        contracted = np.einsum(",".join([letters, *sources]) + "->", value, *[J] * count)
        assert series[count] * math.factorial(count) == pytest.approx(contracted, rel=1e-5)


@pytest.mark.covers("C10")
@each("count", [1, 2, 3])
def test_weights_make_up_a_preactivation(count) -> None:
    """Without a bias z = W sigma: one weight fewer, one factor z more."""
    rules = {"C_b": 0.0, "C_W": C_W, "neurons": 2}
    for below in (TWO, FOUR):
        more, _ = weight_moments(smooth_observable, below, count, **rules)
        fewer, _ = weight_moments(
            lambda z: smooth_observable(z) * z.reshape(-1, z.shape[-1]), below, count - 1, **rules
        )
        fewer = fewer.reshape(2, below.shape[1], *(2, len(below)) * (count - 1))
        summed = np.einsum("ij...,ja->ia...", more, below)
        np.testing.assert_allclose(summed, fewer, rtol=0, atol=1e-9)


@pytest.mark.covers("B12")
def test_printed_form_of_two_insertions() -> None:
    """(8.55) with inverse metrics, from draws-free moments of z: the deltas are where they are printed."""
    G = stochastic_metric(TWO, C_b=C_b, C_W=C_W)
    up = np.linalg.inv(G) @ TWO.T  # G^{ab} sigma_{j;b}
    rules = {"C_b": C_b, "C_W": C_W, "neurons": 2}

    def insertions(z) -> np.ndarray:
        pairs = np.einsum("iam,kbm->iakbm", z, z)
        pairs -= np.einsum("ik,ab->iakb", np.eye(2), G)[..., None]
        return smooth_observable(z) * pairs

    inserted, _ = weight_moments(insertions, TWO, 0, **rules)
    plain, _ = weight_moments(smooth_observable, TWO, 0, **rules)
    rate = C_W / 3
    printed = rate * plain * np.einsum("ik,jl->ijkl", np.eye(2), np.eye(3))
    printed += rate**2 * np.einsum("iakb,aj,bl->ijkl", inserted, up, up)
    value, _ = weight_moments(smooth_observable, TWO, 2, **rules)
    np.testing.assert_allclose(value, printed, rtol=0, atol=1e-10)


def test_coincident_inputs_are_one_input() -> None:
    doubled = TWO[:, [0, 1, 0]]
    rules = {"C_b": C_b, "C_W": C_W, "neurons": 2}
    for count in range(4):
        one, _ = weight_moments(smooth_observable, TWO, count, **rules)
        same, _ = weight_moments(lambda z: smooth_observable(z[:, [2, 1]]), doubled, count, **rules)
        np.testing.assert_allclose(same, one, rtol=0, atol=5e-6)


def test_refusals() -> None:
    def first(z):
        return z[0, 0]

    rules = {"C_b": C_b, "C_W": C_W}
    with pytest.raises(ValueError, match="`count` must be 0, 1, 2 or 3 weights; got 4"):
        weight_moments(first, TWO, 4, **rules)
    with pytest.raises(ValueError, match=r"`C_W` must be a positive finite number; got 0\.0"):
        weight_moments(first, TWO, 1, C_b=C_b, C_W=0.0)
    with pytest.raises(ValueError, match="`activations` must hold finite numbers only"):
        stochastic_metric(TWO * np.nan, **rules)
    with pytest.raises(ValueError, match="`neurons` must be a whole number of at least 1"):
        weight_moments(first, TWO, 1, **rules, neurons=0)
    with pytest.raises(ValueError, match="`observable` must return finite values"):
        weight_moments(lambda z: z[0, 0] * np.inf, TWO, 1, **rules)
    with pytest.raises(ValueError, match="nodes on the last axis"):
        weight_moments(lambda z: z[0, 0].mean(), TWO, 1, **rules)
    with pytest.raises(ValueError, match="stochastic metric` vanishes"):
        weight_moments(first, 0 * TWO, 1, C_b=0.0, C_W=C_W)
    with pytest.raises(ValueError, match=r"`J` must be \(neurons, 3\)"):
        weight_generating_function(first, np.ones((1, 2)), TWO, **rules)
