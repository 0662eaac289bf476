r"""Table of activations: universality class, critical variances, coefficients and exponents.

Shown: for each activation its class with $K^\star$, $(C_b,C_W)$ and the stability of the point, and for
those with power laws the exponents $p$ of $\mathcal O^{(\ell)}\sim\ell^{-p}$, fitted to thousands of
layers of the recursions and beside them the predicted ones.
Look for: $p_V-2p_0=-1$ in every class, and nothing that depends on more than the class.

Source: PDLT sections 5.2-5.4, 9.2, 9.3; (5.93), (5.128), (9.23)-(9.27).
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.critical import criticality
from scalewise.experiments._form import each, settings
from scalewise.experiments._look import COLORS, MUTED, Number, Table, attributes, log_axes, panels
from scalewise.networks import MLP
from scalewise.theory.deep import asymptotics, fit_scaling
from scalewise.theory.single import single_input_flow

TITLE = "Universality classes and their exponents"
TEXT = (
    "What deep networks do depends on little: whether the activation is scale-invariant, passes the "
    "origin with a slope, or neither. Left: kernels stay (ReLU, linear), or fall as 1/ℓ (tanh, sin, "
    "erf). Right: exponents fitted to the recursions against those of the class; learning rates are "
    "equivalent across layers."
)
_FITTED = ("K", "V", "Theta", "D", "F", "B", "A", "Q")


@settings(deep=("relu", "tanh"), depth=3_000)  # small: fewer layers
class Config:
    r"""Settings.

    Args:
        activations: Those of the table of classes.
        deep: Those that are iterated; scale-invariant or of class $K^\star=0$.
        depth: Layers of the recursions.
    """

    activations: tuple[str, ...] = (
        "linear",
        "relu",
        "tanh",
        "sin",
        "erf",
        "swish",
        "gelu",
        "sigmoid",
        "softplus",
        "perceptron",
        "quadratic",
        "exp",
    )
    deep: tuple[str, ...] = ("linear", "relu", "tanh", "sin", "erf")
    depth: int = 20_000


def run(config: Config) -> xr.Dataset:
    r"""Classify, iterate and fit.

    Returns:
        Over activation: ``universality``, ``stability``, ``K_star``, ``C_b``, ``C_W`` (nan where there
        is none). Over (deep, layer): ``kernel``. Over (deep, tensor): ``exponent`` with
        ``exponent_error`` and ``exponent_predicted``; nan where a tensor vanishes.
    """
    records = [criticality(name) for name in config.activations]
    layers = np.arange(1, config.depth + 1)
    kernels, exponents = [], []
    for name in config.deep:
        flow = _flow(name, config.depth)
        kernels.append(flow.K[:, 0])
        exponents.append(_exponents(name, flow, layers))
    table = np.array(exponents)
    number = np.array(
        [[np.nan if v is None else v for v in (r.K_star, r.C_b, r.C_W)] for r in records]
    )
    over = ("deep", "tensor")
    return xr.Dataset(
        {
            "universality": ("activation", [r.universality for r in records]),
            "stability": ("activation", [r.point.stability if r.point else "–" for r in records]),
            "K_star": ("activation", number[:, 0]),
            "C_b": ("activation", number[:, 1]),
            "C_W": ("activation", number[:, 2]),
            "kernel": (("deep", "layer"), kernels),
            "exponent": (over, table[:, :, 0]),
            "exponent_error": (over, table[:, :, 1]),
            "exponent_predicted": (over, table[:, :, 2]),
        },
        {
            "activation": list(config.activations),
            "deep": list(config.deep),
            "layer": layers,
            "tensor": list(_FITTED),
        },
        attributes(config),
    )


def _flow(name: str, depth: int):
    net = MLP(depth, 100, name, input_dim=1, output_dim=1).at_criticality()
    return single_input_flow(net.with_equivalent_learning_rates(), K1=1.0)


def _exponents(name: str, flow, layers: np.ndarray) -> list[tuple[float, float, float]]:
    known, rows = asymptotics(name), []
    for tensor in _FITTED:
        values = getattr(flow, tensor)[:, 0]
        if not values[-1]:
            rows.append((np.nan, np.nan, np.nan))
            continue
        fit = fit_scaling(values, layers.astype(float))
        rows.append((fit.exponent, fit.exponent_error, known.exponents[tensor]))
    return rows


def numbers(dataset: xr.Dataset) -> list[Number]:
    """The exponents of the vertex, and the combination that is the same in all classes."""
    rows = []
    for name, fitted in each(dataset, "deep"):
        p = {str(k): float(fitted.exponent.sel(tensor=k)) for k in dataset.tensor.values}
        rows.append(Number(f"{name}: p_V − 2p₀", -1.0, p["V"] - 2 * p["K"], 0.0, 0.02))
        rows.append(Number(f"{name}: p_B − 2p_Θ", -1.0, p["B"] - 2 * p["Theta"], 0.0, 0.02))
    return rows


def tables(dataset: xr.Dataset) -> list[Table]:
    """Table A, the classes; table B, the exponents."""
    classes = []
    for name, one in each(dataset, "activation"):
        value = [float(one[k]) for k in ("K_star", "C_b", "C_W")]
        line = str(one.universality.values) == "scale-invariant"
        star = "any" if line else None if np.isnan(value[0]) else value[0]
        rest = [None if np.isnan(v) else v for v in value[1:]]
        classes.append((name, str(one.universality.values), str(one.stability.values), star, *rest))
    fitted = []
    for name, one in each(dataset, "deep"):
        row = [
            None if np.isnan(p) else f"{p:.3f} ({q:g})".replace("-", "−")
            for p, q in zip(one.exponent.values, one.exponent_predicted.values, strict=True)
        ]
        fitted.append((name, *row))
    return [
        Table.of("Classes", ("activation", "class", "stability", "K*", "C_b", "C_W"), classes),
        Table.of(
            "Exponents: fitted (predicted)",
            ("activation", *("Θ" if k == "Theta" else k for k in map(str, dataset.tensor.values))),
            fitted,
        ),
    ]


@panels(2, height=3.6)
def figure(dataset: xr.Dataset, left: Axes, right: Axes) -> None:
    """Kernels against the depth; fitted against predicted exponents."""
    for k, (name, one) in enumerate(each(dataset, "deep")):
        color = COLORS[k % len(COLORS)]
        left.plot(
            one.layer, one.kernel, color=color, label=name, ls="--" if name == "relu" else "-"
        )
        shift = 0.06 * (k - (dataset.deep.size - 1) / 2)
        right.errorbar(
            one.exponent_predicted + shift,
            one.exponent,
            one.exponent_error,
            fmt="o",
            ms=3.6,
            mew=0,
            color=color,
            label=name,
        )
    log_axes(left)
    left.set(xlabel="layer ℓ", title="kernel K, from K = 1")
    left.legend(loc="lower left")
    low, high = -3.6, 1.6
    right.plot([low, high], [low, high], color=MUTED, lw=0.9, ls=(0, (4, 2)))
    right.set(xlabel="exponent predicted", ylabel="fitted")
    right.set_title("exponents of " + ", ".join("Θ" if k == "Theta" else k for k in _FITTED))
    right.legend(loc="upper left")
