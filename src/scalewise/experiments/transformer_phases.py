r"""Positions of a sequence in a deep transformer: norms behind sums, and norms before branches.

Shown: for a block with norms behind its sums, the correlation $\rho^\star$ of two positions to which it leads, over
the strength $a$ of attention and the variance $w$ with which the hidden layer is drawn. At $\rho=1$ attention of
any kind averages, so a small difference between positions is multiplied by
$$\chi=\frac{1+g}{(1+a^2)(1+\Delta)},\qquad
  g=w\langle\sigma'\sigma'\rangle_w,\quad\Delta=\langle\sigma\sigma\rangle_w;$$
the line is $\chi=1$. Then $1-\rho$ against the depth: curves of infinitely wide networks, points of drawn ones.
Look for: above the line $\rho^\star=1$, ranks collapse, and with norms behind the sums as $\chi^\ell$. With norms
before the branches the size of the trunk grows by $a^2+\Delta$ with each block, and $1-\rho$ falls by a power of
the depth, $p=1-g/(a^2+\Delta)$.

Source: PDLT (5.50); Dong, Cordonnier and Loukas, arXiv:2103.03404, for collapse; factors derived.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.critical import susceptibilities as of_activation
from scalewise.experiments._form import computed, each, settings
from scalewise.experiments._look import (
    COLORS,
    INK,
    MUTED,
    Number,
    attributes,
    log_axes,
    panels,
    points,
)
from scalewise.gaussian import single_moment
from scalewise.nets import measure
from scalewise.networks import Network
from scalewise.networks.layers import Attention, Dense, GlobalAvgPool, RMSNorm, Skip
from scalewise.theory import predict
from scalewise.theory.blocks import susceptibilities

TITLE = "Transformers: where positions become alike"
TEXT = (
    "Attention averages positions, and a deep stack of it makes all of them alike unless the layers between "
    "drive them apart. Left: the correlation of two positions that blocks with norms behind their sums lead to; "
    "above the line it is 1. Right: how far from 1 it is at each depth. With norms behind the sums (post-norm) it "
    "falls by the same factor with each block, with norms before the branches (pre-norm) by a power of the size "
    "that signals have grown to."
)
PLACES = ("post-norm", "pre-norm")


@settings(
    attention=(0.3, 1.5),
    hidden=(1.0, 4.0, 16.0),
    blocks=12,
    drawn=(2,),
    width=64,
    networks=40,
)
class Config:
    r"""Settings.

    Args:
        activation: Of the hidden layer between two dense ones; odd, so that there is chaos.
        attention: $a$, the $C_W$ of the random layers of attention.
        hidden: $w$, the $C_W$ of the layer before the activation.
        positions: Of a sequence.
        strength: $a$ of the networks on the right.
        spread: $w$ of the networks on the right.
        size: Of a head there.
        blocks: Of the deepest there.
        deep: Blocks of networks whose positions are nearly alike from the beginning.
        drawn: Depths of drawn networks, in blocks.
        width: Their width.
        networks: How many of each.
        seed: Of inputs and networks.
    """

    activation: str = "tanh"
    attention: tuple[float, ...] = tuple(np.linspace(0.1, 1.6, 7).round(3).tolist())
    hidden: tuple[float, ...] = tuple(np.geomspace(1.0, 32.0, 9).round(3).tolist())
    positions: int = 4
    strength: float = 0.8
    spread: float = 3.0
    size: int = 8
    blocks: int = 24
    deep: int = 100
    drawn: tuple[int, ...] = (2, 4, 8)
    width: int = 128
    networks: int = 60
    seed: int = 0


def block(config: Any, place: str, attention: Attention, hidden: float) -> tuple[Any, ...]:
    """The layers of one block, with norms behind its sums or before its branches."""
    dense = (Dense(C_W=hidden), config.activation, Dense())
    if place == PLACES[0]:
        return Skip(attention), RMSNorm(), Skip(*dense), RMSNorm()
    return Skip(RMSNorm(), attention), Skip(RMSNorm(), *dense)


def run(config: Config) -> xr.Dataset:
    r"""The plane of $a$ and $w$; correlations by depth, of infinitely wide networks and of drawn ones.

    Returns:
        Over (attention, hidden): ``between``, $\rho^\star$, ``factor``, of a block on what is left of the way, and
        ``collapsing``, $\chi$ by the formula. Over hidden: ``line``, $a$ at which that is 1. Over (place, block):
        ``apart``, $1-\rho$. Over (place, depth): ``measured`` with ``measured_sem``. ``rate`` and ``rate_found``
        of post-norm; ``power`` and ``power_found`` of pre-norm, by which $1-\rho$ falls as the size grows.
    """
    plane = computed(_cell, {"attention": config.attention, "hidden": config.hidden}, config=config)
    gain, added = _gains(config.activation, np.array(config.hidden))
    plane["line"] = ("hidden", np.sqrt(np.maximum((1 + gain) / (1 + added) - 1, 0.0)))
    curves = computed(_curve, {"place": PLACES}, config=config)
    drawn = computed(_drawn, {"place": PLACES, "depth": config.drawn}, config=config)
    found = xr.merge([plane, curves, drawn]).assign(_rates(config, curves))
    return found.assign_attrs(attributes(config))


def _gains(activation: str, hidden: Any) -> tuple[np.ndarray, np.ndarray]:
    r"""$g$ and $\Delta$."""
    square = single_moment(activation, hidden, (0, 0)).value
    return hidden * of_activation(activation, hidden, 1.0)[1], np.asarray(square)


def _cell(attention: float, hidden: float, config: Config) -> xr.Dataset:
    layers = block(config, PLACES[0], Attention(heads=4, C_W=attention), hidden)
    found = susceptibilities(*layers, input_shape=(config.positions, 16))
    gain, added = _gains(config.activation, np.array([hidden]))
    collapsing = float((1 + gain[0]) / (1 + added[0]) / (1 + attention**2))
    return xr.Dataset(
        {
            "between": ((), found.between),
            "factor": ((), found.chi_between),
            "collapsing": ((), collapsing),
        }
    )


def _of(config: Config, place: str, count: int) -> Network:
    own = Attention(size=config.size, C_W=config.strength)
    end = (RMSNorm(), GlobalAvgPool(), Dense(1))
    layers = (Dense(), *block(config, place, own, config.spread) * count, *end)
    return Network(*layers, input_shape=(config.positions, 16), width=config.width)


def _input(config: Config) -> np.ndarray:
    """A sequence whose kernel in the first layer is 1 at every position."""
    x = np.random.default_rng(config.seed).normal(size=(1, config.positions, 16))
    return x * (4 / np.linalg.norm(x, axis=-1, keepdims=True))


def _curve(place: str, config: Config) -> xr.Dataset:
    net = _of(config, place, config.blocks)
    ends = range(1, net.depth, (net.depth - 2) // config.blocks)
    found = predict(net, _input(config), layers=ends, observables=["kernel"]).kernel.values[:, 0, 0]
    own = np.sqrt(np.einsum("lpp->lp", found))
    correlation = (found / own[:, :, None] / own[:, None]).sum(axis=(1, 2))
    return xr.Dataset(
        {"apart": ("block", 1 - _between(correlation / config.positions**2, config.positions))},
        {"block": np.arange(config.blocks + 1)},
    )


def _between(mean: Any, positions: int) -> Any:
    """The mean correlation of different positions, from that of all pairs."""
    return (positions * mean - 1) / (positions - 1)


def _drawn(place: str, depth: int, config: Config) -> xr.Dataset:
    """The read-out of a norm and an average over positions is the mean correlation of all pairs."""
    net = _of(config, place, depth)
    found = (
        measure(
            net,
            _input(config),
            networks=config.networks,
            seed=config.seed,
            progress=False,
            observables=["kernel"],
        )
        .isel(layer=-1)
        .squeeze()
    )
    P = config.positions
    return xr.Dataset(
        {
            "measured": ((), 1 - _between(float(found.kernel), P)),
            "measured_sem": ((), float(found.kernel_sem) * P / (P - 1)),
        }
    )


def _rates(config: Config, curves: xr.Dataset) -> dict[str, float]:
    """Effect of blocks on positions that are nearly alike, by susceptibilities and read off the curves."""
    own, shape = Attention(heads=4, C_W=config.strength), (config.positions, 16)
    post = susceptibilities(*block(config, PLACES[0], own, config.spread), input_shape=shape)
    large = 1e3
    pre = susceptibilities(
        *block(config, PLACES[1], own, config.spread), input_shape=shape, K=large
    )
    assert post.chi_between is not None
    assert pre.chi_between is not None
    falling = curves.apart.sel(place=PLACES[0]).values
    at = int(np.flatnonzero(falling > 1e-6)[-1])
    apart, sizes = _nearly_alike(config, own)
    return {
        "rate": post.chi_between,
        "rate_found": float(falling[at] / falling[at - 1]),
        "power": (1 - pre.chi_between) * large / (pre.K_next - large),
        "power_found": float(np.log(apart[0] / apart[1]) / np.log(sizes[1] / sizes[0])),
    }


def _nearly_alike(config: Config, own: Attention) -> tuple[np.ndarray, np.ndarray]:
    """From half way to the end of deep networks with norms before branches: 1 - rho from 1e-3 on, and sizes."""
    layers = block(config, PLACES[1], own, config.spread) * config.deep
    net = Network(
        Dense(),
        *layers,
        GlobalAvgPool(),
        Dense(1),
        input_shape=(config.positions, 16),
        width=config.width,
    )
    x = _input(config)
    x = x[:, :1] + 0.03 * x
    step = (net.depth - 2) // config.deep
    kept = [1 + step * (config.deep // 2), 1 + step * config.deep]
    K = predict(net, x, layers=kept, observables=["kernel"]).kernel.values[:, 0, 0]
    sizes = np.einsum("lpp->l", K) / config.positions
    # Half the mean square of differences, over all pairs.
    return 1 - K.mean(axis=(1, 2)) / sizes, sizes


def numbers(dataset: xr.Dataset) -> list[Number]:
    """The line, the factor where ranks collapse, both laws of the depth, and drawn networks."""
    collapsed = dataset.between > 1 - 1e-9
    wrong = int((collapsed != (dataset.collapsing < 1)).sum())
    off = float(np.abs(dataset.factor - dataset.collapsing).where(collapsed).max())
    rows = [
        Number("blocks on the wrong side of the line", 0, wrong),
        Number("factor where positions are alike, less χ", 0.0, off, 0.0, 1e-4),
        Number.of(dataset, "post-norm: factor of 1 − ρ", "rate", "rate_found", 2e-3),
        Number.of(dataset, "pre-norm: power of the size", "power", "power_found", 0.01),
    ]
    for place, depth, one in each(dataset, "place", "depth"):
        wide = float(dataset.apart.sel(place=place, block=depth))
        what = f"1 − ρ of drawn networks, {place}, block {depth}"
        allowed = 1.5 * depth * wide / dataset.attrs["width"]
        rows.append(Number.of(one, what, wide, "measured", allowed))
    return rows


@panels(2, height=4.0)
def figure(dataset: xr.Dataset, left: Axes, right: Axes) -> None:
    """The plane of attention and chaos, and both ways to order."""
    w, a = dataset.hidden.values, dataset.attention.values
    shown = left.pcolormesh(w, a, dataset.between, cmap="Blues", vmin=0, vmax=1, shading="nearest")
    bar = left.figure.colorbar(shown, ax=left, pad=0.02)  # type: ignore[union-attr]
    bar.ax.set_title("ρ*")
    left.plot(w, dataset.line, color=COLORS[1], lw=2.0, label="χ = 1")
    log_axes(left, "x")
    left.set(xlabel="w, variance of the hidden layer", ylabel="a, strength of attention")
    half = (a[1] - a[0]) / 2  # of a cell
    left.set(title="post-norm: where positions end", ylim=(max(a[0] - half, 0.0), a[-1] + half))
    left.legend(loc="lower right", labelcolor=INK)
    left.grid(visible=False)
    blocks = dataset.block.values[1:]
    for k, (place, one) in enumerate(each(dataset, "place")):
        right.plot(blocks, one.apart.values[1:], color=COLORS[k], label=place)
        points(right, one.depth, one.measured, one.measured_sem, color=COLORS[k])
    low = float(dataset.apart.sel(place=PLACES[1]).min()) / 30
    law = float(dataset.apart.sel(place=PLACES[1])[-1]) * (blocks / blocks[-1]) ** -float(
        dataset.power
    )
    right.plot(
        blocks,
        1.25 * law,
        color=MUTED,
        lw=1.0,
        ls=(0, (4, 2)),
        label=f"power {float(dataset.power):.2f}",
    )
    log_axes(right)
    right.set(xlabel="blocks", title="1 − ρ; points: drawn networks", ylim=(low, 1.5))
    right.legend(loc="lower left")
