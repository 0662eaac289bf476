r"""One hidden layer: the hierarchy of differentials, and what the metaparameter does to it.

Shown: $|\mathbb E[\eta^kd_I^{k-1}H]|$ for odd $k$ and $|\mathbb E[z\,\eta^kd_I^{k-1}H]|$ for even $k$
against the width: closed forms as lines, random networks as points.
$$\mathbb E[\eta^{2m+1}d_I^{2m}H]\sim n^{-m(1-s)},\qquad\mathbb E[\eta^{2m}z\,d_I^{2m-1}H]\sim n^{-m(1-s)-s}$$
Look for: at $s=0$ every second order costs $1/n$; at $s=\frac12$ half of it; at $s=1$ nothing is small.

Source: Yaida (A4)-(A17); the closed forms are derived.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.experiments._form import each, power, settings
from scalewise.experiments._look import COLORS, Number, attributes, log_axes, panels, points
from scalewise.networks import MLP, Network
from scalewise.theory.exact import mean_shallow_differential, sigma_derivative

TITLE = "A hierarchy of differentials"
TEXT = (
    "Means of the k-th differentials of one-hidden-layer networks. The family of scalings moves them "
    "together: with γ = n<sup>s−1</sup> odd orders k = 2m + 1 go as γ<sup>m</sup>, even ones, with a "
    "factor of the output, as γ<sup>m</sup>n<sup>−s</sup>. At s = 1 odd ones do not fall at all: the "
    "expansion in differentials is lost."
)


@settings(orders=(2, 3, 5), widths=(8, 32), networks=20_000)  # small: low orders, few networks
class Config:
    r"""Settings.

    Args:
        activation: Smooth.
        orders: $k$, from 2.
        widths: $n$.
        s: Members of the family.
        kernel: $K^{(1)}$, preactivation².
        networks: In each ensemble, drawn at $s=0$; the others follow network by network.
        seed: Random seed.
    """

    activation: str = "sin"
    orders: tuple[int, ...] = (2, 3, 4, 5, 6, 7)
    widths: tuple[int, ...] = (8, 16, 32, 64, 128)
    s: tuple[float, ...] = (0.0, 0.5, 1.0)
    kernel: float = 0.8
    networks: int = 100_000
    seed: int = 0

    def network(self, width: int) -> Network:
        """The network of this `width`, at criticality; the rates are such that no mean happens to vanish."""
        net = MLP(
            2, width, self.activation, input_dim=1, output_dim=1, lambda_b=0.0, lambda_W=(1.0, 0.5)
        )
        return net.at_criticality()


def run(config: Config) -> xr.Dataset:
    r"""Closed forms and random networks, in units with $\eta_0=1$.

    Returns:
        Over (s, order, width): ``predicted``, ``measured``, ``measured_sem``; over (s, order) the
        fitted ``slope`` with ``slope_sem`` and ``slope_predicted``.
    """
    shape = (len(config.orders), len(config.widths))
    theory, mean, sem = np.empty(shape), np.empty(shape), np.empty(shape)
    for j, width in enumerate(config.widths):
        net = config.network(width)
        x = np.array([[(config.kernel / net.C_W[0]) ** 0.5]])
        draws = _draws(config, net, x)
        for i, k in enumerate(config.orders):
            z = None if k % 2 else (0, 0)
            theory[i, j] = mean_shallow_differential(net, x, (0,) * k, z=z).value
            mean[i, j] = draws[i].mean()
            sem[i, j] = draws[i].std(ddof=1) / config.networks**0.5
    s, n = np.array(config.s)[:, None, None], np.array(config.widths, dtype=float)
    k = np.array(config.orders)[:, None]
    # Network by network: eta^k d^(k-1)H takes n^(s(k-1)/2), the output n^(-s/2).
    factor = n ** (s * (k - 1 - (k % 2 == 0)) / 2)
    m = np.array(config.orders) // 2
    even = np.array(config.orders) % 2 == 0
    law = -(m * (1 - s[:, :, 0]) + even * s[:, :, 0])
    slopes = [
        [power(n, row, bar) for row, bar in zip(a * mean, a * sem, strict=True)] for a in factor
    ]
    fitted = np.array(slopes)
    over = ("s", "order")
    return xr.Dataset(
        {
            "predicted": ((*over, "width"), factor * theory),
            "measured": ((*over, "width"), factor * mean),
            "measured_sem": ((*over, "width"), factor * sem),
            "slope": (over, fitted[..., 0]),
            "slope_sem": (over, fitted[..., 1]),
            "slope_predicted": (over, law),
        },
        {"s": list(config.s), "order": list(config.orders), "width": list(config.widths)},
        {**attributes(config), "members": list(config.s)},
    )


def _draws(config: Config, net: Network, x: np.ndarray) -> list[np.ndarray]:
    r"""$d_I^{k-1}H$ of each network, (A9) and (A13) for one index; for even $k$ what stands for it.

    With the output as a factor, Stein's identity takes the average over the weights once:
    $\mathbb E[zX]=\mathbb E[\frac{C_W}n\sum_j\sigma_j\,\partial X/\partial W_j]$, which spreads far less.
    """
    rng = np.random.default_rng([config.seed, net.widths[1]])
    n, sigma = net.widths[1], net.activation
    H = net.lambda_b[0] + net.lambda_W[0] * float(x[0, 0]) ** 2
    parts: list[list[np.ndarray]] = [[] for _ in config.orders]
    for start in range(0, config.networks, 20_000):
        shape = (min(20_000, config.networks - start), n)
        z = rng.normal(size=shape) * config.kernel**0.5
        W = rng.normal(size=shape) * (net.C_W[1] / n) ** 0.5
        value, slope = sigma(z), sigma.derivative(z, 1)
        derivative = {0: value, 1: slope}
        for i, k in enumerate(config.orders):
            for p in (k - 1, k):
                if p not in derivative:
                    derivative[p] = sigma_derivative(sigma, z, p)
            first = derivative[k] * slope**k * H**k
            second = derivative[k - 1] * value * slope ** (k - 1) * H ** (k - 1)
            second *= k * net.lambda_W[1] / n
            if k % 2:
                total = W ** (k + 1) * first + W ** (k - 1) * second
            else:
                total = (k + 1) * W**k * first + (k - 1) * W ** (k - 2) * second
                total *= net.C_W[1] / n * value
            parts[i].append(total.sum(axis=1))
    return [np.concatenate(part) for part in parts]


def numbers(dataset: xr.Dataset) -> list[Number]:
    """The means at the largest width, and the fitted powers of the width."""
    rows = []
    for k, one in each(dataset.isel(s=0, width=-1), "order"):
        unit = float(one.predicted)
        found, sem = float(one.measured) / unit, float(one.measured_sem) / abs(unit)
        rows.append(Number(f"mean over its closed form, k = {k}", 1.0, found, sem))
    for s, k, one in each(dataset, "s", "order"):
        what = f"power of the width, k = {k}, s = {s:g}"
        rows.append(Number.of(one, what, "slope_predicted", "slope"))
    return rows


@panels("s", height=3.8)
def figure(dataset: xr.Dataset, *axes: Axes) -> None:
    """One panel for each member of the family."""
    for axis, s in zip(axes, dataset.s.values, strict=True):
        for i, k in enumerate(dataset.order.values):
            one = dataset.sel(s=s, order=k)
            law = f"{float(one.slope_predicted):+.2g}".replace("-", "−").replace("+0", "0")
            axis.plot(
                one.width,
                np.abs(one.predicted),
                color=COLORS[i % 6],
                ls="-" if k % 2 else (0, (4, 2)),
                label=f"k = {k}: n^{law}",
            )
            points(axis, one.width, np.abs(one.measured), one.measured_sem, color=COLORS[i % 6])
        log_axes(axis)
        low, high = float(np.abs(dataset.predicted).min()), float(np.abs(dataset.predicted).max())
        axis.set(xlabel="width n", title=f"s = {s:g}", ylim=(0.3 * low, 300 * high))
        axis.legend(loc="upper right", ncols=2, fontsize=7.5)
