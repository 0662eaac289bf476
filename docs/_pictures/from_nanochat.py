"""Rates by the plan and by a square root of the width."""

import matplotlib.pyplot as plt
import numpy as np

import scalewise as sw
from scalewise.experiments._look import COLORS
from scalewise.plan import Layer, Role, rule

n = np.geomspace(768, 6144, 20)
figure, axis = plt.subplots(figsize=(5.2, 2.8))
for i, (label, role, layer, law, base, theirs) in enumerate(
    (
        ("wte, AdamW", Role.INPUT, Layer.FIRST, "adamw", 0.2, -0.5),
        ("matrices, Muon", Role.HIDDEN, Layer.HIDDEN, "muon", 0.02, 0.0),
        ("lm_head, AdamW", Role.OUTPUT, Layer.LAST, "adamw", 0.004, -0.5),
    )
):
    power = float(rule(sw.scaling.mup(), role, layer, law).lr.of_width)
    axis.plot(n, base * (n / 768) ** power, "-", color=COLORS[i], label=label)
    axis.plot(n, base * (n / 768) ** theirs, "--", color=COLORS[i])
axis.set(xscale="log", yscale="log", xlabel="width n", ylabel="learning rate")
axis.set_xticks([768, 1536, 3072, 6144], labels=["768", "1536", "3072", "6144"])
axis.minorticks_off()
axis.legend(fontsize=9)
