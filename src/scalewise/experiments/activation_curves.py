r"""Eight activations: the function and its slope.

Shown: the perceptron, sigmoid, tanh, sin, the linear and the rectified linear unit, softplus, SWISH and
GELU, and where it exists the slope $\sigma'$.
Look for: which pass through the origin, which are odd, and which have kinks; the universality class of
a network depends on nothing else but these.

Source: PDLT figure 2.2, (2.9)-(2.17).
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from scalewise.activations import activation
from scalewise.experiments._form import settings
from scalewise.experiments._look import COLORS, Number, attributes, house, sheet

TITLE = "Activations"
TEXT = (
    "The function in blue, its slope in orange, drawn broken. Class and criticality follow from the "
    "value at 0, the derivatives there, and kinks: sigmoid and softplus miss the origin, tanh and sin "
    "are odd, SWISH and GELU bend at the origin like neither."
)
# Closed values at z = 1, by elementary means.
_AT_ONE = {
    "perceptron": 1.0,
    "sigmoid": 0.7310585786300049,
    "tanh": 0.7615941559557649,
    "sin": 0.8414709848078965,
    "linear": 1.0,
    "relu": 1.0,
    "softplus": 1.3132616875182228,
    "swish": 0.7310585786300049,
    "gelu": 0.8413447460685429,
}


@settings(count=17)  # small: fewer points
class Config:
    """Settings.

    Args:
        activations: Names.
        reach: Largest $|z|$.
        count: Points of a curve, odd.
    """

    activations: tuple[str, ...] = tuple(_AT_ONE)
    reach: float = 4.0
    count: int = 401


def run(config: Config) -> xr.Dataset:
    """Evaluate the functions.

    Returns:
        ``sigma`` and ``slope`` over (activation, z), dimensionless; the slope of the perceptron, a
        delta function, is nan.
    """
    z = np.linspace(-config.reach, config.reach, config.count)
    values, slopes = [], []
    for name in config.activations:
        sigma = activation(name)
        values.append(sigma(z))
        slopes.append(sigma.derivative(z, 1) if sigma.is_continuous else np.full_like(z, np.nan))
    return xr.Dataset(
        {"sigma": (("activation", "z"), values), "slope": (("activation", "z"), slopes)},
        {"activation": list(config.activations), "z": z},
        attributes(config),
    )


def numbers(dataset: xr.Dataset) -> list[Number]:
    """Each function at $z=1$."""
    at_one = dataset.sigma.sel(z=1.0, method="nearest")
    return [
        Number(f"{name} at 1", _AT_ONE[name], float(at_one.sel(activation=name)), 0.0, 1e-12)
        for name in map(str, dataset.activation.values)
    ]


@house
def figure(dataset: xr.Dataset) -> Figure:
    """One panel for each function."""
    names = [str(name) for name in dataset.activation.values]
    canvas, axes = sheet(5, -(-len(names) // 5), height=2.3)
    for axis, name in zip(axes, names, strict=False):
        one = dataset.sel(activation=name)
        if np.isfinite(one.slope).all():
            axis.plot(one.z, one.slope, color=COLORS[1], lw=1.0, ls=(0, (4, 2)))
        axis.plot(one.z, one.sigma, color=COLORS[0])
        axis.set(title=name, xlim=(-4, 4), ylim=(-1.6, 2.6), xticks=(-4, -2, 0, 2, 4))
        axis.set(xlabel="z", ylabel="σ(z), its slope")
    for axis in axes[len(names) :]:
        axis.set_axis_off()
    return canvas
