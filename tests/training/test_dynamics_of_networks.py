"""Property and agreement: real networks beside the theory of their training, one network at a time."""

import numpy as np
import pytest

import scalewise as sw
from scalewise.nets import Parameters, init_weights
from scalewise.nets._networks import precision
from scalewise.training.dynamics import effective_dynamics
from scalewise.training.dynamics.networks import features_of, state_of
from scalewise.training.kernels import giant_leap, two_step_newton

X = np.array([[1.5, 0.3, -0.4], [-0.2, 1.6, 0.5], [0.4, -0.8, 1.4], [0.9, 1.0, 0.2]])
Y = np.array([[1.0, -0.3], [-0.6, 0.8], [0.4, 0.7]])
TRAIN = len(Y)


def network(width: int, depth: int = 3, outputs: int = 2) -> sw.Network:
    rates = {"lambda_b": 0.5, "lambda_W": 0.8}
    return sw.MLP(depth, width, "tanh", input_dim=3, output_dim=outputs, C_b=0.1, C_W=1.4, **rates)


def forward(net: sw.Network, theta: Parameters, x: np.ndarray) -> list[np.ndarray]:
    layers = [x]
    for W, b in zip(theta.weights, theta.biases, strict=True):
        z = layers[-1] @ np.asarray(W, float).T + np.asarray(b, float)
        layers.append(np.tanh(z))
    return [*layers[:-1], z]


def descended(net: sw.Network, theta: Parameters, y: np.ndarray, rate: float) -> Parameters:
    """One step, written out: nothing of the package has a part in it."""
    *layers, z = forward(net, theta, X[: len(y)])
    back, weights, biases = z - y, [], []
    for i in range(net.depth)[::-1]:
        W, b = np.asarray(theta.weights[i], float), np.asarray(theta.biases[i], float)
        own = rate * net.lambda_W[i] / net.widths[i]
        weights.insert(0, W - own * back.T @ layers[i])
        biases.insert(0, b - rate * net.lambda_b[i] * back.sum(axis=0))
        back = back @ W * (1 - layers[i] ** 2)
    return Parameters(tuple(weights), tuple(biases))


def drawn(net: sw.Network, seed: int) -> Parameters:
    with precision("float64"):
        return init_weights(net, seed, dtype="float64")


@pytest.mark.covers("C19", "C20")
def test_a_cubic_model_of_a_network_is_the_network_up_to_the_fourth_order() -> None:
    """Tensors of its derivatives are those that the package contracts; its descent is the network's."""
    net = network(3, depth=3)
    theta = drawn(net, 4)
    model, state = features_of(net, theta, X), state_of(net, theta, X)
    zero = np.zeros(len(model.rates))
    own = model.state(zero)
    for name in ("outputs", "ntk", "dntk", "dd_first", "dd_second"):
        assert np.allclose(getattr(own, name), getattr(state, name), atol=1e-12), name
    direction, gaps = np.sin(1 + np.arange(Y.size)).reshape(Y.shape), []
    for size in (0.02, 0.01):
        targets = state.outputs[: Y.size] - size * direction.reshape(-1)
        at, real, effective = zero, theta, effective_dynamics(state, targets, 0.5, 3)
        next(effective)
        for _ in range(3):
            at = model.descended(at, targets, 0.5)
            real = descended(net, real, targets.reshape(Y.shape), 0.5)
            by_tensors = next(effective)
        z = forward(net, real, X)[-1].reshape(-1)
        gaps.append([np.abs(model.outputs(at) - z).max(), np.abs(by_tensors.outputs - z).max()])
    ratios = np.divide(*gaps)
    assert 14 < ratios[0] < 18  # what the fourth derivative does
    assert 14 < ratios[1] < 18  # and products of it and of dNTKs with ddNTKs
    # Away from the start the derivatives move as the model says.
    moved = model.state(0.01 * np.cos(np.arange(len(zero))))
    flat = np.concatenate([a.ravel() for a in (*theta.weights, *theta.biases)])
    flat, parts = flat + 0.01 * np.cos(np.arange(len(zero))), []
    for a in (*theta.weights, *theta.biases):
        parts.append(flat[: a.size].reshape(a.shape))
        flat = flat[a.size :]
    there = state_of(net, Parameters(tuple(parts[:3]), tuple(parts[3:])), X)
    assert np.allclose(moved.outputs, there.outputs, atol=1e-6)
    assert np.allclose(moved.ntk, there.ntk, atol=1e-4)
    assert np.allclose(moved.dntk, there.dntk, atol=1e-2)


@pytest.mark.covers("C36", "C38", "C72")
def test_residuals_of_leaps_fall_with_the_width() -> None:
    """Leap of infinite width -1/2; two steps 0, -1, -3/2 of one network, whose NTK is off its mean by n^-1/2."""
    widths, networks = (32, 512), 16
    residuals = {"start": [], "infinite": [], "one": [], "two": [], "elsewhere": []}
    for width in widths:
        net, found = network(width), []
        Theta = sw.predict(net, X, observables=["ntk"]).ntk.values[-1]
        on_train = Theta[:TRAIN, :TRAIN]
        for seed in range(networks):
            theta = drawn(net, seed)
            leaped = giant_leap(net, theta, X[:TRAIN], Y, ntk=on_train)
            both = two_step_newton(net, theta, X[:TRAIN], Y, on_train)
            ends = [forward(net, p, X)[-1] for p in (theta, leaped, *both)]
            z = ends[0] - Theta[:, :TRAIN] @ np.linalg.solve(on_train, ends[0][:TRAIN] - Y)
            gaps = [*(end[:TRAIN] - Y for end in ends), ends[1][TRAIN:] - z[TRAIN:]]
            found.append([np.sqrt((gap**2).mean()) for gap in gaps])
        typical = np.exp(np.log(found).mean(axis=0))  # a mean that no single network rules
        for name, value in zip(residuals, typical, strict=True):
            residuals[name].append(value)
    powers = {
        name: np.polyfit(np.log(widths), np.log(found), 1)[0] for name, found in residuals.items()
    }
    expected = {"start": 0.0, "infinite": -0.5, "one": -1.0, "two": -1.5, "elsewhere": -0.5}
    assert powers == pytest.approx(expected, abs=0.2), powers


def test_refusals() -> None:
    net = network(4)
    with pytest.raises(ValueError, match="3 training samples"):
        giant_leap(net, drawn(net, 0), X[:TRAIN], Y, ntk=np.eye(6))
    with pytest.raises(ValueError, match="too large for third derivatives"):
        features_of(network(50), drawn(network(50), 0), X)
