"""Golden and property tests: two nearby inputs to second order, against two inputs without expansion."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalewise as sw
from grids import each
from networks import net
from scalewise.gaussian import pair_moment
from scalewise.theory.flow import kernel_flow
from scalewise.theory.single import (
    assemble,
    interpolation_variance,
    nearby_expectation,
    nearby_inputs_flow,
    project,
    robustness,
)

X0 = np.array([1.0, 0.4, -0.7])
ACROSS = np.array([0.4, -1.0, 0.0])  # orthogonal to X0: equal norms
LAYERS = {
    "C_b": (0.1, 0.0, 0.2, 0.05, 0.3),
    "C_W": (1.1, 0.9, 1.6, 0.7, 1.3),
    "lambda_b": (0.3, 0.5, 0.0, 0.4, 0.9),
    "lambda_W": (0.7, 1.1, 0.9, 0.6, 1.2),
}
FALLING = {"lambda_b": tuple(1 / layer for layer in range(1, 6))}


def _components(flow):
    K = (flow.K00 + flow.ddK0, flow.dK1, flow.ddK2)
    return np.array([*K, flow.Theta00 + flow.ddTheta0, flow.dTheta1, flow.ddTheta2])[..., 0]


def _exact(network: sw.Network, x0: np.ndarray, dx: np.ndarray) -> np.ndarray:
    flow = kernel_flow(network, np.array([x0 + dx / 2, x0 - dx / 2]))
    return np.concatenate([project(flow.K), project(flow.Theta)])


@pytest.mark.covers("A4.3")
def test_tabulated_coefficients_for_equal_norms() -> None:
    """tanh, L = 5, rates 1/l and 1; per |dx|², and K_00, Theta_00."""
    dx = 1e-3 * ACROSS
    flow = nearby_inputs_flow(net(5, "tanh", features=3, **FALLING), X0[None], dx[None])
    square = dx @ dx
    got = [
        flow.K00[-1, 0],
        flow.Theta00[-1, 0],
        *(getattr(flow, n)[-1, 0] / square for n in ("ddK2", "ddK0", "ddTheta2", "ddTheta0")),
        robustness(flow)[-1, 0] / square,
        interpolation_variance(flow)[-1, 0] / square,
    ]
    expected = (0.1132039, 1.6606264, 0.0202484, -0.0160508, 0.1577875, -0.1680231)
    assert got == pytest.approx([*expected, -0.190034, 0.0809937], abs=6e-8, rel=3e-6)
    assert not flow.dK1.any()
    assert not flow.dTheta1.any()


@pytest.mark.covers("B23")
def test_tabulated_coefficients_for_unequal_norms() -> None:
    epsilon = 1e-3
    dx = epsilon * np.array([0.8, -0.3, 0.5])
    flow = nearby_inputs_flow(net(5, "tanh", features=3, **FALLING), X0[None], dx[None])
    got = [getattr(flow, n)[-1, 0] / epsilon for n in ("dK1", "dTheta1")]
    assert got == pytest.approx([0.0055408, -0.0135110], abs=6e-8)
    got = [getattr(flow, n)[-1, 0] / epsilon**2 for n in ("ddK2", "ddTheta2")]
    assert got == pytest.approx([0.0186542, 0.1473825], abs=6e-8)
    assert interpolation_variance(flow)[-1, 0] / epsilon**2 == pytest.approx(0.0747144, abs=6e-8)


@pytest.mark.covers("A4.3", "B23")
@each("name", ["tanh", "swish", "sigmoid"])
@each("along", [0.0, 0.6, 1.0])
def test_what_is_left_out_is_of_the_next_order_of_the_same_parity(name: str, along: float) -> None:
    """Even components miss delta⁴ and odd ones delta³: halving the distance says 16 and 8."""
    network = net(5, name, features=3, **LAYERS)
    direction = along * X0 + (1 - along) * ACROSS
    errors = []
    for step in (0.1, 0.05):
        flow = nearby_inputs_flow(network, X0[None], step * direction[None])
        errors.append(_exact(network, X0, step * direction) - _components(flow))
    first = [0, 2, 3, 5] if along == 0 else range(6)
    for component in first:
        for layer in range(2, 5):
            large, small = (error[component, layer] for error in errors)
            order = 3 if component in (1, 4) else 4
            assert np.log2(large / small) == pytest.approx(order, abs=0.2), (component, layer)


@pytest.mark.covers("B23")
@each("equal", [True, False])
def test_robustness_and_variance_against_two_inputs(equal: bool) -> None:
    # along x_0 and with weights alone learning, dTheta_[1] is as large as it can be
    network = net(2, "swish", features=3, C_b=0.05, C_W=1.2, lambda_b=0.3 if equal else 0.0)
    direction = ACROSS if equal else X0
    errors = []
    for step in (0.1, 0.05):
        dx = step * direction
        flow = nearby_inputs_flow(network, X0[None], dx[None])
        exact = kernel_flow(network, np.array([X0 + dx / 2, X0 - dx / 2]))
        K, Theta = exact.K[-1], exact.Theta[-1]
        ratio = Theta[1, 0] / Theta[0, 0]
        variance = K[1, 1] - 2 * ratio * K[0, 1] + ratio**2 * K[0, 0]
        got = robustness(flow)[-1, 0], interpolation_variance(flow)[-1, 0]
        errors.append(np.abs([ratio - 1 - got[0], variance - got[1]]))
    order = np.log2(errors[0] / errors[1])
    assert np.all(order > (3.8 if equal else 2.8))


def test_first_layer_and_several_inputs() -> None:
    network = net(1, "tanh", features=3, C_b=0.2, C_W=1.5, lambda_b=0.3, lambda_W=0.8)
    x0, dx = np.random.default_rng(0).normal(size=(2, 4, 3))
    flow = nearby_inputs_flow(network, x0, dx)
    for i in range(4):
        exact = _exact(network, x0[i], dx[i])[:, 0]
        got = [flow.K00[0, i], flow.dK1[0, i], flow.ddK2[0, i]]
        got += [flow.Theta00[0, i], flow.dTheta1[0, i], flow.ddTheta2[0, i]]
        np.testing.assert_allclose(got, exact, rtol=1e-12)
    np.testing.assert_allclose(project(flow.K[0])[1], flow.dK1[0])
    np.testing.assert_allclose(project(flow.Theta[0])[2], flow.ddTheta2[0], atol=1e-15)


@pytest.mark.covers("A4.3")
@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=3, max_size=3))
def test_basis_there_and_back(components: list[float]) -> None:
    M = assemble(*(np.array(c) for c in components))
    np.testing.assert_allclose(project(M), components, atol=1e-13)
    plus, cross, minus = M[0, 0], M[0, 1], M[1, 1]
    assert M[1, 0] == cross
    np.testing.assert_allclose(plus, components[0] + components[1] + components[2], atol=1e-13)
    np.testing.assert_allclose(project(M[::-1, ::-1])[1], -(plus - minus) / 2, atol=1e-13)


def test_deep_perpendicular_distance_of_an_odd_activation() -> None:
    """tanh: K_[2] falls as K does, so the angle between inputs goes to a constant."""
    flow = nearby_inputs_flow(net(4000, "tanh", features=3), X0[None], 0.1 * ACROSS[None])
    ratio = flow.ddK2[:, 0] / flow.K00[:, 0]
    assert ratio[-1] / ratio[1999] == pytest.approx(1, abs=1e-3)
    parallel = nearby_inputs_flow(net(4000, "tanh", features=3), X0[None], 0.1 * X0[None])
    assert parallel.dK1[-1, 0] / parallel.dK1[1999, 0] == pytest.approx(1 / 4, rel=5e-3)
    # along x_0 nothing is left across it: the determinant vanishes at this order
    tilt = parallel.dK1[:5, 0] ** 2 / (4 * parallel.K00[:5, 0])
    assert np.all(parallel.ddK2[:5, 0] >= tilt * (1 - 1e-12))


def _derivatives(name: str, order: int):
    sigma = sw.activation(name)
    return tuple(lambda z, k=k: sigma.derivative(z, k) for k in range(order, order + 3))


@pytest.mark.covers("A4.3")
@each("orders", [(0, 0), (0, 1), (1, 1)])
def test_general_expectation(orders: tuple[int, int]) -> None:
    """(5.39) misses delta³, or delta⁴ where F is symmetric and the norms are equal."""
    f, g = (_derivatives("swish", k) for k in orders)
    for dK1, least in ((0.3, 2.8), (0.0, 3.8)):
        errors = []
        for step in (0.2, 0.1):
            part = {"dK1": dK1 * step, "ddK0": 0.4 * step**2, "ddK2": 0.25 * step**2}
            K = assemble(*(np.array(v) for v in (0.9 + part["ddK0"], part["dK1"], part["ddK2"])))
            legs = ((orders[0],), (orders[1],))
            exact = float(pair_moment("swish", K[0, 0], K[1, 1], K[0, 1], *legs).value)
            errors.append(abs(exact - nearby_expectation(f, g, K00=0.9, **part)))
        assert np.log2(errors[0] / errors[1]) > least


def test_messages() -> None:
    with pytest.raises(ValueError, match="has a kink, where the expansion"):
        nearby_inputs_flow(net(3, "relu", features=3), X0[None], ACROSS[None])
    with pytest.raises(ValueError, match=r"`dx` must be finite and have the shape \(1, 3\)"):
        nearby_inputs_flow(net(3, "tanh", features=3), X0[None], ACROSS)
    with pytest.raises(ValueError, match="`f` must be 3 values, each a function"):
        nearby_expectation((np.sin,), _derivatives("tanh", 0), K00=1.0)
    with pytest.raises(ValueError, match="`K00` must be a positive finite number"):
        nearby_expectation(_derivatives("tanh", 0), _derivatives("tanh", 0), K00=0.0)
    with pytest.raises(ValueError, match=r"must end in dimensions \(2, 2\)"):
        project(np.ones((2, 3)))
