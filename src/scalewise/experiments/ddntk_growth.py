r"""The second differentials of the NTK: their four means, layer by layer.

Shown: $RK/\Theta^3$, $SK/\Theta^3$, $TK/\Theta^3$, $UK/\Theta^3$ of a tanh and of a linear network,
recursions as lines, ensembles as points, deep forms broken.
$$R,S,T:\ -\tfrac5{72}\ell,\ \tfrac1{36}\ell,\ \tfrac1{72}\ell,\quad U:\ \tfrac1{2\ell}\quad(\tanh),
  \qquad S=T\cdot\frac{\tilde\lambda_b+\tilde\lambda_WK}{\tilde\lambda_WK}
  =\frac{\ell^2(\ell^2-1)}{12L^3}(\tilde\lambda_b+\tilde\lambda_WK)^2\tilde\lambda_W\quad(\text{linear})$$
Look for: three of them grow with $\ell/n$ in both; $U$ dies out.

Source: PDLT (∞.14)-(∞.17), (∞.34)-(∞.38), (∞.46)-(∞.48): F∞-1 and F∞-2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from scalewise.experiments._look import (
    COLORS,
    MUTED,
    Number,
    attributes,
    house,
    layers_below,
    points,
    sheet,
)
from scalewise.nets import measure
from scalewise.network import MLP
from scalewise.theory.deep import asymptotics, leading_forms
from scalewise.theory.single import single_input_flow

__all__ = ["SOURCE", "TEXT", "TITLE", "Config", "figure", "numbers", "run"]

TITLE = "Second differentials of the NTK"
SOURCE = "PDLT (∞.14)–(∞.17), (∞.34)–(∞.38), (∞.46)–(∞.48)"
TEXT = (
    "Means of the two second differentials of the NTK. R, S and T grow with ℓ/n, so that deep networks "
    "learn features at this order too; U of tanh falls as 1/ℓ. In linear networks R and U vanish and S "
    "and T are known exactly. Points are ensembles at the width stated."
)


@dataclass(frozen=True)
class Config:
    """What is drawn.

    Args:
        activations: Smooth, with a critical initialisation.
        depth: $L$.
        deep: Layers of the recursion that is compared with the deep form.
        width: Of the measured networks.
        networks: In each ensemble.
        seed: Same seed, same numbers.
    """

    activations: tuple[str, ...] = ("tanh", "linear")
    depth: int = 6
    deep: int = 10_000
    width: int = 64
    networks: int = 1_500
    seed: int = 0

    @classmethod
    def small(cls) -> Config:
        """Shallow and narrow networks, few of them."""
        return cls(activations=("tanh",), depth=2, deep=2_000, width=16, networks=500)


def run(config: Config) -> xr.Dataset:
    r"""Predict and measure, with rates equivalent across layers and $K^{(1)}=1$.

    Args:
        config: What is drawn.

    Returns:
        Over (activation, tensor, layer): ``ratio``, dimensionless coefficient of $1/n$, ``measured``,
        ``measured_sem``; over (activation, tensor): ``deep`` and ``deep_predicted``, the ratio over
        $\ell$ of a deep network.
    """
    rows = [_row_of(config, name) for name in config.activations]
    over, layer = ("activation", "tensor"), ("layer",)
    dims = {"ratio": layer, "measured": layer, "measured_sem": layer}
    return xr.Dataset(
        {key: ((*over, *dims.get(key, ())), [row[key] for row in rows]) for key in rows[0]},
        {
            "activation": list(config.activations),
            "tensor": list("RSTU"),
            "layer": np.arange(1, config.depth + 1),
        },
        {**attributes(config), "deep_layers": config.deep},
    )


def _row_of(config: Config, name: str) -> dict[str, list]:
    def network(depth: int) -> MLP:
        net = MLP(depth, config.width, name, input_dim=1, output_dim=2).at_criticality()
        return net.with_equivalent_learning_rates()

    net = network(config.depth)
    flow, far = (single_input_flow(net, K1=1.0), single_input_flow(network(config.deep), K1=1.0))
    known = asymptotics(name)
    line = known.universality == "scale-invariant"
    forms = leading_forms(known, config.deep, kernel=1.0 if line else None, depth=config.deep)
    found = measure(net, [[net.C_W[0] ** -0.5]], networks=config.networks, seed=config.seed,
                    observables=[f"ddntk_{k}" for k in "RSTU"], progress=False)  # fmt: skip
    out: dict[str, list] = {key: [] for key in ("ratio", "measured", "measured_sem", "deep",
                                                "deep_predicted")}  # fmt: skip
    unit = (flow.Theta**3 / flow.K)[:, 0]  # type: ignore[operator]
    far_unit = (far.Theta**3 / far.K)[-1, 0]  # type: ignore[operator]
    for letter in "RSTU":
        out["ratio"].append(getattr(flow, letter)[:, 0] / unit)
        out["measured"].append(found[f"ddntk_{letter}"].values.ravel() / unit)
        out["measured_sem"].append(found[f"ddntk_{letter}_sem"].values.ravel() / unit)
        out["deep"].append(getattr(far, letter)[-1, 0] / far_unit / config.deep)
        form = forms[letter] * forms["K"] / forms["Theta"] ** 3
        out["deep_predicted"].append(float(form) / config.deep)
    return out


def numbers(dataset: xr.Dataset) -> list[Number]:
    """Deep recursions against deep forms; ensembles against the recursion in the last layer."""
    layers = dataset.attrs["deep_layers"]
    slow = 0.15 * np.log(layers) / layers
    last = dataset.isel(layer=-1)
    # With one hidden layer nothing lies beyond the leading order.
    beyond = 3 * (dataset.attrs["depth"] - 2) / dataset.attrs["width"]
    rows = []
    for name in map(str, dataset.activation.values):
        scale = float(np.abs(last.ratio.sel(activation=name)).max())
        for letter in "RSTU":
            one = last.sel(activation=name, tensor=letter)
            rows.append(Number(f"{letter}K/nΘ³ over ℓ/n, {name}, deep",
                               float(one.deep_predicted), float(one.deep), 0.0, slow))  # fmt: skip
            rows.append(Number(f"{letter}K/Θ³, {name}, last layer measured", float(one.ratio),
                               float(one.measured), float(one.measured_sem), beyond * scale)
                        )  # fmt: skip
    return rows


@house
def figure(dataset: xr.Dataset) -> Figure:
    """The four ratios, one panel for each activation."""
    names = [str(name) for name in dataset.activation.values]
    canvas, axes = sheet(len(names), height=3.5)
    for axis, name in zip(axes, names, strict=True):
        axis.axhline(0.0, color=MUTED, lw=0.7)
        for k, letter in enumerate("RSTU"):
            one = dataset.sel(activation=name, tensor=letter)
            axis.plot(one.layer, one.ratio, color=COLORS[k], label=f"{letter}K/Θ³")
            form = one.deep_predicted * one.layer
            if letter != "U":
                axis.plot(one.layer, form, color=COLORS[k], lw=0.8, ls=(0, (3, 2)))
            points(axis, one.layer, one.measured, one.measured_sem, color=COLORS[k])
        axis.set_title(f"{name}, n = {dataset.attrs['width']}")
        layers_below(axis)
    axes[0].legend(loc="best", ncols=2)
    return canvas
