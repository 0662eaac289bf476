"""Test error of infinitely wide networks on two digits: convolutions, pooled or flat, and dense layers."""

from typing import Any

import matplotlib.pyplot as plt

import scalewise as sw
from scalewise.experiments._look import COLORS
from scalewise.training import Bayes

SIZES, TESTS, SEEDS = (4, 8, 16, 32), 40, range(3)


def network(*layers: Any) -> sw.Network:
    """Three hidden layers on images of 8 x 8."""
    return sw.Network(*layers, sw.Dense(1), input_shape=(8, 8, 1), width=64, C_W=2.0, C_b=0.05)


NETWORKS = {
    "convolutions, pooled": network(
        *(sw.Conv(3), "relu", sw.Conv(3), "relu", sw.Conv(3), "relu", sw.GlobalAvgPool())
    ),
    "convolutions, flat": network(
        *(sw.Conv(3), "relu", sw.Conv(3), "relu", sw.Conv(3), "relu", sw.Flatten())
    ),
    "dense layers": network(sw.Flatten(), sw.Dense(), "relu", sw.Dense(), "relu"),
}


def error(net: sw.Network, size: int, seed: int) -> float:
    """Share of the test images in the wrong class, over networks and images."""
    task = sw.load_task("digits:3,8", train=size, test=TESTS, seed=seed).shaped(8, 8, 1)
    found = sw.predict_training(
        net, task, Bayes(noise_variance=1e-2), covariance="diagonal", at="test"
    )
    return float(found.test_error.mean())


figure, axis = plt.subplots(figsize=(5.6, 3.4))
for color, (name, net) in zip(COLORS, NETWORKS.items(), strict=False):
    errors = [[100 * error(net, size, seed) for seed in SEEDS] for size in SIZES]
    means = [sum(row) / len(row) for row in errors]
    axis.plot(SIZES, means, "o-", color=color, label=name)
axis.set(xscale="log", xlabel="training images", ylabel="test images in the wrong class, %", ylim=0)
axis.set_xticks(SIZES, [str(size) for size in SIZES])
axis.minorticks_off()
axis.legend()
