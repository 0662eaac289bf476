"""Networks whose tensors are found on tiles."""

import numpy as np

import scalewise as sw
from scalewise.training.tiles._rules import Accuracy
from scalewise.training.tiles._setting import Site, sites

SCALES = {"C_b": 0.1, "C_W": 1.4, "lambda_b": 0.5, "lambda_W": 1.0}


def network(depth: int, activation: str, outputs: int = 1) -> sw.Network:
    widths = (48, 64, 80, 56)[: depth - 1]
    return sw.MLP(depth, widths, activation, input_dim=3, output_dim=outputs, **SCALES)


FINE = Accuracy(1e-6, 1e-5, 1e-3)


def stack_of(net: sw.Network, x: np.ndarray, accuracy: Accuracy = FINE) -> list[Site]:
    found = sw.predict(net, x, observables=["kernel", "ntk"])
    return sites(net, (found.kernel.values, found.ntk.values))(accuracy)
