r"""How tensors of finite width grow with depth: recursions, ensembles, and the forms they tend to.

For one input with $K^{(1)}=1$ and rates that are equivalent across layers. A tensor of the differentials of the
NTK is compared in units of $\Theta^{t}K^{k}$, in which it is a number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from scalewise.experiments._form import each
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
from scalewise.networks import MLP, Network
from scalewise.theory.deep import asymptotics, leading_forms
from scalewise.theory.single import single_input_flow


@dataclass(frozen=True)
class Settings:
    """Settings of experiments on growth.

    Args:
        activations: With a critical initialisation.
        depth: $L$.
        deep: Layers of the recursion that is compared with the deep form.
        width: Of the measured networks.
        networks: Networks per ensemble.
        seed: Random seed.
    """

    activations: tuple[str, ...] = ("tanh", "linear")
    depth: int = 6
    deep: int = 10_000
    width: int = 64
    networks: int = 1_500
    seed: int = 0


@dataclass(frozen=True)
class TensorGrowth:
    r"""The tensors of one experiment.

    Args:
        observables: Their names by their letters.
        unit: $\Theta^tK^k$ from $\Theta$ and $K$.
        over: How a ratio is written behind the letter, such as ``"/Θ²"``.
        falling: Letters whose deep form does not grow with the layer, and is not drawn as a line.
    """

    observables: dict[str, str]
    unit: Callable[[Any, Any], Any]
    over: str
    falling: str = ""

    def run(self, config: Settings) -> xr.Dataset:
        r"""Predict and measure.

        Args:
            config: The settings.

        Returns:
            Over (activation, tensor, layer): ``ratio``, dimensionless coefficient of $1/n$, ``measured``,
            ``measured_sem``; over (activation, tensor): ``deep`` and ``deep_predicted``, the ratio over
            $\ell$ of a deep network.
        """
        rows = [self._of_activation(config, name) for name in config.activations]
        over = ("activation", "tensor")
        return xr.Dataset(
            {
                key: ((*over, "layer")[: np.ndim(rows[0][key]) + 1], [row[key] for row in rows])
                for key in rows[0]
            },
            {
                "activation": list(config.activations),
                "tensor": list(self.observables),
                "layer": np.arange(1, config.depth + 1),
            },
            {**attributes(config), "deep_layers": config.deep},
        )

    def _of_activation(self, config: Settings, name: str) -> dict[str, list]:
        net, deep = (_network(config, name, depth) for depth in (config.depth, config.deep))
        flow, far = (single_input_flow(each, K1=1.0) for each in (net, deep))
        known = asymptotics(name)
        line = known.universality == "scale-invariant"
        forms = leading_forms(known, config.deep, kernel=1.0 if line else None, depth=config.deep)
        found = measure(
            net,
            [[net.C_W[0] ** -0.5]],
            networks=config.networks,
            seed=config.seed,
            observables=list(self.observables.values()),
            progress=False,
        )
        unit = self.unit(flow.Theta, flow.K)[:, 0]
        far_unit = config.deep * self.unit(far.Theta, far.K)[-1, 0]
        form_unit = config.deep * self.unit(forms["Theta"], forms["K"])
        rows = self.observables.items()
        return {
            "ratio": [getattr(flow, k)[:, 0] / unit for k, _ in rows],
            "measured": [found[row].values.ravel() / unit for _, row in rows],
            "measured_sem": [found[f"{row}_sem"].values.ravel() / unit for _, row in rows],
            "deep": [getattr(far, k)[-1, 0] / far_unit for k, _ in rows],
            "deep_predicted": [float(forms[k] / form_unit) for k, _ in rows],
        }

    def numbers(self, dataset: xr.Dataset) -> list[Number]:
        """Deep recursions against deep forms; ensembles against the recursion in the last layer."""
        layers = dataset.attrs["deep_layers"]
        slow = 0.15 * np.log(layers) / layers
        # With one hidden layer nothing lies beyond the leading order.
        beyond = 3 * (dataset.attrs["depth"] - 2) / dataset.attrs["width"]
        rows = []
        for name, one in each(dataset.isel(layer=-1), "activation"):
            allowance = beyond * float(np.abs(one.ratio).max())
            for letter, at in each(one, "tensor"):
                deep = f"{letter}{self.over.replace('/', '/n')} over ℓ/n, {name}, deep"
                rows.append(Number.of(at, deep, "deep_predicted", "deep", slow))
                shallow = f"{letter}{self.over}, {name}, last layer measured"
                rows.append(Number.of(at, shallow, "ratio", "measured", allowance))
        return rows

    @house
    def figure(self, dataset: xr.Dataset) -> Figure:
        """All tensors, one panel for each activation."""
        canvas, axes = sheet(dataset.sizes["activation"], height=3.4)
        for axis, (name, part) in zip(axes, each(dataset, "activation"), strict=True):
            axis.axhline(0.0, color=MUTED, lw=0.7)
            for color, letter in zip(COLORS, self.observables, strict=False):
                at = part.sel(tensor=letter)
                axis.plot(at.layer, at.ratio, color=color, label=f"{letter}{self.over}")
                if letter not in self.falling:
                    form = at.deep_predicted * at.layer
                    axis.plot(at.layer, form, color=color, lw=0.8, ls=(0, (3, 2)))
                points(axis, at.layer, at.measured, at.measured_sem, color=color)
            axis.set_title(f"{name}, n = {dataset.attrs['width']}")
            layers_below(axis)
        axes[0].legend(loc="best", ncols=(len(self.observables) + 1) // 2)
        return canvas


def _network(config: Settings, name: str, depth: int) -> Network:
    net = MLP(depth, config.width, name, input_dim=1, output_dim=2).at_criticality()
    return net.with_equivalent_learning_rates()
