"""Eigenvalues of the NTK at infinite width and of single networks."""

import matplotlib.pyplot as plt
import numpy as np
import torch

import scalewise as sw
from scalewise.experiments._look import COLORS, power_label

x = sw.load_inputs("digits", samples=200, seed=0)
net = sw.MLP(3, 128, "relu", input_dim=64, output_dim=1).at_criticality()
theory = sw.predict(net, x, observables=["ntk"]).ntk.isel(layer=-1).values
inputs = torch.tensor(x)


def ntk(n: int) -> np.ndarray:
    """The kernel of one network of width n, layer by layer, with rates 1 and C_W of the network."""
    sizes, h, total = (64, n, n, 1), inputs, 0.0
    torch.manual_seed(0)
    weights = [
        torch.randn(a, b, dtype=torch.float64) * (C / a) ** 0.5
        for a, b, C in zip(sizes, sizes[1:], net.C_W, strict=False)
    ]
    fields = []
    for i, W in enumerate(weights):
        fields.append(torch.relu(h) if i else h)
        h = fields[-1] @ W
    back = torch.ones(len(x), 1, dtype=torch.float64)
    for i in (2, 1, 0):
        size = sizes[i]
        total = total + (back @ back.T) * (fields[i] @ fields[i].T / size + 1)
        back = (back @ weights[i].T) * (fields[i] > 0) if i else back
    return total.numpy()


figure, axis = plt.subplots(figsize=(6.2, 2.8))
cases = (("infinite width", theory), ("n = 4096", ntk(4096)), ("n = 128", ntk(128)))
for (label, kernel), color in zip(cases, (0, 2, 1), strict=True):
    values = np.linalg.eigvalsh(kernel)[::-1]
    axis.plot(np.arange(1, 201), values, color=COLORS[color], label=label)
axis.set(xscale="log", yscale="log", xlabel="eigenvalue", ylabel="size")
axis.set_xticks([1, 10, 100], labels=["1", "10", "100"])
axis.yaxis.set_major_formatter(lambda value, _: power_label(value))
axis.legend(fontsize=9)
