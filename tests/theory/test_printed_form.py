"""Golden: the inverse-free recursions against PDLT (4.115), (4.118), (4.119) as they are printed."""

import numpy as np
import pytest

import scalewise as sw
from networks import net
from printed_recursions import Layer, next_layer

WIDTHS = (40, 100, 30, 70)
BIAS = (0.0, 0.2, 0.0, 0.4, 0.1)
C_W = (1.0, 1.3, 0.7, 1.8, 0.9)


@pytest.mark.covers("A3.3", "A3.4", "A3.6", "A3.7", "B11")
@pytest.mark.parametrize("name", ["tanh", "sin", "erf", "gelu", "swish", "quadratic"])
def test_unequal_widths_and_hyperparameters_of_its_own_in_each_layer(name: str) -> None:
    x = np.array([[0.9, -0.3, 0.4], [0.5, 0.8, -0.6]])
    # A common C_b makes the kernel of z² nearly singular, and the printed form inverts it.
    C_b = (0.0,) * 5 if name == "quadratic" else BIAS
    network = net(5, name, features=3, width=WIDTHS, C_b=C_b, C_W=C_W)
    flow = sw.predict(network, x)
    sigma = sw.activation(name)
    here = Layer(C_b[0] + C_W[0] * x @ x.T / 3, np.zeros((2,) * 4), np.zeros((2, 2)))
    for layer in range(1, 6):
        got = flow.sel(layer=layer)
        for value, want in (
            (got.kernel, here.K),
            (got.four_point_vertex, here.V),
            (got.metric_nlo, here.G1),
        ):
            # The oracle's own rule, 80 nodes an axis, is good to 1e-9 on these kernels.
            np.testing.assert_allclose(
                value, want, rtol=2e-8, atol=2e-8 * max(np.abs(want).max(), 1e-9)
            )
        if layer < 5:
            r = WIDTHS[layer - 1] / WIDTHS[layer - 2] if layer > 1 else 1.0
            here = next_layer(here, sigma, C_b[layer], C_W[layer], r)
