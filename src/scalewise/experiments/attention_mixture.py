r"""Attention with few heads and logits over the root of their size: a mixture of Gaussians at infinite width.

A head of $d$ channels has logits $q\cdot k_t/\sqrt d$, which remain random as $d$ grows. For positions with kernel
$\delta_{tt'}$, and $p=\operatorname{softmax}$ of the logits of one query, an output has, given all logits, the
variance
$$\widehat G=\frac1H\sum_{h=1}^H\frac{\chi^2_{h}}d\sum_tp_{ht}^2,\qquad
  p_h=\operatorname{softmax}\Big(\sqrt{\tfrac{\chi'^2_h}d}\,g_h\Big),$$
with normal $g_{ht}$ and, of the values and of the query, independent $\chi^2_h,\chi'^2_h$ of $d$ degrees of
freedom. At infinite width both $\chi^2/d$ are 1: outputs are Gaussian with a random variance, and their excess
kurtosis is $3a/H$, with $a$ the relative variance of $\sum_tp_t^2$.

Claims: drawn networks have the law at their width, which leads to the mixture as $1/n$; no width makes their
outputs Gaussian, and many heads do.

Source: Sakai, Karakida and Imaizumi, arXiv:2506.00846, for the limit, at its four positions; the law at finite
width is derived.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

from scalewise._extras import require

require("jax", for_="This experiment", extra="nets")

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator
from scipy.special import erfc

from scalewise.experiments._form import computed, each, settings
from scalewise.experiments._look import COLORS, Number, Table, attributes, log_axes, panels, points
from scalewise.nets import init_weights
from scalewise.networks import Network
from scalewise.networks.layers import Attention, Dense, Take
from scalewise.networks.spi import by_node
from scalewise.networks.spi_jax import forward

TITLE = "Attention with few heads: a mixture at any width"
TEXT = (
    "Heads of attention that grow, with logits over the root of their size, have weights that are random at any "
    "width: outputs are Gaussian only if these are given. Left: the variance of an output given the weights of "
    "attention, over its mean; curves are infinite width, points the widest networks. Middle: the density of an "
    "output over the Gaussian of the same variance. Right: its excess kurtosis against the width; curves are the "
    "law at that width, dotted lines the limit. More heads, and not more width, make it Gaussian."
)
_FAR = 4.0  # standard deviations from which on an output is in a tail
_GROUPS = 20  # of draws, for standard errors
_AT_ONCE = 1 << 22  # numbers


@settings(heads=(1, 4), widths=(16, 64), networks=4000, draws=40_000)  # small: seconds
class Config:
    """Attention and the networks.

    Args:
        heads: Numbers of heads.
        widths: Multiples of all of them, ascending.
        positions: That are seen; inputs there are orthogonal.
        networks: Drawn of each.
        draws: Of each law.
        seed: Of networks and laws.
    """

    heads: tuple[int, ...] = (1, 2, 4, 16)
    widths: tuple[int, ...] = (16, 64, 256, 1024)
    positions: int = 4
    networks: int = 10_000
    draws: int = 100_000
    seed: int = 0


def run(config: Config) -> xr.Dataset:
    r"""Draw the limit, the law at each width, and networks.

    Returns:
        Over heads: ``limit``, the excess kurtosis of an output at infinite width. Over (heads, width):
        ``predicted`` by the law there, ``measured`` of networks. With ``_tail`` behind these names: how often an
        output is four standard deviations from 0 or more; over z, with ``_density``: the density over that of a
        Gaussian; over size, with ``_law``: the density of $\widehat G$ over its mean. All have standard errors,
        with ``_sem`` behind the name.
    """
    drawn = computed(_cell, {"heads": config.heads, "width": config.widths}, config=config)
    limits = computed(_limit, {"heads": config.heads}, config=config)
    return xr.merge([drawn, limits]).assign_attrs(attributes(config))


def network(heads: int, width: int, positions: int) -> Network:
    """The first position asks all of them; the heads share the width."""
    attention = Attention(size=width // heads, queries=[Take(0)])
    shape = (positions, positions)
    return Network(attention, Dense(1), input_shape=shape, width=width, C_W=1.0, C_b=0.0)


def drawn_variances(net: Network, networks: int, seed: int) -> np.ndarray:
    r"""$\widehat G$ of drawn networks: averaged over the weights behind attention.

    Args:
        net: One of `network`.
        networks: How many.
        seed: Of their weights.
    """
    program, places = net.program, net.input_shape[0]
    inputs = np.sqrt(places) * np.eye(places, dtype=np.float32)[None]
    attention = program.draws[-2] - 1

    @jax.jit
    @jax.vmap
    def variance(key: Any) -> Any:
        weights = by_node(program, init_weights(net, key), jnp)
        found, _ = forward(program, weights, inputs, last=attention)
        return (found[-1] ** 2).mean()

    keys = jax.random.split(jax.random.key(seed), networks)
    step = max(1, _AT_ONCE // (3 * places * net.widths[-1]))
    parts = [variance(keys[k : k + step]) for k in range(0, networks, step)]
    return np.concatenate(parts).astype(float)


def law(heads: int, size: int | None, config: Config) -> np.ndarray:
    r"""$\widehat G$ by its law, at infinite width for a `size` of ``None``."""
    rng = np.random.default_rng([heads, size or 0, config.seed])
    shape = (config.draws, heads)
    values, query = (
        np.ones(shape) if size is None else rng.chisquare(size, shape) / size for _ in range(2)
    )
    p = np.exp(np.sqrt(query)[..., None] * rng.normal(size=(*shape, config.positions)))
    return (values * (p**2).sum(axis=-1) / p.sum(axis=-1) ** 2).mean(axis=1)


def _cell(heads: int, width: int, *, config: Config) -> xr.Dataset:
    seed = crc32(f"{heads} {width} {config.seed}".encode())
    net = network(heads, width, config.positions)
    found = _statistics("measured", drawn_variances(net, config.networks, seed))
    return found.merge(_statistics("predicted", law(heads, width // heads, config)))


def _limit(heads: int, *, config: Config) -> xr.Dataset:
    return _statistics("limit", law(heads, None, config))


def _statistics(called: str, variances: np.ndarray) -> xr.Dataset:
    """Excess kurtosis, tail, density and law of an output of random variance, with standard errors."""
    g = variances / variances.mean()
    z, edges = np.linspace(0.0, 5.0, 21), np.linspace(0.4, 2.4, 51)
    parts = []
    for own in (g, *np.array_split(g, _GROUPS)):
        ratio = np.exp(z[:, None] ** 2 * (1 - 1 / own) / 2) / np.sqrt(own)
        counts = np.histogram(own, edges)[0] / own.size / (edges[1] - edges[0])
        tail = erfc(_FAR / np.sqrt(2 * own)).mean()
        parts.append((3 * own.var() / own.mean() ** 2, tail, ratio.mean(axis=1), counts))
    found: dict[str, Any] = {}
    names = {"": (), "_tail": (), "_density": ("z",), "_law": ("size",)}
    for (name, dims), (whole, *groups) in zip(names.items(), zip(*parts, strict=True), strict=True):
        sem = np.std(groups, axis=0, ddof=1) / np.sqrt(_GROUPS)
        found[called + name], found[f"{called}{name}_sem"] = (dims, whole), (dims, sem)
    return xr.Dataset(found, {"z": z, "size": (edges[1:] + edges[:-1]) / 2})


def numbers(dataset: xr.Dataset) -> list[Number]:
    """Kurtosis and tail of the widest networks, beside the law at their width."""
    found = []
    for heads, one in each(dataset.isel(width=-1), "heads"):
        for what, name in (("excess kurtosis", ""), ("tail", "_tail")):
            error = np.hypot(one[f"measured{name}_sem"], one[f"predicted{name}_sem"])
            predicted, measured = (
                float(one[f"{kind}{name}"]) for kind in ("predicted", "measured")
            )
            found.append(Number(f"{what}, heads: {heads}", predicted, measured, float(error)))
    return found


def divergence(one: xr.Dataset, kind: str) -> float:
    """The Kullback-Leibler divergence of an output from the Gaussian of its variance."""
    ratio, z = one[f"{kind}_density"], one.z
    normal = np.exp(-(z**2) / 2) * np.sqrt(2 / np.pi)  # of both signs
    return float((ratio * np.log(ratio) * normal).integrate("z"))


def tables(dataset: xr.Dataset) -> list[Table]:
    """The limit, the law at the largest width, and networks of it, by the number of heads."""
    rows = []
    normal = erfc(_FAR / np.sqrt(2))
    for heads, one in each(dataset.isel(width=-1), "heads"):
        seen = f"{float(one.measured):.4f} ± {float(one.measured_sem):.4f}"
        tails = (
            f"{float(one.measured_tail) / normal:.2f} ± {float(one.measured_tail_sem) / normal:.2f}"
        )
        far = [f"{float(one[f'{kind}_tail']) / normal:.2f}" for kind in ("limit", "predicted")]
        told = [f"{float(one[kind]):.4f}" for kind in ("limit", "predicted")]
        rows.append((heads, *told, seen, *far, tails, f"{divergence(one, 'limit'):.2g}"))
    n = int(dataset.width[-1])
    head = (
        "heads",
        "excess kurtosis, limit",
        f"law at {n}",
        f"networks of width {n}",
        "tail beyond 4 σ over a Gaussian's, limit",
        f"law at {n}",
        f"networks of width {n}",
        "divergence from a Gaussian, limit",
    )
    return [Table.of("Outputs of attention", head, rows)]


@panels(3, height=3.6)
def figure(dataset: xr.Dataset, left: Axes, middle: Axes, right: Axes) -> None:
    """The random variance, the output, and its kurtosis against the width."""
    for color, (heads, one) in zip(COLORS, each(dataset, "heads"), strict=False):
        widest = one.isel(width=-1)
        for axis, x, name in ((left, one.size, "_law"), (middle, one.z, "_density")):
            axis.plot(x, one[f"limit{name}"], color=color, label=f"{heads} head{'s' * (heads > 1)}")
            y, sem = widest[f"measured{name}"], widest[f"measured{name}_sem"]
            points(axis, x, y, sem, color=color, size=2.8)
        right.axhline(float(one.limit), color=color, lw=0.8, ls=":")
        right.plot(one.width, one.predicted, color=color)
        points(right, one.width, one.measured, one.measured_sem, color=color)
    middle.axhline(1.0, color="0.5", lw=0.8, ls=":")
    log_axes(middle, "y")
    log_axes(right)
    right.yaxis.set_major_locator(FixedLocator([0.02, 0.05, 0.1, 0.2, 0.5]))
    left.set(xlabel="variance given the weights, over its mean", title="density")
    middle.set(xlabel="output, standard deviations", title="density over a Gaussian's")
    right.set(xlabel="width", title="excess kurtosis")
    left.legend(loc="upper right")
