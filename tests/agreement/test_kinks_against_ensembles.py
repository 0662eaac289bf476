"""Agreement: what kinks and jumps do to several inputs at order 1/n, against ensembles of real networks.

Every expectation next to a kink or a jump holds delta functions, which no other test of several inputs meets
in the law of a network. Two widths tell the coefficient of 1/n from what is beyond it.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from grids import thorough

X = np.array([[1.0, -0.4], [0.6, 0.8]])


def agrees(net: sw.Network, seen: dict[str, float], widths: list[int], networks: int) -> None:
    """And a prediction that is another multiple of the right one would have been seen."""
    names = list(seen)
    theory = sw.predict(net, X, observables=names)
    measured = sw.measure(
        net, X, widths=widths, networks=networks, observables=names, progress=False, seed=5
    )
    result = sw.compare(theory, measured)
    assert result.passed, str(result)
    for name, factor in seen.items():
        wrong = theory.copy()
        wrong[name] = factor * wrong[name]
        assert not sw.compare(wrong, measured).passed, name


@pytest.mark.thorough("tests/theory/test_small_kernels.py::test_mean_ntk_next_to_a_kink")
def test_mean_ntk_of_several_inputs_next_to_a_kink() -> None:
    sigma = sw.activation(jax.nn.hard_tanh, kinks=(-1.0, 1.0))
    net = sw.MLP(3, 64, sigma, input_dim=2, output_dim=1, C_b=0.1, C_W=2.0, lambda_b=0.3)
    agrees(net, {"ntk_nlo": -1.0}, [16, 48], 12_000)


def step() -> sw.Activation:
    return sw.activation(lambda z: jnp.where(z >= 0.3, 1.0, -1.0), kinks=(0.3,), name="step")


@pytest.mark.parametrize(
    ("sigma", "seen", "networks"),
    [
        (step, {"four_point_vertex": 1.5, "metric_nlo": -3.0}, 30_000),
        *thorough((lambda: "perceptron", {"four_point_vertex": 1.5}, 6_000)),
    ],
)
def test_vertex_and_metric_of_jumps(sigma: Callable, seen: dict[str, float], networks: int) -> None:
    net = sw.MLP(3, 64, sigma(), input_dim=2, output_dim=1, C_W=1.5)
    agrees(net, seen, [16, 48], networks)
