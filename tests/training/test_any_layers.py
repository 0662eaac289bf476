"""Golden and agreement: networks of any layers with their parameters in a row, and what they learn."""

import jax
import numpy as np
import pytest

import scalewise as sw
from architectures import (
    RATES,
    compositions,
    drawn_compositions,
    outputs_by_matrices,
    tied_compositions,
)
from grids import few, thorough
from scalewise.nets._networks import precision
from scalewise.nets._packed import Packed
from scalewise.networks._nodes import Drop
from scalewise.training import Bayes, GradientDescent, LastLayer
from scalewise.training.ensembles._start import draw

RNG = np.random.default_rng(12)
EVERY = {
    name: layers
    for name, layers in (
        compositions("tanh") | drawn_compositions("tanh") | tied_compositions("tanh")
    ).items()
    if not any(isinstance(layer, sw.Dropout) for layer in layers)
}


@pytest.mark.parametrize("name", few(EVERY, every=6))
def test_outputs_and_ntk_are_those_of_an_explicit_forward_pass(name: str) -> None:
    net = sw.Network(*EVERY[name], input_shape=(6, 2), width=6, **RATES)
    own, program, x = Packed(net.program), net.program, RNG.normal(size=(2, 6, 2))
    assert not any(isinstance(node, Drop) for node in program.nodes)
    assert own.count == net.parameters == len(own.scales("float64"))

    def outputs(packed):
        weights = {}
        for k, (W, b) in own.weights(packed).items():
            taps = program.nodes[k].taps
            weights[k] = W.reshape(*W.shape[:-2], taps, -1, W.shape[-1]), b
        everything = outputs_by_matrices(program, weights, x)
        return everything.reshape(2, -1)

    with precision("float64"):
        packed = RNG.normal(size=own.count) * own.scales("float64")
        found, _ = jax.jit(own.outputs)(packed, x)
        J, z = jax.jit(jax.jacrev(lambda p: (outputs(p),) * 2, has_aux=True))(packed)
        np.testing.assert_allclose(found, z, rtol=1e-9, atol=1e-12)
        H = np.einsum("aip,p,bjp->iajb", J, own.rates("float64"), J)
        np.testing.assert_allclose(jax.jit(own.ntk)(packed, x), H, rtol=1e-8, atol=1e-10)


def test_what_is_drawn_has_the_variances_of_its_layer() -> None:
    net = sw.Network(*EVERY["pooled"], input_shape=(6, 2), width=6, **RATES)
    own = Packed(net.program)
    first = min(own.shapes)
    W, b = own.weights(np.arange(own.count))[first]  # one channel after the other, then the biases
    np.testing.assert_array_equal(W[:, 1], np.arange(len(W), 2 * len(W)))
    np.testing.assert_array_equal(b, W.size + np.arange(len(b)))
    keys = np.arange(400 * 2, dtype=np.uint32).reshape(400, 2)
    parameters, _ = draw(net, keys, "float32")
    for k, (W, b) in own.weights(own.scales("float32")).items():
        rates = net.program.nodes[k].own
        np.testing.assert_allclose(W**2, rates.C_W / net.program.fan_in(k), rtol=1e-6)
        np.testing.assert_allclose(b**2, rates.C_b, rtol=1e-6)
    spread = np.asarray(parameters, float).std(axis=0) / own.scales("float64")
    assert abs(spread.mean() - 1) < 0.01


@pytest.mark.parametrize(
    "algorithm", [GradientDescent(0.05, steps=8), *thorough(LastLayer(), Bayes(1.0))]
)
def test_trained_networks_are_near_infinitely_wide_ones(algorithm) -> None:
    layers = (sw.Conv(3), "tanh", sw.Skip(sw.Conv(3)), sw.LayerNorm(), sw.GlobalAvgPool())
    net = sw.Network(*layers, sw.Dense(1), input_shape=(4, 2), width=64, **RATES)
    x = np.random.default_rng(0).normal(size=(5, 4, 2))
    task = sw.Task(x[:3], [1.0, -1.0, 0.5], test_inputs=x[3:], test_targets=[0.3, 0.0])
    theory = sw.predict_training(net, task, algorithm)
    seen = sw.measure_training(
        net, task, algorithm, networks=400, dtype="float64", progress=False, control=None
    )
    for name in ("output_mean", "output_covariance"):
        error = np.hypot(seen[f"{name}_sem"], 0.1 * np.abs(theory[name]).max())
        assert (np.abs(seen[name] - theory[name]) < 4 * error).all(), name
    assert "test_loss" in seen


def test_a_training_by_drawn_kernels_tells_of_their_error() -> None:
    layers = (sw.Conv(3), sw.MaxPool(2), sw.Conv(3), "relu", sw.GlobalAvgPool(), sw.Dense(1))
    net = sw.Network(*layers, input_shape=(4, 2), width=8, **RATES)
    x = RNG.normal(size=(3, 4, 2))
    task = sw.Task(x[:2], [1.0, -1.0], test_inputs=x[2:])
    with pytest.warns(UserWarning, match=r"Kernels are computed to 0\.001"):
        found = sw.predict_training(net, task)
    assert found.attrs["kernel_error"] > 1e-3
    exact = sw.predict_training(
        net.replace(layers=[v for v in net.layers if v != sw.MaxPool(2)]), task
    )
    assert exact.attrs["kernel_error"] < 1e-8


def test_what_cannot_be_trained_is_refused() -> None:
    task = sw.Task(RNG.normal(size=(2, 3)), [1.0, -1.0])
    layers = (sw.Dense(), "relu", sw.Dropout(0.5), sw.Dense(1))
    with pytest.raises(ValueError, match="Dropout, whose masks are drawn anew"):
        sw.measure_training(
            sw.Network(*layers, input_shape=3, width=8),
            task,
            GradientDescent(0.1, steps=1),
            networks=2,
        )
    skipped = sw.networks.ResidualMLP(2, 8, "relu", gamma=(0.0, 1.0), input_dim=3, output_dim=8)
    task = sw.Task(RNG.normal(size=(2, 3)), RNG.normal(size=(2, 8)))
    with pytest.raises(ValueError, match="skip connection around the last layer"):
        sw.measure_training(skipped, task, GradientDescent(0.1, steps=1), networks=2)
