r"""Finite width seen from layer to layer: mean metric and four-point vertex of ensembles.

Shown: $G=K+G^{\{1\}}/n$ and $V/n$ along the depth for tanh, ReLU and a residual tanh network, recursions
as lines, ensembles of real networks as points.
Look for: $G^{\{1\}}=0$ and a vertex growing linearly for ReLU; kernels falling for tanh; slower noise
with a skip.

Source: PDLT (4.118), (4.119), (5.108)-(5.110), (B.23)-(B.26): plot F.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from scalewise.experiments._look import (
    COLORS,
    Number,
    attributes,
    house,
    layers_below,
    points,
    sheet,
)
from scalewise.nets import measure
from scalewise.nets._residual import residual_metrics
from scalewise.network import MLP
from scalewise.theory.residual import ResidualMLP, residual_single_input
from scalewise.theory.single import single_input_flow

__all__ = ["SOURCE", "TEXT", "TITLE", "Config", "figure", "numbers", "run"]

TITLE = "Fluctuations from network to network"
SOURCE = "PDLT (5.108)–(5.110), (B.23)–(B.26): plot F"
TEXT = (
    "Mean metric (top) and variance of the metric in units of K² (bottom) along the depth; lines are "
    "the recursions to order 1/n, points ensembles of real networks. The metric of ReLU has no "
    "correction, its variance grows as 5ℓ/n; where ℓ/n is not small the next order shows."
)
_CASES = ("tanh", "relu", "residual tanh")


@dataclass(frozen=True)
class Config:
    r"""What is drawn.

    Args:
        width: $n$.
        depth: $L$.
        networks: In each ensemble.
        square: $\gamma^2$ of the residual network.
        seed: Same seed, same numbers.
    """

    width: int = 128
    depth: int = 12
    networks: int = 8_000
    square: float = 0.5
    seed: int = 0

    @classmethod
    def small(cls) -> Config:
        """Few, shallow and narrow networks."""
        return cls(width=48, depth=5, networks=1_500)


def run(config: Config) -> xr.Dataset:
    r"""Iterate the recursions and draw the ensembles, from $K^{(1)}=1$.

    Args:
        config: What is drawn.

    Returns:
        Over (case, layer): ``kernel`` $K$ and ``metric`` $K+G^{\{1\}}/n$, preactivation², ``vertex``
        $V/nK^2$; ``measured_metric``, ``measured_vertex`` (in the same unit) with ``_sem``.
    """
    rows = [_without_skips(config, "tanh"), _without_skips(config, "relu"), _residual(config)]
    names = tuple(rows[0])
    return xr.Dataset(
        {name: (("case", "layer"), [row[name] for row in rows]) for name in names},
        {"case": list(_CASES), "layer": np.arange(1, config.depth + 1)},
        attributes(config),
    )


def _without_skips(config: Config, name: str) -> dict[str, np.ndarray]:
    n = config.width
    net = MLP(config.depth, n, name, input_dim=1, output_dim=1).at_criticality()
    x = np.array([[net.C_W[0] ** -0.5]])
    flow = single_input_flow(net, K1=1.0)
    found = measure(net, x, networks=config.networks, seed=config.seed, progress=False,
                    observables=["kernel", "four_point_vertex"])  # fmt: skip
    K, width = flow.K[:, 0], np.array([1, *net.hidden_widths], dtype=float)
    unit = width * K**2
    return {
        "kernel": K,
        "metric": K + flow.G1[:, 0] / width,
        "vertex": flow.V[:, 0] / unit,
        "measured_metric": found.kernel.values.ravel(),
        "measured_metric_sem": found.kernel_sem.values.ravel(),
        "measured_vertex": found.four_point_vertex.values.ravel() / unit,
        "measured_vertex_sem": found.four_point_vertex_sem.values.ravel() / unit,
    }


def _residual(config: Config) -> dict[str, np.ndarray]:
    n = config.width
    mlp = MLP(config.depth, n, "tanh", input_dim=1, output_dim=n)
    net = ResidualMLP(mlp, [0.0] + [config.square**0.5] * (config.depth - 1)).at_criticality()
    x = np.array([[net.branch.C_W[0] ** -0.5]])
    K, V, G1 = residual_single_input(net, 1.0)
    draws = residual_metrics(net.branch, net.gamma, x, networks=config.networks, seed=config.seed)
    G, GG = draws[0][:, :, 0, 0], draws[1][:, :, 0, 0, 0, 0]
    mean, square, root = G.mean(axis=0), GG.mean(axis=0), config.networks**0.5
    spread = (GG - 2 * mean * G).std(axis=0, ddof=1) / root
    zero = np.zeros(1)
    return {
        "kernel": K,
        "metric": K + np.append(zero, G1[1:] / n),
        "vertex": V / n / K**2,
        "measured_metric": np.append(K[:1], mean),
        "measured_metric_sem": np.append(zero, G.std(axis=0, ddof=1) / root),
        "measured_vertex": np.append(zero, (square - mean**2) / K[1:] ** 2),
        "measured_vertex_sem": np.append(zero, spread / K[1:] ** 2),
    }


def numbers(dataset: xr.Dataset) -> list[Number]:
    """The last layer; the next order is allowed for as (ℓ/n) times what is there."""
    last = dataset.isel(layer=-1)
    r = float(dataset.attrs["depth"] / dataset.attrs["width"])
    rows = []
    for case in _CASES:
        one = last.sel(case=case)
        shift = abs(float(one.metric - one.kernel))
        for name, what, beyond in (("metric", "G", r * shift), ("vertex", "V/nK²", None)):
            expected = float(one[name])
            found, sem = float(one[f"measured_{name}"]), float(one[f"measured_{name}_sem"])
            allowance = 4 * r * expected if beyond is None else 4 * beyond
            rows.append(Number(f"{what}, {case}, last layer", expected, found, sem, allowance))
    return rows


@house
def figure(dataset: xr.Dataset) -> Figure:
    """Metric above, vertex below, one column for each network."""
    canvas, axes = sheet(3, 2, height=2.8)
    for k, case in enumerate(_CASES):
        one = dataset.sel(case=case)
        top, bottom = axes[k], axes[3 + k]
        top.plot(one.layer, one.kernel, color=COLORS[0], ls=(0, (4, 2)), lw=1.0, label="K")
        top.plot(one.layer, one.metric, color=COLORS[0], label="K + G¹/n")
        points(
            top,
            one.layer,
            one.measured_metric,
            one.measured_metric_sem,
            color=COLORS[1],
            label="measured",
        )
        bottom.plot(one.layer, one.vertex, color=COLORS[0], label="recursion")
        points(bottom, one.layer, one.measured_vertex, one.measured_vertex_sem, color=COLORS[1])
        top.set(title=f"{case}: mean metric", ylim=(0, None))
        bottom.set(title=f"{case}: V/nK²", ylim=(0, None))
        layers_below(top)
        layers_below(bottom)
        top.set_xlabel("")
        top.set_ylim(0, 1.25 * float(np.max(one.measured_metric)))
    axes[0].legend(loc="upper right")
    return canvas
