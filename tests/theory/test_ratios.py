"""Golden and property tests: the dimensionless ratios of finite width, and one input as one of many."""

import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from networks import net
from scalewise.theory.deep import finite_width_ratios, output_scale
from scalewise.theory.single import single_input_flow

NAMES = {
    "metric_nlo": "G1",
    "four_point_vertex": "V",
    "ntk": "Theta",
    "ntk_nlo": "H1",
    **{f"ntk_{x}": x for x in "ABDF"},
    **{f"dntk_{x}": x for x in "PQ"},
    **{f"ddntk_{x}": x for x in "RSTU"},
}


@pytest.mark.covers("C54")
@pytest.mark.parametrize("name", ["gelu", "relu", *thorough("tanh", "softplus", "leaky_relu")])
def test_one_input_is_the_diagonal_of_many(name: str) -> None:
    rates = {"lambda_b": (0.3, 0.9, 0.2, 0.6), "lambda_W": (0.8, 1.2, 0.5, 1.7)}
    own = {"C_b": (0.1, 0.2, 0.05, 0.4), "C_W": (1.0, 1.3, 0.7, 1.8)}
    network = net(4, name, features=3, width=(40, 100, 30), **rates, **own)
    x = np.array([[0.7, -0.3, 0.4], [0.3, 0.6, -0.5]])
    many = sw.predict(network, x, observables="all")
    one = single_input_flow(network, x)
    for variable, letter in NAMES.items():
        if variable not in many:
            assert getattr(one, letter) is None or name in ("relu", "leaky_relu")
            continue
        value = many[variable].values
        legs = "a" * (value.ndim - 1)
        diagonal = np.einsum(f"l{legs}->la", value)
        scale = max(np.abs(diagonal).max(), 1e-12)
        np.testing.assert_allclose(
            diagonal, getattr(one, letter), atol=2e-8 * scale, err_msg=letter
        )


@pytest.mark.covers("C54")
def test_ratios_grow_like_depth_over_width() -> None:
    # PDLT (∞.34)-(∞.37), (9.67), (11.100)-(11.102) for tanh with rates 1/l and 1, X = 3/2.
    depth, n = 4000, 1000
    network = net(depth, "tanh", features=1, width=n).at_criticality()
    network = network.with_equivalent_learning_rates()
    ratios = finite_width_ratios(network, np.ones((1, 1))).sel(sample=0)
    aspect = depth / n
    limits = {"V": 2 / 3, "F": 1 / 4, "B": 1 / 3, "D": -4 / 27, "A": 16 / 243, "P": -1 / 12}
    limits |= {"Q": -1 / 24, "R": -5 / 72, "S": 1 / 36, "T": 1 / 72}
    for letter, limit in limits.items():
        # Corrections fall as log(l)/l.
        assert float(ratios[letter][-1]) / aspect == pytest.approx(limit, rel=0.02), letter
    assert abs(float(ratios.U[-1])) < 1e-3 * aspect
    assert not np.any(ratios.V[0])


@pytest.mark.covers("C34")
def test_outputs_of_all_depths_have_one_size() -> None:
    K = single_input_flow(net(400, "sin", features=1).at_criticality(), np.ones((1, 1))).K[:, 0]
    factor = output_scale(K)
    np.testing.assert_allclose(factor**2 * K, K[0])
    # p_0 = 1: the factor grows as the root of the depth.
    assert factor[399] / factor[99] == pytest.approx(2.0, rel=0.02)
    with pytest.raises(ValueError, match="`kernel` must be positive"):
        output_scale(np.array([1.0, 0.0]))
