"""Golden and agreement: P to U by jets of single units, against whole arrays and drawn networks."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from scalewise.theory.order import _responses
from scalewise.theory.order._responses import order_one
from scalewise.theory.order._unit_jets import LETTERS, lifted
from scalewise.theory.order._whole import whole_tensors

RNG = np.random.default_rng(7)
PLAIN, PLACED = RNG.normal(size=(2, 4)), RNG.normal(size=(2, 3, 2))
RATES: dict[str, Any] = {"C_b": 0.1, "C_W": 1.5, "lambda_b": 0.5, "lambda_W": 0.8}


def few(monkeypatch: pytest.MonkeyPatch, units: int = 1 << 11) -> None:
    """As many units as an error of some percent takes."""
    monkeypatch.setattr(_responses, "_MOST_OF_JETS", units)


def check(net: sw.Network, x: np.ndarray, layers: list[int]) -> None:
    """All of them, within 5 of the stated errors of what whole arrays say."""
    found = order_one(net, x, LETTERS, layers)
    for letter, (exact, noise) in whole_tensors(net, x, LETTERS, layers).items():
        value, error = found[letter]
        assert error.max() < 0.05 * np.abs(exact).max(), letter
        z = np.abs(value - exact) / np.hypot(error, noise)
        assert z.max() < 5, f"{letter}: {z.max():.1f}"
        assert np.sqrt((z**2).mean()) < 2.5, letter


def test_a_function_of_jets_has_the_derivatives_of_the_function() -> None:
    """By the mixed derivatives of f(p(e, f)) at 0, with p the polynomial of both factors."""
    x, y = RNG.normal(size=(2, 4, 3))

    def along(e: Any, f: Any) -> jax.Array:
        first, second = (z[0] + e * z[1] + f * z[2] + e * f * z[3] for z in (x, y))
        return jnp.tanh(first) * second

    d_e, d_f = jax.jacfwd(along, 0), jax.jacfwd(along, 1)
    want = [g(0.0, 0.0) for g in (along, d_e, d_f, jax.jacfwd(d_e, 1))]
    np.testing.assert_allclose(lifted(lambda a, b: jnp.tanh(a) * b, 2)(x, y), want, rtol=1e-5)


@pytest.mark.parametrize("sigma", ["tanh", *thorough("gelu")])
def test_fully_connected_layers_have_what_whole_arrays_say(
    sigma: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    few(monkeypatch)
    layers = (sw.Dense(20), sigma, sw.Dense(50), sigma, sw.Dense(1))
    check(sw.Network(*layers, input_shape=4, width=1, **RATES), PLAIN, [3])


def test_windows_of_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    """All entries of two samples, whose positions are read off by weights that differ."""
    few(monkeypatch)
    reading = sw.Aggregate(np.array([[1.0, 0.5], [0.2, 0.7]])), sw.Take(0), sw.Dense(1)
    net = sw.Network(
        *(sw.Conv(2), "tanh", sw.Conv(2, padding="circular"), "tanh"),
        *reading, input_shape=(2, 2), width=30, **RATES,
    )  # fmt: skip
    check(net, PLACED[:, :2], [3])


# Of the first of two inputs: where a + b/n + c/n² through 6,000, 4,000 and 2,000 drawn networks of width 64, 128,
# 256 leads for n to infinity, as `measure` finds them, and its standard error.
NORMED = {
    "P": (-29.45, 0.61),
    "Q": (-5.53, 0.12),
    "R": (-847.0, 28.0),
    "S": (287.1, 9.2),
    "T": (399.9, 12.6),
    "U": (148.7, 4.7),
}


# Of the layer where a stream adds up what an activation gave: of 3,000 drawn networks of width 64.
ADDED = {
    "P": (-0.8430, 0.0046),
    "Q": (-0.6533, 0.0041),
    "R": (-7.219, 0.038),
    "S": (2.982, 0.0085),
    "T": (0.9323, 0.0058),
    "U": (1.5145, 0.0068),
}


def agree(
    net: sw.Network, x: np.ndarray, layer: int, drawn: dict[str, tuple[float, float]]
) -> None:
    """Within 3.5 standard errors, and 2 % of what the next order is."""
    found = order_one(net, x, LETTERS, [layer])
    for letter, (mean, sem) in drawn.items():
        value, error = (float(part[0, 0, 0, 0, 0]) for part in found[letter])
        assert error < 0.02 * abs(mean)
        assert abs(value - mean) < 3.5 * np.hypot(sem, error) + 0.02 * abs(mean), letter


def test_networks_with_norms_have_what_drawn_networks_tend_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few(monkeypatch)
    layers = (sw.Dense(), sw.LayerNorm(), "tanh") * 2
    net = sw.Network(*layers, sw.Dense(2), input_shape=4, width=64)
    agree(net, np.random.default_rng(7).normal(size=(2, 4))[:1], 3, NORMED)


def test_neurons_that_remember_what_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a stream adds up neurons have products of their own, which two of them do not share."""
    few(monkeypatch)
    layers = sw.Dense(), "tanh", sw.Skip(sw.Dense()), sw.Dense(1)
    net = sw.Network(*layers, input_shape=4, width=64, C_W=1.5, lambda_W=0.8)
    agree(net, np.random.default_rng(7).normal(size=(1, 4)), 2, ADDED)
