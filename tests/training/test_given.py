"""Golden, agreement, conformance: one given network, linearised: beside parameters that are really trained."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import scalewise as sw
from networks import in_a_row
from refusals import unlike
from scalewise.jax import tangents
from scalewise.nets import Parameters, empirical_ntk, init_weights
from scalewise.torch import tangents as torch_tangents
from scalewise.training import Bayes, GradientDescent, GradientFlow, predict_linearised
from scalewise.training._one_network import tangents_of
from small_task import TASK, TEST, TRAIN, WANTED, Y

NET = sw.MLP(
    3, (7, 6), "tanh", input_dim=3, output_dim=2,
    C_b=0.1, C_W=1.4, lambda_b=(0.3, 0.5, 0.7), lambda_W=(1.0, 0.8, 1.2),
)  # fmt: skip
X = np.concatenate([TRAIN, TEST])
N = len(TRAIN)
ONE_HOT = np.eye(2)[[0, 1, 1, 0, 1]]
CLASSES = sw.Task(
    TRAIN, ONE_HOT, test_inputs=TEST, test_targets=np.eye(2)[[0, 1, 0, 1]], loss="cross_entropy"
)


def weights() -> Parameters:
    drawn = init_weights(NET, 3)
    return Parameters(*(tuple(np.asarray(a, np.float64) for a in part) for part in drawn))


@jax.jit
def forward(p, x):
    z = x
    for k, (W, b) in enumerate(zip(p.weights, p.biases, strict=True)):
        z = (jnp.tanh(z) if k else z) @ W.T + b
    return z


def rates(p) -> Parameters:
    n = NET.widths
    return Parameters(tuple(NET.lambda_W[k] / n[k] for k in range(NET.depth)), tuple(NET.lambda_b))


@pytest.mark.covers("B69")
def test_outputs_and_ntk_are_those_of_three_other_ways() -> None:
    p = weights()
    z, H = tangents_of(NET, p, X)
    with jax.enable_x64(True):
        np.testing.assert_allclose(z, forward(p, X), rtol=1e-12)
        np.testing.assert_allclose(H, empirical_ntk(NET, p, X), rtol=1e-11, atol=1e-13)
        outputs, ntk = tangents(forward, p, X, rates=rates(p))
    np.testing.assert_allclose(outputs, z, rtol=1e-12)
    np.testing.assert_allclose(ntk, H, rtol=1e-11, atol=1e-13)
    layers = [torch.nn.Linear(*W.shape[::-1], dtype=torch.float64) for W in p.weights]
    for layer, W, b in zip(layers, p.weights, p.biases, strict=True):
        layer.weight.data[:], layer.bias.data[:] = torch.tensor(W), torch.tensor(b)
    module = torch.nn.Sequential(layers[0], torch.nn.Tanh(), layers[1], torch.nn.Tanh(), layers[2])
    its = rates(p)
    named = {f"{2 * k}.weight": its.weights[k] for k in range(3)}
    named |= {f"{2 * k}.bias": its.biases[k] for k in range(3)}
    outputs, ntk = torch_tangents(module, torch.tensor(X), rates=named)
    np.testing.assert_allclose(outputs, z, rtol=1e-12)
    np.testing.assert_allclose(ntk, H, rtol=1e-11, atol=1e-13)


@cache
def linear_model():
    """Outputs on all samples, their slopes in the parameters in a row, and the rates of these."""
    p = weights()
    with jax.enable_x64(True):
        theta, back = in_a_row(p)
        J = np.asarray(jax.jit(jax.jacrev(lambda t: forward(back(t), X)))(theta))
        z0 = np.asarray(forward(p, X))
    scale = [np.full(a.size, r) for a, r in zip(*map(jax.tree.leaves, (p, rates(p))), strict=True)]
    return z0, J.reshape(X.shape[0], 2, -1), np.concatenate(scale)


def descended(slope, steps: int, rate: float, momentum: float, ridge: float):
    """A model that is linear in the parameters, trained in them: outputs on all samples."""
    z0, J, scale = linear_model()
    moved, v = np.zeros(J.shape[-1]), np.zeros(J.shape[-1])
    for _ in range(steps):
        z = z0 + J @ moved
        gradient = np.einsum("ai,aim->m", slope(z[:N]), J[:N])
        v = momentum * v - rate * (scale * gradient + ridge * moved)
        moved = moved + v
    return z0 + J @ moved


@pytest.mark.covers("B69")
def test_a_linear_model_that_is_really_trained_does_the_same() -> None:
    def softmax(z):
        e = np.exp(z)
        return e / e.sum(axis=1, keepdims=True) - ONE_HOT

    wrong = []
    for task, slope in ((TASK, lambda z: z - Y), (CLASSES, softmax)):
        for rate, momentum, ridge in ((0.05, 0.0, 0.0), (0.03, 0.6, 0.2)):
            algorithm = GradientDescent(rate, momentum=momentum, ridge=ridge)
            found = sw.predict_training(NET, task, algorithm, times=[0, 11, 4], weights=weights())
            for step in (0, 4, 11):
                z = descended(slope, step, rate, momentum, ridge)
                at = found.sel(time=step)
                loss = task.loss.values(z, np.concatenate([task.targets, task.test_targets]))
                for name, expected in {
                    "train_mean": z[:N].T,
                    "output_mean": z[N:].T,
                    "bias": (z[N:] - task.test_targets).T,
                    "train_loss": loss[:N],
                    "test_loss": loss[N:],
                }.items():
                    if not np.allclose(at[name], expected, rtol=1e-9, atol=1e-11):
                        wrong.append((task.loss.name, algorithm, step, name))
    assert wrong == []


def test_flows_stop_where_steps_lead_and_ends_are_the_targets() -> None:
    p = weights()
    end = sw.predict_training(NET, TASK, weights=p)
    np.testing.assert_allclose(end.train_mean.values.T, Y, rtol=1e-9)
    assert end.train_loss.values.max() < 1e-16
    steps = sw.predict_training(NET, CLASSES, GradientDescent(1e-4, 3000), weights=p)
    flow = sw.predict_training(NET, CLASSES, GradientFlow(0.3), weights=p)
    np.testing.assert_allclose(steps.output_mean, flow.output_mean, rtol=1e-3, atol=1e-4)
    expected = (flow.output_mean.values.argmax(axis=0) != [0, 1, 0, 1]).astype(float)
    np.testing.assert_array_equal(flow.test_error, expected)
    assert flow.attrs["activation"] == "tanh"
    plain = sw.Task(TRAIN, Y, test_inputs=TEST, test_targets=WANTED)
    assert "test_error" not in sw.predict_training(NET, plain, weights=p)


def test_what_is_not_a_linearised_network_is_refused() -> None:
    p, outputs = weights(), np.zeros((9, 2))
    ntk = np.einsum("ab,ij->abij", np.eye(9), np.eye(2))
    other = Parameters(p.weights[:2], p.biases[:2])
    turned = Parameters((p.weights[0], p.weights[1].T, p.weights[2]), p.biases)
    flat = ntk * 0
    flat[:, :, 0, 0] = flat[:, :, 1, 1] = np.diag([1.0, 1, 1, 1, 0, 1, 1, 1, 1])

    def ask(*args, **options):
        return lambda: sw.predict_training(NET, TASK, *args, **options)

    cases = [
        (ask(weights=other), "network's 3 random layers; got weights of 2"),
        (
            ask(weights=turned),
            r"`weights` do not fit random layer 2, node .3. .* \(6, 7\) .* got \(7, 6\)",
        ),
        (ask(weights=3), "`weights` must be what `nets.init_weights` gives"),
        (ask(Bayes(), weights=p), "GradientFlow or GradientDescent; got Bayes"),
        (ask(weights=p, observables="variance"), "variance"),
        (lambda: predict_linearised(outputs[:4], ntk, TASK), "9 training and test samples"),
        (lambda: predict_linearised(outputs, ntk, TASK, times=[-1]), "none below 0"),
        (lambda: predict_linearised(outputs, ntk, CLASSES), "must stop at a time"),
        (lambda: predict_linearised(outputs, flat, TASK), "is singular .*rank 8.* `ridge`"),
        (lambda: tangents(lambda w, x: x.sum(), jnp.ones(2), np.eye(2)), "outputs .samples"),
        (lambda: tangents(lambda w, x: x @ w, jnp.ones(2), np.eye(2), rates=()), "a pytree like"),
        (lambda: torch_tangents(torch.nn.Linear(2, 1), torch.eye(2), rates={"c": 1.0}), "'bias'"),
    ]
    assert unlike(cases) == []


def test_the_mean_of_the_ntk_over_outputs_teaches_each_of_them_alone() -> None:
    """As the whole NTK does that is this mean for each output and nothing between them."""
    z, H = tangents_of(NET, weights(), X)
    mean = H.trace(axis1=2, axis2=3)[..., None, None] / z.shape[1]
    whole = mean * np.eye(z.shape[1])
    for task, algorithm in ((TASK, None), (TASK, GradientFlow(3.0)), (CLASSES, GradientFlow(2.0))):
        one, other = (predict_linearised(z, ntk, task, algorithm) for ntk in (mean, whole))
        for name in ("output_mean", "train_mean", "train_loss"):
            np.testing.assert_allclose(one[name], other[name], rtol=1e-9, atol=1e-11)
        assert one.spectrum.size * z.shape[1] == other.spectrum.size
