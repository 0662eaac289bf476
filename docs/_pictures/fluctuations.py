"""The variance of the metric through the layers of networks of width 64, predicted and measured."""

import matplotlib.pyplot as plt

import scalewise as sw
from scalewise.experiments._look import COLORS, points

net = sw.MLP(depth=12, width=64, activation="tanh", input_dim=64, output_dim=1).at_criticality()
x = sw.load_inputs("digits", samples=1, seed=0)
theory = sw.at_width(sw.predict(net, x), 64).squeeze(drop=True)
seen = sw.measure(net, x, networks=4000, seed=0).squeeze(drop=True)
size = theory.kernel**2
predicted = theory.four_point_vertex / size
neglected = predicted * theory.expansion_parameter  # the first order that is left out

figure, axis = plt.subplots(figsize=(3.05, 2.6))
axis.fill_between(
    theory.layer, predicted - neglected, predicted + neglected, color=COLORS[0], alpha=0.16, lw=0
)
axis.plot(theory.layer, predicted, color=COLORS[0], label="predicted")
measured, error = (seen[name] / size for name in ("four_point_vertex", "four_point_vertex_sem"))
points(axis, seen.layer, measured, error, color=COLORS[1], label="measured")
axis.set(xlabel="layer", ylabel="variance, V / K²", xticks=[2, 4, 6, 8, 10, 12])
axis.legend(loc="upper left", fontsize=9)
