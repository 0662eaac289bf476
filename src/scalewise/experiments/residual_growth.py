r"""Skip connections: how fast residual networks grow noisy, and which skip a depth wants.

Shown: $\nu(\gamma)$ in $V^{(L)}/nG^2\simeq\nu(\gamma)L/n$ against the strength $\gamma$ of the skip, once
with the whole memory of $\sigma^2$ and once as printed, where only its part quadratic in $z$ is
remembered; points are slopes of the recursion of deep networks, and of ensembles. Then the $\gamma^\star$
at which an aspect ratio is the optimal one.
Look for: of the tanh and linear class both agree; of ReLU the printed curve falls short of the networks.

Source: PDLT (B.20)-(B.36): table D and the second half of plot E; the whole memory is derived.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.experiments._form import each, settings
from scalewise.experiments._look import COLORS, Number, Table, attributes, panels, points
from scalewise.nets import measure
from scalewise.networks import Network, ResidualMLP
from scalewise.theory import predict
from scalewise.theory.residual import (
    gamma_star,
    printed_gamma_star,
    printed_residual_growth,
    residual_aspect_ratio,
    residual_growth,
)

TITLE = "Skip connections and noise"
TEXT = (
    "A skip connection of strength γ keeps networks alike: ν(γ) falls to 0 at γ = 1. The printed "
    "formula (broken) lets the noise of a layer be remembered through z² only. For linear and tanh "
    "that is all there is; for ReLU the odd part of σ² is remembered too, and networks (points) follow "
    "the whole sum (solid): 5.44 instead of 2.25 at γ² = ½. Right: the skip that makes L/n optimal."
)


# Small: few points, small ensembles.
@settings(
    activations=("linear", "relu"),
    squares=(0.0, 0.5),
    depth=20,
    width=64,
    measured_depth=6,
    networks=1_500,
    count=6,
)
class Config:
    r"""Settings.

    Args:
        activations: With a critical initialisation.
        squares: $\gamma^2$ of the table.
        depth: Layers of the recursion whose slope is taken.
        outputs: $n_L$ of the optimal aspect ratio.
        width: Of the measured networks.
        measured_depth: Their layers.
        networks: Networks for each measured point.
        count: Points of a curve.
        seed: Of the ensembles.
    """

    activations: tuple[str, ...] = ("linear", "relu", "tanh")
    squares: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 0.9)
    depth: int = 60
    outputs: int = 10
    width: int = 1_024
    measured_depth: int = 24
    networks: int = 3_000
    count: int = 60
    seed: int = 0


def run(config: Config) -> xr.Dataset:
    r"""Formulas, slopes of the recursion, and ensembles.

    Returns:
        Over (activation, square): ``nu``, ``nu_printed``, ``r_star``, ``nu_recursion`` (nan where the
        class is only reached by depths beyond `depth`), ``C_W``. Over (activation, curve_square):
        ``nu_curve``, ``printed_curve``. Over (activation, relative_r): ``gamma_star`` and
        ``gamma_star_printed``. Over activation: ``vertex`` $V/nG^2$ at $\gamma^2=\frac12$, measured,
        with ``vertex_sem`` and ``vertex_predicted``.
    """
    curve = np.linspace(0.0, 0.99, config.count)
    relative = np.linspace(1.0, 6.0, config.count)
    data: dict[str, list] = {}
    for name in config.activations:
        row = _formulas(config, name, np.array(config.squares))
        row["nu_curve"] = [residual_growth(name, g) for g in np.sqrt(curve)]
        row["printed_curve"] = [printed_residual_growth(name, g) for g in np.sqrt(curve)]
        first = residual_aspect_ratio(name, 0.0, config.outputs)
        row["gamma_star"] = [gamma_star(name, q * first, config.outputs) for q in relative]
        row["gamma_star_printed"] = [
            printed_gamma_star(name, q * first, config.outputs) for q in relative
        ]
        row.update(_measured(config, name))
        for key, value in row.items():
            data.setdefault(key, []).append(value)
    dims = {"nu_curve": ("curve_square",), "printed_curve": ("curve_square",)}
    dims |= {"gamma_star": ("relative_r",), "gamma_star_printed": ("relative_r",)}
    dims |= dict.fromkeys(("vertex", "vertex_sem", "vertex_predicted"), ())
    return xr.Dataset(
        {key: (("activation", *dims.get(key, ("square",))), value) for key, value in data.items()},
        {
            "activation": list(config.activations),
            "square": list(config.squares),
            "curve_square": curve,
            "relative_r": relative,
        },
        attributes(config),
    )


def _network(config: Config, name: str, gamma: float, depth: int) -> Network:
    n = config.width
    skips = [0.0] + [gamma] * (depth - 1)
    net = ResidualMLP(depth, n, name, gamma=skips, input_dim=1, output_dim=n)
    return net.at_criticality()


def _input(net: Network) -> np.ndarray:
    """Its kernel in the first layer is 1."""
    return np.array([[net.C_W[0] ** -0.5]])


def _predicted(net: Network) -> np.ndarray:
    """$V/K^2$ at every layer."""
    found = predict(net, _input(net), observables=["kernel", "four_point_vertex"]).squeeze()
    return (found.four_point_vertex / found.kernel**2).values


def _formulas(config: Config, name: str, squares: np.ndarray) -> dict[str, object]:
    slopes, variances = [], []
    for gamma in np.sqrt(squares):
        net = _network(config, name, float(gamma), config.depth)
        variances.append(net.C_W[1])
        slope = np.nan  # kernels that fall reach their class in thousands of layers only
        if net.activation.slopes is not None:
            slope = np.diff(_predicted(net))[-1]
        slopes.append(slope)
    return {
        "nu": [residual_growth(name, g) for g in np.sqrt(squares)],
        "nu_printed": [printed_residual_growth(name, g) for g in np.sqrt(squares)],
        "r_star": [residual_aspect_ratio(name, g, config.outputs) for g in np.sqrt(squares)],
        "nu_recursion": slopes,
        "C_W": variances,
    }


def _measured(config: Config, name: str) -> dict[str, float]:
    r"""$V/nG^2$ of the last layer of an ensemble at $\gamma^2=\frac12$."""
    net = _network(config, name, 0.5**0.5, config.measured_depth)
    found = (
        measure(
            net,
            _input(net),
            networks=config.networks,
            seed=config.seed,
            progress=False,
            observables=["kernel", "four_point_vertex"],
        )
        .isel(layer=-1)
        .squeeze()
    )
    G, variance = float(found.kernel), float(found.four_point_vertex) / config.width
    ratio = variance / G**2
    spread = np.hypot(
        float(found.four_point_vertex_sem) / config.width / G**2,
        2 * ratio * float(found.kernel_sem) / G,
    )
    return {
        "vertex": ratio,
        "vertex_sem": float(spread),
        "vertex_predicted": float(_predicted(net)[-1] / config.width),
    }


def numbers(dataset: xr.Dataset) -> list[Number]:
    r"""$\nu$ at $\gamma^2=\frac12$: the sum against the recursion; recursion against ensembles."""
    rows, depth = [], dataset.attrs["depth"]
    for name, one in each(dataset, "activation"):
        half = one.sel(square=0.5)
        if np.isfinite(half.nu_recursion):
            what, left = f"ν of {name}, γ² = ½: sum, recursion", 30 * 0.5 ** (depth / 2)
            rows.append(Number.of(half, what, "nu", "nu_recursion", left))
        what = f"V/nG² of {name}, γ² = ½, ensemble"
        next_order = 1.5 * float(one.vertex_predicted) ** 2
        rows.append(Number.of(one, what, "vertex_predicted", "vertex", next_order))
    return rows


def tables(dataset: xr.Dataset) -> list[Table]:
    """The skip by aspect ratio: table D."""
    rows = []
    for name, one in each(dataset, "activation"):
        rows.append((f"{name}: C_W", *map(float, one.C_W)))
        rows.append((f"{name}: ν", *map(float, one.nu)))
        rows.append((f"{name}: ν printed", *map(float, one.nu_printed)))
        rows.append((f"{name}: r*", *map(float, one.r_star)))
    head = ("", *(f"γ² = {g:g}" for g in dataset.square.values))
    return [Table.of(f"Residual networks, {dataset.attrs['outputs']} outputs", head, rows)]


@panels(2, height=3.7)
def figure(dataset: xr.Dataset, left: Axes, right: Axes) -> None:
    """Growth against the skip; the skip against the aspect ratio."""
    broken = (0, (4, 2))
    for k, (name, one) in enumerate(each(dataset, "activation")):
        left.plot(one.curve_square, one.nu_curve, color=COLORS[k], label=name)
        left.plot(one.curve_square, one.printed_curve, color=COLORS[k], ls=broken, lw=1.0)
        if np.isfinite(one.nu_recursion).all():
            left.plot(one.square, one.nu_recursion, "o", ms=4, color=COLORS[k])
        right.plot(one.relative_r, one.gamma_star**2, color=COLORS[k], label=name)
        right.plot(one.relative_r, one.gamma_star_printed**2, color=COLORS[k], ls=broken, lw=1.0)
        half = one.sel(square=0.5)
        # The measured vertex in units of its recursion, put on the curve.
        unit = float(half.nu / one.vertex_predicted)
        points(
            left, [0.515], [unit * one.vertex], [unit * one.vertex_sem], color=COLORS[(k + 3) % 6]
        )
    left.set(xlabel="γ²", ylim=(0, None), title="ν(γ): whole sum (solid), printed (broken)")
    left.legend(loc="upper right")
    right.set(
        xlabel="r / r*(γ = 0)", ylim=(0, 1), title="γ*² that makes the aspect ratio r optimal"
    )
    right.legend(loc="lower right")
