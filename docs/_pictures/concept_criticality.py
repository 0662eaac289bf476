"""The gradient behind fifty layers of tanh against the variance of the weights."""

import matplotlib.pyplot as plt
import numpy as np

import scalewise as sw
from scalewise.experiments._look import COLORS, INK, power_label

x = np.array([[1.0, 1.0]])
C, sizes = np.linspace(0.7, 3.0, 70), []
for C_W in C:
    net = sw.MLP(51, 128, "tanh", input_dim=2, output_dim=1, C_W=C_W)
    K = sw.predict(net, x, observables=["kernel"]).kernel.squeeze(drop=True).values
    sizes.append(np.prod(sw.critical.susceptibilities("tanh", K[:50], C_W)[1]))
figure, axis = plt.subplots(figsize=(6.2, 2.6))
axis.plot(C, sizes, color=COLORS[0])
axis.axvline(1.0, color=INK, lw=0.9)
axis.annotate("critical", (1.0, 1e3), (1.05, 1e3), fontsize=9, va="center")
axis.set_yscale("log")
axis.yaxis.set_major_formatter(lambda value, _: power_label(value))
axis.set(xlabel="variance of the weights, $C_W$", ylabel="squared gradient")
