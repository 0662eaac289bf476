"""Agreement, property: activations of one's own, odd units, reordered and repeated samples, after training."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import scalewise as sw
from grids import thorough
from scalewise.training import Algorithm, GradientDescent, GradientFlow, TwoStepNewton

X = np.array(
    [[1.5, 0.3, -0.4], [-0.2, 1.6, 0.5], [0.4, -0.8, 1.4], [0.9, 1.0, 0.2], [-0.9, 0.5, 1.2]]
)
Y = np.array([[1.0], [-0.6], [0.4]])
TESTS = np.array([[0.3], [-0.5]])
TASK = sw.Task(X[:3], Y, test_inputs=X[3:], test_targets=TESTS)
OWN = {
    "sin and a line": lambda x: jnp.sin(x) + 0.3 * x,
    "swish of another slope": lambda x: x * jax.nn.sigmoid(1.3 * x),
    "a module of torch": torch.nn.SiLU(),
}
NAMES = ("output_mean", "output_covariance", "test_loss", "ntk_change")


def network(activation="tanh", *, inputs=1.0, outputs=1.0):
    """One that says the same of inputs so many times as large, in other units of its outputs."""
    first, last = inputs**-2, outputs**2
    return sw.MLP(
        2,
        64,
        activation,
        input_dim=3,
        output_dim=1,
        C_b=(0.1, 0.1 * last),
        C_W=(1.4 * first, 1.4 * last),
        lambda_b=(0.5, 0.5 * last),
        lambda_W=(first, last),
    )


def trained(net, task, algorithm, **options):
    return sw.measure_training(net, task, algorithm, networks=80, observables=NAMES, **options)


@pytest.mark.parametrize(
    "name", ["sin and a line", *thorough("a module of torch", "swish of another slope")]
)
def test_an_activation_of_ones_own_is_predicted_and_trained(name: str) -> None:
    net = network(OWN[name])
    theory = sw.predict_training(net, TASK, TwoStepNewton(), observables="all")
    seen = trained(net, TASK, TwoStepNewton())
    outcome = sw.compare(theory, seen)
    assert outcome.passed, str(outcome)
    turned = theory.assign(ntk_change_nlo=-theory.ntk_change_nlo)
    assert not sw.compare(turned, seen).passed, "any sign"


def test_units_of_inputs_and_targets_do_not_matter() -> None:
    """Inputs a thousand times as large, targets a thousandth, in single precision."""
    wrong = []
    way = GradientDescent(steps=12)
    c = 1e-3
    large = sw.Task(1e3 * X[:3], c * Y, test_inputs=1e3 * X[3:], test_targets=c * TESTS)
    nets = network(), network(inputs=1e3, outputs=c)
    powers = dict.fromkeys(("output_mean", "bias", "train_mean"), 1)
    powers |= dict.fromkeys(("learning_parameter", "alignment"), 0)
    plain, other = (
        sw.predict_training(net, task, way, observables="all")
        for net, task in zip(nets, (TASK, large), strict=True)
    )
    for name in plain.data_vars:
        power = powers.get(str(name).removesuffix("_error").split("_nlo")[0], 2)
        if not np.allclose(other[name], c**power * plain[name], rtol=1e-6, atol=c**power * 1e-7):
            wrong.append(("predicted", name))
    seen, scaled = (
        trained(net, task, GradientDescent(plain.attrs["rate"] / unit, 12))
        for net, task, unit in zip(nets, (TASK, large), (1.0, c**2), strict=True)
    )
    for name in NAMES:
        power = 1 if name == "output_mean" else 2
        sem = seen[f"{name}_sem"].values.max()
        off = np.abs(scaled[name].values / c**power - seen[name].values).max()
        wrong += [] if off < 0.01 * sem else [("measured", name, off / sem)]
    assert wrong == []


@pytest.mark.parametrize("way", [GradientDescent(0.2, 8), *thorough(TwoStepNewton())])
def test_the_order_of_samples_is_the_order_of_what_was_learned(way: Algorithm) -> None:
    train, test = np.array([2, 0, 1]), np.array([1, 0])
    moved = sw.Task(X[train], Y[train], test_inputs=X[3:][test], test_targets=TESTS[test])
    all_ = np.concatenate([train, 3 + test])
    wrong = []
    coefficients = [f"{name}_nlo" for name in NAMES]
    ours, theirs = (
        sw.predict_training(network(), task, way, observables=coefficients)
        for task in (TASK, moved)
    )
    seen, other = (trained(network(), task, way) for task in (TASK, moved))
    for one, two, close in ((ours, theirs, 0.02), (seen, other, 0.002)):
        there = {"test": test, "test_1": test, "sample": all_, "sample_1": all_}
        one = one.isel({dim: k for dim, k in there.items() if dim in one.dims})
        for name in coefficients if one.attrs["kind"] == "training theory" else NAMES:
            size = np.abs(one[name].values).max()
            off = np.abs(one[name].values - two[name].values).max()
            wrong += [] if off <= close * size else [(name, off / size)]
    assert wrong == []


@pytest.mark.parametrize("way", [GradientDescent(0.15, 10), *thorough(GradientFlow(ridge=0.3))])
def test_samples_that_are_there_twice_teach_twice(way: Algorithm) -> None:
    """The NTK is singular then: on the way it does not matter, and theory and networks agree."""
    twice = sw.Task(X[[0, 1, 2, 0]], Y[[0, 1, 2, 0]], test_inputs=X[[3, 1]], test_targets=TESTS)
    theory = sw.predict_training(network(), twice, way, observables="all")
    change = theory.ntk_change_nlo.values[0, 0]
    for one, other in ((0, 3), (1, 5)):
        np.testing.assert_allclose(
            change[one], change[other], rtol=1e-5, atol=1e-6 * np.abs(change).max()
        )
    outcome = sw.compare(theory, trained(network(), twice, way))
    assert outcome.passed, str(outcome)
