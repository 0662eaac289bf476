"""Golden: the mean NTK against closed forms and tabulated values of PDLT (8.63)."""

import numpy as np
import pytest

import scalewise as sw
from networks import net, one_input

X = np.array([[1.0, 0.5, -0.3], [0.2, 1.0, 0.8]])
RATES = {"lambda_b": (0.3, 0.5, 0.2, 0.4), "lambda_W": (0.7, 1.1, 0.9, 0.6)}
TABLE = {  # (activation, layer): K_00, K_01, K_11, Theta_00, Theta_01, Theta_11
    ("tanh", 2): (0.388331, 0.223427, 0.420291, 1.169888, 0.837130, 1.226327),
    ("tanh", 3): (0.334158, 0.230068, 0.346186, 1.158705, 0.812738, 1.187730),
    ("tanh", 4): (0.312225, 0.243345, 0.317276, 1.299802, 1.003245, 1.314608),
    ("relu", 2): (1.093333, 0.677937, 1.320000, 1.659000, 1.070592, 1.863000),
    ("relu", 3): (1.193333, 0.884050, 1.420000, 2.351000, 1.292454, 2.657000),
    ("relu", 4): (1.293333, 1.056259, 1.520000, 3.109000, 1.640246, 3.483000),
}
VERTEX = {  # (activation, layer): V_0000, 0001, 0011, 0101, 0111, 1111
    ("tanh", 2): (0.069247, 0.034281, 0.010609, 0.087724, 0.035549, 0.078468),
    ("tanh", 3): (0.063167, 0.038477, 0.016316, 0.081593, 0.039134, 0.067076),
}


@pytest.mark.covers("B10")
@pytest.mark.parametrize(("name", "C_W"), [("tanh", 1.0), ("relu", 2.0)])
def test_two_inputs_with_rates_of_their_own_in_each_layer(name: str, C_W: float) -> None:
    flow = sw.predict(net(4, name, features=3, C_b=0.1, C_W=C_W, **RATES), X)
    for layer in (2, 3, 4):
        here = flow.sel(layer=layer)
        got = [here[v].values[i] for v in ("kernel", "ntk") for i in ((0, 0), (0, 1), (1, 1))]
        assert got == pytest.approx(TABLE[name, layer], abs=6e-7)
        if (name, layer) in VERTEX:
            quads = [(0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 1, 1)]
            V = [here.four_point_vertex.values[i] for i in [*quads, (1, 1, 1, 1)]]
            assert pytest.approx(VERTEX[name, layer], abs=6e-7) == V


def test_relu_grows_by_a_half_of_the_first_layer_each_layer() -> None:
    """K* = 1, lambda = 1: Theta = 3 l / 2 (PDLT sec. 9.2; K(1) = 2 x²/n_0 = 1)."""
    x = np.array([[np.sqrt(0.5)]])
    Theta = sw.predict(net(20, "relu", features=1, C_W=2.0), x).ntk.values.ravel()
    np.testing.assert_allclose(Theta, 1.5 * np.arange(1, 21), rtol=1e-12)


def test_tanh_with_rates_falling_as_one_over_depth() -> None:
    rates = tuple(1 / layer for layer in range(1, 11))
    Theta = sw.predict(net(10, "tanh", features=1, lambda_b=rates), one_input()).ntk.values.ravel()
    assert Theta[-1] == pytest.approx(1.5539730, abs=6e-8)


def test_deep_linear_network() -> None:
    """Theta' = lambda_b + lambda_W K + C_W Theta, solved by hand for C_W = 1, lambda_b = 0."""
    x = np.random.default_rng(0).normal(size=(4, 6))
    G = x @ x.T / 6
    Theta = sw.predict(net(7, "linear", features=6, lambda_b=0.0, lambda_W=1.0), x).ntk.values
    for layer in range(1, 8):
        np.testing.assert_allclose(Theta[layer - 1], layer * G, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["tanh", "relu", "gelu", "swish", "sigmoid"])
def test_training_the_last_layer_only_gives_the_kernel(name: str) -> None:
    """lambda = 0 below, lambda_b = C_b and lambda_W = C_W in the last layer: Theta = K there."""
    x = np.random.default_rng(1).normal(size=(5, 3))
    rates = {"lambda_b": (0.0, 0.0, 0.0, 0.2), "lambda_W": (0.0, 0.0, 0.0, 1.3)}
    network = net(4, name, features=3, C_b=0.2, C_W=1.3, **rates)
    flow = sw.predict(network, x, observables=["kernel", "ntk"], layers=4)
    np.testing.assert_allclose(flow.ntk, flow.kernel, rtol=1e-13)


def test_ntk_of_a_jump_is_refused() -> None:
    perceptron = net(3, "perceptron", features=3)
    with pytest.raises(ValueError, match="delta function"):
        sw.predict(perceptron, X, observables=["ntk"])
    assert "ntk" not in sw.predict(perceptron, X)
