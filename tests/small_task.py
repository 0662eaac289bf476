"""A small task that several tests share, and its kernels."""

import numpy as np

import scalewise as sw

RNG = np.random.default_rng(3)
TRAIN, TEST = RNG.standard_normal((5, 3)), RNG.standard_normal((4, 3))
Y, WANTED = RNG.standard_normal((5, 2)), RNG.standard_normal((4, 2))
NET = sw.MLP(3, 50, "tanh", input_dim=3, output_dim=2, C_b=0.1, C_W=1.4, lambda_b=0.5, lambda_W=1.0)
TASK = sw.Task(TRAIN, Y, test_inputs=TEST, test_targets=WANTED)


def kernels(net: sw.Network = NET, x: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """K and Theta of the last layer, training samples first."""
    x = np.concatenate([TRAIN, TEST]) if x is None else x
    found = sw.predict(net, x, observables=["kernel", "ntk"], layers=net.depth)
    return found["kernel"].values[0], found["ntk"].values[0]
