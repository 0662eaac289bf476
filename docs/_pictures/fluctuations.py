"""The variance of the metric through the layers of networks of width 64, predicted and measured."""

import matplotlib.pyplot as plt

import scalewise as sw

net = sw.MLP(depth=12, width=64, activation="tanh", input_dim=64, output_dim=1).at_criticality()
x = sw.load_inputs("digits", samples=2, seed=0)
theory = sw.at_width(sw.predict(net, x), 64)
seen = sw.measure(net, x, networks=4000, seed=0)

figure, axis = plt.subplots(figsize=(4.2, 3.2))
for sample, color in ((0, "C0"), (1, "C1")):
    at = dict.fromkeys(("sample", "sample_1", "sample_2", "sample_3"), sample)
    size = theory.kernel.isel(sample=sample, sample_1=sample) ** 2
    predicted = theory.four_point_vertex.isel(at) / size
    measured, error = (
        seen[name].isel(at) / size for name in ("four_point_vertex", "four_point_vertex_sem")
    )
    axis.plot(theory.layer, predicted, color=color)
    axis.errorbar(
        seen.layer, measured, error, fmt="o", ms=3, color=color, label=f"digit {sample + 1}"
    )
axis.set(xlabel="layer", ylabel="V / K², n times the relative variance")
axis.legend(frameon=False)
