"""Golden and property tests: the single-input flow against the recursions as printed.

The oracle steps through layers with (9.13) and (9.16), not the compact forms, and with expectations
from a rule of its own in the printed insertions of z² - K.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalewise as sw
from grids import thorough
from kinked import skewed
from networks import net
from scalewise.gaussian import single_moment
from scalewise.theory._tables._scan import scan
from scalewise.theory.single import (
    gradient_norms,
    ntk_layer_contributions,
    single_input_flow,
    single_input_vertex,
)

WAVY = skewed()
HARD_TANH = sw.activation("hardtanh")
LAYERS = {
    "width": (40, 80, 20, 60),
    "C_b": (0.1, 0.0, 0.2, 0.05, 0.3),
    "C_W": (1.1, 0.9, 1.6, 0.7, 1.3),
    "lambda_b": (0.3, 0.5, 0.0, 0.4, 0.9),
    "lambda_W": (0.7, 1.1, 0.9, 0.6, 1.2),
}


class Printed:
    """One layer of expectations by a trapezoidal sum, and the printed single-input recursions."""

    u = np.linspace(-11, 11, 2001)
    w = np.exp(-u * u / 2) * (u[1] - u[0]) / np.sqrt(2 * np.pi)

    def __init__(self, sigma: sw.Activation, K: float):
        self.K, self.z = K, np.sqrt(K) * self.u
        self.s = [sigma.derivative(self.z, order) for order in range(4)]

    def mean(self, *orders: int, times: np.ndarray | float = 1.0) -> float:
        return float(np.sum(self.w * times * np.prod([self.s[p] for p in orders], axis=0)))

    def step(self, t: dict, C_b: float, C: float, lb: float, lam: float, r: float) -> dict:
        K, z, e = self.K, self.z, self.mean
        g, g4, s2d2, d4 = e(0, 0), e(0, 0, 0, 0), e(0, 0, 1, 1), e(1, 1, 1, 1)
        par = C / (2 * K**2) * e(0, 0, times=z**2 - K)
        perp = C * e(1, 1)
        h = C / (4 * K**2) * e(1, 1, times=z**2 - K)
        he4 = (z * z / K) ** 2 - 6 * z * z / K + 3
        source = C**2 * g4 - (C * g) ** 2
        mixed = C**2 * s2d2 - C * g * perp
        V, D, F, B, A, P, Q = (r * t[name] for name in "VDFBAPQ")
        G1, H1, Th = r * t["G1"], r * t["H1"], t["Theta"]
        out = {"K": C_b + C * g, "Theta": lb + lam * g + perp * Th}
        out["V"] = par**2 * V + source
        out["G1"] = par * G1 + C / 8 * e(0, 0, times=he4) * V / K**2
        out["D"] = perp * par * D + lam / C * (source + par**2 * V) + Th * (mixed + 2 * h * par * V)
        out["F"] = par**2 * F + C**2 * s2d2 * Th
        out["B"] = perp**2 * B + C**2 * d4 * Th**2
        out["A"] = (
            perp**2 * A
            + (lam / C) ** 2 * (source + par**2 * V)
            + 2 * lam / C * Th * (mixed + 2 * h * par * V)
            + 2 * lam / C * perp * par * D
            + 4 * h * perp * Th * D
            + Th**2 * (C**2 * d4 - perp**2 + (2 * h) ** 2 * V)
        )
        out["H1"] = (
            perp * H1
            + 2 * h * D
            + 4 * h * F
            + lam / C * (par * G1 + C / 8 * e(0, 0, times=he4) * V / K**2)
            + Th * (2 * h * G1 + C / 8 * e(1, 1, times=he4) * V / K**2)
        )
        common = C**2 * e(2, 1, 1, 0) * Th**2
        up = C * perp * e(2, 0) + perp**2
        out["P"] = common + C * perp * e(2, 0) * B + up * P
        out["Q"] = common + lam / C * out["F"] + 2 * h * par * Th * F + up * Q
        R, S, T, U = (r * t[name] for name in "RSTU")
        lower = lam * e(1, 1) + C * Th * e(2, 2)
        out["R"] = (
            perp**2 * R
            + lam * C * e(2, 1, 1, 0) * Th**2
            + C**2 * e(3, 1, 1, 1) * Th**3
            + perp * (lam * e(2, 0) + C * Th * e(3, 1)) * (B + P)
            + perp * lower * P
        )
        bent = C**2 * e(2, 2, 1, 1) * Th**3
        out["S"] = perp**2 * S + C * lam * d4 * Th**2 + bent + perp * lower * B
        slope = lam * e(1, 0, times=z) + C * Th * e(2, 1, times=z)
        out["T"] = (
            perp**2 * T
            + 2 * C * lam * e(2, 1, 1, 0) * Th**2
            + bent
            + lam**2 * s2d2 * Th
            + slope**2 * F / K**2
            + 2 * perp * (lam * (e(2, 0) + e(1, 1)) + C * Th * (e(3, 1) + e(2, 2))) * Q
        )
        out["U"] = perp**2 * U + bent
        return out


@pytest.mark.covers("A7.1", "B13")
@pytest.mark.parametrize("sigma", ["tanh", "gelu", "sigmoid", WAVY], ids=str)
def test_every_tensor_with_hyperparameters_and_widths_of_each_layer(sigma) -> None:
    network = net(5, sigma, features=2, **LAYERS)
    x = np.array([[1.0, -0.4], [0.3, 1.4]])
    flow = single_input_flow(network, x)
    for index, point in enumerate(x):
        square = float(point @ point) / 2
        here = dict.fromkeys((*"VDFBAPQRSTU", "G1", "H1"), 0.0)
        here |= {"K": 0.1 + 1.1 * square, "Theta": 0.3 + 0.7 * square}
        for layer in range(5):
            if layer:
                n = network.widths
                r = n[layer] / n[layer - 1] if layer > 1 else 1.0
                hyper = (v[layer] for v in (network.C_b, network.C_W))
                rates = (v[layer] for v in (network.lambda_b, network.lambda_W))
                here = Printed(network.activation, here["K"]).step(here, *hyper, *rates, r)
            for name, value in here.items():
                got = getattr(flow, name)[layer, index]
                assert got == pytest.approx(value, rel=2e-10, abs=1e-13), (name, layer)


@pytest.mark.parametrize("name", ["relu", "swish", *thorough("tanh", HARD_TANH)], ids=str)
def test_kernel_vertex_metric_and_ntk_agree_with_the_many_input_code(name) -> None:
    network = net(5, name, features=2, **LAYERS)
    x = np.array([[1.0, -0.4], [0.3, 1.4]])
    wanted = ["kernel", "ntk", "four_point_vertex", "metric_nlo"]
    many = sw.predict(network, x, observables=wanted)
    flow = single_input_flow(network, x)
    for i in range(2):
        np.testing.assert_allclose(flow.K[:, i], many.kernel[:, i, i], rtol=1e-11)
        np.testing.assert_allclose(flow.Theta[:, i], many.ntk[:, i, i], rtol=1e-11)
        np.testing.assert_allclose(flow.G1[:, i], many.metric_nlo[:, i, i], rtol=1e-9, atol=1e-12)
        V = many.four_point_vertex[:, i, i, i, i]
        np.testing.assert_allclose(flow.V[:, i], V, rtol=1e-10)


def test_an_activation_that_jumps_has_a_vertex_and_no_ntk() -> None:
    step = sw.activation(lambda z: jnp.where(z > 0.3, 1.0, jnp.tanh(z)), kinks=(0.3,), name="jump")
    for sigma in ("perceptron", step):
        network = net(5, sigma, features=1, **LAYERS)
        flow = single_input_flow(network, K1=0.8)
        np.testing.assert_allclose(single_input_vertex(network, flow.K), flow.V, rtol=1e-14)
        V, G1 = _by_differences(network, flow.K[:, 0])
        np.testing.assert_allclose(flow.V[:, 0], V, rtol=1e-7, atol=1e-15)
        np.testing.assert_allclose(flow.G1[:, 0], G1, rtol=1e-5, atol=1e-9)
        assert np.any(np.abs(flow.G1) > 1e-4) == (sigma is step)
        for name in ("Theta", "chi_perp", "h", "H1", "D", "B", "P", "Q", "U"):
            assert getattr(flow, name) is None
        with pytest.raises(ValueError, match="jumps"):
            gradient_norms(network, K1=0.8)


@pytest.mark.covers("A7.3")
def test_hyperparameters_with_a_part_of_order_one_over_n() -> None:
    """What they add to G1 and H1 is the derivative of K and Theta as the hyperparameters shift."""
    c_b, c_W, step = 0.4, -0.7, 1e-4
    plain = net(5, WAVY, features=1, **LAYERS | {"C_b": (0.1, 0.02, 0.2, 0.05, 0.3)})
    below = np.array(plain.widths[:-1], dtype=float)

    def shifted(sign: int) -> sw.Network:
        share = sign * step / below * (np.arange(5) > 0)
        hyper = {"C_b": tuple(np.array(plain.C_b) + c_b * share)}
        hyper["C_W"] = tuple(np.array(plain.C_W) + c_W * share)
        return net(5, WAVY, features=1, **LAYERS | hyper)

    tuned = single_input_flow(plain, K1=0.8, C_b_nlo=c_b, C_W_nlo=c_W)
    bare = single_input_flow(plain, K1=0.8)
    up, down = (single_input_flow(shifted(sign), K1=0.8) for sign in (1, -1))
    for nlo, leading in (("G1", "K"), ("H1", "Theta")):
        slope = (getattr(up, leading) - getattr(down, leading))[:, 0] / (2 * step)
        got = (getattr(tuned, nlo) - getattr(bare, nlo))[:, 0]
        np.testing.assert_allclose(got, below * slope, rtol=1e-6, atol=1e-9)


def _by_differences(network: sw.Network, K: np.ndarray) -> tuple[list[float], list[float]]:
    """(5.109) and (5.110) with derivatives of <sigma²> from differences of `single_moment`."""
    sigma, n, V, G1 = network.activation, network.widths, [0.0], [0.0]
    for layer in range(1, network.depth):
        k, step, C_W = K[layer - 1], 1e-3, network.C_W[layer]
        points = k * (1 + step * np.arange(-2, 3))
        g = single_moment(sigma, points, (0, 0)).value
        slope = float(np.dot([1, -8, 0, 8, -1], g)) / (12 * step * k)
        bend = float(np.dot([-1, 16, -30, 16, -1], g)) / (12 * (step * k) ** 2)
        four = float(single_moment(sigma, k, (0,) * 4).value)
        r = n[layer] / n[layer - 1] if layer > 1 else 1.0
        G1.append(C_W * r * (slope * G1[-1] + 0.5 * bend * V[-1]))
        V.append(C_W**2 * (four - float(g[2]) ** 2 + r * slope**2 * V[-1]))
    return V, G1


@pytest.mark.covers("B16")
def test_contributions_add_up_to_the_ntk() -> None:
    network = net(5, "gelu", features=1, **LAYERS)
    flow = single_input_flow(network, K1=[0.5, 2.0])
    bias, weight = ntk_layer_contributions(network, K1=[0.5, 2.0])
    np.testing.assert_allclose(np.sum(bias + weight, axis=0), flow.Theta[-1], rtol=1e-12)
    bottom = net(5, "gelu", features=1, **LAYERS | {"lambda_b": (1, 0, 0, 0, 0), "lambda_W": 0.0})
    np.testing.assert_allclose(
        single_input_flow(bottom, K1=0.5).Theta[-1], gradient_norms(bottom, K1=0.5)[0], rtol=1e-12
    )


@pytest.mark.parametrize("name", ["tanh", "relu", "gelu"])
def test_training_the_last_layer_only(name: str) -> None:
    """Theta = K, A = D = V and B = F = P = Q = R = ... = 0 if lambda = C there and 0 below."""
    rates = {"lambda_b": (0, 0, 0, 0, 0.3), "lambda_W": (0, 0, 0, 0, 1.3)}
    flow = single_input_flow(net(5, name, features=1, **LAYERS | rates), K1=0.8)
    assert flow.Theta[-1, 0] == pytest.approx(flow.K[-1, 0], rel=1e-13)
    assert flow.A[-1, 0] == pytest.approx(flow.V[-1, 0], rel=1e-13)
    assert flow.D[-1, 0] == pytest.approx(flow.V[-1, 0], rel=1e-13)
    assert flow.H1[-1, 0] == pytest.approx(flow.G1[-1, 0], rel=1e-12, abs=1e-15)
    for zero in "FBPQRSTU":
        tensor = getattr(flow, zero)
        assert tensor is None or tensor[-1, 0] == 0


@settings(max_examples=15, deadline=None)
@given(st.floats(0.1, 10), st.sampled_from(["tanh", "swish"]))
def test_powers_of_the_learning_rate(factor: float, name: str) -> None:
    rates = {key: tuple(factor * v for v in LAYERS[key]) for key in ("lambda_b", "lambda_W")}
    one = single_input_flow(net(5, name, features=1, **LAYERS), K1=0.8)
    other = single_input_flow(net(5, name, features=1, **LAYERS | rates), K1=0.8)
    powers = {"K": 0, "V": 0, "G1": 0, "Theta": 1, "H1": 1, "D": 1, "F": 1, "A": 2, "B": 2}
    powers |= {"P": 2, "Q": 2, "R": 3, "S": 3, "T": 3, "U": 3}
    for tensor, power in powers.items():
        expected = factor**power * getattr(one, tensor)
        np.testing.assert_allclose(getattr(other, tensor), expected, rtol=1e-11, atol=1e-14)


@settings(max_examples=15, deadline=None)
@given(st.floats(0.1, 10))
def test_powers_of_the_input_in_a_scale_invariant_network(scale: float) -> None:
    kinky = net(6, "leaky_relu(0.3)", features=1, C_W=1.7, lambda_b=0.0)
    one, other = single_input_flow(kinky, K1=0.8), single_input_flow(kinky, K1=0.8 * scale)
    powers = {"K": 1, "Theta": 1, "V": 2, "D": 2, "F": 2, "B": 2, "A": 2, "Q": 2}
    for tensor, power in powers.items():
        expected = scale**power * getattr(one, tensor)
        np.testing.assert_allclose(getattr(other, tensor), expected, rtol=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 400), st.integers(0, 2**31))
def test_scan_in_blocks_is_the_loop(count: int, seed: int) -> None:
    alpha, beta = np.random.default_rng(seed).normal(size=(2, count, 2))
    first = np.array([0.7, -1.2])
    expected = [first]
    for a, b in zip(alpha, beta, strict=True):
        expected.append(a * expected[-1] + b)
    np.testing.assert_allclose(scan(alpha, beta, first), expected, rtol=1e-9, atol=1e-9)


def test_scan_where_products_of_factors_overflow() -> None:
    alpha = np.full((4000, 1), 1e6)
    assert not scan(alpha, np.zeros((4000, 1))).any()


def test_depth_of_one_and_many_inputs_at_once() -> None:
    flow = single_input_flow(net(1, "tanh", features=2, C_b=0.5, lambda_W=2.0), np.eye(2))
    np.testing.assert_allclose(flow.K, [[1.0, 1.0]])
    np.testing.assert_allclose(flow.Theta, [[2.0, 2.0]])
    assert flow.V.shape == (1, 2)
    assert flow.chi_perp.shape == (0, 2)
    K1 = np.geomspace(0.1, 20, 7)
    deep = net(90, "gelu", features=1, C_W=1.9, C_b=0.1)
    together = single_input_flow(deep, K1=K1)
    for i, k in enumerate(K1):
        alone = single_input_flow(deep, K1=float(k))
        for name, value in vars(alone).items():
            np.testing.assert_allclose(getattr(together, name)[:, i : i + 1], value, rtol=1e-12)


def test_messages() -> None:
    network = net(400, "relu", features=1, C_W=20.0)
    with pytest.raises(ValueError, match=r"leaves the range of float64 at layer \d+ \(K = "):
        single_input_flow(network, K1=1.0)
    with pytest.raises(ValueError, match="either inputs `x` or first-layer kernels"):
        single_input_flow(network)
    for bad in (-1.0, 0.0, [[1.0]]):
        with pytest.raises(ValueError, match="`K1` must be one or a list of positive"):
            single_input_flow(network, K1=bad)
    with pytest.raises(ValueError, match="`K1` must hold finite numbers only"):
        single_input_flow(network, K1=np.nan)
    saturated = net(2000, "tanh", features=1, C_b=0.0, C_W=20.0)
    with pytest.raises(ValueError, match=r"The tensor .* gradients explode"):
        single_input_flow(saturated, K1=1.0)
    with pytest.raises(ValueError, match="do not converge or overflow"):
        single_input_flow(net(3, lambda z: jnp.exp(z / 2), features=1), K1=2000.0)
    with pytest.raises(ValueError, match=r"The tensor V .* leaves the range"):
        single_input_vertex(net(3, "exp", features=1), np.array([[80.0], [90.0], [1.0]]))


def test_what_needs_the_kernel_alone_goes_on_where_its_square_is_lost() -> None:
    """Layers contribute to the NTK in proportion long after K² has left float64."""
    network = net(120, "tanh", features=1, C_b=0.0, C_W=0.01)
    bias, weight = ntk_layer_contributions(network, K1=1.0)
    assert 0 < single_input_flow(network, K1=1.0).K[-1, 0] < 1e-200
    np.testing.assert_allclose(bias[-15:, 0], 0.01 ** np.arange(14.0, -1.0, -1.0), rtol=1e-9)
    assert np.all(weight[-15:] < 1e-200)
    with pytest.raises(ValueError, match=r"needs K\^2\): with C_b = 0"):
        sw.predict(network, np.ones((1, 1)), observables=["kernel"])
