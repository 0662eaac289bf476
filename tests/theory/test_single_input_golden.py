"""Golden: the single-input flow against tabulated iterations and closed forms of PDLT."""

import numpy as np
import pytest

import scalewise as sw
from networks import net
from scalewise.theory.single import gradient_norms, ntk_layer_contributions, single_input_flow

KERNELS = {  # (activation, layer): K, V, G1 bare, G1 with c_W{1} = 2/3, from K(1) = 1, C_W = 1
    ("tanh", 2): (0.3942944904, 0.0975237381, 0.0, 0.2628629936),
    ("tanh", 3): (0.2364504105, 0.0678074939, -0.0309325199, 0.2272552532),
    ("tanh", 5): (0.1279047353, 0.0393984430, -0.0682253714, 0.1635633984),
    ("tanh", 10): (0.0580118478, 0.0185887276, -0.1071337503, 0.0949913920),
    ("tanh", 20): (0.0272861595, 0.0089082908, -0.1326789735, 0.0522776139),
    ("tanh", 50): (0.0104307384, 0.0034465565, -0.1514847224, 0.0226105279),
    ("sin", 2): (0.4323323584, 0.1204630231, 0.0, 0.2882215723),
    ("sin", 5): (0.1777992879, 0.0809770248, -0.1159373466, 0.2105323489),
    ("sin", 10): (0.0921811387, 0.0500900686, -0.1933579754, 0.1381873559),
    ("sin", 50): (0.0194663643, 0.0124085097, -0.2950445822, 0.0382109977),
}
TENSORS = ("K", "Theta", *"FBPQRSTU")
TANH = {  # layer: TENSORS, with lambda_b = 1/l, lambda_W = 1
    1: (1, 2, 0, 0, 0, 0, 0, 0, 0, 0),
    2: (
        0.39429449,
        1.8231003,
        0.15010191,
        1.3660368,
        -0.38274194,
        -0.23264003,
        -4.2252963,
        2.4470988,
        0.46568002,
        1.081062,
    ),
    3: (
        0.23645041,
        1.7302683,
        0.16901848,
        2.2128973,
        -0.69045436,
        -0.31284439,
        -7.9543422,
        4.7441884,
        0.7826894,
        1.4663098,
    ),
    4: (
        0.16665635,
        1.674092,
        0.17422107,
        2.9521095,
        -0.93649645,
        -0.38418964,
        -12.125593,
        7.2019623,
        1.1858823,
        1.6846653,
    ),
    5: (
        0.12790474,
        1.6367424,
        0.1763037,
        3.6572747,
        -1.1541195,
        -0.45697492,
        -16.947078,
        9.910773,
        1.7155131,
        1.8349301,
    ),
    10: (
        0.058011848,
        1.553973,
        0.17908584,
        7.0988973,
        -2.1104132,
        -0.84851793,
        -52.563082,
        28.079355,
        6.5691511,
        2.2365184,
    ),
    100: (
        0.0051207157,
        1.487731,
        0.18392643,
        71.816198,
        -18.35401,
        -8.8378476,
        -4448.4012,
        1876.7963,
        827.70273,
        3.0439732,
    ),
}
SIN = {
    2: (
        0.43233236,
        2.0676676,
        0.24991613,
        1.7708383,
        -0.49983227,
        -0.24991613,
        -4.0415089,
        2.7705028,
        0.24991613,
        0.99966454,
    ),
    5: (
        0.17779929,
        2.1061312,
        0.35376723,
        6.5566141,
        -1.9985551,
        -0.67005345,
        -25.588879,
        16.691571,
        1.8192577,
        2.3063786,
    ),
}
LOWER = {  # (activation, layer): V, D, A in the same run
    ("tanh", 2): (0.097523738, -0.11859737, 0.16863813),
    ("tanh", 5): (0.039398443, -0.11445493, 0.48282336),
    ("tanh", 10): (0.018588728, -0.10916403, 1.0707049),
    ("sin", 10): (0.0500900686, -0.2037980, 1.410899),
}


def _falling(depth: int, name: str) -> sw.Network:
    rates = tuple(1 / layer for layer in range(1, depth + 1))
    return net(depth, name, features=1, lambda_b=rates)


@pytest.mark.covers("A4.2", "A7.1")
@pytest.mark.parametrize("name", ["tanh", "sin"])
def test_kernel_vertex_and_metric(name: str) -> None:
    flow = single_input_flow(net(50, name, features=1), K1=1.0)
    tuned = single_input_flow(net(50, name, features=1), K1=1.0, C_W_nlo=2 / 3)
    for (which, layer), expected in KERNELS.items():
        if which == name:
            got = [t[layer - 1, 0] for t in (flow.K, flow.V, flow.G1, tuned.G1)]
            assert got == pytest.approx(expected, abs=6e-11)


@pytest.mark.covers("C14", "C30")
@pytest.mark.parametrize(("name", "table"), [("tanh", TANH), ("sin", SIN)])
def test_tensors_up_to_the_ddntk(name: str, table: dict) -> None:
    flow = single_input_flow(_falling(max(table), name), K1=1.0)
    for layer, expected in table.items():
        got = [getattr(flow, tensor)[layer - 1, 0] for tensor in TENSORS]
        assert got == pytest.approx(expected, rel=6e-8)


def test_vertex_and_ntk_covariances_in_the_same_run() -> None:
    for (name, layer), expected in LOWER.items():
        flow = single_input_flow(_falling(10, name), K1=1.0)
        got = [getattr(flow, tensor)[layer - 1, 0] for tensor in "VDA"]
        assert got == pytest.approx(expected, rel=5e-7)


@pytest.mark.covers("B13")
@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("relu", {2: (3, 5, 4, 3, 4.5, 5), 5: (7.5, 20, 40, 30, 135, 135)}),
        ("relu", {10: (15, 45, 180, 135, 1282.5, 1245), 20: (30, 95, 760, 570, 11115, 10640)}),
        ("linear", {2: (4, 2, 2, 2, 4, 2), 5: (10, 8, 20, 20, 120, 60)}),
        ("linear", {10: (20, 18, 90, 90, 1140, 570)}),
    ],
)
def test_scale_invariant_networks_with_uniform_rates(name: str, table: dict) -> None:
    """Theta, V, D, F, B, A at criticality from K* = 1, PDLT (9.42)-(9.52)."""
    flow = single_input_flow(net(20, name, features=1).at_criticality(), K1=1.0)
    for layer, expected in table.items():
        got = [getattr(flow, tensor)[layer - 1, 0] for tensor in ("Theta", *"VDFBA")]
        assert got == pytest.approx(expected, rel=1e-12)
        for zero in ("G1", "H1", "P"):
            assert getattr(flow, zero)[layer - 1, 0] == 0


def test_leaky_network_with_rates_of_its_own() -> None:
    leaky = net(10, "leaky_relu(0.2)", features=1, lambda_b=0.3, lambda_W=1.9).at_criticality()
    flow = single_input_flow(leaky, K1=0.7)
    got = [getattr(flow, t)[-1, 0] for t in ("Theta", *"VDFBA")]
    expected = (9.916, 20.092899, 125.873702, 57.850179, 519.009765, 1052.706767)
    assert got == pytest.approx(expected, rel=1e-7)


@pytest.mark.covers("C15")
def test_relu_with_rates_divided_by_the_depth() -> None:
    """PDLT (11.79): Theta = 1.5 and Q = 2.475 at the output of ten layers; P = 0, no R to U."""
    relu = net(10, "relu", features=1, lambda_b=0.1, lambda_W=0.1).at_criticality()
    flow = single_input_flow(relu, K1=1.0)
    assert flow.Theta[-1, 0] == pytest.approx(1.5, rel=1e-13)
    assert flow.Q[-1, 0] == pytest.approx(2.475, rel=1e-13)
    assert flow.R is flow.S is flow.T is flow.U is None


@pytest.mark.covers("C32")
def test_deep_linear_ddntk() -> None:
    """PDLT (∞.46)-(∞.48), tabulated."""
    linear = net(10, "linear", features=1, lambda_b=0.07, lambda_W=0.04)
    flow = single_input_flow(linear, K1=1.3)
    table = {
        2: (0.006344, 0.00059536, 0.00025376),
        5: (0.12688, 0.029768, 0.012688),
        10: (1.04676, 0.491172, 0.209352),
    }
    for layer, expected in table.items():
        got = [getattr(flow, tensor)[layer - 1, 0] for tensor in "QST"]
        assert got == pytest.approx(expected, rel=1e-9)
        assert flow.R[layer - 1, 0] == flow.U[layer - 1, 0] == 0


@pytest.mark.covers("B16")
def test_contributions_of_layers_are_equal_under_the_equivalence_principle() -> None:
    """ReLU, PDLT (9.94): every layer gives the same, and K*/2 lambda_W + lambda_b in all."""
    relu = net(8, "relu", features=1, lambda_b=0.25, lambda_W=0.5).at_criticality()
    bias, weight = ntk_layer_contributions(relu, K1=[0.6, 2.0])
    np.testing.assert_allclose(bias, 0.25, rtol=1e-13)
    np.testing.assert_allclose(weight, np.full((8, 1), 0.25) * [0.6, 2.0], rtol=1e-13)


@pytest.mark.covers("B16")
def test_gradients_of_sin_by_hand() -> None:
    """chi_perp = C_W (1 + exp(-2K))/2 and K' = C_b + C_W (1 - exp(-2K))/2."""
    C_W, C_b = (1.0, 0.7, 1.4), (0.1, 0.2, 0.0)
    K1, expected = 0.9, [1.0]
    K2 = 0.2 + 0.7 * (1 - np.exp(-2 * K1)) / 2
    slopes = [0.7 * (1 + np.exp(-2 * K1)) / 2, 1.4 * (1 + np.exp(-2 * K2)) / 2]
    expected = [slopes[0] * slopes[1], slopes[1], 1.0]
    got = gradient_norms(net(3, "sin", features=1, C_b=C_b, C_W=C_W), K1=K1).ravel()
    np.testing.assert_allclose(got, expected, rtol=1e-13)
