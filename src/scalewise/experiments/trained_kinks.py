r"""How far what trained networks have learned is from infinite width, with a kink and without.

Networks of one hidden layer are trained by gradient descent until they fit. A kink of ReLU takes sides: neurons
near it at a training sample change sides while they are trained, and their speed jumps there, so that
$$O_n-O_\infty=\frac{O^{\{1/2\}}}{\sqrt n}+O(1/n)\quad\text{(ReLU)},\qquad
  O_n-O_\infty=\frac{O^{\{1\}}}n+O(1/n^2)\quad\text{(smooth)}.$$
A softplus is smooth, and falls as tanh does.

Shown: a mean output and an entry of the NTK's change, distance from infinite width against width; lines are the
leading terms of the theory, no number in them fitted, points are trained networks. Dotted: the same terms and two
more powers, which are fitted.
Look for: points come onto their lines, and ReLU falls half as steeply.

Source: PDLT (∞.117), (∞.154)-(∞.165); with a kink derived.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from zlib import crc32

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.experiments._form import each, power, settings
from scalewise.experiments._look import COLORS, Number, Table, attributes, log_axes, panels
from scalewise.networks import MLP
from scalewise.sweeps import sweep
from scalewise.tasks import Task
from scalewise.training import GradientDescent, predict_training
from scalewise.training.ensembles import measure_training

TITLE = "A kink changes the power of the width"
TEXT = (
    "Networks of one hidden layer are trained by gradient descent. Shown is how far a mean output (left) and an "
    "entry of the change of the NTK (right) are from infinite width; lines are the leading terms of the theory, in "
    "which no number is fitted, points are trained networks. Neurons that training moves over the kink of ReLU "
    "leave the power -1/2 of the width, smooth activations have the power -1. Dotted curves add two more "
    "powers, which are fitted: far from infinite width they count as much."
)
OUTCOMES = ("output_mean", "ntk_change")
CALLED: dict[str, str] = dict(zip(OUTCOMES, ("mean output", "change of the NTK"), strict=True))
_SHARE = 0.2  # of the largest rate at infinite width: narrow networks have larger NTKs
_FITTED = 3  # powers, the leading one and the next
_WIDE = 64  # where slopes are read


# Small: few narrow networks.
@settings(activations=("relu", "tanh"), widths=(16, 24, 32, 48), networks=(200,) * 4, steps=20)
class Config:
    """Settings.

    Args:
        activations: One with a kink first.
        widths: Ascending, at least four.
        networks: Trained at each.
        steps: Of gradient descent.
        seed: With the names of an activation and a width, the seed of an ensemble.
    """

    activations: tuple[str, ...] = ("relu", "softplus(4)", "tanh")
    widths: tuple[int, ...] = (32, 64, 128, 256, 512, 1024)
    networks: tuple[int, ...] = (4000, 3000, 2000, 2000, 1500, 800)
    steps: int = 60
    seed: int = 0


def run(config: Config) -> xr.Dataset:
    """Predict and train networks of every activation.

    Returns:
        Over (activation, outcome): ``power`` of 1/n of the leading term; ``predicted``, its coefficient, of the
        entry where that is largest, with ``predicted_error``; ``found``, the same from a fit of that power and the
        next ones to all widths, with ``found_sem``. Over width besides: ``beyond``, what is beyond infinite width,
        with ``beyond_sem``.
    """
    grid = {"activation": list(config.activations)}
    found = sweep(partial(_cell, config=config), grid, client=0, progress=False)
    return found.load().reset_coords(drop=True).assign_attrs(attributes(config))


def task() -> Task:
    """Three training and two test samples of normal numbers."""
    x = np.random.default_rng(4).normal(size=(5, 3))
    return Task(x[:3], np.array([[1.75], [-2.1], [1.05]]), test_inputs=x[3:])


def _cell(activation: str, *, config: Config) -> xr.Dataset:
    C_W = 1.4 if activation == "tanh" else 2.0
    ends: dict[str, Any] = {"input_dim": 3, "output_dim": 1}
    net = MLP(2, 64, activation, **ends, C_b=0.1, C_W=C_W, lambda_b=0.5)
    most = predict_training(net, task(), GradientDescent()).attrs["maximal_rate"]
    way = GradientDescent(_SHARE * most, steps=config.steps)
    first, end = (1.0, "nlo") if net.activation.is_smooth else (0.5, "half")
    names = [OUTCOMES[0], *(f"{name}_{end}" for name in OUTCOMES)]
    theory = predict_training(net, task(), way, observables=names)
    seen = [
        measure_training(
            net.at_width(n),
            task(),
            way,
            networks=count,
            seed=crc32(f"{activation} {n} {config.seed}".encode()),
            observables=list(OUTCOMES),
            progress=False,
        )
        for n, count in zip(config.widths, config.networks, strict=True)
    ]
    n = np.array(config.widths, dtype=float)
    rows = [_of_outcome(theory, seen, name, end, n) for name in OUTCOMES]
    dims = {key: ("outcome", "width") if np.ndim(v) else ("outcome",) for key, v in rows[0].items()}
    found = {key: (dims[key], [row[key] for row in rows]) for key in rows[0]}
    labels = {"outcome": list(OUTCOMES), "width": list(config.widths)}
    return xr.Dataset(found, labels).assign(power=first)


def _of_outcome(
    theory: xr.Dataset, seen: list[xr.Dataset], name: str, end: str, n: np.ndarray
) -> dict[str, Any]:
    """The entry with the largest coefficient: what is beyond infinite width, and its leading term."""
    wanted = theory[f"{name}_{end}"].values.ravel()
    k = int(np.abs(wanted).argmax())
    leading = float(theory[name].values.ravel()[k]) if name in theory else 0.0
    beyond = np.array([data[name].values.ravel()[k] for data in seen]) - leading
    sem = np.array([data[f"{name}_sem"].values.ravel()[k] for data in seen])
    found, found_sem = leading_coefficient(n, beyond, sem, 1.0 if end == "nlo" else 0.5)
    return {
        "predicted": wanted[k],
        "predicted_error": theory[f"{name}_{end}_error"].values.ravel()[k],
        "found": found,
        "found_sem": found_sem,
        "beyond": beyond,
        "beyond_sem": sem,
    }


def leading_coefficient(
    n: np.ndarray, beyond: np.ndarray, sem: np.ndarray, first: float
) -> tuple[float, float]:
    """The coefficient of a power of 1/n among three, each as much higher than the one before as the first is.

    Args:
        n: Widths.
        beyond: What is beyond infinite width.
        sem: Its standard errors.
        first: The first.
    """
    shapes = powers(n, first) / sem[:, None]
    covariance = np.linalg.inv(shapes.T @ shapes)
    return float((covariance @ shapes.T @ (beyond / sem))[0]), float(np.sqrt(covariance[0, 0]))


def powers(n: np.ndarray, first: float) -> np.ndarray:
    """Three powers of 1/n, over (width, power)."""
    return n[:, None] ** -(first * np.arange(1, _FITTED + 1))


def with_next_orders(one: xr.Dataset) -> np.ndarray:
    """The leading term of the theory and two more powers that are fitted to what it leaves, at every width."""
    shapes, sem = powers(one.width.values.astype(float), float(one.power)), one.beyond_sem.values
    leading = float(one.predicted) * shapes[:, 0]
    left = (one.beyond.values - leading) / sem
    fitted, *_ = np.linalg.lstsq(shapes[:, 1:] / sem[:, None], left, rcond=None)
    return leading + shapes[:, 1:] @ fitted


def slope(one: xr.Dataset) -> tuple[float, float]:
    """The slope of a logarithm over that of the width, of the wider networks, with its standard error."""
    wide = one.sel(width=one.width >= min(_WIDE, int(one.width[-2])))
    return power(wide.width, wide.beyond, wide.beyond_sem)


def numbers(dataset: xr.Dataset) -> list[Number]:
    """The leading coefficients beside those of the theory, and the slopes of the widest networks."""
    rows = []
    for sigma, name, one in each(dataset, "activation", "outcome"):
        what = f"{sigma}, {CALLED[name]}"
        rows.append(Number.of(one, what, "predicted", "found", 2 * float(one.predicted_error)))
    return rows


def tables(dataset: xr.Dataset) -> list[Table]:
    """Leading terms, predicted and fitted, and slopes."""
    rows = []
    for sigma, name, one in each(dataset, "activation", "outcome"):
        told = [
            f"{float(one[a]):.3f} ± {float(one[b]):.2g}"
            for a, b in (("predicted", "predicted_error"), ("found", "found_sem"))
        ]
        steep, error = slope(one)
        rows.append(
            (sigma, CALLED[name], f"{-float(one.power):g}", *told, f"{steep:.2f} ± {error:.2g}")
        )
    head = ("activation", "", "power of n", "coefficient", "fitted", "slope of wide networks")
    return [Table.of("What a finite width changes, to leading order", head, rows)]


@panels(2, height=3.8)
def figure(dataset: xr.Dataset, left: Axes, right: Axes) -> None:
    """Distances from infinite width against the width, with the leading terms of the theory."""
    n = dataset.width.values
    for axis, name in zip((left, right), OUTCOMES, strict=True):
        for color, sigma in zip(COLORS, dataset.activation.values.tolist(), strict=False):
            one = dataset.sel(activation=sigma, outcome=name)
            line = abs(float(one.predicted)) * n ** -float(one.power)
            axis.plot(n, line, color=color, label=f"{sigma}: power -{float(one.power):g}")
            sign = np.sign(float(one.predicted))
            axis.plot(n, sign * with_next_orders(one), color=color, lw=0.9, ls=":")
            axis.errorbar(
                n, sign * one.beyond.values, one.beyond_sem.values, fmt="o", ms=4, color=color
            )
        log_axes(axis)
        axis.set(xlabel="width n", title=f"{CALLED[name]}: distance from infinite width")
        axis.legend(loc="lower left")
