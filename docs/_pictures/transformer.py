"""What residual branches add up to over the blocks, by the power of the depth that multiplies them."""

import matplotlib.pyplot as plt
import numpy as np

from scalewise.experiments._look import COLORS, power_label

depths = 2 ** np.arange(1, 6)
draw = np.random.default_rng(0)
width = 128
# Each block is a linear map that has learned: a part at random, and a part that all blocks have in common.
common = np.outer(np.ones(width), np.ones(width)) / width
figure, axis = plt.subplots(figsize=(6.2, 2.6))
for label, power, color in (("1", 0.0, 1), ("depth^(-1/2)", 0.5, 4), ("depth^(-1)", 1.0, 0)):
    sizes = []
    for depth in depths:
        x = start = 1 + draw.normal(size=width)
        for _ in range(depth):
            block = 0.1 * draw.normal(size=(width, width)) / width**0.5 + 0.5 * common
            x = x + (block @ x) / depth**power
        sizes.append(np.linalg.norm(x - start) / np.linalg.norm(start))
    axis.plot(depths, sizes, "o-", ms=3.6, color=COLORS[color], label=f"branches times {label}")
axis.set(xscale="log", yscale="log", xlabel="depth", ylabel="change of the stream")
axis.set_xticks(depths, labels=map(str, depths))
axis.yaxis.set_major_formatter(lambda value, _: power_label(value))
axis.minorticks_off()
axis.legend(fontsize=9)
