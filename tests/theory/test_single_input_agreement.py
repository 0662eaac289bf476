"""Agreement: the single-input flow against random networks, integrated out as far as they can be.

Of a network with two hidden layers everything but the first hidden layer is integrated by hand, at
any width: given its preactivations the second layer is Gaussian with the variance that they fix, and
Gaussian weights W times f(z), z = W sigma, are derivatives of expectations of f. What is left is a mean
over the first layer, with control variates whose means are known.
"""

import numpy as np
import pytest

import scalewise as sw
from kinked import skewed
from networks import net
from scalewise.gaussian import single_moment
from scalewise.theory.single import single_input_flow

HARD_TANH = sw.activation("hardtanh")
WAVY = skewed()
HYPER = {
    "C_b": (0.1, 0.05, 0.2),
    "C_W": (1.1, 1.4, 1.2),
    "lambda_b": (0.3, 0.5, 0.2),
    "lambda_W": (0.7, 1.1, 0.9),
}
K1, N1, DRAWS = 0.8, 64, 40000


class FirstLayer:
    """Means over the neurons of the first hidden layer, in many networks."""

    def __init__(self, sigma: sw.Activation):
        rng = np.random.default_rng(5)
        z = np.sqrt(K1) * rng.normal(size=(DRAWS, N1))
        s, d = sigma(z), sigma.derivative(z)
        self.square, self.slope = np.mean(s * s, axis=1), np.mean(d * d, axis=1)
        self.both, self.product = np.mean(s * s * d * d, axis=1), np.mean(s * d, axis=1)
        self.G = HYPER["C_b"][1] + HYPER["C_W"][1] * self.square
        self.g = float(single_moment(sigma, K1, (0, 0)).value)
        self.p = float(single_moment(sigma, K1, (1, 1)).value)

    def coefficient(self, values: np.ndarray, limit: float) -> tuple[float, float]:
        """n_1 (mean - limit) and its standard error, with the fluctuations of g and p taken out."""
        x = np.stack([self.square - self.g, self.slope - self.p], axis=1)
        design = np.column_stack([np.ones(DRAWS), x])
        fit, *_ = np.linalg.lstsq(design, values, rcond=None)
        left = values - x @ fit[1:]
        return N1 * (left.mean() - limit), N1 * left.std() / np.sqrt(DRAWS)


def _functions(sigma: sw.Activation, G: np.ndarray):
    """g, g', p and p' at many variances, from a polynomial through quadrature."""
    low, high = G.min(), G.max()
    x = np.cos(np.pi * (np.arange(24) + 0.5) / 24)
    nodes = 0.5 * (low + high) + 0.5 * (high - low) * x
    fits = [
        np.polynomial.Chebyshev.fit(nodes, single_moment(sigma, nodes, o).value, 16)
        for o in ((0, 0), (1, 1))
    ]
    return [f(G) for fit in fits for f in (fit, fit.deriv())]


@pytest.mark.covers("B13")
@pytest.mark.parametrize("sigma", ["tanh", WAVY, HARD_TANH], ids=str)
def test_mean_ntk_at_next_order(sigma) -> None:
    r"""E[H] in the third layer; G1 = H1 in the limit where only the last layer learns.

    E[sigma'(z_k)² sum_j W_kj² a_j] = C sum_j a_j p / n + (C/n)² sum_j a_j sigma_j² 2p'.
    """
    sigma = sw.activation(sigma)
    n2 = 3 * N1
    network = net(3, sigma, features=1, width=(N1, n2), **HYPER)
    flow = single_input_flow(network, K1=K1)
    first = FirstLayer(sigma)
    g, _, p, p1 = _functions(sigma, first.G)
    (_, C2, C3), (b1, b2, b3), (w1, w2, w3) = (HYPER[k] for k in ("C_W", "lambda_b", "lambda_W"))
    Theta1 = b1 + w1 * (K1 - HYPER["C_b"][0]) / HYPER["C_W"][0]
    below = (b2 + w2 * first.square) * p
    below += Theta1 * (C2 * first.slope * p + C2**2 / N1 * first.both * 2 * p1)
    H = b3 + w3 * g + C3 * below
    for values, limit, theory in (
        (H, flow.Theta[2, 0], flow.H1[2, 0]),
        (HYPER["C_b"][2] + C3 * g, flow.K[2, 0], flow.G1[2, 0]),
    ):
        got, error = first.coefficient(values, limit)
        bias = 2 / N1 * abs(theory)  # the next order in 1/n_1
        assert abs(got * n2 / N1 - theory) < 4 * error * n2 / N1 + bias
        assert 4 * error + bias * N1 / n2 < 0.1 * abs(theory) * N1 / n2


@pytest.mark.covers("C14")
def test_dntk_with_kinks() -> None:
    r"""Q in the third layer of hard tanh, from (11.44) with n_2 -> infinity at fixed n_1.

    In the second layer dNTK = delta_01 (lambda/n) Theta sum_j W_2j sigma_j sigma'_j² + (1 <-> 2), and
    E[f(z) sum_j W_j a_j] = (C/n) sum_j a_j sigma_j <f'>: with f = sigma sigma', which jumps, <f'> is
    the derivative of <sigma²>, not the mean of what autodiff says of f.
    """
    network = net(3, HARD_TANH, features=1, width=(N1, N1), **HYPER)
    flow = single_input_flow(network, K1=K1)
    first = FirstLayer(HARD_TANH)
    _, slope, p, _ = _functions(HARD_TANH, first.G)
    Theta1 = flow.Theta[0, 0]
    C2, C3, w2, w3 = HYPER["C_W"][1], HYPER["C_W"][2], HYPER["lambda_W"][1], HYPER["lambda_W"][2]
    # sum over k of sigma'_k² times sum over m of f(z_m) dNTK_kkm, n_1 times, per n_2²
    through = C3**2 * p * slope * w2 * Theta1 * C2 * first.both
    Q = np.mean(through) + w3 / C3 * flow.F[2, 0]
    assert flow.Q[2, 0] == pytest.approx(Q, rel=0.01)
    assert not flow.P.any()
    # a.e. <(sigma sigma')'> = <sigma'²> would be far off
    wrong = np.mean(through * p / slope) + w3 / C3 * flow.F[2, 0]
    assert abs(wrong - flow.Q[2, 0]) > 0.1 * abs(flow.Q[2, 0])
