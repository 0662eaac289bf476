"""A grid of settings, one cell each: how far apart two inputs are after 20 layers."""

import matplotlib.pyplot as plt
import numpy as np

import scalewise as sw


def cell(C_b, C_W):
    """The correlation of two inputs."""
    net = sw.MLP(20, 128, "tanh", input_dim=2, output_dim=1, C_b=C_b, C_W=C_W)
    kernel = sw.predict(net, [[1.0, 0.6], [0.6, 1.0]], observables=["kernel"]).kernel[-1]
    return kernel.values[0, 1] / np.sqrt(kernel.values[0, 0] * kernel.values[1, 1])


biases, weights = np.linspace(0.0, 0.5, 9), np.linspace(0.6, 3.0, 13)
found = [[cell(C_b, C_W) for C_W in weights] for C_b in biases]
figure, axis = plt.subplots(figsize=(4.4, 2.8))
axis.grid(visible=False)
image = axis.pcolormesh(weights, biases, found, cmap="cividis", vmin=0, vmax=1)
figure.colorbar(image, label="correlation")
axis.set(xlabel="variance of the weights, C_W", ylabel="of the biases, C_b")
