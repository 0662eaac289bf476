"""Property: kernels of a call are evaluated once, and so is the spectrum of the one that learns."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scalewise as sw
from grids import few
from scalewise.networks import Network, ResidualMLP
from scalewise.tasks import Task
from scalewise.theory.flow import _kernel_flow
from scalewise.training import (
    Algorithm,
    Bayes,
    GradientDescent,
    GradientFlow,
    LastLayer,
    TwoStepNewton,
)
from scalewise.training import _kernels as module
from scalewise.training import _sample_kernels as samples
from scalewise.training._asked import Asked
from scalewise.training._kernels import SampleKernels

X = np.random.default_rng(4).normal(size=(16, 3))
Y = np.sign(X[:, :1] + 0.3)


def task(count: int = 3, tests: int = 2, **options: Any) -> Task:
    unseen = slice(count, count + tests)
    return Task(X[:count], Y[:count], test_inputs=X[unseen], test_targets=Y[unseen], **options)


def net(activation: str = "tanh", depth: int = 2) -> Network:
    return sw.MLP(depth, 512, activation, input_dim=3, output_dim=1, C_b=0.1, C_W=1.4)


BRANCHED = ResidualMLP(2, 16, "tanh", gamma=0.5, input_dim=3, output_dim=1)
CALLS: dict[str, tuple[Network, Task, Algorithm]] = {
    "few samples": (net(), task(), GradientFlow(1.5)),
    "the last layer": (net(), task(), LastLayer()),
    "kinks": (net("relu"), task(), GradientFlow(1.5)),
    "tiles": (net("sin"), task(9), TwoStepNewton()),
    "a posterior": (net(), task(), Bayes(0.1)),
    "skip connections": (BRANCHED, task(), Bayes(0.1)),
    "another loss": (net(), task(loss="logistic"), GradientDescent(0.2, steps=2)),
}


def counted(found: Counter[str], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        found[name] += 1
        return function(*args, **options)

    return call


@pytest.mark.parametrize("name", few(CALLS, every=2))
def test_kernels_and_their_spectrum_are_found_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever walks pairs of samples through the network does so in `Passing.of` first."""
    seen: Counter[str] = Counter()
    passing = _kernel_flow.Passing
    monkeypatch.setattr(passing, "of", counted(seen, "kernels", passing.of))
    monkeypatch.setattr(module, "spectrum", counted(seen, "spectra", module.spectrum))
    monkeypatch.setattr(samples, "kernels_on", counted(seen, "calls", samples.kernels_on))
    way, known, algorithm = CALLS[name]
    wanted = ["output_mean", "variance", "output_mean_nlo"]
    if name == "kinks":
        wanted = ["output_mean", "variance", "output_mean_half", "learning_parameter"]
    accuracy = 0.2 if name == "tiles" else None
    options: dict[str, Any] = {"draws": 16} if name == "another loss" else {"accuracy": accuracy}
    found = sw.predict_training(way, known, algorithm, observables=wanted, **options)
    assert set(wanted) <= set(found)
    assert seen["kernels"] == seen["calls"] == 1
    assert seen["spectra"] == 1


def test_blocks_of_tests_are_parts_of_one_square() -> None:
    asked = Asked(net(), task(4, 7), GradientFlow())
    whole = SampleKernels(asked, ("kernel", "ntk"), deep=True, size=7)
    parts = SampleKernels(asked, ("kernel", "ntk"), deep=True, size=3)
    alone = SampleKernels(asked)
    for block in (slice(0, 3), slice(3, 6), slice(6, 9)):
        for kind, layers in whole.square(block).items():
            assert layers.shape == (2, *2 * (4 + len(asked.tests[block]),))
            np.testing.assert_allclose(layers, parts.square(block)[kind], rtol=1e-11)
    for one, other in zip(whole.on_samples, alone.on_samples, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11)
    (_, *some), (_, *others) = next(whole.on_tests(whole=False)), next(alone.on_tests(whole=False))
    for one, other in zip(some, others, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11)
    assert next(whole.on_tests(whole=True))[3].shape == (7, 7)
    joined = [
        np.concatenate(part, axis=-1)
        for part in zip(*((k[1], k[3]) for k in parts.on_tests(whole=False)), strict=True)
    ]
    np.testing.assert_allclose(joined[0], some[0], rtol=1e-11)
    np.testing.assert_allclose(joined[1], some[2], rtol=1e-11)
