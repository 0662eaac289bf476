"""Golden and property tests: kernel and NTK angles of scale-invariant networks."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalewise as sw
from networks import net
from scalewise.theory.deep import (
    angle_flow,
    asymptotics,
    crossover_depth,
    deep_angle,
    deep_ntk_angle,
    kernel_angle,
)
from scalewise.theory.flow import kernel_flow

RELU = sw.activation("relu")
RHO = 1 / np.pi


def _pair(angle: float) -> tuple[np.ndarray, np.ndarray]:
    return np.array([[1.0, 0.0]]), np.array([[np.cos(angle), np.sin(angle)]])


def _critical(depth: int, name: str = "relu", **rates) -> sw.Network:
    return net(depth, name, features=2, **rates).at_criticality()


@pytest.mark.covers("A6")
def test_tabulated_angles() -> None:
    at = {2: np.arccos(1 / np.pi), 10: 0.545613197126, 100: 0.0853822318201, 1000: 0.00929680591334}
    psi = angle_flow(_critical(1000), *_pair(np.pi / 2)).psi[:, 0]
    assert [psi[layer - 1] for layer in at] == pytest.approx(list(at.values()), rel=1e-11)
    psi = angle_flow(_critical(100), *_pair(0.1)).psi[:, 0]
    assert [psi[9], psi[99]] == pytest.approx([0.0911547818205, 0.0484885822898], rel=1e-11)
    opposite = angle_flow(_critical(2), np.array([[1.0, 0.0]]), np.array([[-1.0, 0.0]]))
    assert opposite.psi[1, 0] == pytest.approx(np.pi / 2, rel=1e-14)


@pytest.mark.covers("B24")
def test_tabulated_ntk_angles() -> None:
    """lambda_b = lambda_W A_2... = 1 x K: cos zeta from a right angle and from half of it."""
    # x²/n_0 = 1/2 and C_W = 2: K* = 1, so lambda_W A_2 K* = lambda_b with lambda_W = 2 lambda_b;
    # the table has lambda_b = lambda_W and A_2 K* = 1/2.
    network = _critical(1000, lambda_b=1.0, lambda_W=1.0)
    cosine = np.cos(angle_flow(network, *_pair(np.pi / 2)).zeta[:, 0])
    at = {1: 0.666667, 2: 0.553052, 3: 0.499450, 10: 0.379433, 100: 0.273963, 1000: 0.253308}
    assert [cosine[layer - 1] for layer in at] == pytest.approx(list(at.values()), abs=6e-7)
    cosine = np.cos(angle_flow(network, *_pair(np.pi / 4)).zeta[:, 0])
    at = {10: 0.486576, 100: 0.285227, 1000: 0.254419}
    assert [cosine[layer - 1] for layer in at] == pytest.approx(list(at.values()), abs=6e-7)


@pytest.mark.covers("A6", "B24")
def test_deep_limits() -> None:
    flow = angle_flow(_critical(10000), *_pair(np.pi / 2))
    limits = deep_ntk_angle(RELU)
    assert limits == {"cos_zeta": 0.25, "robustness": -0.75, "interpolation_variance": 9 / 16}
    assert flow.robustness[-1, 0] == pytest.approx(limits["robustness"], abs=6e-4)
    variance = flow.interpolation_variance[-1, 0] / flow.K_minus[-1, 0]
    assert variance == pytest.approx(limits["interpolation_variance"], abs=9e-4)
    psi, ell = flow.psi[:, 0], np.arange(1, 10001)
    np.testing.assert_allclose(deep_angle(RELU, ell[999:], offset=3.39), psi[999:], rtol=2e-5)
    # the logarithm: without it the offset would still move by 3/2 log 10 each decade
    offset = 3 / RHO / psi - ell - 1.5 * np.log(ell)
    assert offset[9999] - offset[999] == pytest.approx(0, abs=2e-2)
    K_2 = flow.K_plus[-1, 0] * (1 - np.cos(psi[-1])) / 2
    assert K_2 * ell[-1] ** 2 == pytest.approx(9 * np.pi**2 / 4, rel=5e-3)
    assert asymptotics("relu").exponents["perp"] == 2


@pytest.mark.covers("A6")
def test_crossover() -> None:
    """Half the initial angle is left at the crossover, whatever it was."""
    for angle in (1e-2, 1e-3):
        depth = round(crossover_depth(RELU, angle))
        assert depth == pytest.approx(3 * np.pi / angle, abs=1)
        psi = angle_flow(_critical(depth), *_pair(angle)).psi[-1, 0]
        assert psi / angle == pytest.approx(0.5, abs=0.01)


@pytest.mark.covers("B24")
def test_deep_linear_networks_keep_their_angles() -> None:
    """(10.98): cos zeta = 3/4 for lambda_b = lambda_W A_2 K = 1 and psi = pi/3, at every layer."""
    x, y = (np.sqrt(2.0) * v for v in _pair(np.pi / 3))  # |x|²/n_0 = 1
    flow = angle_flow(_critical(200, "linear"), x, y)
    np.testing.assert_allclose(flow.psi, np.pi / 3, rtol=1e-12)
    np.testing.assert_allclose(np.cos(flow.zeta), 0.75, rtol=1e-12)
    back = angle_flow(_critical(200, "linear"), x, -x)
    np.testing.assert_allclose(back.psi, np.pi, rtol=1e-15)


@pytest.mark.covers("A6")
@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["relu", "leaky_relu(0.2)", "linear", "leaky_relu(-1)"]),
    st.floats(0, 0.5),
    st.floats(0.3, 3),
    st.integers(0, 2**31),
)
def test_any_hyperparameters_and_norms_against_the_kernel_flow(name, C_b, C_W, seed) -> None:
    rng = np.random.default_rng(seed)
    rates = {"lambda_b": tuple(rng.uniform(0, 1, 6)), "lambda_W": tuple(rng.uniform(0, 1, 6))}
    hyper = {"C_b": tuple(C_b * rng.uniform(0, 1, 6)), "C_W": tuple(C_W * rng.uniform(0.5, 1, 6))}
    network = net(6, name, features=3, **hyper, **rates)
    x, y = rng.normal(size=(2, 1, 3))
    flow, exact = angle_flow(network, x, y), kernel_flow(network, np.vstack([x, y]))
    K, Theta = exact.K, exact.Theta
    for got, want in (
        (flow.K_plus, K[:, 0, 0]),
        (flow.K_minus, K[:, 1, 1]),
        (flow.Theta_plus, Theta[:, 0, 0]),
        (flow.Theta_minus, Theta[:, 1, 1]),
    ):
        np.testing.assert_allclose(got[:, 0], want, rtol=1e-12)
    size, ntk = np.sqrt(K[:, 0, 0] * K[:, 1, 1]), np.sqrt(Theta[:, 0, 0] * Theta[:, 1, 1])
    np.testing.assert_allclose(flow.K_cross[:, 0] / size, K[:, 0, 1] / size, atol=1e-12)
    np.testing.assert_allclose(flow.Theta_cross[:, 0] / ntk, Theta[:, 0, 1] / ntk, atol=1e-12)
    np.testing.assert_allclose(np.cos(flow.zeta[:, 0]), Theta[:, 0, 1] / ntk, atol=1e-12)


@pytest.mark.covers("A6")
@pytest.mark.parametrize("name", ["relu", "leaky_relu(0.2)"])
@pytest.mark.parametrize("C_b", [0.0, 0.3])
def test_small_angles_keep_their_digits(name: str, C_b: float) -> None:
    """Against the plain recursions in sixty digits, equal and unequal norms, angles down to 1e-9."""
    minus, plus = sw.activation(name).slopes
    for angle, factor in ((1e-9, 1.0), (1e-4, 1.0), (0.3, 1.0), (1e-4, 1 + 1e-5), (1e-6, 2.0)):
        x, y = _pair(angle)
        network = net(20, name, features=2, C_b=C_b, C_W=1.9, lambda_b=0.3, lambda_W=0.6)
        flow = angle_flow(network, x, factor * y)
        psi, distance = _in_sixty_digits((minus, plus), network, x[0], factor * y[0])
        assert flow.psi[-1, 0] == pytest.approx(psi, rel=1e-10)
        assert flow.Theta_distance[-1, 0] == pytest.approx(distance, rel=1e-10)


def _in_sixty_digits(
    slopes, network: sw.Network, x: np.ndarray, y: np.ndarray
) -> tuple[float, float]:
    with mp.workdps(60):
        minus, plus = map(mp.mpf, slopes)
        C_b, C_W, b, w = (
            mp.mpf(v[0]) for v in (network.C_b, network.C_W, network.lambda_b, network.lambda_W)
        )
        dots = [mp.fdot(map(mp.mpf, p), map(mp.mpf, q)) / 2 for p, q in ((x, x), (y, y), (x, y))]
        K, T = [C_b + C_W * d for d in dots], [b + w * d for d in dots]
        for _ in range(network.depth - 1):
            root = mp.sqrt(K[0] * K[1])
            psi = mp.acos(K[2] / root)
            jump, mean = (plus - minus) ** 2 / (2 * mp.pi), (plus**2 + minus**2) / 2
            cross = jump * root * (mp.sin(psi) - psi * mp.cos(psi)) + mean * K[2]
            g, slope = [mean * K[0], mean * K[1], cross], [mean, mean, mean - jump * psi]
            T = [b + w * u + C_W * v * t for u, v, t in zip(g, slope, T, strict=True)]
            K = [C_b + C_W * u for u in g]
        psi = mp.acos(K[2] / mp.sqrt(K[0] * K[1]))
        return float(psi), float((T[0] + T[1]) / 2 - T[2])


def test_other_activations_go_through_the_kernel_flow() -> None:
    network = net(4, "tanh", features=2, C_W=1.3, C_b=0.1)
    x, y = np.random.default_rng(1).normal(size=(2, 3, 2))
    flow = angle_flow(network, x, y)
    for i in range(3):
        exact = kernel_flow(network, np.vstack([x[i], y[i]]))
        np.testing.assert_allclose(flow.K_cross[:, i], exact.K[:, 0, 1], rtol=1e-9)
        np.testing.assert_allclose(flow.Theta_cross[:, i], exact.Theta[:, 0, 1], rtol=1e-12)
        ratio = exact.Theta[:, 0, 1] / exact.Theta[:, 0, 0]
        np.testing.assert_allclose(flow.robustness[:, i], ratio - 1, rtol=1e-10)


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-12, np.pi), st.floats(0.1, 10))
def test_angle_between_vectors(angle: float, factor: float) -> None:
    x, y = _pair(angle)
    assert kernel_angle(x, factor * y)[0] == pytest.approx(angle, rel=1e-14, abs=1e-16)


def test_messages() -> None:
    with pytest.raises(ValueError, match="must have the same shape"):
        angle_flow(_critical(2), np.ones((1, 2)), np.ones((2, 2)))
    with pytest.raises(ValueError, match="leaves the range of float64"):
        angle_flow(net(400, "relu", features=2, C_W=20.0), *_pair(0.3))
    with pytest.raises(ValueError, match="is linear"):
        deep_angle(sw.activation("linear"), 10)
    with pytest.raises(ValueError, match="`psi` is an angle"):
        crossover_depth(RELU, 0.0)
    with pytest.raises(ValueError, match="not of the form a_"):
        deep_ntk_angle(sw.activation("tanh"))
