"""CPU time of whole networks, first and repeated calls, by neural-tangents and by `predict`, as measured."""

import json
from pathlib import Path

import matplotlib.pyplot as plt

from scalewise.experiments._look import COLORS

NAMES = {
    "20 dense layers, 500 inputs": "20 dense layers",
    "10 convolutions on 8 x 8, then Flatten": "10 convolutions",
    "10 convolutions on 8 x 8, pooled at the end": "10 convolutions, pooled",
    "6 convolutions on 8 x 8, pooled after every second": "6 convolutions, 3 pools",
    "Graph convolutions, 3 layers, 20 nodes": "3 graph convolutions",
    "Attention block, tied, 1/d, 16 positions": "attention block",
}
FILE = "benchmarks/results/neural_tangents.json"
found = json.loads((Path(__file__).resolve().parents[2] / FILE).read_text())

figure, axis = plt.subplots(figsize=(4.6, 3.4))
for side, color, name in (
    ("theirs", COLORS[1], "neural-tangents"),
    ("ours", COLORS[0], "scalewise"),
):
    shift = 0.14 if side == "theirs" else -0.14
    places = [len(NAMES) - 1 - k + shift for k in range(len(NAMES))]
    for call, filled in (("first", False), ("again", True)):
        seconds = [found[row]["cost"][side][call] for row in NAMES]
        face = color if filled else "none"
        label = f"{name}, {'repeated' if filled else 'first'} call"
        axis.plot(seconds, places, "o", color=color, mfc=face, label=label)
axis.set(xscale="log", xlabel="CPU time for kernel and NTK", yticks=range(len(NAMES)))
axis.set_xticks([0.01, 0.1, 1.0], ["10 ms", "100 ms", "1 s"])
axis.minorticks_off()
axis.set_yticklabels(list(NAMES.values())[::-1])
axis.legend(loc="upper center", bbox_to_anchor=(0.3, 1.36), ncols=1)
