r"""Finite width seen from layer to layer: mean metric and four-point vertex of ensembles.

Shown: $G=K+G^{\{1\}}/n$ and $V/n$ along the depth for tanh, ReLU and a residual tanh network, recursions
as lines, ensembles of real networks as points.
Look for: $G^{\{1\}}=0$ and a vertex growing linearly for ReLU; kernels falling for tanh; slower noise
with a skip.

Source: PDLT (4.118), (4.119), (5.108)-(5.110), (B.23)-(B.26): plot F.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.experiments._form import settings
from scalewise.experiments._look import COLORS, Number, attributes, layers_below, panels, points
from scalewise.nets import measure
from scalewise.networks import MLP, Network, ResidualMLP
from scalewise.theory import predict

TITLE = "Fluctuations from network to network"
TEXT = (
    "Mean metric (top) and variance of the metric in units of K² (bottom) along the depth; lines are "
    "the recursions to order 1/n, points ensembles of real networks. The metric of ReLU has no "
    "correction, its variance grows as 5ℓ/n; where ℓ/n is not small the next order shows."
)
_CASES = ("tanh", "relu", "residual tanh")


@settings(width=48, depth=5, networks=1_500)  # small: few, shallow and narrow networks
class Config:
    r"""Settings.

    Args:
        width: $n$.
        depth: $L$.
        networks: Networks per ensemble.
        square: $\gamma^2$ of the residual network.
        seed: Random seed.
    """

    width: int = 128
    depth: int = 12
    networks: int = 8_000
    square: float = 0.5
    seed: int = 0


def run(config: Config) -> xr.Dataset:
    r"""Iterate the recursions and draw the ensembles, from $K^{(1)}=1$.

    Returns:
        Over (case, layer): ``kernel`` $K$ and ``metric`` $K+G^{\{1\}}/n$, preactivation², ``vertex``
        $V/nK^2$; ``measured_metric``, ``measured_vertex`` (in the same unit) with ``_sem``.
    """
    L, n = config.depth, config.width
    plain = [MLP(L, n, name, input_dim=1, output_dim=1) for name in ("tanh", "relu")]
    gamma = [0.0] + [config.square**0.5] * (L - 1)
    skipping = ResidualMLP(L, n, "tanh", gamma=gamma, input_dim=1, output_dim=n)
    rows = [_both(config, net.at_criticality()) for net in (*plain, skipping)]
    names = tuple(rows[0])
    return xr.Dataset(
        {name: (("case", "layer"), [row[name] for row in rows]) for name in names},
        {"case": list(_CASES), "layer": np.arange(1, config.depth + 1)},
        attributes(config),
    )


def _both(config: Config, net: Network) -> dict[str, np.ndarray]:
    """The recursions of a network, and its ensemble."""
    x = np.array([[net.C_W[0] ** -0.5]])
    names = ["kernel", "metric_nlo", "four_point_vertex"]
    theory = predict(net, x, observables=names)
    found = measure(
        net,
        x,
        networks=config.networks,
        seed=config.seed,
        progress=False,
        observables=["kernel", "four_point_vertex"],
    )
    K, G1, V = (theory[name].values.ravel() for name in names)
    width = np.array([1, *net.hidden_widths], dtype=float)
    unit = width * K**2
    return {
        "kernel": K,
        "metric": K + G1 / width,
        "vertex": V / unit,
        "measured_metric": found.kernel.values.ravel(),
        "measured_metric_sem": found.kernel_sem.values.ravel(),
        "measured_vertex": found.four_point_vertex.values.ravel() / unit,
        "measured_vertex_sem": found.four_point_vertex_sem.values.ravel() / unit,
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
            allowance = 4 * r * float(one[name]) if beyond is None else 4 * beyond
            text = f"{what}, {case}, last layer"
            rows.append(Number.of(one, text, name, f"measured_{name}", allowance))
    return rows


@panels(3, 2, height=2.8)
def figure(dataset: xr.Dataset, *axes: Axes) -> None:
    """Metric above, vertex below, one column for each network."""
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
        top.set_ylim(0, 1.25 * float(np.max(one.measured_metric)))
    axes[0].legend(loc="upper right")
