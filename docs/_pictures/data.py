"""The expected test loss against the width, at two depths."""

import matplotlib.pyplot as plt
import numpy as np

import scalewise as sw
from scalewise.experiments._look import COLORS
from scalewise.training import GradientDescent

task = sw.load_task("digits:3,8", train=4, test=4)
n = np.geomspace(40, 2000, 60)
figure, axis = plt.subplots(figsize=(6.2, 2.6))
for depth, color in zip((2, 3), COLORS, strict=False):
    net = sw.MLP(depth, 128, "tanh", input_dim=64, output_dim=1).at_criticality()
    found = sw.predict_training(
        net, task, GradientDescent(), observables=["test_loss", "test_loss_nlo"]
    )
    loss, slope = found.test_loss.mean().item(), found.test_loss_nlo.mean().item()
    axis.plot(n, loss + slope / n, color=color, label=f"depth {depth}")
axis.set(xscale="log", xlabel="width n", ylabel="expected test loss")
axis.set_xticks([50, 100, 300, 1000], labels=["50", "100", "300", "1000"])
axis.minorticks_off()
axis.legend(fontsize=9)
