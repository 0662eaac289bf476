"""Property and agreement: the end of training from what a network is at its start, held to what it does."""

from functools import partial

import numpy as np
import pytest

import scalewise as sw
from scalewise.nets import init_weights
from scalewise.nets._networks import precision
from scalewise.training.dynamics import (
    NetworkState,
    damping_force,
    effective_dynamics,
    force_sum,
    free_theory,
    trained_ntk,
    trained_outputs,
)
from scalewise.training.dynamics.networks import state_of
from scalewise.training.width._weights import converged, separable

TRAIN, ALL = 4, 6
RNG = np.random.default_rng(21)
Z, Y = RNG.standard_normal(ALL), RNG.standard_normal(TRAIN)
ROOT = RNG.standard_normal((ALL, 9)) / 3
H = ROOT @ ROOT.T
DH = RNG.standard_normal((ALL,) * 3)
DH = DH + DH.transpose(0, 2, 1)
FIRST = RNG.standard_normal((ALL,) * 4)
FIRST = sum(
    FIRST.transpose(0, *p)
    for p in ((1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 3, 1), (3, 1, 2), (3, 2, 1))
)
SECOND = RNG.standard_normal((ALL,) * 4)
SECOND = SECOND + SECOND.transpose(1, 0, 3, 2)
PARTS = ("dntk", "dd_first", "dd_second")


def state(**sizes: float) -> NetworkState:
    dntk, first, second = (sizes.get(name, 0.0) for name in PARTS)
    return NetworkState(Z, H, dntk * DH, first * FIRST, second * SECOND)


@pytest.mark.covers("C40", "C45", "C48")
def test_weights_of_algorithms_are_what_the_effective_dynamics_does() -> None:
    """To the end with random tensors: linear response in each against closed forms, small rates and large."""
    h, size, wrong = np.linalg.eigvalsh(H[:TRAIN, :TRAIN]), 1e-6, []
    ways = {
        "exact": (converged, 1e-6),
        "separable": (lambda h, rate: separable(h, rate).whole(), 1e-3),
    }
    for strength in (0.3, 1.0, 1.6):
        rate = strength / h[-1]
        steps = int(40 / -np.log(np.abs(1 - rate * h[[0, -1]]).max()))
        for name in PARTS:
            ends = [
                list(effective_dynamics(state(**{name: s}), Y, rate, steps))[-1].outputs
                for s in (size, -size)
            ]
            seen = (ends[0] - ends[1]) / (2 * size)
            for way, (weights, accuracy) in ways.items():
                algorithm = partial(weights, rate=rate)
                free = trained_outputs(state(), Y, algorithm)
                found = trained_outputs(state(**{name: 1.0}), Y, algorithm) - free
                if not np.allclose(found, seen, atol=accuracy * np.abs(seen).max()):
                    wrong.append((strength, name, way, found, seen))
                assert np.allclose(found[:TRAIN], 0, atol=1e-8 * np.abs(found).max())
    assert wrong == []


@pytest.mark.covers("C44", "C48")
def test_the_sum_of_all_damping_forces_is_what_the_weights_give() -> None:
    rate = 0.9 / np.linalg.eigvalsh(H[:TRAIN, :TRAIN])[-1]
    start = state(dntk=1.0, dd_first=1.0, dd_second=1.0)
    free = free_theory(start, Y, rate)
    steps = int(40 / (rate * free.modes.h[0]))
    total = rate * sum(damping_force(free, t) for t in range(steps))
    found = force_sum(start, Y, partial(converged, rate=rate))
    # Directions of the dNTK need not be symmetric between legs: only their sum over training is compared.
    assert np.allclose(found, total, rtol=1e-8)


@pytest.mark.covers("C49")
def test_the_trained_ntk_predicts_what_training_does() -> None:
    algorithm, gaps = partial(converged, rate=0.2), []
    for size in (1e-4, 5e-5):
        start = state(**dict.fromkeys(PARTS, size))
        kernel = trained_ntk(start, Y, algorithm)
        z = Z - kernel @ np.linalg.solve(kernel[:TRAIN], Z[:TRAIN] - Y)
        gaps.append(np.abs(z - trained_outputs(start, Y, algorithm)).max())
        off = kernel - H[:, :TRAIN]
        assert np.linalg.matrix_rank(off, tol=1e-10) == 1
        v = np.linalg.solve(H[:TRAIN, :TRAIN], Z[:TRAIN] - Y)
        assert np.allclose(off @ v, -force_sum(start, Y, algorithm))
    assert 3.8 < gaps[0] / gaps[1] < 4.2


X = np.array(
    [[1.5, 0.3, -0.4], [-0.2, 1.6, 0.5], [0.4, -0.8, 1.4], [0.9, 1.0, 0.2], [-0.9, 0.5, 1.2]]
)
WANTED = np.array([[1.0, -0.3], [-0.6, 0.8], [0.4, 0.7]])


def network(width: int) -> sw.Network:
    return sw.MLP(
        3, width, "tanh", input_dim=3, output_dim=2, C_b=0.1, C_W=1.4, lambda_b=0.5, lambda_W=1.0
    )


def trained(net: sw.Network, parameters, y: np.ndarray, rate: float) -> np.ndarray:
    """Outputs at the end of gradient descent, written out."""
    W = [np.array(w, float) for w in parameters.weights]
    b = [np.array(v, float) for v in parameters.biases]
    for _ in range(3000):
        layers = [X]
        for i in range(3):
            z = layers[-1] @ W[i].T + b[i]
            layers.append(np.tanh(z))
        back = z[: len(y)] - y
        if np.abs(back).max() < 1e-11:
            return z.reshape(-1)
        for i in (2, 1, 0):
            below = layers[i][: len(y)]
            above = back @ W[i] * (1 - below**2)
            W[i] -= rate * net.lambda_W[i] / net.widths[i] * back.T @ below
            b[i] -= rate * net.lambda_b[i] * back.sum(axis=0)
            back = above
    raise AssertionError


@pytest.mark.covers("C48")
@pytest.mark.thorough(
    "tests/training/test_curved.py::test_what_is_left_of_really_trained_networks_falls_twice_as_fast"
)
def test_every_network_ends_where_its_start_says() -> None:
    """Targets near the start: what is left is cubic in the distance (dNTK x dNTK). Targets anywhere: 1/n^2."""
    powers = {}
    net = network(32)
    with precision("float64"):
        theta = init_weights(net, 2, dtype="float64")
    start = state_of(net, theta, X)
    rate = 1.2 / np.linalg.eigvalsh(start.ntk[:6, :6])[-1]
    direction, left = np.sin(1 + np.arange(6)), []
    for size in (0.04, 0.02):
        y = start.outputs[:6] - size * direction
        found = trained_outputs(start, y, partial(converged, rate=rate))
        left.append(np.abs(found - trained(net, theta, y.reshape(3, 2), rate)).max())
    powers["distance"] = np.log2(left[0] / left[1])
    left = []
    for width in (32, 256):
        net, off = network(width), []
        for seed in range(4):
            with precision("float64"):
                theta = init_weights(net, seed, dtype="float64")
            start = state_of(net, theta, X)
            rate = 0.8 / np.linalg.eigvalsh(start.ntk[:6, :6])[-1]
            y = WANTED.reshape(-1)
            z = trained(net, theta, WANTED, rate)
            full = trained_outputs(start, y, partial(converged, rate=rate))
            flat = free_theory(start, y, rate).outputs(10**6)
            off.append([np.abs(full - z)[6:].mean(), np.abs(flat - z)[6:].mean()])
        left.append(np.exp(np.log(off).mean(axis=0)))
    powers["full"], powers["free"] = np.log2(left[0] / left[1]) / 3
    assert powers == pytest.approx({"distance": 3, "full": 2, "free": 1}, abs=0.3), (powers, left)
