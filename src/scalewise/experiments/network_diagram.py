r"""A network and what it is made of: neurons, weights and the count of its parameters.

Shown: every neuron and every weight of a small multilayer perceptron, one neuron enlarged, and the
parameters layer by layer.
$$P=\sum_{\ell=1}^L(n_\ell+n_\ell n_{\ell-1}),\qquad
  z^{(\ell+1)}_i=b^{(\ell+1)}_i+\sum_jW^{(\ell+1)}_{ij}\sigma(z^{(\ell)}_j)$$
Look for: 91 parameters in the network of the book's figure.

Source: PDLT figure 2.1, (2.5), (2.7).
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.experiments._form import settings
from scalewise.experiments._look import COLORS, INK, MUTED, Number, attributes, panels
from scalewise.networks import MLP

TITLE = "A network and the count of its parameters"
TEXT = (
    "Four inputs, three hidden layers of five neurons, one output. Each neuron adds its bias to the "
    "weighted activations of the layer below. Depth counts the layers of weights: here L = 4."
)


@settings()  # small: the same: nothing here takes time
class Config:
    r"""Settings.

    Args:
        widths: $(n_0,n_1,\dots,n_L)$.
    """

    widths: tuple[int, ...] = (4, 5, 5, 5, 1)


def run(config: Config) -> xr.Dataset:
    """Count the parameters.

    Returns:
        ``width`` over ``place`` (0..L), ``biases`` and ``weights`` over ``layer`` (1..L), and
        ``parameters``, the total that `MLP` itself counts.
    """
    n = np.array(config.widths)
    net = MLP(
        len(n) - 1,
        tuple(int(k) for k in n[1:-1]),
        "tanh",
        input_dim=int(n[0]),
        output_dim=int(n[-1]),
    )
    return xr.Dataset(
        {
            "width": ("place", n),
            "biases": ("layer", n[1:]),
            "weights": ("layer", n[1:] * n[:-1]),
            "parameters": net.parameters,
        },
        {"place": np.arange(n.size), "layer": np.arange(1, n.size)},
        attributes(config),
    )


def numbers(dataset: xr.Dataset) -> list[Number]:
    """The total, counted twice."""
    total = float(dataset.biases.sum() + dataset.weights.sum())
    return [Number("parameters P", float(dataset.parameters), total)]


@panels(3)
def figure(dataset: xr.Dataset, left: Axes, middle: Axes, right: Axes) -> None:
    """The network, one of its neurons, and the parameters by layer."""
    _network(left, dataset.width.values)
    _neuron(middle)
    layer = dataset.layer.values
    right.bar(layer, dataset.weights, color=COLORS[0], width=0.6, label="weights")
    right.bar(
        layer, dataset.biases, bottom=dataset.weights, color=COLORS[1], width=0.6, label="biases"
    )
    right.set(xlabel="layer ℓ", title=f"{int(dataset.parameters)} parameters", xticks=layer)
    right.set_ylim(0, 1.25 * float((dataset.weights + dataset.biases).max()))
    right.grid(axis="x", visible=False)
    right.legend(ncols=2, loc="upper right")


def _network(axis: Axes, widths: np.ndarray) -> None:
    height = [np.arange(n) - (n - 1) / 2 for n in widths]
    for place in range(len(widths) - 1):
        for y in height[place]:
            for end in height[place + 1]:
                axis.plot([place, place + 1], [y, end], color=MUTED, lw=0.5, alpha=0.6, zorder=1)
    for place, y in enumerate(height):
        color = INK if place == 0 else COLORS[0]
        axis.plot(np.full(y.size, place), y, "o", ms=8, color=color, zorder=2)
        below = min(height[k].min() for k in range(len(widths))) - 0.8
        axis.text(place, below, "x" if place == 0 else f"ℓ = {place}", ha="center", va="top")
    axis.set_title("neurons and weights")
    axis.margins(0.1, 0.16)
    axis.set_axis_off()


def _neuron(axis: Axes) -> None:
    for k, y in enumerate((1.0, 0.0, -1.0)):
        axis.annotate(
            "",
            (0.93, 0.08 * y),
            (0.0, y),
            arrowprops={"arrowstyle": "-", "color": MUTED, "lw": 0.8},
        )
        axis.plot(0.0, y, "o", ms=9, color=COLORS[0])
        axis.text(-0.12, y, f"σ(z{'₁₂₃'[k]})", ha="right", va="center")
        axis.text(0.44, 0.54 * y + 0.1, f"Wᵢ{'₁₂₃'[k]}", ha="center", color=MUTED)
    axis.plot(1.05, 0.0, "o", ms=26, color=COLORS[0], alpha=0.25)
    axis.text(1.05, 0.0, "Σ", ha="center", va="center", fontsize=13)
    axis.annotate(
        "bᵢ",
        (1.05, 0.22),
        (1.05, 0.9),
        ha="center",
        color=INK,
        arrowprops={"arrowstyle": "-", "color": MUTED, "lw": 0.8},
    )
    axis.annotate(
        "",
        (1.75, 0.0),
        (1.2, 0.0),
        arrowprops={"arrowstyle": "->", "color": MUTED, "lw": 0.8},
    )
    axis.text(1.8, 0.0, "zᵢ", va="center")
    axis.set(xlim=(-0.7, 2.1), ylim=(-1.5, 1.5), title="one neuron")
    axis.set_axis_off()
