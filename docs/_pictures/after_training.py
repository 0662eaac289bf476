"""The outputs of trained networks on test samples: their mean and their spread, beside the targets."""

import matplotlib.pyplot as plt
import numpy as np

import scalewise as sw
from scalewise.experiments._look import COLORS, points
from scalewise.training import GradientDescent

task = sw.load_task("digits:3,8", train=8, test=12)
net = sw.MLP(3, 128, "tanh", input_dim=64, output_dim=1).at_criticality()
found = sw.predict_training(
    net, task, GradientDescent(), observables=["output_mean", "variance"]
).squeeze(drop=True)
at = np.arange(found.output_mean.size)
figure, axis = plt.subplots(figsize=(6.2, 2.6))
spread = np.sqrt(found.variance.values.ravel())
points(axis, at, found.output_mean.values.ravel(), spread, color=COLORS[0], label="mean ± spread")
axis.plot(at, np.ravel(task.test_targets), "_", ms=12, mew=2, color=COLORS[1], label="target")
axis.set(xlabel="test sample", ylabel="output", xticks=at)
axis.legend(fontsize=9, ncols=2, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0)
