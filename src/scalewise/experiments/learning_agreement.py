r"""Outcomes of trained networks, compared with the theory at order 1/n.

Networks of several activations, depths, numbers of outputs and widths are really trained, by several algorithms.
Four outcomes are compared with what theory predicts to order $1/n$: the mean outputs on test samples, their
covariance between tests and outputs, the test loss, and the change of the NTK.

$$\text{measured}-\Big(\text{leading}+\frac1n\,\text{coefficient}\Big)\sim\frac1{n^2}.$$

A cell is one activation, depth, number of outputs and algorithm, at all widths.

Claims: no entry lies further beyond the stated bias than chance, and what is left falls as $n^{-2}$, far from the
$n^{-1}$ of a wrong coefficient.

The power is fitted to what is left of each entry, $c\,n^{-p}$ with a $c$ of its own, and one $p$ for many cells;
its error is found by leaving out one cell after the other, for entries of one cell share their networks.

Source: PDLT (∞.117), (∞.154)-(∞.167), (6.81)-(6.88), (10.39)-(10.41); covariance derived.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.comparison import Comparison, compare
from scalewise.comparison.spi import limit_among
from scalewise.experiments._form import Folder, Progress, settings
from scalewise.experiments._look import COLORS, Number, Table, attributes, log_axes, panels
from scalewise.networks import MLP, Network
from scalewise.sweeps import sweep
from scalewise.tasks import Task
from scalewise.training import (
    Bayes,
    GradientDescent,
    GradientFlow,
    TwoStepNewton,
    predict_training,
)
from scalewise.training.ensembles import measure_training

TITLE = "Trained networks against the theory"
TEXT = (
    "Networks of several widths are trained by gradient descent at three rates, by gradient flow and by two "
    "steps of Newton, or drawn from the posterior. What they have learned is compared with the theory: "
    "leading order plus the 1/n term. Left: of each setting the entry that disagrees most, in standard errors "
    "beyond the stated bias, sorted; below the dotted line, theory and networks agree. Right: what the theory "
    "leaves unexplained, relative to its 1/n term. That ratio falls as 1/n, so what is unexplained falls as "
    "1/n²."
)
OUTCOMES = ("output_mean", "output_covariance", "test_loss", "ntk_change")
CALLED = dict(zip(OUTCOMES, ("mean", "covariance", "test loss", "NTK change"), strict=True))
POWERS = np.linspace(0.5, 4.0, 71)
SHARES = {"descent 0.2": 0.2, "descent 0.8": 0.8, "descent 1.5": 1.5}
TO_THE_END = {"flow": GradientFlow(), "Newton": TwoStepNewton(), "Bayes": Bayes(0.1)}
ALGORITHMS = (*SHARES, *TO_THE_END)
X = ((1.5, 0.3, -0.4), (-0.2, 1.6, 0.5), (0.4, -0.8, 1.4), (0.9, 1.0, 0.2), (-0.9, 0.5, 1.2))
Y = ((1.0, -0.3), (-0.6, 0.8), (0.4, 0.7), (0.3, 0.2), (-0.5, 0.9))
TRAIN = 3


# Small: few narrow networks: seconds.
@settings(
    activations=("tanh",),
    algorithms=("Newton", "Bayes"),
    depths=(2,),
    outputs=(1,),
    widths=(48, 96),
    networks=60,
)
class Config:
    """Settings.

    Args:
        activations: Smooth ones.
        algorithms: Of `ALGORITHMS`; the number behind a descent is its rate times the NTK's largest eigenvalue.
        depths: Numbers of weight layers.
        outputs: Numbers of outputs, 1 or 2.
        widths: Of the hidden layers, ascending.
        networks: Trained at each width.
        drawings: Of hidden layers, for a posterior.
    """

    activations: tuple[str, ...] = ("tanh", "gelu")
    algorithms: tuple[str, ...] = ("descent 0.8", "Newton", "Bayes")
    depths: tuple[int, ...] = (3,)
    outputs: tuple[int, ...] = (2,)
    widths: tuple[int, ...] = (32, 64, 96)
    networks: int = 100
    drawings: int = 10_000

    @classmethod
    def paper(cls) -> Config:
        """All 144 cells, with 200 networks of each width: half an hour on one core."""
        return cls(
            activations=("tanh", "sin", "gelu", "erf"),
            algorithms=ALGORITHMS,
            depths=(2, 3, 4),
            outputs=(1, 2),
            networks=200,
            drawings=40_000,
        )


def run(
    config: Config, *, store: Folder = None, progress: Progress = None, client: Any = None
) -> xr.Dataset:
    """Train every ensemble, and hold it against its theory.

    Kept and counted are cells.

    Returns:
        Over the cells (activation, algorithm, depth, outputs) and (outcome, width): ``excess``, the largest number
        of standard errors beyond the stated bias, NaN where the expansion says nothing; ``rms``, the root of the
        mean square z, ``entries``, how many there are; ``effect`` and ``left``, the mean squares of the 1/n term
        and of what is left after it, less what chance adds to the latter. Over the cells, outcome and power:
        ``misfit``, chi² of that power of the remainder. Over the cells: ``learning_parameter``.
    """
    found = sweep(
        partial(_cell, config=config),
        {
            "activation": list(config.activations),
            "algorithm": list(config.algorithms),
            "depth": list(config.depths),
            "outputs": list(config.outputs),
        },
        store=store,
        progress=progress,
        client=client,
    )
    return found.load().reset_coords(drop=True).assign_attrs(attributes(config))


def network(activation: str, depth: int, outputs: int) -> tuple[Network, Task]:
    """The network and the task of a cell."""
    x, y = np.array(X), np.array(Y)[:, :outputs]
    C_W = 2.0 if activation == "gelu" else 1.4  # a little above criticality
    ends = {"input_dim": x.shape[1], "output_dim": outputs}
    net = MLP(depth, 128, activation, **ends, C_b=0.1, C_W=C_W, lambda_b=0.5, lambda_W=1.0)
    return net, Task(x[:TRAIN], y[:TRAIN], test_inputs=x[TRAIN:], test_targets=y[TRAIN:])


def _cell(
    activation: str, algorithm: str, depth: int, outputs: int, *, config: Config
) -> xr.Dataset:
    net, task = network(activation, depth, outputs)
    seed = crc32(f"{activation} {algorithm} {depth} {outputs}".encode())
    if algorithm in SHARES:
        most = predict_training(net, task, GradientDescent()).attrs["maximal_rate"]
        way = GradientDescent(SHARES[algorithm] * most / 2)
    else:
        way = TO_THE_END[algorithm]
    count = config.drawings if isinstance(way, Bayes) else config.networks
    theory = predict_training(net, task, way, observables="all")
    names = [name for name in OUTCOMES if f"{name}_nlo" in theory]
    options = {"networks": count, "seed": seed, "observables": names, "progress": False}
    seen = [measure_training(net.at_width(n), task, way, **options) for n in config.widths]
    with warnings.catch_warnings():  # `learning_parameter` tells where the expansion ends
        warnings.simplefilter("ignore", UserWarning)
        held = [compare(theory, one, observables=names) for one in seen]
    return _judged(theory, held, names, config.widths)


def _judged(
    theory: xr.Dataset, held: list[Comparison], names: list[str], widths: tuple[int, ...]
) -> xr.Dataset:
    """The numbers of a cell; NaN for outcomes that it does not have."""
    parts = ("excess", "rms", "entries", "effect", "left")
    told = {part: np.full((len(OUTCOMES), len(widths)), np.nan) for part in parts}
    misfit = np.full((len(OUTCOMES), len(POWERS)), np.nan)
    for o, name in enumerate(OUTCOMES):
        if name not in names:
            continue
        rows = [_of(one.table, name) for one in held]
        off = np.array([row.measured - row.predicted for row in rows])
        sem = np.array([row.sem for row in rows])
        misfit[o] = _misfit(off, sem, np.array(widths, dtype=float))
        for w, (n, one, row) in enumerate(zip(widths, held, rows, strict=True)):
            verdict = one.passed is not None
            told["excess"][o, w] = np.abs(row.z_excess).max() if verdict else np.nan
            told["rms"][o, w] = np.sqrt((row.z**2).mean())
            told["entries"][o, w] = row.sizes["entry"]
            told["left"][o, w] = (off[w] ** 2 - sem[w] ** 2).mean()
            told["effect"][o, w] = (theory[f"{name}_nlo"].values ** 2).mean() / n**2
    return xr.Dataset(
        {
            **{part: (("outcome", "width"), values) for part, values in told.items()},
            "misfit": (("outcome", "power"), misfit),
            "learning_parameter": float(theory.learning_parameter),
        },
        {"outcome": list(OUTCOMES), "width": list(widths), "power": POWERS},
    )


def _of(table: xr.Dataset, name: str) -> xr.Dataset:
    """The entries of one outcome, in the order of their indices."""
    own = table.isel(entry=(table.observable == name).values & ~table.exact.values)
    return own.isel(entry=np.lexsort(own.samples.values.T[::-1]))


def _misfit(off: np.ndarray, sem: np.ndarray, n: np.ndarray) -> np.ndarray:
    r"""Chi² of $c\,n^{-p}$ for each power, the best c of each entry taken; (width, entry) in."""
    shape = n[:, None] ** -POWERS  # (width, power)
    weight = sem**-2.0
    square = np.einsum("wp,we->pe", shape**2, weight)
    overlap = np.einsum("wp,we->pe", shape, weight * off)
    return (weight * off**2).sum() - (overlap**2 / square).sum(axis=1)


def fitted_power(misfit: xr.DataArray) -> tuple[float, float]:
    """The power at which the sum over cells is least, and its error by leaving out one cell after the other.

    Args:
        misfit: Over power, and over cells.

    Returns:
        NaN and NaN if fewer than three cells have one.
    """
    curves = misfit.stack(cell=[d for d in misfit.dims if d != "power"]).transpose("cell", "power")
    known = curves.values[np.isfinite(curves.values).all(axis=1)]
    count = len(known)
    if count < 3:
        return np.nan, np.nan
    total = known.sum(axis=0)
    each = np.array([_least(total - one) for one in known])
    return _least(total), float(np.sqrt((count - 1) / count * ((each - each.mean()) ** 2).sum()))


def _least(curve: np.ndarray) -> float:
    """Where a curve over powers is least, by a parabola."""
    k = int(np.clip(np.argmin(curve), 1, len(curve) - 2))
    left, middle, right = curve[k - 1 : k + 2]
    bend = left - 2 * middle + right
    move = 0.5 * (left - right) / bend if bend > 0 else 0.0
    return float(POWERS[k] + np.clip(move, -1, 1) * (POWERS[1] - POWERS[0]))


def worst_by_chance(dataset: xr.Dataset) -> float:
    """Standard errors within which all entries of all cells agree if the theory is right."""
    decided = np.isfinite(dataset.excess.values)
    return limit_among(int(dataset.entries.values[decided].sum()))


def numbers(dataset: xr.Dataset) -> list[Number]:
    """The worst entry, the size of all, and the power of the remainder."""
    rows, limit = [], worst_by_chance(dataset)
    for name in OUTCOMES:
        one = dataset.sel(outcome=name)
        worst = float(one.excess.max())
        rows.append(Number(f"{CALLED[name]}: worst beyond the bias", 0.0, worst, 0.0, limit))
        power, sem = fitted_power(one.misfit)
        if np.isfinite(sem) and sem < 0.5:  # a power that is told from 1
            rows.append(Number(f"{CALLED[name]}: power of the remainder", 2.0, power, sem, 0.5))
    return rows


def tables(dataset: xr.Dataset) -> list[Table]:
    """The worst entry of every cell; powers by outcome."""
    cases = [
        (activation, algorithm)
        for activation in map(str, dataset.activation.values)
        for algorithm in map(str, dataset.algorithm.values)
    ]
    shapes = [(int(d), int(o)) for d in dataset.depth.values for o in dataset.outputs.values]
    rows = []
    for activation, algorithm in cases:
        one = dataset.excess.sel(activation=activation, algorithm=algorithm)
        worst = [one.sel(depth=d, outputs=o).max(["outcome", "width"]) for d, o in shapes]
        rows.append((f"{activation}, {algorithm}", *(f"{float(w):.1f}" for w in worst)))
    head = ("", *(f"depth {d}, outputs {o}" for d, o in shapes))
    fits = []
    for name in OUTCOMES:
        one = dataset.sel(outcome=name)
        power, sem = fitted_power(one.misfit)
        verdicts = np.isfinite(one.excess.values)
        row = (CALLED[name], int(one.entries.values[verdicts].sum()), float(one.excess.max()))
        rms = np.sqrt(float((one.rms**2).mean()))
        fits.append((*row, rms, f"{power:.2f} ± {sem:.2f}" if np.isfinite(sem) else None))
    told = ("", "entries", "worst", "rms z", "power of the remainder")
    return [
        Table.of("Worst entry of each cell, in standard errors beyond the bias", head, rows),
        Table.of("All cells together", told, fits),
    ]


@panels(2, height=3.6)
def figure(dataset: xr.Dataset, left: Axes, right: Axes) -> None:
    """The worst entries of the cells, sorted; what is left after 1/n against the width."""
    for color, name in zip(COLORS, OUTCOMES, strict=False):
        one = dataset.sel(outcome=name)
        worst = np.sort(one.excess.max("width").values.ravel())
        worst = worst[np.isfinite(worst)]
        left.plot(np.linspace(0, 1, len(worst)), worst, color=color, label=CALLED[name])
        over = [d for d in one.left.dims if d != "width"]
        ratio = np.sqrt(np.maximum(one.left.sum(over) / one.effect.sum(over), 1e-8))
        right.plot(dataset.width, ratio, "o-", ms=4, color=color, label=CALLED[name])
    left.axhline(worst_by_chance(dataset), color=COLORS[1], lw=0.8, ls=":")
    left.set(xlabel="share of the cells", title="worst entry, standard errors beyond the bias")
    left.legend(loc="upper left")
    log_axes(right)
    right.set(xlabel="width n", title="what is left after the 1/n term, relative to it")
