r"""The differential of the NTK: its two correlations with the output, layer by layer.

Shown: $P/n\Theta^2$ and $Q/n\Theta^2$, recursions as lines, ensembles as points, deep forms broken.
$$\frac P{n\Theta^2}\to-\frac13\frac{2-p_\perp}{5-p_\perp}\frac\ell n,\qquad
  \frac Q{n\Theta^2}\to\frac1{(5-p_\perp)^2}\Big[1-p_\perp-\frac{\tilde\lambda_b}X\Big]\frac\ell n,\qquad
  \frac Q{n\Theta^2}=\frac{A_4}{6A_2}\frac{\tilde\lambda_WK}{\tilde\lambda_b+\tilde\lambda_WA_2K}
  \frac{\ell^2-1}{\ell n}$$
the last for scale-invariant activations, whose $P$ is 0.
Look for: straight lines; the sign of $Q$ tells the classes apart.

Source: PDLT (11.55)-(11.56), (11.79)-(11.81), (11.98)-(11.102): F11-1 and F11-2.
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

TITLE = "How the NTK begins to move"
SOURCE = "PDLT (11.55)–(11.56), (11.79), (11.98)–(11.102)"
TEXT = (
    "P and Q measure how the output correlates with the first differential of the NTK: without them a "
    "network learns no features. Both grow with ℓ/n. For tanh and sin both are negative, with limits "
    "−1/12, and −1/24 and −1/32 of ℓ/n; for scale-invariant activations P vanishes to leading order "
    "and Q is known exactly. Points are ensembles at the width stated, which know higher orders too."
)


@dataclass(frozen=True)
class Config:
    """What is drawn.

    Args:
        activations: With a critical initialisation, continuous.
        depth: $L$.
        deep: Layers of the recursion that is compared with the deep form.
        width: Of the measured networks.
        networks: In each ensemble.
        seed: Same seed, same numbers.
    """

    activations: tuple[str, ...] = ("tanh", "sin", "relu", "leaky_relu(0.2)", "linear")
    depth: int = 6
    deep: int = 10_000
    width: int = 96
    networks: int = 3_000
    seed: int = 0

    @classmethod
    def small(cls) -> Config:
        """Two activations, small ensembles."""
        return cls(activations=("tanh", "relu"), depth=3, deep=2_000, width=24, networks=800)


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
            "tensor": ["P", "Q"],
            "layer": np.arange(1, config.depth + 1),
        },
        {**attributes(config), "deep_layers": config.deep},
    )


def _row_of(config: Config, name: str) -> dict[str, list]:
    def network(depth: int) -> MLP:
        net = MLP(depth, config.width, name, input_dim=1, output_dim=2).at_criticality()
        return net.with_equivalent_learning_rates()

    net = network(config.depth)
    flow = single_input_flow(net, K1=1.0)
    far = single_input_flow(network(config.deep), K1=1.0)
    known = asymptotics(name)
    line = known.universality == "scale-invariant"
    forms = leading_forms(known, config.deep, kernel=1.0 if line else None, depth=config.deep)
    found = measure(net, [[net.C_W[0] ** -0.5]], networks=config.networks, seed=config.seed,
                    observables=["dntk_P", "dntk_Q"], progress=False)  # fmt: skip
    out: dict[str, list] = {key: [] for key in ("ratio", "measured", "measured_sem", "deep",
                                                "deep_predicted")}  # fmt: skip
    unit = flow.Theta[:, 0] ** 2  # type: ignore[index]
    for letter in "PQ":
        out["ratio"].append(getattr(flow, letter)[:, 0] / unit)
        out["measured"].append(found[f"dntk_{letter}"].values.ravel() / unit)
        out["measured_sem"].append(found[f"dntk_{letter}_sem"].values.ravel() / unit)
        square = far.Theta[-1, 0] ** 2  # type: ignore[index]
        out["deep"].append(getattr(far, letter)[-1, 0] / square / config.deep)
        predicted = forms[letter] / forms["Theta"] ** 2 / config.deep
        out["deep_predicted"].append(float(predicted))
    return out


def numbers(dataset: xr.Dataset) -> list[Number]:
    """Deep recursions against deep forms; ensembles against the recursion in the last layer."""
    rows, layers = [], dataset.attrs["deep_layers"]
    slow = 0.15 * np.log(layers) / layers
    last = dataset.isel(layer=-1)
    beyond = 3 * dataset.attrs["depth"] / dataset.attrs["width"]
    for name in map(str, dataset.activation.values):
        scale = float(np.abs(last.ratio.sel(activation=name)).max())
        for letter in "PQ":
            one = last.sel(activation=name, tensor=letter)
            rows.append(Number(f"{letter}/nΘ² over ℓ/n, {name}, deep", float(one.deep_predicted),
                               float(one.deep), 0.0, slow))  # fmt: skip
            rows.append(Number(f"{letter}/Θ², {name}, last layer measured", float(one.ratio),
                               float(one.measured), float(one.measured_sem), beyond * scale)
                        )  # fmt: skip
    return rows


@house
def figure(dataset: xr.Dataset) -> Figure:
    """P and Q, one panel for each activation."""
    names = [str(name) for name in dataset.activation.values]
    canvas, axes = sheet(len(names), height=3.2)
    for axis, name in zip(axes, names, strict=True):
        axis.axhline(0.0, color=MUTED, lw=0.7)
        for k, letter in enumerate("PQ"):
            one = dataset.sel(activation=name, tensor=letter)
            axis.plot(one.layer, one.ratio, color=COLORS[k], label=f"{letter}/Θ²")
            axis.plot(one.layer, one.deep_predicted * one.layer, color=COLORS[k], lw=0.8,
                      ls=(0, (3, 2)))  # fmt: skip
            points(axis, one.layer, one.measured, one.measured_sem, color=COLORS[k])
        axis.set_title(f"{name}, n = {dataset.attrs['width']}")
        layers_below(axis)
    axes[0].legend(loc="best")
    return canvas
