r"""Fluctuations grow with depth over width: five dimensionless ratios on a line of slope 1.

Shown: $V/nK^2$, $|D|/nK\Theta$, $F/nK\Theta$, $B/n\Theta^2$, $A/n\Theta^2$ against $\ell/n$, recursions as
lines and one ensemble of real networks as points, for a network of each class.
Look for: parallel lines of slope 1 in both classes, only their heights differ.

Source: PDLT (5.128), (9.23)-(9.27), (9.42)-(9.51), (9.66)-(9.86).
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.experiments._form import each, power, settings
from scalewise.experiments._look import COLORS, Number, attributes, log_axes, panels, points
from scalewise.nets import measure
from scalewise.networks import MLP, Network
from scalewise.theory.deep import asymptotics, leading_forms
from scalewise.theory.single import single_input_flow

TITLE = "Fluctuations grow with ℓ/n"
TEXT = (
    "All dimensionless fluctuations of kernel and NTK grow with the first power of depth over width, "
    "in both classes: that ratio is the small parameter of the theory. Lines are recursions, points "
    "ensembles at the width stated."
)
_UNITS = {"V": (2, 0), "D": (1, 1), "F": (1, 1), "B": (0, 2), "A": (0, 2)}
_OBSERVABLES = {"V": "four_point_vertex", **{k: f"ntk_{k}" for k in "DFBA"}}


# Small: a shallow recursion and a small ensemble.
@settings(depth=2_000, width=32, measured_depth=4, networks=1_000)
class Config:
    r"""Settings.

    Args:
        activations: Scale-invariant or of class $K^\star=0$.
        depth: Layers of the recursion.
        width: Of the measured networks.
        measured_depth: Their layers.
        networks: Networks per ensemble.
        seed: Random seed.
    """

    activations: tuple[str, ...] = ("relu", "tanh")
    depth: int = 10_000
    width: int = 64
    measured_depth: int = 8
    networks: int = 4_000
    seed: int = 0


def run(config: Config) -> xr.Dataset:
    r"""Iterate and measure, with rates equivalent across layers.

    Returns:
        Over (activation, tensor, layer): ``ratio``, dimensionless coefficient of $1/n$; over
        (activation, tensor, shallow): ``measured`` with ``measured_sem``; over (activation, tensor):
        ``slope`` of its logarithm in deep layers, and ``amplitude`` with ``amplitude_predicted``.
    """
    layers = np.unique(np.round(np.geomspace(2, config.depth, 200))).astype(int)
    rows = [_row_of(config, name, layers) for name in config.activations]
    over = ("activation", "tensor")
    dims = {"ratio": ("layer",), "measured": ("shallow",), "measured_sem": ("shallow",)}
    return xr.Dataset(
        {key: ((*over, *dims.get(key, ())), [row[key] for row in rows]) for key in rows[0]},
        {
            "activation": list(config.activations),
            "tensor": list(_UNITS),
            "layer": layers,
            "shallow": np.arange(2, config.measured_depth + 1),
        },
        attributes(config),
    )


def _row_of(config: Config, name: str, layers: np.ndarray) -> dict[str, list]:
    def network(depth: int) -> Network:
        net = MLP(depth, config.width, name, input_dim=1, output_dim=2).at_criticality()
        return net.with_equivalent_learning_rates()

    net = network(config.depth)
    flow = single_input_flow(net, K1=1.0)
    K, Theta = flow.K[:, 0], flow.Theta[:, 0]  # type: ignore[index]
    known = asymptotics(name)
    line = known.universality == "scale-invariant"
    forms = leading_forms(known, config.depth, kernel=1.0 if line else None, depth=config.depth)
    shallow = network(config.measured_depth)
    exact = single_input_flow(shallow, K1=1.0)
    found = measure(
        shallow,
        [[shallow.C_W[0] ** -0.5]],
        networks=config.networks,
        progress=False,
        seed=config.seed,
        observables=list(_OBSERVABLES.values()),
    )
    out: dict[str, list] = {
        key: []
        for key in (
            "ratio",
            "measured",
            "measured_sem",
            "slope",
            "amplitude",
            "amplitude_predicted",
        )
    }
    for letter, (k, t) in _UNITS.items():
        ratio = getattr(flow, letter)[:, 0] / (K**k * Theta**t)
        deep = layers[layers > config.depth // 4]
        unit = exact.K[1:, 0] ** k * exact.Theta[1:, 0] ** t  # type: ignore[index]
        out["ratio"].append(ratio[layers - 1])
        out["slope"].append(power(deep, ratio[deep - 1])[0])
        out["amplitude"].append(ratio[-1] / config.depth)
        predicted = forms[letter] / (forms["K"] ** k * forms["Theta"] ** t) / config.depth
        out["amplitude_predicted"].append(float(predicted))
        name_ = _OBSERVABLES[letter]
        out["measured"].append(found[name_].values[1:].ravel() / unit)
        out["measured_sem"].append(found[f"{name_}_sem"].values[1:].ravel() / unit)
    return out


def numbers(dataset: xr.Dataset) -> list[Number]:
    """Slopes are 1, heights those of the deep forms; corrections fall as log ℓ/ℓ."""
    slow = 4 * np.log(dataset.attrs["depth"]) / dataset.attrs["depth"]
    rows = []
    for name, letter, one in each(dataset, "activation", "tensor"):
        rows.append(Number.of(one, f"{letter}, {name}: slope", 1.0, "slope", slow))
        what = f"{letter}, {name}: height / (ℓ/n)"
        slack = abs(float(one.amplitude_predicted)) * slow
        rows.append(Number.of(one, what, "amplitude_predicted", "amplitude", slack))
    return rows


@panels("activation", height=3.9)
def figure(dataset: xr.Dataset, *axes: Axes) -> None:
    """One panel for each activation, against ℓ/n at the measured width."""
    n = dataset.attrs["width"]
    for axis, (name, part) in zip(axes, each(dataset, "activation"), strict=True):
        for k, (letter, one) in enumerate(each(part, "tensor")):
            units = "".join(
                s * bool(p) + "²" * (p == 2) for s, p in zip("KΘ", _UNITS[letter], strict=True)
            )
            symbol = f"|{letter}|" if float(one.amplitude) < 0 else letter
            shown = one.sel(layer=one.layer <= 20 * n)
            axis.plot(
                shown.layer / n,
                np.abs(shown.ratio) / n,
                color=COLORS[k],
                label=f"{symbol}/n{units}",
            )
            points(
                axis,
                one.shallow / n,
                np.abs(one.measured) / n,
                one.measured_sem / n,
                color=COLORS[k],
            )
        log_axes(axis)
        axis.set(xlabel="ℓ/n", title=f"{name}, points at n = {n}")
        axis.legend(loc="upper left")
