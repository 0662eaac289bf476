"""The power of the width of the learning rate, by role and optimizer."""

import matplotlib.pyplot as plt
import numpy as np

import scalewise as sw
from scalewise.plan import Layer, Role, rule
from scalewise.plan._laws import OPTIMIZERS

ROLES = {
    Role.INPUT: Layer.FIRST,
    Role.HIDDEN: Layer.HIDDEN,
    Role.OUTPUT: Layer.LAST,
    Role.VECTOR: Layer.HIDDEN,
    Role.BOTTLENECK: Layer.LAST,
    Role.FIXED: Layer.LAST,
}
NAMES = ("sgd", "adamw", "lion", "adafactor", "lamb", "muon", "scion", "shampoo", "soap")
powers = np.full((len(ROLES), len(NAMES)), np.nan)
for j, name in enumerate(NAMES):
    one = OPTIMIZERS[name]
    for i, (role, layer) in enumerate(ROLES.items()):
        trains = one.of(role)
        if trains.name == name or trains.name not in OPTIMIZERS:
            powers[i, j] = float(rule(sw.scaling.mup(), role, layer, trains.law).lr.of_width)
figure, axis = plt.subplots(figsize=(6.4, 2.9))
axis.imshow(powers, cmap="RdBu", vmin=-1.6, vmax=1.6, aspect="auto")
for (i, j), power in np.ndenumerate(powers):
    if not np.isnan(power):
        axis.text(j, i, f"{power:g}", ha="center", va="center", fontsize=9, color="black")
axis.set_xticks(range(len(NAMES)), labels=NAMES, rotation=30, ha="right")
axis.set_yticks(range(len(ROLES)), labels=list(map(str, ROLES)))
axis.grid(visible=False)
