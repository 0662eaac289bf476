"""The correlation of two inputs along the depth, for three variances of the weights."""

import matplotlib.pyplot as plt
import numpy as np

import scalewise as sw
from scalewise.experiments._look import COLORS

angle = np.arccos(0.8)
x = np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]]) * np.sqrt(2)
figure, axis = plt.subplots(figsize=(6.2, 2.6))
for C_W, color, label in ((1.0, 1, "small weights"), (1.76, 0, "critical"), (3.5, 2, "large")):
    net = sw.MLP(40, 128, "tanh", input_dim=2, output_dim=1, C_W=C_W, C_b=0.05)
    K = sw.predict(net, x, observables=["kernel"]).kernel
    both = K.isel(sample=0, sample_1=1) / np.sqrt(
        K.isel(sample=0, sample_1=0) * K.isel(sample=1, sample_1=1)
    )
    axis.plot(K.layer, both, color=COLORS[color], label=f"{label}, $C_W$ = {C_W:g}")
axis.set(xlabel="layer", ylabel="correlation", ylim=(0, 1.03))
axis.legend(fontsize=9)
