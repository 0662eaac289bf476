"""Golden and agreement tests: critical points in the recursion over many layers, in networks, in words."""

import json

import numpy as np
import pytest

from grids import each
from kinked import g
from scalewise.activations import BUILTIN_NAMES
from scalewise.critical import criticality, susceptibilities
from scalewise.gaussian import single_moment
from scalewise.networks import MLP

# Agreement with the recursion over many layers


def flow(source, K: float, C_b: float, C_W: float, layers: int) -> list[float]:
    path = [K]
    for _ in range(layers):
        path.append(C_b + C_W * g(source, path[-1]))
    return path


def test_tanh_falls_as_tabulated() -> None:
    """Reference table 10.5, from K = 1 in layer 1; ten digits."""
    point = criticality("tanh")
    path = flow("tanh", 1.0, point.C_b, point.C_W, 49)
    tabulated = {2: 0.3942944904, 3: 0.2364504105, 10: 0.0580118478, 50: 0.0104307384}
    for layer, value in tabulated.items():
        assert path[layer - 1] == pytest.approx(value, abs=6e-11)


@each("name", ["swish", "gelu"])
def test_the_attracting_side_of_a_half_stable_point_attracts(name) -> None:
    point = criticality(name)
    stay = flow(name, point.K_star, point.C_b, point.C_W, 100)
    assert stay[-1] == pytest.approx(point.K_star, rel=1e-12, abs=0)
    # The drift is C_W g''/2 (K - K*)^2 > 0 for SWISH, < 0 for GELU, on both sides alike.
    sign = 1 if name == "swish" else -1
    for start in (0.95 * point.K_star, 1.01 * point.K_star):
        path = flow(name, start, point.C_b, point.C_W, 20)
        assert np.all(sign * np.diff(path) > 0)


@each(("name", "K"), [("swish", 14.5931049905541), ("gelu", 3.03498143550974)])
def test_the_other_fixed_point_at_the_critical_hyperparameters(name, K) -> None:
    """PDLT chapter 5, footnotes 20 and 21, corrected: not 14.5 and not 3.2. It is not critical."""
    point = criticality(name)
    # The drift is flat there, so this is a demand of 5 (SWISH) and 8 (GELU) digits of K.
    assert point.C_b + point.C_W * g(name, K) == pytest.approx(K, abs=1e-12)
    parallel, _ = susceptibilities(name, K, point.C_W)
    assert 5e-7 < 1 - float(parallel) < 1e-4  # chi is good to 1e-13


def test_eight_digits_are_not_enough() -> None:
    """At the eight digits printed in PDLT (5.101) SWISH has no fixed point near 14.3 any more."""
    exact = criticality("swish")
    grid = np.linspace(0.5, 14.5, 57)
    moments = single_moment("swish", np.append(grid, exact.K_star), (0, 0)).value
    K = np.append(grid, exact.K_star)
    printed = 0.55514317 + 1.98800468 * moments - K
    assert np.all(printed > 1e-10)
    ours = exact.C_b + exact.C_W * moments - K
    assert abs(ours[-1]) < 1e-13


# The network and the record


def test_a_network_takes_the_point_and_keeps_its_record() -> None:
    net = MLP(5, 32, "gelu", input_dim=4, output_dim=2, lambda_W=0.5).at_criticality()
    assert net.criticality is not None
    assert net.C_b == (net.criticality.C_b,) * 5
    assert net.C_W == (net.criticality.C_W,) * 5
    assert net.C_W[0] == pytest.approx(1.98305825744, rel=1e-11, abs=0)
    assert net.lambda_W == (0.5,) * 5


def test_a_network_without_a_point_says_why() -> None:
    net = MLP(5, 32, "softplus_shifted", input_dim=4, output_dim=2)
    with pytest.raises(
        ValueError, match=r"'softplus_shifted' has no critical initialisation: K\* = 0.*unstable"
    ):
        net.at_criticality()


@each("name", BUILTIN_NAMES)
def test_the_record_can_be_printed_and_written(name) -> None:
    point = criticality(name)
    text = str(point)
    assert point.activation.name in text
    assert (point.found or point.reason) in text
    assert text.count(point.found or point.reason) == 1
    assert json.loads(json.dumps(point.attributes(), allow_nan=False))["C_W"] == point.C_W


def test_the_record_prints_rejected_points() -> None:
    assert "not chosen: C_b = 0, C_W = 4: K* = 0" in str(criticality("gelu"))
    assert "K* = every K" in str(criticality("relu"))
