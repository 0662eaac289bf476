"""The kernel of deep GELU networks at and beside the critical variance of the weights."""

import matplotlib.pyplot as plt

import scalewise as sw
from scalewise.experiments._look import COLORS, power_label

critical = sw.MLP(40, 128, "gelu", input_dim=64, output_dim=1).at_criticality()
x = sw.load_inputs("digits", samples=1, seed=0)
figure, axis = plt.subplots(figsize=(6.2, 2.6))
ways = (("1.1 times the critical variance", 1.1, 1), ("critical", 1.0, 0), ("0.9 times", 0.9, 2))
for label, factor, color in ways:
    net = sw.MLP(
        40,
        128,
        "gelu",
        input_dim=64,
        output_dim=1,
        C_b=critical.C_b,
        C_W=factor * critical.C_W[0],
    )
    kernel = sw.predict(net, x, observables=["kernel"]).kernel.squeeze(drop=True)
    axis.plot(kernel.layer, kernel, color=COLORS[color], label=label)
axis.set(xlabel="layer", ylabel="kernel K", yscale="log")
axis.yaxis.set_major_formatter(lambda value, _: power_label(value))
axis.legend(fontsize=9)
