"""A mean of a tensor program: real matrices of growing width, and the infinite one."""

import matplotlib.pyplot as plt
import numpy as np

from scalewise.experiments._look import COLORS, points
from scalewise.limits import Finite, Infinite, run


def program(space):
    """A vector through the same matrix and its transpose."""
    W, v = space.matrix("W", transposed=True), space.vector()
    return {"size": space.mean(space.apply("tanh", W.T @ space.apply("tanh", W @ v)) ** 2)}


figure, axis = plt.subplots(figsize=(6.2, 2.6))
limit = run(program, Infinite(0.002))
value, error = limit["size"].item(), 2 * limit["size_sem"].item()
low, high = value - error, value + error
axis.axhspan(low, high, color=COLORS[0], alpha=0.25, lw=0, label="infinite width")
for width in 2 ** np.arange(3, 10):
    found = run(program, Finite(int(width), replicas=200))
    label = "real matrices" if width == 8 else ""
    points(
        axis, width, found["size"].item(), found["size_sem"].item(), color=COLORS[1], label=label
    )
axis.set(xscale="log", xlabel="width n", ylabel="mean of the squares")
axis.set_xticks([8, 32, 128, 512], labels=["8", "32", "128", "512"])
axis.minorticks_off()
axis.legend(fontsize=9)
