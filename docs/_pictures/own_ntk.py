"""CPU time and memory of the NTK of four models, by three ways, as measured."""

import json
from pathlib import Path

import matplotlib.pyplot as plt

from scalewise.experiments._look import COLORS

NAMES = {
    "perceptron": "perceptron, 64 samples",
    "convolutions": "4 convolutions, 64",
    "gpt2": "block of GPT-2, 100",
    "vit-32": "ViT-Tiny, 32",
}
WAYS = {
    "ours": "scalewise",
    "contraction": "Jacobian contraction",
    "autograd": "one gradient after another",
}
FILE = "benchmarks/results/own_ntk.json"
found = json.loads((Path(__file__).resolve().parents[2] / FILE).read_text())

figure, axes = plt.subplots(1, 2, figsize=(7.0, 2.8), sharey=True)
for k, (way, name) in enumerate(WAYS.items()):
    places = [len(NAMES) - 1 - row + 0.16 * (1 - k) for row in range(len(NAMES))]
    for axis, number in zip(axes, ("seconds", "megabytes"), strict=True):
        values = [found[row][way].get(number, float("nan")) for row in NAMES]  # out of memory
        axis.plot(values, places, "o", color=COLORS[k], label=name)
axes[0].set(xscale="log", xlabel="CPU seconds", yticks=range(len(NAMES)))
axes[0].set_yticklabels(list(NAMES.values())[::-1])
axes[1].set(xscale="log", xlabel="MB beyond the model")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
