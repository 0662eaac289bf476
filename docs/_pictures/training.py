"""How far trained networks differ from one another, against their width: predicted and measured."""

import matplotlib.pyplot as plt
import numpy as np

import scalewise as sw
from scalewise.experiments._look import COLORS, MUTED, points
from scalewise.training import GradientDescent

task = sw.load_task("digits:3,8", train=4, test=4)
net = sw.MLP(3, 128, "tanh", input_dim=64, output_dim=1).at_criticality()
theory = sw.predict_training(net, task, GradientDescent(), observables="all")
n = np.geomspace(24, 1000, 50)
limit, slope = theory.variance.mean().item(), theory.variance_nlo.mean().item()
band = abs(slope) * theory.learning_parameter.item() / n**2

figure, axis = plt.subplots(figsize=(3.05, 2.6))
axis.plot(n, limit + slope / n, color=COLORS[0], label="predicted")
axis.fill_between(
    n, limit + slope / n - band, limit + slope / n + band, color=COLORS[0], alpha=0.16, lw=0
)
axis.axhline(limit, color=MUTED, lw=0.8)
for width in (32, 48, 96):
    here = sw.MLP(3, width, "tanh", input_dim=64, output_dim=1).at_criticality()
    way = GradientDescent(theory.attrs["rate"])
    seen = sw.measure_training(here, task, way, networks=1000, observables=["variance"])
    mean, error = seen.variance.mean().item(), seen.variance_sem.mean().item()  # no more than this
    points(axis, width, mean, error, color=COLORS[1], label="trained" if width == 32 else "")
axis.set(xscale="log", xlabel="width n", ylabel="variance of the outputs")
axis.set_xticks([32, 100, 1000], labels=["32", "100", "1000"])
axis.minorticks_off()
axis.legend(fontsize=9)
