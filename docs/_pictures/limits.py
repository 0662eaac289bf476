"""A test output in training, of networks and of their limit, and how far features move in three scalings."""

import matplotlib.pyplot as plt
import numpy as np

import scalewise as sw
from scalewise.experiments._look import COLORS, power_label
from scalewise.limits import SGD, Architecture, Finite, Infinite, train
from scalewise.tasks import Task

inputs = np.array([[1.2, 0.3], [-0.4, 1.0], [0.9, -0.8], [-1.1, -0.5]])
task = Task(inputs, [1.0, -1.0, 0.5, -0.5], test_inputs=[[0.2, 0.9]])
net, sgd = Architecture(sw.scaling.mup(depth=3), "tanh"), SGD(0.8)

figure, (left, right) = plt.subplots(1, 2, figsize=(6.6, 2.6))
for width, color in ((32, 4), (512, 1)):
    found = train(net, task, sgd, steps=10, on=Finite(width, replicas=12)).logits[:, :, 4, 0]
    for k, one in enumerate(found):
        left.plot(one, lw=0.7, color=COLORS[color], label=f"width {width}" if k == 0 else "")
limit = train(net, task, sgd, steps=10, on=Infinite(0.002))
left.plot(limit.logits_mean[:, 4, 0], color=COLORS[0], lw=2, label="the limit")
left.set(xlabel="step", ylabel="output of a test sample")
left.legend(fontsize=9)

widths = [32, 64, 128, 256]
ways = (("mup", sw.scaling.mup(depth=3), 0), ("meta, s = 1/2", sw.scaling.meta("1/2", depth=3), 2))
for label, strategy, color in (*ways, ("ntk", sw.scaling.ntk(depth=3), 3)):
    moved = []
    for width in widths:
        on = Finite(width, replicas=16)
        found = train(Architecture(strategy, "tanh"), task, sgd, steps=10, on=on)
        K = found.feature_kernel_mean.values
        moved.append(np.linalg.norm(K[-1] - K[0]) / np.linalg.norm(K[0]))
    right.plot(widths, moved, "o-", ms=3.6, color=COLORS[color], label=label)
right.set(xscale="log", yscale="log", xlabel="width n", ylabel="features move by")
right.set_xticks(widths, labels=map(str, widths))
right.minorticks_off()
right.yaxis.set_major_formatter(lambda value, _: power_label(value))
right.legend(fontsize=9)
