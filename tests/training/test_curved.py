"""Golden, agreement, conformance: one given network in the next order, beside tensors and beside real training."""

import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import scalewise as sw
from grids import thorough
from refusals import unlike
from scalewise.jax import curvature
from scalewise.nets import Parameters, init_weights
from scalewise.nets._networks import precision
from scalewise.torch import curvature as torch_curvature
from scalewise.training import GradientDescent, GradientFlow, predict_linearised
from scalewise.training._curved_network import CurvedNetwork
from scalewise.training._one_network import tangents_of
from scalewise.training.dynamics import trained_outputs
from scalewise.training.dynamics.networks import state_of
from scalewise.training.width._weights import converged

RNG = np.random.default_rng(3)
N, WIDTH = 3, 7
X, Y, WANTED = RNG.standard_normal((5, 3)), RNG.standard_normal((N, 2)), RNG.standard_normal((2, 2))
TASK = sw.Task(X[:N], Y, test_inputs=X[N:], test_targets=WANTED)


def network(widths: int | tuple[int, int], sigma: str = "tanh") -> sw.Network:
    return sw.MLP(
        3, widths, sigma, input_dim=3, output_dim=2, C_b=0.1, C_W=1.4,
        lambda_b=(0.3, 0.5, 0.7), lambda_W=(1.0, 0.8, 1.2),
    )  # fmt: skip


def drawn(net: sw.Network, seed: int = 2) -> Parameters:
    with precision("float64"):
        found = init_weights(net, seed, dtype="float64")
    return Parameters(*(tuple(np.asarray(a) for a in part) for part in found))


NET = network((9, WIDTH))
P = drawn(NET)


def shift(algorithm, times=None) -> np.ndarray:
    """Of the test samples, (time, test, output)."""
    found = sw.predict_training(
        NET, TASK, algorithm, times=times, weights=P, observables=["output_mean_nlo"]
    )
    return np.moveaxis(found.output_mean_nlo.values, -1, -2) / WIDTH


def by_tensors(state, algorithm, time=None) -> np.ndarray:
    """The same with every tensor whole, each leg turned into eigendirections and weighed."""
    A, y = slice(Y.size), Y.reshape(-1)
    h, U = np.linalg.eigh(state.ntk[A, A])
    weights, e = algorithm.reaches(h, time, targets=y.size), U.T @ (state.outputs[A] - y)
    whole = {
        "A": state.dntk[A, :, A].swapaxes(0, 1),
        "B": state.dntk[:, A, A],
        "IA": state.dd_first[A, :, A, A].swapaxes(0, 1),
        "IB": state.dd_first[:, A, A, A],
        "IIA": state.dd_second[A, A, :, A].transpose(2, 0, 1, 3),
        "IIB": state.dd_second[:, A, A, A],
    }
    out = np.zeros_like(state.outputs)
    for name, T in whole.items():
        for axis in range(1, T.ndim):
            T = np.moveaxis(np.tensordot(T, e[:, None] * U.T, axes=(axis, 1)), -1, axis)
        legs = tuple(range(1, T.ndim))
        out += (T * weights[name].beyond).sum(axis=legs)
        driven = np.tensordot(U.T, T[A], 1) * weights[name].within
        out -= state.ntk[:, A] @ U @ driven.sum(axis=legs)
    return out.reshape(-1, 2)[N:]


@pytest.mark.covers("C48")
@pytest.mark.filterwarnings("ignore::scalewise.training.ExpansionWarning")
def test_displacements_give_what_whole_tensors_give() -> None:
    state, wrong = state_of(NET, P, X), []
    h = np.linalg.eigvalsh(state.ntk[: Y.size, : Y.size])
    for algorithm, rate in ((GradientFlow(), 0.0), (GradientDescent(0.7 / h[-1]), 0.7 / h[-1])):
        flat = sw.predict_training(NET, TASK, algorithm, weights=P).output_mean.values.T
        expected = trained_outputs(state, Y.reshape(-1), partial(converged, rate=rate))
        found = flat + shift(algorithm)
        if not np.allclose(found, expected.reshape(-1, 2)[N:], atol=1e-7):
            wrong.append(("end", algorithm))
    unit = 1 / h[-1]
    for algorithm, times in (
        (GradientFlow(), [0.0, 2.0]),
        (GradientFlow(1.0, ridge=0.3, loss_units="mean"), None),
        (GradientFlow(ridge=0.3), None),
        (GradientDescent(0.9 * unit, momentum=0.4, ridge=0.2), [7.0, 1.0]),
        (GradientDescent([0.5 * unit, 0.2 * unit, 0.8 * unit]), None),
        (GradientDescent(0.5 * unit, momentum=0.5), None),
        (GradientDescent(0.9 * unit, ridge=0.4), None),
    ):
        ends = [None] if times is None else times
        expected = np.array([by_tensors(state, algorithm, t) for t in ends])
        found = shift(algorithm, times).reshape(expected.shape)
        if not np.allclose(found, expected, rtol=1e-9, atol=1e-11):
            wrong.append((algorithm, found - expected))
    assert wrong == []


@jax.jit
def forward(p, x):
    z = x
    for k, (W, b) in enumerate(zip(p.weights, p.biases, strict=True)):
        z = (jnp.tanh(z) if k else z) @ W.T + b
    return z


@pytest.mark.parametrize("memory", [1, *thorough("1 GiB")], ids=["in blocks", "whole"])
def test_functions_and_modules_bend_as_the_network_that_they_are(memory: int | str) -> None:
    n, (z, H) = NET.widths, tangents_of(NET, P, X)
    rates = Parameters(tuple(NET.lambda_W[k] / n[k] for k in range(3)), tuple(NET.lambda_b))
    layers = [torch.nn.Linear(*W.shape[::-1], dtype=torch.float64) for W in P.weights]
    for layer, W, b in zip(layers, P.weights, P.biases, strict=True):
        layer.weight.data[:], layer.bias.data[:] = torch.tensor(W), torch.tensor(b)
    module = torch.nn.Sequential(layers[0], torch.nn.Tanh(), layers[1], torch.nn.Tanh(), layers[2])
    named = {f"{2 * k}.weight": rates.weights[k] for k in range(3)}
    named |= {f"{2 * k}.bias": rates.biases[k] for k in range(3)}
    with jax.enable_x64(True):
        ours = CurvedNetwork(NET, P, X)
        others = {
            "jax": curvature(forward, P, X, rates=rates, memory=memory),
            "torch": torch_curvature(module, torch.tensor(X), rates=named, memory=memory),
        }
        algorithm = GradientDescent(0.1, steps=3, momentum=0.3)
        found = {
            name: predict_linearised(z, H, TASK, algorithm, curvature=model, width=WIDTH)
            for name, model in {"mlp": ours, **others}.items()
        }
    sizes = {ours.parameters} | {model.parameters for model in others.values()}
    assert sizes == {4 * 9 + 10 * WIDTH + 8 * 2}
    for name in others:
        for variable in ("output_mean_nlo", "test_loss_nlo"):
            np.testing.assert_allclose(
                found[name][variable], found["mlp"][variable], rtol=1e-8, atol=1e-12
            )
    plain = found["mlp"]
    loss = ((plain.bias * plain.output_mean_nlo).sum("output")).values
    np.testing.assert_allclose(plain.test_loss_nlo, loss, rtol=1e-12)


def test_parameters_of_jax_may_be_arrays_of_numpy_and_plain_numbers() -> None:
    plain = {"W": np.asarray(P.weights[0]), "b": P.biases[0].astype("float32"), "c": 2.0}
    rates = {"W": np.full(P.weights[0].shape, 0.5), "b": 1.0, "c": 3}

    def function(p, x):
        return jnp.tanh(x @ p["W"].T + p["b"]) * p["c"]

    one, two = (
        curvature(function, p, X, rates=rates) for p in (plain, jax.tree.map(jnp.asarray, plain))
    )
    (slope,) = one.gradients(np.ones((N, 9)))
    np.testing.assert_array_equal(slope, two.gradients(np.ones((N, 9)))[0])
    # Along c alone the function is linear: its first term is the rate of c times the sum of outputs over c.
    assert slope[-1] == pytest.approx(3 * one.outputs([])[0][:N].sum() / 2, rel=1e-5)


def rms(values: object) -> float:
    return float(np.sqrt(np.mean(np.square(np.asarray(values)))))


def trained(net: sw.Network, p: Parameters, rate: float, steps: int) -> np.ndarray:
    """Outputs on test samples after gradient descent, written out; to the end if that comes before."""
    W, b = [w.copy() for w in p.weights], [v.copy() for v in p.biases]
    for step in range(steps + 1):
        layers = [X]
        for i in range(3):
            z = layers[-1] @ W[i].T + b[i]
            layers.append(np.tanh(z))
        back = z[:N] - Y
        if step == steps or np.abs(back).max() < 1e-11:
            break
        for i in (2, 1, 0):
            below = layers[i][:N]
            above = back @ W[i] * (1 - below**2)
            W[i] -= rate * net.lambda_W[i] / net.widths[i] * back.T @ below
            b[i] -= rate * net.lambda_b[i] * back.sum(axis=0)
            back = above
    return z[N:].T


@pytest.mark.covers("B69", "C48")
def test_what_is_left_of_really_trained_networks_falls_twice_as_fast() -> None:
    """Linear in the parameters: the error falls as 1/n; with their own dNTK and ddNTKs as 1/n^2.

    Wherever the correction makes it larger, a warning has come.
    """
    left, made_worse, silent = {}, 0, 0
    for width in (64, 256):
        net, off = network(width), []
        for seed in range(5):
            p = drawn(net, seed)
            h = sw.predict_training(net, TASK, weights=p, observables="spectrum").spectrum
            rate = 0.8 / float(h[-1])
            for end in (None, 10):
                algorithm = GradientDescent(rate, steps=end)
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    found = sw.predict_training(net, TASK, algorithm, weights=p, observables="all")
                z = trained(net, p, rate, 3000 if end is None else end)
                nearly = found.output_mean + found.output_mean_nlo / width
                worse = rms(nearly - z) > rms(found.output_mean - z)
                made_worse, silent = made_worse + worse, silent + (not said)
                assert bool(said) == (found.attrs["correction"] > 0.1) >= worse, (width, seed, end)
                off.append([np.abs(found.output_mean - z).mean(), np.abs(nearly - z).mean()])
        left[width] = np.log(np.reshape(off, (5, 2, 2))).mean(axis=0)
    assert made_worse >= 1
    assert silent >= 15
    slope, _ = np.polyfit(np.log(list(left)), np.reshape(list(left.values()), (2, 4)), 1)
    powers = dict(zip(("end", "end, bent", "stop", "stop, bent"), -slope, strict=True))
    assert powers == pytest.approx(
        {"end": 1, "end, bent": 2, "stop": 1, "stop, bent": 2}, abs=0.4
    ), (powers, left)


def test_where_the_next_order_is_not_known_it_is_left_out_or_refused() -> None:
    relu, twice = network(WIDTH, "relu"), np.concatenate([X[:2], X[:1]])
    again = sw.Task(twice, Y[[0, 1, 0]], test_inputs=X[N:])
    z, H = tangents_of(NET, P, X)
    logistic = sw.Task(X[:N], np.eye(2)[[0, 1, 0]], test_inputs=X[N:], loss="cross_entropy")
    left = {
        "kink": sw.predict_training(relu, TASK, weights=P_RELU, observables="all"),
        "singular": sw.predict_training(NET, again, weights=P, observables="all"),
        "loss": sw.predict_training(NET, logistic, GradientFlow(0.1), weights=P, observables="all"),
        "nothing": predict_linearised(z, H, TASK),
    }
    said = {name: set(found.attrs["left_out_because"]) for name, found in left.items()}
    assert said == {
        "kink": {"the activation 'relu' has no third derivative"},
        "singular": {"the NTK of the training samples is singular and training has no end"},
        "loss": {"the loss 'cross_entropy' is not the squared error"},
        "nothing": {"`curvature` tells nothing beyond the linear model"},
    }
    assert all("output_mean_nlo" in found.attrs["left_out"] for found in left.values())
    slow, few = GradientDescent(1e-9, steps=10**8), sw.Task(X[:1], Y[:1], test_inputs=X[N:][:1])
    lazy = sw.predict_training(NET, few, GradientDescent(1e-9, momentum=0.5), observables="all")
    reasons = dict(zip(lazy.attrs["left_out"], lazy.attrs["left_out_because"], strict=True))
    assert "more than the memory has room" in reasons["output_mean_nlo"]
    assert "output_mean" in lazy
    assert "route" not in lazy.attrs

    descent, model = GradientDescent(0.1, steps=3), CurvedNetwork(NET, P, X)
    little = predict_linearised(z, H, TASK, descent, curvature=model, memory="2 kB")
    assert (
        "more than the memory has room"
        in dict(zip(little.attrs["left_out"], little.attrs["left_out_because"], strict=True))[
            "output_mean_nlo"
        ]
    )
    mean = predict_linearised(z, H[..., :1, :1], TASK, descent, curvature=model)
    assert "`ntk` is a mean over outputs" in mean.attrs["left_out_because"][0]

    def ask(net, task, algorithm, p):
        options = {"weights": p, "observables": ["output_mean_nlo"]}
        return lambda: sw.predict_training(net, task, algorithm, **options)

    cases = [
        (
            ask(relu, TASK, GradientFlow(), P_RELU),
            "cannot hold 'output_mean_nlo' here, .* third derivative",
        ),
        (ask(NET, TASK, slow, P), "steps.* more than the memory has room for"),
        (lambda: torch_curvature(torch.nn.Linear(2, 1), torch.eye(2), rates={"c": 1.0}), "'bias'"),
        (lambda: curvature(forward, P, X, rates=()), "a pytree like"),
    ]
    assert unlike(cases) == []


P_RELU = drawn(network(WIDTH))
