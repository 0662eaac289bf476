"""Property and agreement tests: an input whose preactivations are all 0 in the first layer.

It is the limit of small inputs, what single inputs say of it, and what networks do.
"""

import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from networks import net
from scalewise.gaussian import pair_moments
from scalewise.nets import measure
from scalewise.networks import ResidualMLP
from scalewise.observables import OBSERVABLES
from scalewise.theory._tables._line_table import line_table
from scalewise.theory.deep import angle_flow
from scalewise.theory.single import single_input_flow

X = np.array([[0.0, 0.0], [1.0, 0.3]])
RATES = {"C_W": 0.7, "lambda_b": 0.3, "lambda_W": 0.7}


@pytest.mark.parametrize(
    "names",
    [["sigmoid", "exp", "hardtanh"], *thorough(["tanh", "quadratic"])],
    ids=["some", "more"],
)
def test_it_is_the_limit_of_small_inputs_and_one_input_alone(names) -> None:
    misses = []
    for name in names:
        sigma = sw.activation(name)
        C_b = [0.0, 0.0, 0.0] if sigma(0.0) else [0.0, 0.1, 0.1]
        network = net(3, sigma, features=2, C_b=C_b, **RATES)
        asked = "all" if sigma.is_smooth else ["kernel", "ntk", "four_point_vertex"]
        flow, near = (sw.predict(network, x, observables=asked) for x in (X, X + 1e-6 * (X == 0)))
        alone = single_input_flow(network, X)
        assert flow.kernel.values[0, 0, 0] == flow.expansion_parameter.values[0] == 0.0
        for tensor, row in OBSERVABLES.items():
            if tensor not in flow:
                continue
            value, want = flow[tensor].values, getattr(alone, row.letter)
            error = flow[f"{tensor}_error"].values if row.order else 0.0 * value
            if np.abs(value - near[tensor].values).max() > 2e-5 * np.abs(value).max():
                misses.append((name, tensor, "limit"))
            same = (slice(None), *(np.arange(2),) * (value.ndim - 1))
            if np.any(np.abs(value[same] - want) > error[same] + 2e-9 * np.abs(want)):
                misses.append((name, tensor, "alone"))
    assert misses == []


def test_expectations_of_one_input_are_limits() -> None:
    for name in ("softplus", "sigmoid", "quadratic"):
        table = line_table(sw.activation(name))
        at, near = table.moments(np.zeros(1)), table.moments(np.array([1e-7]))
        for moment, value in at.items():
            np.testing.assert_allclose(value, near[moment], rtol=5e-6, atol=5e-6, err_msg=moment)


def test_networks_agree() -> None:
    network = net(3, "sigmoid", features=2, width=30, C_W=4.0, lambda_b=0.3, lambda_W=0.7)
    names = ["kernel", "ntk", "four_point_vertex", "ntk_A", "ntk_D", "ntk_B", "ntk_F"]
    theory = sw.predict(network, X, observables=names)
    found = sw.compare(theory, measure(network, X, observables=names, networks=1000))
    assert found.passed, str(found)


def test_moments_of_a_constant_are_limits() -> None:
    orders, B = (
        [(0, 0), (1, 1), (2, 0), (0, 2), (2, 2), (3, 1), (4, 0), (0, 4)],
        np.array([0.0, 0.8]),
    )
    for name in ("softplus", "gelu", "exp", "sin", "hardtanh"):
        still = pair_moments(name, 0.0, B, 0.0, orders)
        near = pair_moments(name, 1e-8, np.maximum(B, 1e-8), 0.0, orders)
        for order in orders:
            np.testing.assert_allclose(still[order].value, near[order].value, rtol=1e-6, atol=1e-7)


def test_slopes_of_pairs_keep_their_digits_at_small_kernels() -> None:
    x = np.array([[1.0, 0.0], [0.3, 0.7]])
    for name in ("softplus", "sigmoid", "swish", "tanh"):
        slope = sw.activation(name).derivative(0.0, 1)
        for K in (1e-14, 1e-20, 1e-60):
            network = net(2, name, features=2, lambda_b=[1.0, 0.0], lambda_W=0.0)
            ntk = sw.predict(network, np.sqrt(K) * x, observables=["ntk"]).ntk.values[1]
            np.testing.assert_allclose(ntk, slope**2, rtol=1e-10)


def test_what_does_not_exist_is_refused() -> None:
    for name, reason in (
        ("relu", "'relu' or a derivative of it jumps"),
        ("softsign", "'softsign' or a derivative of it jumps"),
    ):
        network = net(3, name, features=2, C_b=[0.0, 0.1, 0.1])
        for verb in (sw.predict, single_input_flow, measure):
            with pytest.raises(ValueError, match=rf"zero input vector .sample 0.*{reason}"):
                verb(network, X)
    network = net(3, "tanh", features=2, C_b=[0.0, 0.1, 0.1])
    with pytest.raises(
        ValueError, match=r"zero input vector.*does not have an angle with anything"
    ):
        angle_flow(network, X, X)
    given = {"input_dim": 2, "output_dim": 1, "C_b": [0.0, 0.1, 0.1]}
    skipping = ResidualMLP(3, 4, "tanh", gamma=0.5, **given)
    with pytest.raises(ValueError, match=r"zero input vector.*does not have a correlation"):
        sw.predict(skipping, X)
    one = sw.predict(net(1, "relu", features=2), X, observables="all")
    np.testing.assert_array_equal(one.kernel.values[0], X @ X.T / 2)
