r"""Order and chaos of deep convolutional networks, and how deep a wave along the positions is seen.

Shown: the depth scale $\xi_c=-1/\log\chi_c$ on which the correlation of two inputs settles, in the plane of the two
variances, with the line $\chi_\perp=1$. Then the depth scales of waves along a ring of positions, at one $C_b$,
$$\lambda_k=\chi_c\,\frac1{\text{taps}}\sum_\tau\cos k\tau,\qquad\xi_k=-\frac1{\log|\lambda_k|},$$
with points that are read off thirty blocks of `predict`. Last, how far the correlation is from where it ends, block
by block: curves of infinitely wide networks, points of drawn ones, and $\chi_c^\ell$ (broken).
Look for: the scale of the uniform wave diverges on the line, that of others stays finite: whatever differs from
position to position is forgotten after a few blocks.

Source: Xiao et al., arXiv:1806.05393; PDLT (5.50), (5.71); Schoenholz et al., arXiv:1611.01232.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.critical import perpendicular_locus
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
from scalewise.nets import measure
from scalewise.networks import Network
from scalewise.networks.layers import Conv, Dense, Flatten, GlobalAvgPool
from scalewise.theory import predict
from scalewise.theory.blocks import BlockSusceptibilities, depth_scale, susceptibilities

TITLE = "Order and chaos of convolutions, wave by wave"
TEXT = (
    "Deep convolutional networks forget the correlation of two inputs on a depth scale that diverges on the line "
    "between order and chaos. That holds for its mean over the positions. A wave along them is averaged by every "
    "window, so it has a factor and a depth scale of its own, which stays finite on the line: a critical network "
    "passes on what its inputs are, but where they are only if its weights are made for it."
)


# Small: a coarse plane, and one depth of drawn networks.
@settings(C_W=(1.0, 2.0, 3.0), C_b=(0.02, 0.2), marks=(1.2, 3.0), count=8, drawn=(3,), networks=60)
class Config:
    r"""Settings.

    Args:
        activation: With a line of $\chi_\perp=1$ in the plane.
        C_W: Of the plane.
        C_b: Of the plane.
        bias: $C_b$ of the waves and of the curves.
        marks: $C_W$ at which waves are read off deep networks; the first and the last have curves.
        count: Points of a curve.
        positions: On the ring.
        taps: Of a window, odd.
        blocks: Of the deep networks.
        drawn: Depths of drawn networks, in blocks.
        width: Their width.
        networks: How many of each.
        seed: Of inputs and networks.
    """

    activation: str = "tanh"
    C_W: tuple[float, ...] = tuple(np.linspace(0.6, 4.0, 18).round(3).tolist())
    C_b: tuple[float, ...] = tuple(np.linspace(0.01, 0.61, 13).round(3).tolist())
    bias: float = 0.05
    marks: tuple[float, ...] = (1.0, 1.3, 2.4, 3.0, 3.6)
    count: int = 60
    positions: int = 8
    taps: int = 3
    blocks: int = 30
    drawn: tuple[int, ...] = (1, 2, 4, 8)
    width: int = 128
    networks: int = 200
    seed: int = 0


WAVES = (0, 1, 2)
READ = (0, 1)  # a wave of two periods is soon made of the square of that of one


def run(config: Config) -> xr.Dataset:
    r"""The plane, waves along one line of it, and two networks block by block.

    Returns:
        Over (C_b, C_W): ``scale``, $\xi_c$, and ``chi_perp``. Over K_star: ``line_C_W``, ``line_C_b``. Over (wave,
        variance): ``depth``, $\xi_k$. Over (read, mark): ``factor``, $|\lambda_k|$, and ``found``, that of deep
        networks. Over (end, block): ``left``, $|c-c^\star|$ of the mean kernels; over end: ``chi``; over
        (end, block_drawn): ``measured`` with ``measured_sem``.
    """
    plane = computed(_cell, {"C_b": config.C_b, "C_W": config.C_W}, config=config)
    K = np.linspace(0.0, 4.0, 4 * config.count)
    line = perpendicular_locus(config.activation, K)
    variances = np.linspace(min(config.C_W), max(config.C_W), config.count)
    scales = computed(_scales, {"variance": variances.tolist()}, config=config)
    marks = computed(_read, {"mark": config.marks}, config=config)
    ends = {"end": (config.marks[0], config.marks[-1])}
    curves = computed(_left, ends, config=config)
    drawn = computed(_drawn, ends | {"block_drawn": config.drawn}, config=config)
    lines = {"line_C_W": ("K_star", line[0]), "line_C_b": ("K_star", line[1])}
    found = xr.merge([plane, scales, marks, curves, drawn]).assign(lines)
    return found.assign_coords(K_star=K).assign_attrs(attributes(config))


def _block(config: Config) -> tuple[Any, ...]:
    return config.activation, Conv(config.taps, padding="circular")


def _found(config: Config, C_W: float, C_b: float) -> BlockSusceptibilities:
    return susceptibilities(*_block(config), input_shape=(config.positions, 16), C_W=C_W, C_b=C_b)


def _cell(C_b: float, C_W: float, config: Config) -> xr.Dataset:
    found = _found(config, C_W, C_b)
    return xr.Dataset({"scale": ((), found.depth_correlation), "chi_perp": ((), found.chi_perp)})


def _factors(config: Config, C_W: float, waves: tuple[int, ...]) -> np.ndarray:
    return np.abs(np.asarray(_found(config, C_W, config.bias).modes_correlation)[list(waves)])


def _scales(variance: float, config: Config) -> xr.Dataset:
    depths = [depth_scale(float(factor)) for factor in _factors(config, variance, WAVES)]
    return xr.Dataset({"depth": ("wave", depths)}, {"wave": list(WAVES)})


def _network(config: Config, C_W: float, blocks: int, *end: Any) -> Network:
    layers = (Dense(C_b=0, C_W=1), *_block(config) * blocks, *end)
    shape = (config.positions, 4)
    return Network(*layers, input_shape=shape, width=config.width, C_W=C_W, C_b=config.bias)


def _inputs(config: Config) -> np.ndarray:
    return np.random.default_rng(config.seed).normal(size=(2, config.positions, 4))


def _apart(config: Config, C_W: float, *, mean: bool) -> np.ndarray:
    r"""$c-c^\star$ of every block, at each position or of the mean kernels."""
    net = _network(config, C_W, config.blocks, GlobalAvgPool(), Dense(1))
    found = predict(net, _inputs(config), layers=range(1, net.depth), observables=["kernel"])
    K = np.einsum("labpp->labp", found.kernel.values)
    K = K.mean(axis=-1) if mean else K
    c = K[:, 0, 1] / np.sqrt(K[:, 0, 0] * K[:, 1, 1])
    return c - _found(config, C_W, config.bias).correlation


def _read(mark: float, config: Config) -> xr.Dataset:
    waves = np.abs(np.fft.fft(_apart(config, mark, mean=False), axis=1))[:, list(READ)]
    last = [np.flatnonzero(wave > 1e-8)[-1] for wave in waves.T]
    rates = [wave[at] / wave[at - 1] for wave, at in zip(waves.T, last, strict=True)]
    factors = _factors(config, mark, READ)
    return xr.Dataset({"factor": ("read", factors), "found": ("read", rates)}, {"read": list(READ)})


def _left(end: float, config: Config) -> xr.Dataset:
    left = np.abs(_apart(config, end, mean=True))
    return xr.Dataset(
        {"left": ("block", left), "chi": ((), _factors(config, end, (0,))[0])},
        {"block": np.arange(config.blocks + 1)},
    )


def _drawn(end: float, block_drawn: int, config: Config) -> xr.Dataset:
    """Read-outs of all positions have the mean of their kernels."""
    net = _network(config, end, block_drawn, Flatten(), Dense(1, C_b=0, C_W=1))
    given = {"networks": config.networks // 8, "progress": False, "observables": ["kernel"]}
    star = _found(config, end, config.bias).correlation
    left = []
    for k in range(8):
        K = measure(net, _inputs(config), seed=8 * config.seed + k, **given).kernel.values[-1]
        left.append(K[0, 1] / np.sqrt(K[0, 0] * K[1, 1]) - star)
    return xr.Dataset(
        {
            "measured": ((), abs(float(np.mean(left)))),
            "measured_sem": ((), float(np.std(left, ddof=1)) / 8**0.5),
        }
    )


def numbers(dataset: xr.Dataset) -> list[Number]:
    r"""The side of the line, waves of deep networks, and drawn ones."""
    attrs, rows = dataset.attrs, []
    # At each C_b of the plane the variance at which the line passes.
    order = np.argsort(dataset.line_C_b.values)
    critical = np.interp(
        dataset.C_b, dataset.line_C_b.values[order], dataset.line_C_W.values[order]
    )
    beyond = dataset.C_W.values[None] > critical[:, None]
    wrong = int((beyond != (dataset.chi_perp.transpose("C_b", "C_W").values > 1)).sum())
    rows.append(Number("points on the wrong side of χ⊥ = 1", 0, wrong))
    for k, mark, one in each(dataset, "read", "mark"):
        what = f"factor of wave {k}, C_W = {mark:g}"
        rows.append(Number.of(one, what, "factor", "found", 0.01))
    for end, block, one in each(dataset, "end", "block_drawn"):
        wide = float(dataset.left.sel(end=end, block=block))
        what = f"|c − c*| of drawn networks, C_W = {end:g}, block {block}"
        rows.append(Number.of(one, what, wide, "measured", 0.5 * block / attrs["width"]))
    return rows


@panels(3, height=3.7)
def figure(dataset: xr.Dataset, plane: Axes, waves: Axes, blocks: Axes) -> None:
    """The plane of variances, scales of waves, and two networks block by block."""
    C_W, C_b, config = dataset.C_W.values, dataset.C_b.values, dataset.attrs
    scale = np.log10(np.clip(dataset.scale.transpose("C_b", "C_W").values, 1.0, 100.0))
    shown = plane.pcolormesh(C_W, C_b, scale, cmap="Blues", vmin=0, vmax=2, shading="nearest")
    bar = plane.figure.colorbar(shown, ax=plane, pad=0.02, ticks=[0, 1, 2])  # type: ignore[union-attr]
    bar.ax.set_yticklabels(["1", "10", "100"])
    bar.ax.set_title("ξ")
    plane.plot(dataset.line_C_W, dataset.line_C_b, color=COLORS[1], lw=2.0)
    for x, y, text in ((0.12, 0.85, "order"), (0.72, 0.12, "chaos")):
        plane.text(x, y, text, transform=plane.transAxes, color=INK)
    plane.set(xlim=(C_W[0], C_W[-1]), ylim=(C_b[0], C_b[-1]), xlabel="C_W", ylabel="C_b")
    plane.set_title("depth scale of correlations; line: χ⊥ = 1")
    plane.grid(visible=False)
    for color, (k, one) in zip(COLORS, each(dataset, "wave"), strict=False):
        waves.plot(one.variance, np.minimum(one.depth, 1e3), color=color, label=f"wave {k}")
        if k in READ:
            found = -1 / np.log(dataset.found.sel(read=k))
            points(waves, dataset.mark, found, color=color)
    waves.set(xlabel="C_W", ylim=(0.3, 200), title=f"depth scales at C_b = {config['bias']:g}")
    log_axes(waves, "y")
    waves.legend(loc="upper right")
    for color, (end, one) in zip(COLORS[3:], each(dataset, "end"), strict=False):
        ell = one.block.values
        blocks.plot(ell, one.left, color=color, label=f"C_W = {end:g}")
        law = one.left.values[-1] * float(one.chi) ** (ell - ell[-1])
        blocks.plot(ell, law, color=MUTED, lw=0.9, ls=(0, (4, 2)))
        points(blocks, one.block_drawn, one.measured, one.measured_sem, color=color)
    blocks.set(xlabel="blocks", title="|c − c*|; points: drawn networks", ylim=(1e-4, 2))
    log_axes(blocks, "y")
    blocks.legend(loc="upper right")
