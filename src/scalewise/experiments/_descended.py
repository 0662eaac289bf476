r"""Ensembles of networks trained weight by weight, in NumPy: nothing of the package's own training is in them.

$$\theta_\mu\leftarrow\theta_\mu-\eta\lambda_\mu\sum\frac{dz_{i;\tilde\alpha}}{d\theta_\mu}
  (z_{i;\tilde\alpha}-y_{i;\tilde\alpha})$$
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy.random import Generator

from scalewise.networks import Network
from scalewise.tasks import Task

Networks = tuple[
    list[np.ndarray], list[np.ndarray]
]  # (network, after, before), (network, 1, after)
Outputs = Float[np.ndarray, "network sample output"]


def drawn(net: Network, count: int, rng: Generator) -> Networks:
    """Initial weights and biases of many networks."""
    n = net.widths
    spread = [(net.C_W[k] / n[k]) ** 0.5 for k in range(net.depth)]
    W = [spread[k] * rng.standard_normal((count, n[k + 1], n[k])) for k in range(net.depth)]
    b = [net.C_b[k] ** 0.5 * rng.standard_normal((count, 1, n[k + 1])) for k in range(net.depth)]
    return W, b


def descended(
    net: Network, networks: Networks, task: Task, rate: float, record: Sequence[int]
) -> Float[np.ndarray, "time network sample output"]:
    """Outputs on training samples, then tests, after each number of steps of `record`, which ascends.

    The networks themselves are moved.
    """
    found: list[np.ndarray] = []
    for step in range(max(record) + 1):
        if step in record:
            found.append(outputs_of(net, networks, task.all_inputs))
        if step < max(record):
            _step(net, networks, task, rate)
    return np.array(found)


def outputs_of(net: Network, networks: Networks, x: Float[np.ndarray, "sample feature"]) -> Outputs:
    """Outputs of networks."""
    return _layers(net, networks, x)[0][-1]


def _layers(net: Network, networks: Networks, x: np.ndarray) -> tuple[list[np.ndarray], list]:
    """Preactivations of all layers, and the input of each."""
    entering, z = [x], []
    for W, b in zip(*networks, strict=True):
        if z:
            entering.append(net.activation(z[-1]))
        z.append(entering[-1] @ W.transpose(0, 2, 1) + b)
    return z, entering


def _step(net: Network, networks: Networks, task: Task, rate: float) -> None:
    weights, biases = networks
    z, entering = _layers(net, networks, task.inputs)
    back = z[-1] - task.targets
    for k in reversed(range(net.depth)):
        slope = back.transpose(0, 2, 1) @ entering[k]
        biases[k] -= rate * net.lambda_b[k] * back.sum(axis=1, keepdims=True)
        if k:
            back = back @ weights[k] * net.activation.derivative(z[k - 1], 1)
        weights[k] -= rate * net.lambda_W[k] / net.widths[k] * slope
