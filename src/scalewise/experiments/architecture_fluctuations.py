r"""How much finite networks of each kind differ from one another, and what depth and pooling do to it.

Two networks of width $n$ that are drawn alike have metrics and NTKs that differ by
$$\frac{\mathrm{Var}[\widehat G]}{K^2}=\frac1n\frac V{K^2},\qquad
  \frac{\mathrm{Var}[\widehat H]}{\Theta^2}=\frac1n\frac A{\Theta^2}$$
to first order. Shown are these coefficients of the read-out of one input: lines are the theory, points are drawn
networks of two widths, whose coefficients contain the next orders.

Claims: extrapolated from both widths to 1/n = 0, points are on the lines. A read-out of all positions averages over
those that have little in common, and fluctuates less; behind a pool networks differ as fully connected ones do.

Source: PDLT (4.119), (8.97); of any layers derived.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator

from scalewise.experiments._form import Folder, Progress, each, settings
from scalewise.experiments._look import (
    COLORS,
    Number,
    Table,
    attributes,
    layers_below,
    log_axes,
    panels,
    points,
)
from scalewise.experiments._twelve_networks import RATES, RING, STREAM
from scalewise.nets import measure
from scalewise.networks import Network
from scalewise.networks.layers import Attention, Dense, Flatten, GlobalAvgPool, LayerNorm, Skip
from scalewise.sweeps import sweep
from scalewise.theory import predict

TITLE = "How much finite networks differ, by kind and depth"
TEXT = (
    "Relative variances over networks of the metric (left) and the NTK (middle), times the width, against the "
    "number of hidden layers. Lines are the theory, open points networks of the smaller width, full ones of the "
    "larger. Right: the same convolutions before a pool over all positions, or before a read-out of all of them, "
    "which averages over positions that have little in common and so fluctuates less."
)
NAMES = {"V": ("four_point_vertex", "kernel"), "A": ("ntk_A", "ntk")}
POSITIONS, FEATURES = 6, 3
POOL, FLAT = "convolution", "convolution, no pool"


def _network(rates: dict[str, Any], *layers: Any, places: tuple[int, ...] = ()) -> Network:
    return Network(*layers, Dense(1), input_shape=(*places, FEATURES), width=16, **rates)


def _rings(depth: int, *behind: Any) -> Network:
    return _network(RATES, *(RING, "tanh") * depth, *behind, places=(POSITIONS,))


def _attending(depth: int) -> Network:
    blocks = (Skip(Attention(size=4)),) * depth
    return _network(STREAM, Dense(), *blocks, GlobalAvgPool(), places=(POSITIONS,))


# By kind: from a number of hidden layers, or blocks, to a network.
KINDS: dict[str, Callable[[int], Network]] = {
    "MLP": lambda depth: _network(RATES, *(Dense(), "tanh") * depth),
    POOL: lambda depth: _rings(depth, GlobalAvgPool()),
    "residual": lambda depth: _network(
        STREAM, Dense(), *(Skip("tanh", Dense()),) * (depth - 1), "tanh"
    ),
    "LayerNorm": lambda depth: _network(RATES, *(Dense(), LayerNorm(0.1), "tanh") * depth),
    "attention": _attending,
    FLAT: lambda depth: _rings(depth, Flatten()),
}


# Small: two kinds, seconds.
@settings(kinds=("MLP", POOL, FLAT), depths=(1, 2), networks=400)
class Config:
    """Settings.

    Args:
        kinds: Of `KINDS`.
        depths: Numbers of hidden layers, or of blocks of attention.
        widths: Two, ascending; multiples of 4, the size of a head.
        networks: Drawn at each width.
        seed: With kind, depth and width, that of an ensemble.
    """

    kinds: tuple[str, ...] = ("MLP", POOL, "residual", FLAT)
    depths: tuple[int, ...] = (1, 2, 3)
    widths: tuple[int, int] = (16, 64)
    networks: int = 1000
    seed: int = 0

    @classmethod
    def paper(cls) -> Config:
        """All kinds, up to four layers, 4000 networks of each width: minutes on one core."""
        return cls(kinds=tuple(KINDS), depths=(1, 2, 3, 4), networks=4000)


def run(
    config: Config, *, store: Folder = None, progress: Progress = None, client: Any = None
) -> xr.Dataset:
    r"""Predict and draw every network.

    Kept and counted are kinds at a depth.

    Returns:
        Over (kind, depth, letter), letters V and A: ``predicted``, $V/K^2$ and $A/\Theta^2$ of the read-out, with
        ``predicted_error``; ``extrapolated``, what a straight line in 1/n through both widths has at 0, with
        ``extrapolated_sem``. With a width besides: ``measured``, with ``measured_sem``.
    """
    found = sweep(
        partial(_cell, config=config),
        {"kind": list(config.kinds), "depth": list(config.depths)},
        store=store,
        progress=progress,
        client=client,
    )
    return found.load().reset_coords(drop=True).assign_attrs(attributes(config))


def _cell(kind: str, depth: int, *, config: Config) -> xr.Dataset:
    net = KINDS[kind](depth)
    x = np.random.default_rng(5).normal(size=(1, *net.input_shape))
    names = [name for pair in NAMES.values() for name in pair]
    theory = predict(net, x, observables=names, layers=net.depth).squeeze()
    values: dict[str, list[Any]] = {"predicted": [], "predicted_error": []}
    values |= {"measured": [], "measured_sem": []}
    tensors = [tensor for tensor, _ in NAMES.values()]
    drawn = [
        measure(
            net.at_width(n),
            x,
            networks=config.networks,
            observables=tensors,
            progress=False,
            seed=crc32(f"{kind} {depth} {n} {config.seed}".encode()),
        )
        .isel(layer=-1)
        .squeeze()
        for n in config.widths
    ]
    for tensor, mean in NAMES.values():
        unit = float(theory[mean]) ** 2
        values["predicted"].append(float(theory[tensor]) / unit)
        own = float(theory[f"{tensor}_error"]) / float(theory[tensor])
        unsure = 2 * float(theory.get(f"{mean}_error", 0.0)) / float(theory[mean])
        values["predicted_error"].append(values["predicted"][-1] * np.hypot(own, unsure))
        for suffix in ("", "_sem"):
            at = [float(one[f"{tensor}{suffix}"]) / unit for one in drawn]
            values[f"measured{suffix}"].append(at)
    n, measured, sem = (
        np.array(v) for v in (config.widths, values["measured"], values["measured_sem"])
    )
    share = np.array([-n[0], n[1]]) / (n[1] - n[0])
    values["extrapolated"] = list(measured @ share)
    values["extrapolated_sem"] = list(np.sqrt(sem**2 @ share**2))
    dims = {
        name: ("letter", "width") if name.startswith("measured") else ("letter",) for name in values
    }
    coords = {"letter": list(NAMES), "width": list(config.widths)}
    return xr.Dataset({name: (dims[name], value) for name, value in values.items()}, coords)


def numbers(dataset: xr.Dataset) -> list[Number]:
    """Each coefficient beside what drawn networks have at 1/n = 0, and what the next order may leave of it."""
    found = []
    left = 4.0 / np.prod(dataset.attrs["widths"])
    for kind, depth, letter, one in each(dataset, "kind", "depth", "letter"):
        value, sem = (
            float(one.predicted),
            float(np.hypot(one.extrapolated_sem, one.predicted_error)),
        )
        allowance = left * depth**2 * value
        what = f"{letter} of {kind}, {depth} hidden"
        found.append(Number(what, value, float(one.extrapolated), sem, allowance))
    return found


def tables(dataset: xr.Dataset) -> list[Table]:
    """Coefficients by kind and depth."""
    found = []
    depths = dataset.depth.values.tolist()
    head = ("", *(f"{depth} hidden" for depth in depths))
    for letter, called in (("V", "V/K²"), ("A", "A/Θ²")):
        rows = []
        for kind, one in each(dataset.sel(letter=letter), "kind"):
            told = zip(
                one.predicted.values,
                one.extrapolated.values,
                one.extrapolated_sem.values,
                strict=True,
            )
            rows.append((kind, *(f"{p:.3g} ({m:.3g} ± {s:.2g})" for p, m, s in told)))
        found.append(Table.of(f"{called} predicted, and drawn at 1/n = 0", head, rows))
    return found


@panels(3, height=3.6)
def figure(dataset: xr.Dataset, left: Axes, middle: Axes, right: Axes) -> None:
    """The metric, the NTK, and pooling."""
    colors = dict(zip(KINDS, COLORS, strict=True))
    for axis, letter, title in ((left, "V", "V/K²"), (middle, "A", "A/Θ²")):
        for kind, one in each(dataset.sel(letter=letter), "kind"):
            if kind != FLAT:
                _line(axis, one, colors[kind], kind)
        axis.set_title(f"{title}, n times relative variances")
    for letter, style in zip(NAMES, ("-", (0, (4, 2))), strict=True):
        for kind, one in each(dataset.sel(letter=letter), "kind"):
            if kind in (POOL, FLAT):
                label = f"{letter}, {'pooled' if kind == POOL else 'all positions'}"
                _line(right, one, colors[kind], label, style)
    right.set_title("convolutions with a pool and without")
    right.set_ylim(bottom=0)
    for axis in (left, middle):
        log_axes(axis, "y")
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    for axis in (left, middle, right):
        layers_below(axis)
        axis.set_xlabel("hidden layers")
    middle.legend(loc="lower right")
    right.legend(loc="upper left")


def _line(axis: Axes, one: xr.Dataset, color: str, label: str, style: Any = "-") -> None:
    """The theory, and points of both widths beside each other."""
    axis.plot(one.depth, one.predicted, color=color, label=label, ls=style)
    for k, (_, at) in enumerate(each(one, "width")):
        points(axis, one.depth + 0.06 * (2 * k - 1), at.measured, at.measured_sem, color=color)
        if k == 0:
            axis.lines[-1].set(markerfacecolor="white", markeredgewidth=1.0)
