"""Mean squares of one layer of random networks, at three widths."""

import matplotlib.pyplot as plt
import numpy as np

import scalewise as sw
from scalewise.experiments._look import COLORS, INK

net = sw.MLP(3, 128, "tanh", input_dim=64, output_dim=1).at_criticality()
x = sw.load_inputs("digits", samples=1, seed=0)
K = sw.predict(net, x, observables=["kernel"]).kernel.isel(layer=1).item()
drawn = np.random.default_rng(0)
figure, axis = plt.subplots(figsize=(6.2, 2.6))
for n, color in ((16, 1), (64, 2), (256, 0)):
    sizes = np.empty(4000)
    for i in range(sizes.size):
        first = drawn.standard_normal((n, 64)) @ x[0] * np.sqrt(net.C_W[0] / 64)
        sizes[i] = np.square(drawn.standard_normal((n, n)) @ np.tanh(first)).mean() / n
    bins = np.linspace(0, 2.2 * K, 70)
    axis.hist(
        sizes, bins, density=True, histtype="step", color=COLORS[color], label=f"n = {n}", lw=1.4
    )
axis.axvline(K, color=INK, lw=0.9)
axis.set(xlabel="mean square of the preactivations", ylabel="density of networks", yticks=[])
axis.legend(fontsize=9)
