"""The dNTK, by which the NTK moves in training, against depth over width."""

import matplotlib.pyplot as plt

import scalewise as sw
from scalewise.experiments._look import COLORS

x = sw.load_inputs("digits", samples=1, seed=0)
figure, axis = plt.subplots(figsize=(6.2, 2.8))
for i, n in enumerate((32, 128, 512, 2048)):
    net = sw.MLP(64, n, "tanh", input_dim=64, output_dim=1).at_criticality()
    net = net.with_equivalent_learning_rates()
    P = abs(sw.theory.deep.finite_width_ratios(net, x).P.isel(sample=0).values)
    layers = [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]
    axis.plot(
        [L / n for L in layers],
        P[[L - 1 for L in layers]],
        "o-",
        ms=4,
        color=COLORS[i],
        label=f"n = {n}",
    )
axis.set(xscale="log", yscale="log", xlabel="L/n", ylabel="P / nΘ²")
axis.legend(fontsize=9)
