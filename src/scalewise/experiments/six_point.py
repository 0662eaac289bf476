r"""The six-point vertex of ReLU: third cumulants of the metric.

Shown: $U=n^2\,\kappa_3[\widehat G]$ over $K^3$ against the layer: leading order, the exact law at the width
measured, and an ensemble.
$$U^{(\ell+1)}=\tfrac18C_W^3\big[U+30VK+44K^3\big]\ \Rightarrow\ \frac{U^{(\ell)}}{K^3}
  =(\ell-1)(75\ell-106)\to75\ell^2$$
Look for: a parabola; at finite width the ensemble lies above it where the exact law does.

Source: PDLT (ε.20), (ε.21); the closed form and the exact law are derived.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.experiments._form import settings
from scalewise.experiments._look import COLORS, Number, attributes, layers_below, panels, points
from scalewise.networks import MLP
from scalewise.theory.action import six_point_vertex
from scalewise.theory.exact import metric_moments

TITLE = "The six-point vertex of ReLU"
TEXT = (
    "The next order of the effective theory: n² times the third cumulant of the metric, which grows "
    "with the square of the depth. The recursion (blue) is solved by (ℓ−1)(75ℓ−106)K³. At finite "
    "width the law of the metric of ReLU is known exactly (orange); points are an ensemble."
)


@settings(depth=4, width=128, networks=20_000)  # small: few, shallow and narrow networks
class Config:
    """Settings.

    Args:
        depth: Layers.
        width: Of the measured networks.
        networks: In the ensemble.
        seed: Random seed.
    """

    depth: int = 8
    width: int = 512
    networks: int = 60_000
    seed: int = 0


def run(config: Config) -> xr.Dataset:
    r"""Recursion, exact law, ensemble, at $K=1$.

    Returns:
        Over layer, in units of $K^3$: ``recursion``, ``exact`` at the width, ``measured`` with
        ``measured_sem``.
    """
    net = MLP(config.depth, config.width, "relu", input_dim=1, output_dim=1).at_criticality()
    moments = metric_moments(net, [[net.C_W[0] ** -0.5]], order=3)
    square = float(config.width) ** 2
    third = moments[:, 2] - 3 * moments[:, 1] * moments[:, 0] + 2 * moments[:, 0] ** 3
    measured, sem = _measured(config)
    return xr.Dataset(
        {
            "recursion": ("layer", six_point_vertex(net, 1.0)),
            "exact": ("layer", square * third),
            "measured": ("layer", square * measured),
            "measured_sem": ("layer", square * sem),
        },
        {"layer": np.arange(1, config.depth + 1)},
        attributes(config),
    )


def _measured(config: Config) -> tuple[np.ndarray, np.ndarray]:
    """Third cumulants of the metric in networks whose layers are drawn one given the other."""
    rng = np.random.default_rng(config.seed)
    metrics = np.ones((config.depth, config.networks))
    for start in range(0, config.networks, 4_000):
        G = np.ones(min(4_000, config.networks - start))
        for layer in range(1, config.depth):
            # Critical ReLU: given the layer below, neurons are independent with variance G.
            z = rng.standard_normal((G.size, config.width), dtype=np.float32)
            G = G * 2.0 * np.mean(np.maximum(z, 0.0) ** 2, axis=1, dtype=np.float64)
            metrics[layer, start : start + G.size] = G
    off = metrics - metrics.mean(axis=1, keepdims=True)
    second = np.mean(off**2, axis=1, keepdims=True)
    third = np.mean(off**3, axis=1)
    # The influence of one network on a third central moment.
    spread = (off**3 - 3 * second * off).std(axis=1, ddof=1)
    return third, spread / config.networks**0.5


def numbers(dataset: xr.Dataset) -> list[Number]:
    """The closed form, and the ensemble against the exact law, in the last layer."""
    last = dataset.isel(layer=-1)
    layer = int(last.layer)
    closed = (layer - 1) * (75 * layer - 106)
    return [
        Number(f"recursion, layer {layer}", closed, float(last.recursion), 0.0, 1e-6 * closed),
        Number.of(last, f"ensemble, layer {layer}", "exact", "measured"),
    ]


@panels(2, height=3.4)
def figure(dataset: xr.Dataset, left: Axes, right: Axes) -> None:
    """The vertex, and the ratio to its leading power."""
    n = dataset.attrs["width"]
    layer = dataset.layer
    for axis, unit in ((left, 1.0), (right, 75.0 * layer**2)):
        axis.plot(layer, dataset.recursion / unit, color=COLORS[0], label="leading order")
        axis.plot(layer, dataset.exact / unit, color=COLORS[1], lw=1.0, label=f"exact, n = {n}")
        points(
            axis,
            layer,
            dataset.measured / unit,
            dataset.measured_sem / unit,
            color=COLORS[1],
            label="measured",
        )
        layers_below(axis)
    left.set_title("six-point vertex, U/K³")
    right.set_title("the same over 75ℓ²")
    right.set_ylim(0, None)
    left.legend(loc="upper left")
