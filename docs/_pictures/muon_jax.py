"""Factors of the rate of a hidden matrix of growing width, by what a library multiplies Muon's step by."""

import matplotlib.pyplot as plt
import numpy as np

from scalewise.experiments._look import COLORS
from scalewise.plan._adjust import ADJUSTMENTS

n = np.geomspace(64, 4096, 13)
figure, axis = plt.subplots(figsize=(5.2, 2.6))
for i, (name, label) in enumerate(
    (("optax", "as it comes"), ("consistent_rms", "consistent_rms"), ("none", "no factor"))
):
    own = np.array([ADJUSTMENTS[name](int(w), int(w)) for w in n])
    line = ("-", "--", ":")[i]
    axis.plot(n, own[0] / own, line, color=COLORS[i], label=label)
axis.set(xscale="log", yscale="log", xlabel="width n", ylabel="factor of the rate", ylim=(0.08, 2))
axis.legend(fontsize=9)
