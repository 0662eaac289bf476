"""The variance of the kernel from network to network against the width."""

import matplotlib.pyplot as plt
import numpy as np

import scalewise as sw
from scalewise.experiments._look import COLORS, points

x = sw.load_inputs("digits", samples=1, seed=0)
net = sw.MLP(4, 128, "tanh", input_dim=64, output_dim=1).at_criticality()
theory = sw.predict(net, x).isel(layer=3, drop=True)
n = np.geomspace(12, 700, 30)
ratio = theory.four_point_vertex.item() / theory.kernel.item() ** 2
figure, axis = plt.subplots(figsize=(6.2, 2.6))
axis.plot(n, ratio / n, color=COLORS[0], label="predicted, V/n")
for width in (16, 32, 64, 128, 256, 512):
    here = sw.MLP(4, width, "tanh", input_dim=64, output_dim=1).at_criticality()
    seen = sw.measure(
        here, x, networks=2000, seed=width, progress=False, observables=["four_point_vertex"]
    )
    seen = seen.isel(layer=3, drop=True) / (theory.kernel.item() ** 2 * width)
    value, error = seen.four_point_vertex.item(), seen.four_point_vertex_sem.item()
    points(axis, width, value, error, color=COLORS[1], label="drawn" if width == 16 else "")
axis.set(xscale="log", yscale="log", xlabel="width n", ylabel="variance of the kernel / K²")
axis.set_xticks([16, 64, 256], labels=["16", "64", "256"])
axis.set_yticks([0.3, 0.1, 0.03, 0.01], labels=["0.3", "0.1", "0.03", "0.01"])
axis.minorticks_off()
axis.legend(fontsize=9)
