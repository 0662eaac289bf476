"""Golden: K, V and G^{1} against closed forms, printed numbers and independent quadrature.

Tables are computed values for the recursions of PDLT (5.108)-(5.110), (4.115), (4.119); digits quoted
are digits trusted.
"""

import itertools
import math

import numpy as np
import pytest

import scalewise as sw
from networks import inputs_with_kernel, net, one_input
from scalewise.theory.flow import kernel_flow
from scalewise.theory.order import tensor_flow
from scalewise.theory.single import single_input_vertex

SINGLE_INPUT = {  # activation, layer: K, V, G1 from K(1) = 1 at C_b = 0, C_W = 1
    ("tanh", 2): (0.3942944904, 0.0975237381, 0.0),
    ("tanh", 3): (0.2364504105, 0.0678074939, -0.0309325199),
    ("tanh", 5): (0.1279047353, 0.0393984430, -0.0682253714),
    ("tanh", 10): (0.0580118478, 0.0185887276, -0.1071337503),
    ("tanh", 20): (0.0272861595, 0.0089082908, -0.1326789735),
    ("tanh", 50): (0.0104307384, 0.0034465565, -0.1514847224),
    ("sin", 2): (0.4323323584, 0.1204630231, 0.0),
    ("sin", 5): (0.1777992879, 0.0809770248, -0.1159373466),
    ("sin", 10): (0.0921811387, 0.0500900686, -0.1933579754),
    ("sin", 50): (0.0194663643, 0.0124085097, -0.2950445822),
}


@pytest.mark.covers("A3.6", "A4.2")
@pytest.mark.parametrize("name", ["tanh", "sin"])
def test_single_input_table(name: str) -> None:
    flow = sw.predict(net(50, name, features=1), one_input())
    for (activation, layer), (K, V, G1) in SINGLE_INPUT.items():
        if activation != name:
            continue
        here = flow.sel(layer=layer)
        assert here.kernel.item() == pytest.approx(K, abs=6e-11)
        assert here.four_point_vertex.item() == pytest.approx(V, abs=6e-11)
        assert here.metric_nlo.item() == pytest.approx(G1, abs=6e-11)


TWO_INPUT = {  # layer: K_00, K_01, K_11; V_0000, 0001, 0011, 0101, 0111, 1111; G1_00, 01, 11
    2: (
        (0.3942944904, 0.1991779493, 0.3540870682),
        (0.0975237381, 0.0584343568, 0.0221830511, 0.1221257757, 0.0571526779, 0.0876291495),
        (0.0, 0.0, 0.0),
    ),
    3: (
        (0.2364504105, 0.1193880022, 0.2205354392),
        (0.0678074939, 0.0411227871, 0.0164138005, 0.0881215237, 0.0406391497, 0.0633408032),
        (-0.0309325199, -0.0189139827, -0.0314546645),
    ),
    4: (
        (0.1666563538, 0.0840510991, 0.1583436565),
        (0.0501465965, 0.0304820429, 0.0124313205, 0.0659390556, 0.0302475375, 0.0477098835),
        (-0.0526824673, -0.0332203109, -0.0533338891),
    ),
}


@pytest.mark.covers("A3.3", "A3.4", "A3.6", "A3.7", "A4.2", "B11")
def test_two_input_tanh_table() -> None:
    x = inputs_with_kernel(np.array([[1.0, 0.5], [0.5, 0.8]]))
    flow = sw.predict(net(4, "tanh", features=2), x)
    for layer, (K, V, G1) in TWO_INPUT.items():
        here = flow.sel(layer=layer)
        pairs = [(0, 0), (0, 1), (1, 1)]
        quads = [(0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 1, 1), (1, 1, 1, 1)]
        assert [here.kernel.values[i] for i in pairs] == pytest.approx(K, abs=2e-10)
        assert [here.four_point_vertex.values[i] for i in quads] == pytest.approx(V, abs=2e-10)
        assert [here.metric_nlo.values[i] for i in pairs] == pytest.approx(G1, abs=2e-10)


@pytest.mark.parametrize(
    ("name", "nu"),
    [
        ("linear", 2.0),
        ("relu", 5.0),
        ("leaky_relu(0.01)", 4.99880024),
        ("leaky_relu(0.1)", 4.88236447),
        ("leaky_relu(0.2)", 4.55621302),
        ("leaky_relu(0.5)", 3.08),
    ],
)
def test_scale_invariant_vertex_grows_by_nu_per_layer(name: str, nu: float) -> None:
    """PDLT (5.120): V = (l-1) nu K*², and (5.117): G^{1} = 0."""
    network = net(9, name, features=1).at_criticality()
    flow = sw.predict(network, np.array([[1.3]]))
    K = flow.kernel.values.ravel()
    np.testing.assert_allclose(K, K[0], rtol=1e-13)
    np.testing.assert_allclose(
        flow.four_point_vertex.values.ravel(), np.arange(9) * nu * K[0] ** 2, rtol=3e-9, atol=1e-12
    )
    np.testing.assert_allclose(flow.metric_nlo.values.ravel(), 0.0, atol=1e-12)


@pytest.mark.parametrize("C_W", [1.0, 1.4])
def test_deep_linear_network_with_many_inputs_and_unequal_widths(C_W: float) -> None:
    """From (4.119) for sigma = z: V = r V C_W² + C_W² (K13 K24 + K14 K23), G^{1} = 0, any widths."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5, 7))
    widths = (40, 80, 20, 60)
    network = net(5, "linear", features=7, width=widths, C_W=C_W)
    flow = sw.predict(network, x)
    K = C_W * x @ x.T / 7
    V = np.zeros((5,) * 4)
    for layer in range(1, 6):
        here = flow.sel(layer=layer)
        np.testing.assert_allclose(here.kernel.values, K, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(here.four_point_vertex.values, V, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(here.metric_nlo.values, 0.0, atol=1e-12)
        wick = np.einsum("ac,bd->abcd", K, K) + np.einsum("ad,bc->abcd", K, K)
        r = widths[layer - 1] / widths[layer - 2] if 1 < layer <= 4 else 1.0
        V = C_W**2 * (wick + r * V)
        K = C_W * K


def test_semi_critical_relu() -> None:
    """C_W = 1/A_2, C_b > 0: K = K(1) + (l-1) C_b, V/K² -> (nu/3) l; PDLT sec. 5.4.1."""
    network = net(3000, "relu", features=1, C_W=2.0, C_b=0.5)
    K = kernel_flow(network, one_input(), ntk=False).diagonal
    np.testing.assert_allclose(K[:, 0], 0.5 + 2.0 + 0.5 * np.arange(3000), rtol=1e-12)
    V = single_input_vertex(network, K)
    assert V[-1, 0] / K[-1, 0] ** 2 / 3000 == pytest.approx(5 / 3, rel=5e-3)


def test_quadratic_worked_example() -> None:
    """PDLT (5.3): K' = C_b + C_W (K_aa K_bb + 2 K_ab²)."""
    K = np.array([[0.4, 0.1], [0.1, 0.3]])
    x = inputs_with_kernel(K / 0.7 - 0.2 / 0.7)
    flow = sw.predict(net(2, "quadratic", features=2, C_b=0.2, C_W=0.7), x, observables="kernel")
    d = np.diag(K)
    np.testing.assert_allclose(flow.kernel.values[0], K, rtol=1e-12)
    np.testing.assert_allclose(
        flow.kernel.values[1], 0.2 + 0.7 * (np.outer(d, d) + 2 * K * K), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("start", "angles"),
    [
        (math.pi / 2, {10: 0.545613197126, 100: 0.0853822318201, 1000: 0.00929680591334}),
        (0.1, {10: 0.0911547818205, 100: 0.0484885822898}),
    ],
)
def test_angle_between_two_inputs_of_a_relu_network(start: float, angles: dict) -> None:
    """Iterates of PDLT (5.162) with rho = 1/pi."""
    x = np.array([[1.0, 0.0], [math.cos(start), math.sin(start)]])
    network = net(max(angles), "relu", features=2, C_W=2.0)
    K = sw.predict(network, x, observables="kernel").kernel.values
    for layer, angle in angles.items():
        k = K[layer - 1]
        # arccos of a double loses half the digits at small angles; the chord does not.
        chord = math.sqrt((k[0, 0] + k[1, 1] - 2 * k[0, 1]) / k[0, 0])
        assert 2 * math.asin(chord / 2) == pytest.approx(angle, rel=1e-9)


def sin_four_point(K: np.ndarray) -> np.ndarray:
    """<sin z_a sin z_b sin z_c sin z_d> from the characteristic function."""
    out = np.zeros((len(K),) * 4)
    for quad in np.ndindex(out.shape):
        k = K[np.ix_(quad, quad)]
        for signs in itertools.product((1, -1), repeat=4):
            s = np.array(signs)
            out[quad] += np.prod(s) * math.exp(-0.5 * s @ k @ s) / 16
    return out


@pytest.mark.parametrize(("samples", "tolerance"), [(1, 1e-10), (3, 1e-10), (4, 1e-9), (6, None)])
def test_second_layer_vertex_of_sin(samples: int, tolerance: float | None) -> None:
    """Second-layer V, PDLT (4.40), against the closed form for sin.

    Up to four inputs the product rule must be exact; beyond, the sampled entries must be within
    their own error bars and those must be small.
    """
    rng = np.random.default_rng(3)
    x = rng.normal(size=(samples, 5))
    flow = sw.predict(net(2, "sin", features=5, C_W=0.9), x)
    K = flow.kernel.values[0]
    mean = np.exp(-0.5 * np.add.outer(np.diag(K), np.diag(K))) * np.sinh(K)
    V = 0.81 * (sin_four_point(K) - np.multiply.outer(mean, mean))
    gap = np.abs(flow.four_point_vertex.values[1] - V)
    if tolerance is not None:
        assert gap.max() < tolerance
        return
    error = flow.four_point_vertex_error.values[1]
    assert error.max() < 8e-3 * np.abs(V).max()
    assert np.all(gap <= error + 1e-10)


def test_vertex_of_exp_is_log_normal() -> None:
    """<e^{z_a+z_b+z_c+z_d}> = exp(½ 1ᵀK1), on three inputs at two layers."""
    rng = np.random.default_rng(4)
    x = 0.3 * rng.normal(size=(3, 4))
    flow = sw.predict(net(3, "exp", features=4, C_W=0.05), x)
    K = flow.kernel.values[0]
    mean = np.exp(0.5 * np.add.outer(np.diag(K), np.diag(K)) + K)
    np.testing.assert_allclose(flow.kernel.values[1], 0.05 * mean, rtol=1e-11)
    total = K[:, :, None, None] + K[:, None, :, None] + K[:, None, None, :]
    total = total + K[None, :, :, None] + K[None, :, None, :] + K[None, None, :, :]
    half = 0.5 * np.diag(K)
    total = total + sum(half.reshape([-1 if i == j else 1 for j in range(4)]) for i in range(4))
    V = 0.05**2 * (np.exp(total) - np.multiply.outer(mean, mean))
    np.testing.assert_allclose(flow.four_point_vertex.values[1], V, rtol=1e-8)


@pytest.mark.thorough("tests/theory/test_small_kernels.py::test_a_users_relu_has_the_closed_form")
def test_user_kink_gives_the_numbers_of_the_built_in_relu() -> None:
    """ReLU as a user's callable goes through quadrature and delta functions, not closed forms."""
    import jax.numpy as jnp

    rng = np.random.default_rng(5)
    x = rng.normal(size=(2, 3))
    mine = sw.activation(lambda z: jnp.maximum(z, 0.0) + 0.0, kinks=(0.0,), name="mine")
    assert mine.family is None
    flows = [
        sw.predict(net(4, a, features=3, C_W=2.0, C_b=0.05, width=(30, 60, 45)), x)
        for a in ("relu", mine)
    ]
    for name in ("kernel", "ntk", "four_point_vertex", "metric_nlo"):
        np.testing.assert_allclose(flows[1][name], flows[0][name], rtol=1e-8, atol=1e-10)


def test_flow_is_consistent_with_the_single_input_recursion() -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(3, 4))
    for name in ("tanh", "gelu", "relu", "swish"):
        network = net(6, name, features=4, C_W=1.7, C_b=0.1, width=(30, 60, 45, 20, 90))
        flow = kernel_flow(network, x)
        V = tensor_flow(network, flow.K, None, ["V"])["V"][0]
        diagonal = np.einsum("laaaa->la", V)
        np.testing.assert_allclose(
            diagonal, single_input_vertex(network, flow.diagonal), rtol=1e-9, atol=1e-13
        )


def test_tanh_approaches_its_asymptotics_as_tabulated() -> None:
    """K l -> 1/2, V/(K² l) -> 2/3, bare G^{1} -> -1/6, at the published distance from the limit."""
    flow = sw.predict(net(100, "tanh", features=1), one_input()).sel(layer=100)
    K, V, G1 = (flow[n].item() for n in ("kernel", "four_point_vertex", "metric_nlo"))
    assert 2 * K * 100 == pytest.approx(1.02414, abs=6e-6)
    assert V / K**2 / 100 == pytest.approx(0.64804, abs=6e-6)
    assert G1 == pytest.approx(-0.15869, abs=6e-6)
    deep = net(1000, "tanh", features=1)
    diagonal = kernel_flow(deep, one_input(), layers=[1000], ntk=False).diagonal
    vertex = single_input_vertex(deep, diagonal)
    assert 2 * diagonal[-1, 0] * 1000 == pytest.approx(1.00333, abs=6e-6)
    assert vertex[-1, 0] / diagonal[-1, 0] ** 2 / 1000 == pytest.approx(0.66415, abs=6e-6)


@pytest.mark.parametrize(
    ("name", "C_W"),
    [("linear", 1.0), ("relu", 2.0), ("tanh", 1.0), ("sin", 1.0), ("erf", np.pi / 4)],
)
def test_critical_point_keeps_signals(name: str, C_W: float) -> None:
    """PDLT (5.67), (5.90): C_b = 0 and C_W = 1/A_2 or 1/sigma_1²."""
    network = net(3, name, features=1).at_criticality()
    assert network.C_b == (0.0,) * 3
    assert network.C_W == pytest.approx((C_W,) * 3, rel=1e-12, abs=0)
