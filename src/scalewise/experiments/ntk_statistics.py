r"""Kernel, NTK and their fluctuations: recursion against real networks of several widths.

Shown: $K,\Theta,V,D,F,B,A$ of the last layer, measured over predicted, against $1/n$.
Look for: points that run into 1 along a straight line; what is missing at width $n$ is the next order.

Source: PDLT (4.118)-(4.119), (8.63), (8.77)-(8.97), (9.6), (9.13)-(9.16).
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.experiments._form import each, settings
from scalewise.experiments._look import COLORS, MUTED, Number, Table, attributes, panels, points
from scalewise.nets import measure
from scalewise.networks import MLP
from scalewise.theory.single import single_input_flow

TITLE = "Seven tensors at finite width"
TEXT = (
    "Each tensor of the last layer, measured on ensembles of real networks and divided by its "
    "recursion. At 1/n → 0 every ratio is 1; the slope is the next order, which the recursion leaves "
    "out. Broken lines extrapolate the points, with the quadratic term where there are three widths."
)
_NAMES = {
    "K": "kernel",
    "Theta": "ntk",
    "V": "four_point_vertex",
    "D": "ntk_D",
    "F": "ntk_F",
    "B": "ntk_B",
    "A": "ntk_A",
}


# Small: two activations, two widths, small ensembles.
@settings(activations=("relu",), widths=(16, 32), networks=1_000)
class Config:
    """Settings.

    Args:
        activations: With a critical initialisation, continuous.
        widths: At least two.
        depth: $L$.
        networks: At each width.
        seed: Random seed.
    """

    activations: tuple[str, ...] = ("linear", "relu", "tanh", "sin")
    widths: tuple[int, ...] = (32, 64, 128)
    depth: int = 3
    networks: int = 12_000
    seed: int = 0


def run(config: Config) -> xr.Dataset:
    r"""Predict and measure, with rates equivalent across layers and $K^{(1)}=1$.

    Returns:
        Over (activation, tensor): ``predicted``, in the units of `observables`, and ``extrapolated``
        with ``extrapolated_sem``, the ratio at $1/n\to0$; over (activation, tensor, width): ``ratio``
        and ``ratio_sem``.
    """
    shape = (len(config.activations), len(_NAMES), len(config.widths))
    ratio, sem = np.empty(shape), np.empty(shape)
    predicted = np.empty(shape[:2])
    for a, name in enumerate(config.activations):
        for w, width in enumerate(config.widths):
            net = MLP(config.depth, width, name, input_dim=1, output_dim=2).at_criticality()
            net = net.with_equivalent_learning_rates()
            flow = single_input_flow(net, K1=1.0)
            found = measure(
                net,
                [[net.C_W[0] ** -0.5]],
                networks=config.networks,
                progress=False,
                seed=config.seed,
                observables=list(_NAMES.values()),
            )
            for t, (letter, observable) in enumerate(_NAMES.items()):
                value = float(getattr(flow, letter)[-1, 0])
                predicted[a, t] = value
                ratio[a, t, w] = found[observable].values[-1].item() / value
                sem[a, t, w] = found[f"{observable}_sem"].values[-1].item() / abs(value)
    fitted = np.array(
        [
            [_at_zero(config.widths, r, s) for r, s in zip(*rows, strict=True)]
            for rows in zip(ratio, sem, strict=True)
        ]
    )
    over = ("activation", "tensor")
    return xr.Dataset(
        {
            "predicted": (over, predicted),
            "ratio": ((*over, "width"), ratio),
            "ratio_sem": ((*over, "width"), sem),
            "extrapolated": (over, fitted[:, :, 0]),
            "extrapolated_sem": (over, fitted[:, :, 1]),
        },
        {
            "activation": list(config.activations),
            "tensor": list(_NAMES),
            "width": list(config.widths),
        },
        attributes(config),
    )


def _at_zero(widths: tuple[int, ...], y: np.ndarray, sem: np.ndarray) -> tuple[float, float]:
    """Weighted polynomial in 1/n, quadratic from three widths on, at 1/n = 0."""
    design = np.vander(1 / np.array(widths), min(3, len(widths)), increasing=True)
    weight = 1 / np.maximum(sem, 1e-9) ** 2
    covariance = np.linalg.inv((design * weight[:, None]).T @ design)
    solution = covariance @ (design * weight[:, None]).T @ y
    return float(solution[0]), float(covariance[0, 0] ** 0.5)


def _shown(letter: str) -> str:
    return letter.replace("Theta", "Θ")


def numbers(dataset: xr.Dataset) -> list[Number]:
    """Every extrapolated ratio; the allowance is the first order the polynomial leaves out."""
    what = "measured/predicted at 1/n → 0"
    smallest, order = int(dataset.width.min()), min(3, dataset.width.size)
    beyond = (2 * dataset.attrs["depth"] / smallest) ** order
    return [
        Number.of(one, f"{_shown(letter)}, {name}: {what}", 1.0, "extrapolated", beyond)
        for name, letter, one in each(dataset, "activation", "tensor")
    ]


def tables(dataset: xr.Dataset) -> list[Table]:
    """Recursion, and measured at the largest width."""
    rows, top = [], dataset.isel(width=-1)
    for name in map(str, dataset.activation.values):
        one = top.sel(activation=name)
        rows.append((f"{name}: recursion", *map(float, one.predicted)))
        measured = [
            f"{float(r * p):.4g} ± {abs(float(s * p)):.1g}".replace("-", "−")
            for r, s, p in zip(one.ratio, one.ratio_sem, one.predicted, strict=True)
        ]
        rows.append((f"{name}: width {int(top.width)}", *measured))
    head = ("", *map(_shown, dataset.tensor.values.tolist()))
    return [Table.of(f"Layer {dataset.attrs['depth']}", head, rows)]


@panels("activation")
def figure(dataset: xr.Dataset, *axes: Axes) -> None:
    """Ratios against 1/n, one panel for each activation."""
    shades = (*COLORS, MUTED)
    for axis, (name, part) in zip(axes, each(dataset, "activation"), strict=True):
        axis.axhline(1.0, color=MUTED, lw=0.8)
        for k, (letter, one) in enumerate(each(part, "tensor")):
            x = 1 / one.width.values + 0.0004 * (k - 3) * 32 / one.width.values.min()
            points(axis, x, one.ratio, one.ratio_sem, color=shades[k], label=_shown(letter))
            axis.plot(
                [0, *x[::-1]],
                [one.extrapolated, *one.ratio.values[::-1]],
                color=shades[k],
                lw=0.7,
                ls=(0, (3, 2)),
            )
        axis.set(title=f"{name}: measured/predicted", xlabel="1/n")
        axis.set_xlim(-0.001, 1.12 / float(dataset.width.min()))
    axes[0].legend(ncols=2, loc="best")
