"""Activations, and their kernels through 50 layers at their critical points."""

import matplotlib.pyplot as plt
import numpy as np

import scalewise as sw
from scalewise.experiments._look import COLORS

z = np.linspace(-4, 4, 400)
figure, axes = plt.subplots(1, 2, figsize=(6.6, 2.6))
for name, color in zip(("gelu", "tanh", "relu", "sin"), COLORS, strict=False):
    net = sw.MLP(50, 64, name, input_dim=2, output_dim=1).at_criticality()
    kernel = sw.predict(net, [[1.0, 1.0]], observables=["kernel"]).kernel.squeeze(drop=True)
    axes[0].plot(z, sw.activation(name).derivative(z, 0), color=color, label=name)
    axes[1].plot(kernel.layer, kernel / kernel[0], color=color)
axes[0].set(xlabel="z", ylabel="σ(z)", ylim=(-1.5, 3))
axes[1].set(xlabel="layer", ylabel="kernel, first layer = 1")
axes[0].legend(fontsize=9)
