r"""Depth over width that lets the outputs know most of each other.

Shown: the mutual information of two halves of the output against $r=L/n$,
$$\mathcal I(r)=\frac{m_1m_2}8\nu^2r^2-\frac{m_1m_2(20+3m_1+3m_2)}{48}\nu^3r^3,\qquad
  r^\star=\frac4{20+3n_L}\frac1\nu.$$
Look for: maxima of equal height at places that depend on the activation through $\nu$ alone.

Source: PDLT (A.68)-(A.74): table C and the first half of plot E.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from scipy.optimize import minimize_scalar

from scalewise.experiments._form import each, settings
from scalewise.experiments._look import COLORS, INK, Number, Table, attributes, log_axes, panels
from scalewise.theory.information import (
    finite_width_mutual_information,
    optimal_aspect_ratio,
    optimal_information,
    vertex_growth,
)

TITLE = "The optimal aspect ratio"
TEXT = (
    "Shallow networks draw their outputs independently, deep ones differ too much from each other: "
    "between them the mutual information of two halves of the output has a maximum. Its place is "
    "r* = 4/(20 + 3n<sub>L</sub>)ν, with ν = 2/3 for tanh, 2 for linear, 5 for ReLU; its height is the "
    "same for all. An order of magnitude: at r* the second term is two thirds of the first."
)


@settings(count=12)  # small: fewer points
class Config:
    r"""Settings.

    Args:
        activations: With a critical initialisation.
        outputs: $n_L$, even.
        shown: The $n_L$ of the figure.
        count: Points of a curve.
    """

    activations: tuple[str, ...] = ("tanh", "linear", "relu")
    outputs: tuple[int, ...] = (2, 10, 100)
    shown: int = 10
    count: int = 300


def run(config: Config) -> xr.Dataset:
    r"""Information against the aspect ratio, and its maximum found numerically.

    Returns:
        Over activation ``nu``; over (activation, outputs) ``r_star`` by the formula and
        ``r_maximum``, the maximum of $\mathcal I(r)$ itself; over outputs ``information`` (nats) and
        ``information_maximum``; over (activation, r) ``curve`` for the $n_L$ shown.
    """
    nu = np.array([vertex_growth(name) for name in config.activations])
    halves = [n // 2 for n in config.outputs]
    r_star = np.array([[optimal_aspect_ratio(v, m, m) for m in halves] for v in nu])
    maxima = np.array([[_maximum(v, m) for m in halves] for v in nu])
    r = np.geomspace(1e-3, 0.5, config.count)
    half = config.shown // 2
    curve = [[sum(finite_width_mutual_information(half, half, v * x)) for x in r] for v in nu]
    return xr.Dataset(
        {
            "nu": ("activation", nu),
            "r_star": (("activation", "outputs"), r_star),
            "r_maximum": (("activation", "outputs"), maxima[:, :, 0]),
            "information": ("outputs", [optimal_information(m, m) for m in halves]),
            "information_maximum": ("outputs", maxima[0, :, 1]),
            "curve": (("activation", "r"), curve),
        },
        {"activation": list(config.activations), "outputs": list(config.outputs), "r": r},
        attributes(config),
    )


def _maximum(nu: float, half: int) -> tuple[float, float]:
    def lost(x: float) -> float:
        return -sum(finite_width_mutual_information(half, half, x))

    found: Any = minimize_scalar(
        lost, bounds=(1e-4, 0.3), method="bounded", options={"xatol": 1e-10}
    )
    return float(found.x) / nu, -float(found.fun)


def numbers(dataset: xr.Dataset) -> list[Number]:
    """The formula against the maximum of the curve."""
    return [
        Number.of(
            one, f"r* of {name}, {n} outputs", "r_star", "r_maximum", 1e-4 * float(one.r_star)
        )
        for name, n, one in each(dataset, "activation", "outputs")
    ]


def tables(dataset: xr.Dataset) -> list[Table]:
    """The optimum by number of outputs: table C."""
    names = [str(name) for name in dataset.activation.values]
    rows = [
        (f"{n} outputs", *(float(v) for v in one.r_star), float(one.information))
        for n in dataset.outputs.values
        for one in [dataset.sel(outputs=n)]
    ]
    return [Table.of("Optimal aspect ratio r*", ("", *names, "information, nats"), rows)]


@panels(2, height=3.6)
def figure(dataset: xr.Dataset, left: Axes, right: Axes) -> None:
    """The information against the aspect ratio, and the optimum against the outputs."""
    shown = int(dataset.attrs["shown"])
    for k, (name, one) in enumerate(each(dataset, "activation")):
        left.plot(one.r, one.curve, color=COLORS[k], label=f"{name}, ν = {float(one.nu):.3g}")
        best = one.sel(outputs=shown)
        left.plot(best.r_star, best.information, "o", ms=5, color=INK)
        right.plot(one.outputs, one.r_maximum, "o", ms=4, color=COLORS[k], label=name)
        n = np.geomspace(2, 100, 50)
        right.plot(
            n, [optimal_aspect_ratio(float(one.nu), m / 2, m / 2) for m in n], color=COLORS[k]
        )
    log_axes(left, "x")
    left.set(ylim=(0, 1.25 * float(dataset.information.sel(outputs=shown))), xlabel="r = L/n")
    left.set_title(f"mutual information of the halves of {shown} outputs, nats")
    left.legend(loc="upper left")
    log_axes(right)
    right.set(xlabel="outputs", title="optimal aspect ratio r*: formula, and maxima of the curves")
    right.legend(loc="lower left")
