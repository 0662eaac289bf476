"""Kernels of models that were read, against ensembles of the models themselves, in standard errors."""

import json
from pathlib import Path

import matplotlib.pyplot as plt

from scalewise.experiments._look import COLORS

FILE = "benchmarks/results/own_models.json"
found = json.loads((Path(__file__).resolve().parents[2] / FILE).read_text())
read = {name: own for name, own in found.items() if "kernel_z" in own}

figure, axis = plt.subplots(figsize=(7.0, 6.5))
places = range(len(read))[::-1]
for k, (column, label) in enumerate(
    (("kernel_rms", "root mean square"), ("kernel_z", "largest of all entries"))
):
    axis.plot([own[column] for own in read.values()], places, "o", color=COLORS[k], label=label)
axis.set(
    xlim=(0, 11),
    xlabel="deviation of kernels from the prediction, in standard errors",
    yticks=places,
)
axis.set_yticklabels(list(read))
axis.axvline(1, color="0.8", zorder=0)
figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=2)
