"""The tensors of finite width of a deep tanh network, each in its natural units, against the layer."""

import matplotlib.pyplot as plt

import scalewise as sw
from scalewise.experiments._look import COLORS

net = sw.MLP(60, 100, "tanh", input_dim=4, output_dim=1).at_criticality()
found = sw.predict(net, [[1.0, -1.0, 1.0, 1.0]], observables="all").squeeze(drop=True)
K, Theta = found.kernel, found.ntk
rows = (
    ("V / nK²", found.four_point_vertex / K**2),
    ("F / nKΘ", found.ntk_F / K / Theta),
    ("B / nΘ²", found.ntk_B / Theta**2),
    ("Q / nΘ²", found.dntk_Q / Theta**2),
)
figure, axis = plt.subplots(figsize=(6.2, 2.6))
for (label, row), color in zip(rows, COLORS, strict=False):
    axis.plot(found.layer[1:], row[1:] / 100, color=color, label=label)
axis.set(xlabel="layer", ylabel="relative size at n = 100")
axis.legend(fontsize=9)
