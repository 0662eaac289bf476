r"""The meta-principled family at work: powers of width and depth of the first differentials.

Claims: for every $s$, $\mathbb E[z\,\eta^2\widehat{dH}]\sim L/n$ and
$\mathbb E[\eta^3\widehat{dd_{I,II}H}]\sim L/n^{1-s}=\gamma$. Networks at criticality with learning rates
equivalent across depth are drawn over a grid of widths and depths at $s=0$. The other members follow by an
identity that holds network by network, and one of them is drawn on its own to check it.

Source: Yaida (4.3), (4.6), (4.9), (4.10). The note has no figure; these are the ones it would have.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.experiments._form import Progress, settings
from scalewise.experiments._look import COLORS, Number, log_axes, panels
from scalewise.nets import sample_differentials
from scalewise.networks import MLP, Network, apply_strategy
from scalewise.scaling import meta, observable_order
from scalewise.theory.single import single_input_flow

TITLE = "The meta-principled family"
TEXT = (
    "Means of the first differentials over networks of several widths and depths, for members of the "
    "family of scalings. With s the second differentials fall ever more slowly with the width, as "
    "n<sup>s−1</sup>, while the first keeps its 1/n. On the right all cells of all members lie on one "
    "line against γ = L/n<sup>1−s</sup>."
)

OBSERVABLES = ("z_eta2_dntk", "eta3_ddntk_I", "eta3_ddntk_II")
_TITLES = {
    "z_eta2_dntk": "|E[z η² dH]|",
    "eta3_ddntk_I": "|E[η³ ddᴵH]|",
    "eta3_ddntk_II": "|E[η³ ddᴵᴵH]|",
}


@settings()  # small: the same: most of its time is compilation
class Config:
    r"""Settings.

    Args:
        activation: A smooth activation with a critical point at $K^\star=0$, or ``"linear"``.
        widths: $n$.
        depths: $L$, at least 2 each.
        s: Members of the family to report.
        s_checked: A member that is drawn on its own.
        numbers: Random numbers per cell of the grid: how many networks follows from their size.
        kernel: $K^{(1)}=|x|^2/n_0$ of the input, preactivation².
        seed: Random seed.

    Example:
        >>> from scalewise.experiments import s_family
        >>> net = s_family.Config(activation="sin").network(depth=4, width=8)
        >>> net.C_W[0], net.lambda_b
        (1.0, (1.0, 0.5, 0.3333333333333333, 0.25))
    """

    activation: str = "tanh"
    widths: tuple[int, ...] = (32, 96)
    depths: tuple[int, ...] = (2, 4)
    s: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    s_checked: float = 0.5
    numbers: int = 24_000_000
    kernel: float = 1.0
    seed: int = 0

    def network(self, depth: int, width: int) -> Network:
        r"""A network of these sizes, critical ($C_b=0$, $C_W=1/\sigma_1^2$), $\lambda_b=1/\ell$, $\lambda_W=1$.

        These learning rates are equivalent across depth for $p_\perp=1$, PDLT (9.66)-(9.71).
        """
        rates = tuple(1.0 / layer for layer in range(1, depth + 1))
        net = MLP(depth, width, self.activation, input_dim=1, output_dim=1, lambda_b=rates)
        return net if self.activation == "linear" else net.at_criticality()


SMALL = Config()
LARGE = Config(widths=(64, 128, 256), depths=(2, 3, 4, 6, 8, 12), numbers=300_000_000)


def run(config: Config = SMALL, *, progress: Progress = None) -> xr.Dataset:
    r"""Draw the networks and fit the exponents.

    Args:
        config: Settings: `SMALL` takes seconds, `LARGE` a quarter of an hour of one core.
        progress: Called with (cells done, cells in all).

    Returns:
        For each of `OBSERVABLES` the mean ``<name>`` over (s, depth, width) with ``<name>_sem``, its
        prediction at leading order ``<name>_predicted``, the same drawn at `s_checked` as
        ``<name>_checked`` and ``<name>_checked_sem`` over (depth, width), and the fitted
        ``<name>_width_exponent`` and ``<name>_depth_exponent`` over s with ``_sem``; see `exponents`.
        ``ratio_unit`` is what makes a mean dimensionless: $\Theta^2$, or $\Theta^3/K$.

    Raises:
        ValueError: If the activation is not smooth, or has no critical point, or the grid is too small
            for a fit.

    Source: Yaida (4.3), (4.6), (4.9).
    """
    shape = (len(config.depths), len(config.widths))
    if min(shape) < 2:
        raise ValueError(
            f"`Config` needs two widths and two depths, at least four cells, for exponents of both; got "
            f"widths {config.widths} and depths {config.depths}."
        )
    cells = [(i, j) for i in range(shape[0]) for j in range(shape[1])]
    grid: dict[str, np.ndarray] = {}
    for name in OBSERVABLES:
        for part in ("", "_sem", "_predicted", "_unit", "_checked", "_checked_sem"):
            grid[name + part] = np.empty(shape)
    for done, (i, j) in enumerate(cells):
        depth, width = config.depths[i], config.widths[j]
        values = {
            **_cell(config, depth, width, 0.0, suffix=""),
            **_cell(config, depth, width, config.s_checked, suffix="_checked"),
            **_theory(config, depth, width),
        }
        for name, value in values.items():
            grid[name][i, j] = value
        if progress is not None:
            progress(done + 1, len(cells))
    return _dataset(config, grid)


def _cell(config: Config, depth: int, width: int, s: float, *, suffix: str) -> dict[str, float]:
    r"""Means over networks of one shape, in units with $\eta_0=1$."""
    scaled = apply_strategy(config.network(depth, width), meta(s, depth=depth))
    count = max(4, config.numbers // scaled.net.parameters)
    x = np.array([[np.sqrt(config.kernel / scaled.net.C_W[0])]])
    # Streams of their own: the check shares no random number with what it checks.
    seed = 2 * config.seed + bool(suffix)
    draws = sample_differentials(scaled.net, x, count, seed=seed)
    eta = scaled.eta
    values = {
        "z_eta2_dntk": eta**2 * draws["z_dntk"],
        "eta3_ddntk_I": eta**3 * draws["ddntk_I"],
        "eta3_ddntk_II": eta**3 * draws["ddntk_II"],
    }
    out = {}
    for name, value in values.items():
        out[name + suffix] = float(value.mean())
        out[f"{name}{suffix}_sem"] = float(value.std(ddof=1) / np.sqrt(count))
    return out


def _theory(config: Config, depth: int, width: int) -> dict[str, float]:
    flow = single_input_flow(config.network(depth, width), K1=config.kernel)
    t = {name: float(getattr(flow, name)[-1, 0]) for name in ("K", "Theta", *"PQRSTU")}
    sums = {
        "z_eta2_dntk": (t["P"] + 2 * t["Q"], t["Theta"] ** 2),
        "eta3_ddntk_I": (3 * t["R"], t["Theta"] ** 3 / t["K"]),
        "eta3_ddntk_II": (t["S"] + t["T"] + t["U"], t["Theta"] ** 3 / t["K"]),
    }
    out = {f"{name}_predicted": value / width for name, (value, _) in sums.items()}
    return out | {f"{name}_unit": unit for name, (_, unit) in sums.items()}


def _dataset(config: Config, grid: dict[str, np.ndarray]) -> xr.Dataset:
    s = np.array(config.s)
    n = np.array(config.widths, dtype=np.float64)
    data: dict[str, Any] = {}
    over_s, cell = ("s", "depth", "width"), ("depth", "width")
    for name in OBSERVABLES:
        # The identity of a realisation under a member of the family.
        power = s * (name != "z_eta2_dntk")
        factor = n ** power[:, None, None]
        for part in ("", "_sem", "_predicted"):
            data[name + part] = (over_s, factor * grid[name + part])
        for part in ("_unit", "_checked", "_checked_sem"):
            data[name + part] = (cell, grid[name + part])
    dataset = xr.Dataset(
        data,
        {"s": s, "depth": list(config.depths), "width": list(config.widths)},
        {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(config).items()},
    )
    dataset["gamma"] = dataset.depth / dataset.width ** (1 - dataset.s)
    return dataset.merge(exponents(dataset))


def exponents(dataset: xr.Dataset) -> xr.Dataset:
    r"""Powers of width and depth, fitted to a grid of means.

    $$\log\Big|\frac yu\Big|=\log a+\beta\log n+\alpha\log L+\log\frac{\rho(L)}L+c\,\frac{L-2}n$$
    with $u$ the unit of `run`, and $\rho(L)$ the ratio of the recursions at leading order. That ratio
    becomes $\propto L$ in deep networks only, so its known departure is taken out; $c$ is the next order
    in $1/n$, of which networks with one hidden layer have none. Weights are the standard errors.

    Args:
        dataset: As `run` makes it, of at least two depths, and four cells.

    Returns:
        ``<name>_width_exponent`` $\beta$ (predicted $-1$ for ``z_eta2_dntk``, $-(1-s)$ for the others),
        ``<name>_depth_exponent`` $\alpha$ (predicted 1), each with ``_sem``, and
        ``<name>_width_exponent_predicted``.
    """
    depth, width = np.meshgrid(
        dataset.depth.values.astype(float), dataset.width.values.astype(float), indexing="ij"
    )
    design = np.stack(
        [
            np.ones(depth.size),
            np.log(width).ravel(),
            np.log(depth).ravel(),
            ((depth - 2) / width).ravel(),
        ],
        axis=1,
    )
    out: dict[str, Any] = {}
    for name in OBSERVABLES:
        unit = dataset[f"{name}_unit"].values
        rows = []
        for s in range(dataset.s.size):
            y, sem = (dataset[name + part].values[s] for part in ("", "_sem"))
            predicted = dataset[f"{name}_predicted"].values[0]
            known = np.log(np.abs(predicted * width / unit) / depth)
            rows.append(_fit(design, np.log(np.abs(y / unit)) - known, np.abs(sem / y)))
        table = np.array(rows)
        for column, what in enumerate(("width_exponent", "depth_exponent")):
            out[f"{name}_{what}"] = ("s", table[:, 0, column + 1])
            out[f"{name}_{what}_sem"] = ("s", table[:, 1, column + 1])
        orders = [observable_order(meta(float(s), depth=2), name) for s in dataset.s.values]
        out[f"{name}_width_exponent_predicted"] = ("s", [float(o.width) for o in orders])
    return xr.Dataset(out, {"s": dataset.s})


def _fit(design: np.ndarray, y: np.ndarray, sem: np.ndarray) -> np.ndarray:
    """Coefficients and their standard errors by weighted least squares."""
    weight = 1 / sem.ravel()
    covariance = np.linalg.inv((design * weight[:, None] ** 2).T @ design)
    solution = covariance @ (design * weight[:, None] ** 2).T @ y.ravel()
    return np.array([solution, np.sqrt(np.diagonal(covariance))])


def numbers(dataset: xr.Dataset) -> list[Number]:
    """The fitted powers; 0.05 is allowed for orders in 1/n beyond the one that is fitted."""
    rows = []
    for name, label in _TITLES.items():
        for k, s in enumerate(dataset.s.values):
            one = dataset.isel(s=k)
            what, found = f"power of the width, {label}, s = {s:g}", f"{name}_width_exponent"
            rows.append(Number.of(one, what, f"{found}_predicted", found, 0.05))
        what, found = f"power of the depth, {label}", f"{name}_depth_exponent"
        rows.append(Number.of(dataset.isel(s=0), what, 1.0, found, 0.05))
    return rows


@panels(3, len(OBSERVABLES), height=2.9)
def figure(dataset: xr.Dataset, *axes: Axes) -> None:
    """Three panels for each observable: against the width, against the depth, and against gamma.

    Points are measured, with standard errors; lines are the recursions at leading order.
    """
    for row, name in enumerate(OBSERVABLES):
        _against_width(axes[3 * row], dataset, name)
        _against_depth(axes[3 * row + 1], dataset, name)
        _against_gamma(axes[3 * row + 2], dataset, name)
    for axis in axes:
        log_axes(axis)
    for k, axis in enumerate(axes):
        if k % 3 < 2:
            axis.set_xticks(dataset.width.values if k % 3 == 0 else dataset.depth.values)
    axes[0].legend(loc="best", fontsize=7.5)


def _against_width(axis: Any, dataset: xr.Dataset, name: str) -> None:
    top = dataset.isel(depth=-1)
    for k, s in enumerate(dataset.s.values):
        here = top.isel(s=k)
        color = COLORS[k % len(COLORS)]
        draw = partial(axis.errorbar, here.width, np.abs(here[name]), here[f"{name}_sem"])
        draw(fmt="o", ms=3.6, mew=0, color=color, label=f"s = {s:g}")
        axis.plot(here.width, np.abs(here[f"{name}_predicted"]), color=color, lw=1.0)
    axis.set(xlabel="width n", title=f"{_TITLES[name]}, L = {int(top.depth)}")


def _against_depth(axis: Any, dataset: xr.Dataset, name: str) -> None:
    side = dataset.isel(width=-1, s=0)
    unit = side[f"{name}_unit"]
    axis.errorbar(
        side.depth,
        np.abs(side[name] / unit),
        side[f"{name}_sem"] / unit,
        fmt="o",
        ms=3.6,
        mew=0,
        color=COLORS[0],
    )
    axis.plot(side.depth, np.abs(side[f"{name}_predicted"] / unit), lw=1.0, color=COLORS[0])
    axis.set(xlabel="depth L", title=f"dimensionless, n = {int(side.width)}")


def _against_gamma(axis: Any, dataset: xr.Dataset, name: str) -> None:
    if name == "z_eta2_dntk":  # L / n for every s
        dataset = dataset.isel(s=[0])
    for k, s in enumerate(dataset.s.values):
        here = dataset.isel(s=k)
        ratio = np.abs((here[name] / here[f"{name}_unit"]).values).ravel()
        scale = (here.depth / here.width ** (1 - s)).values.ravel()
        axis.plot(scale, ratio, "o", ms=3.6, mew=0, color=COLORS[k % len(COLORS)])
    title = "all cells" if name != "z_eta2_dntk" else "all cells, s = 0"
    axis.set(xlabel="γ = L/n¹⁻ˢ", title=title)
