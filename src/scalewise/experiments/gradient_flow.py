r"""Gradients from the output back to each layer, at criticality and beside it.

Shown: $\mathbb E\sum_j(dz^{(L)}/dz^{(\ell)}_j)^2$ against $\ell$, the product of the $\chi_\perp$ as lines,
real networks as points.
Look for: constant for ReLU at $C_W=2$, a power of $\ell$ for tanh at $C_W=1$, and exponentials beside.

Source: PDLT (9.87)-(9.93).
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from scalewise.experiments._form import each, settings
from scalewise.experiments._look import (
    COLORS,
    Number,
    attributes,
    house,
    layers_below,
    log_axes,
    points,
    sheet,
)
from scalewise.networks import MLP, Network
from scalewise.theory.single import gradient_norms

TITLE = "Exploding and vanishing gradients"
TEXT = (
    "Mean squared derivative of an output by all preactivations of a layer. The lines are products of "
    "χ⊥, the points means over real networks. At criticality ReLU passes gradients back unchanged and "
    "tanh loses a power of the depth; a few per cent beside it they explode or vanish."
)


@settings(depth=6, width=48, networks=300)  # small: shallow and narrow
class Config:
    """Settings.

    Args:
        cases: Pairs of an activation and a $C_W$; $C_b=0$.
        depth: $L$.
        width: $n$.
        networks: Networks per ensemble.
        seed: Random seed.
    """

    cases: tuple[tuple[str, float], ...] = (
        ("relu", 1.6),
        ("relu", 2.0),
        ("relu", 2.4),
        ("tanh", 0.8),
        ("tanh", 1.0),
        ("tanh", 1.4),
    )
    depth: int = 20
    width: int = 128
    networks: int = 600
    seed: int = 0


def run(config: Config) -> xr.Dataset:
    """Predict and measure, from $K^{(1)}=1$.

    Returns:
        Over (case, layer): ``predicted``, ``measured``, ``measured_sem``, dimensionless.
    """
    rows = []
    for k, (name, C_W) in enumerate(config.cases):
        net = MLP(config.depth, config.width, name, input_dim=1, output_dim=1, C_W=C_W)
        square = _measured(net, config.networks, np.random.default_rng([config.seed, k]))
        sem = square.std(axis=0, ddof=1) / config.networks**0.5
        rows.append((gradient_norms(net, K1=1.0)[:, 0], square.mean(axis=0), sem))
    table = np.array(rows)
    names = ("predicted", "measured", "measured_sem")
    case = [f"{name}, C_W = {C_W:g}" for name, C_W in config.cases]
    return xr.Dataset(
        {name: (("case", "layer"), table[:, i]) for i, name in enumerate(names)},
        {"case": case, "layer": np.arange(1, config.depth + 1)},
        attributes(config, cases=case),
    )


def _measured(net: Network, networks: int, rng: np.random.Generator) -> np.ndarray:
    r"""$\sum_j(dz^{(L)}/dz^{(\ell)}_j)^2$ of real networks, (network, layer)."""
    out = np.ones((networks, net.depth))
    n, root = net.widths[1], [c**0.5 for c in net.C_W]
    for k in range(networks):
        z, slopes, weights = rng.normal(size=n), [], []
        for layer in range(2, net.depth + 1):
            slopes.append(net.activation.derivative(z, 1))
            W = rng.normal(size=(net.widths[layer], n)) * root[layer - 1] / n**0.5
            weights.append(W)
            z = W @ net.activation(z)
        row = np.ones(1)
        for layer in range(net.depth - 1, 0, -1):
            row = (row @ weights[layer - 1]) * slopes[layer - 1]
            out[k, layer - 1] = row @ row
    return out


def numbers(dataset: xr.Dataset) -> list[Number]:
    """The first layer; relative corrections of order $L/n$ are allowed for."""
    r = dataset.attrs["depth"] / dataset.attrs["width"]
    return [
        Number.of(
            one, f"first layer, {case}", "predicted", "measured", 2 * r * float(one.predicted)
        )
        for case, one in each(dataset.isel(layer=0), "case")
    ]


@house
def figure(dataset: xr.Dataset) -> Figure:
    """A panel for each activation."""
    cases = [str(case) for case in dataset.case.values]
    names = list(dict.fromkeys(case.partition(",")[0] for case in cases))
    canvas, axes = sheet(len(names), height=3.5)
    for axis, name in zip(axes, names, strict=True):
        for k, case in enumerate(c for c in cases if c.startswith(name)):
            one = dataset.sel(case=case)
            axis.plot(one.layer, one.predicted, color=COLORS[k], label=case.partition(", ")[2])
            points(axis, one.layer, one.measured, one.measured_sem, color=COLORS[k])
        log_axes(axis, "y")
        axis.set_title(f"{name}: squared gradient from the output back")
        layers_below(axis)
        axis.legend(loc="best")
    return canvas
