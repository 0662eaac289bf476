r"""How far learning on one input carries to a close one, against the depth.

Shown: $|\Theta_{-+}/\Theta_{++}-1|$ for two inputs of equal norm.
$$\frac{\Theta_{-+}}{\Theta_{++}}-1=-2\frac{\delta\delta\Theta_{[2]}}{\Theta_{00}}+\dots\sim
  \begin{cases}L^{1-p_\perp}&K^\star=0\text{, equivalent rates}\\L^{-1}&\text{tanh, sin, uniform rates}\\
  -\frac34&\text{ReLU}\end{cases}$$
and $K_{-+}/K_{++}-1\sim\ell^{-2}$ for Bayesian inference with ReLU.
Look for: the powers; equivalent rates keep the response of tanh and sin at every depth.

Source: PDLT (10.57)-(10.64), (10.78)-(10.81), (10.93)-(10.95).
"""

from __future__ import annotations

from scalewise._extras import require

require("jax", for_="This experiment", extra="nets")

import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.activations import Activation, activation
from scalewise.experiments._form import each, power, settings
from scalewise.experiments._look import COLORS, MUTED, Number, attributes, log_axes, panels
from scalewise.networks import MLP
from scalewise.theory.deep import angle_flow, asymptotics
from scalewise.theory.single import nearby_inputs_flow, robustness

TITLE = "Robustness against the depth"
TEXT = (
    "How much less than its neighbour an input follows what the neighbour was trained on. With "
    "equivalent rates the answer does not depend on the depth for odd activations (p⊥ = 1), rises as "
    "L<sup>1−p⊥</sup> for others of the class, and falls as 1/L with uniform rates. Under ReLU any two "
    "inputs end at −3/4; with Bayesian inference instead the response becomes perfect as ℓ⁻²."
)
_LAWS = {
    "tanh": 0.0,
    "sin": 0.0,
    "tanh z + sin²z/2": 0.2,
    "tanh, uniform rates": -1.0,
    "ReLU": 0.0,
    "ReLU, Bayesian": -2.0,
}


@settings(depth=1_000)  # small: fewer layers
class Config:
    """Settings.

    Args:
        depth: Layers.
        distance: Between the two inputs, in units of their norm.
        angle: Between the inputs of the ReLU network.
    """

    depth: int = 20_000
    distance: float = 1e-3
    angle: float = 0.5


def run(config: Config) -> xr.Dataset:
    r"""Carry pairs of inputs through the layers.

    Returns:
        Over (case, layer): ``response`` $\Theta_{-+}/\Theta_{++}-1$; of the smooth networks over
        $\delta^2=\ell^{p_\perp}\delta\delta K_{[2]}$ of the last layer; over case ``slope`` of its
        logarithm in deep layers and ``slope_predicted``.
    """
    layers = np.unique(np.round(np.geomspace(1, config.depth, 160))).astype(int)
    rows = [
        _nearby(config, activation("tanh")),
        _nearby(config, activation("sin")),
        _nearby(config, activation(_tilted, name="tanh_plus_sin_squared")),
        _nearby(config, activation("tanh"), uniform=True),
        *_relu(config),
    ]
    at = [np.broadcast_to(row, config.depth)[layers - 1] for row in rows]
    deep = layers > config.depth // 4
    slopes = [power(layers[deep], row[deep])[0] for row in at]
    return xr.Dataset(
        {
            "response": (("case", "layer"), at),
            "slope": ("case", slopes),
            "slope_predicted": ("case", list(_LAWS.values())),
        },
        {"case": list(_LAWS), "layer": layers},
        attributes(config),
    )


def _tilted(z):
    return jnp.tanh(z) + 0.5 * jnp.sin(z) ** 2


def _nearby(config: Config, sigma: Activation, *, uniform: bool = False) -> np.ndarray:
    net = MLP(config.depth, 9, sigma, input_dim=2, output_dim=1).at_criticality()
    if not uniform:
        net = net.with_equivalent_learning_rates()
    x0 = np.array([[1.0, 1.0]]) * net.C_W[0] ** -0.5
    flow = nearby_inputs_flow(net, x0, config.distance * np.array([[1.0, -1.0]]))
    p = asymptotics(sigma).coefficients["p_perp"]
    delta2 = config.depth**p * flow.ddK2[-1, 0]
    return robustness(flow)[:, 0] / delta2


def _relu(config: Config) -> list[np.ndarray]:
    net = MLP(config.depth, 9, "relu", input_dim=2, output_dim=1).at_criticality()
    other = np.array([[np.cos(config.angle), np.sin(config.angle)]])
    flow = angle_flow(net, np.array([[1.0, 0.0]]), other)
    return [flow.robustness[:, 0], -2 * np.sin(flow.psi[:, 0] / 2) ** 2]


def numbers(dataset: xr.Dataset) -> list[Number]:
    """The powers of the depth, and three limits; corrections fall as log ℓ/ℓ."""
    last = float(dataset.layer[-1])
    slow = 16 * np.log(last) / last
    rows = [
        Number.of(one, f"power of the depth, {case}", "slope_predicted", "slope", slow)
        for case, one in each(dataset, "case")
    ]
    limits = {"tanh": -4 / 3, "sin": -1.0, "ReLU": -0.75}
    for case, limit in limits.items():
        found = float(dataset.response.sel(case=case)[-1])
        rows.append(Number(f"limit, {case}", limit, found, 0.0, slow))
    uniform = last * float(dataset.response.sel(case="tanh, uniform rates")[-1])
    rows.append(Number("L × response, tanh, uniform rates", -8.0, uniform, 0.0, 8 * slow))
    return rows


@panels(2, height=3.6)
def figure(dataset: xr.Dataset, left: Axes, right: Axes) -> None:
    """Smooth networks, and ReLU."""
    for k, (case, one) in enumerate(each(dataset, "case")):
        axis = right if case.startswith("ReLU") else left
        law = f"{round(float(one.slope), 2) + 0.0:.2f}".replace("-", "−")
        label = f"{case}, slope {law}"
        axis.plot(one.layer, np.abs(one.response), color=COLORS[k], label=label)
    right.axhline(0.75, color=MUTED, lw=0.8, ls=(0, (4, 2)))
    for axis in (left, right):
        log_axes(axis)
        axis.set_xlabel("layer ℓ")
        axis.legend(loc="lower left")
    left.set_title("|response| of close inputs, over δ²")
    right.set_title("|response| at an angle of " + f"{dataset.attrs['angle']:g}")
