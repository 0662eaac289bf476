r"""How fast do networks in maximal update approach their limit, if their activation is $x$ or $x^2$?

Shown: loss curves of one, of two, and of two hidden layers with gradients carried back through an independent copy
of the weights (decoupled), one sample with $\xi_t,y_t=\pm1$ per step; mean and standard deviation over seeds at the
smallest and the largest width, beside the limit, and the distance of a network from the limit against its width,
$$\Big(\tfrac1T\sum_t\big(f_t(\xi_t)-\mathring f_t(\xi_t)\big)^2\Big)^{1/2},$$
the geometric mean over seeds. The linear limits are exact; those of $x^2$ are simulated with particles.

Claims: the distance falls as $n^{-1/2}$; quadratic networks are farther off, for their tails are fat; the decoupled
networks follow their own limit and no other.

Source: Yang & Hu, *Tensor Programs IV*, Figure 6; Theorems 5.1, F.1, F.2.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.experiments._form import Folder, Progress, power, settings
from scalewise.experiments._look import COLORS, INK, Number, Table, attributes, log_axes, panels
from scalewise.limits import SGD, Architecture, Exact, Finite, Lazy, train
from scalewise.limits import run as run_program
from scalewise.limits.program import trained
from scalewise.scaling import mup
from scalewise.sweeps import sweep
from scalewise.sweeps.spi import within
from scalewise.tasks import Task

TITLE = "Linear and quadratic networks beside their limit of maximal update"
TEXT = (
    "Networks in maximal update, taught one random sign at a time, beside the limit of infinite width: loss "
    "curves with one and two hidden layers, and with the way back decoupled from the way forth. The distance "
    "from the limit falls as the root of the width; where the activation is a square, tails are fat and a "
    "network of the same width is farther off. Linear limits are exact."
)
ACTIVATIONS = ("linear", "quadratic")
MODELS = ("depth 1", "depth 2", "depth 2, decoupled")
_INPUTS = np.array([[1.0], [1.0], [-1.0], [-1.0]])
_TARGETS = np.array([1.0, -1.0, 1.0, -1.0])
_GROUP = 16  # networks side by side: at width 4096 they fill two gigabytes


# Small: narrower and fewer: fifteen seconds.
@settings(widths=(128, 256, 512, 1024), seeds=32, steps=16, particles=131072)
class Config:
    r"""Settings.

    Args:
        widths: At least two, increasing.
        seeds: Networks of each kind and width.
        steps: Of one sample each.
        particles: Of the simulated limits; four replicas.
        linear_rate: $\eta$ of linear networks.
        quadratic_rate: $\eta$ of quadratic networks with one hidden layer; with two a quarter of it.
        seed: Of everything.
    """

    widths: tuple[int, ...] = (256, 512, 1024, 2048)
    seeds: int = 40
    steps: int = 20
    particles: int = 262144
    linear_rate: float = 0.1
    quadratic_rate: float = 0.02
    seed: int = 0

    @classmethod
    def paper(cls) -> Config:
        """Widths and seeds as published, and two widths more for the rate: a quarter of an hour on one core."""
        return cls(widths=(512, 1024, 2048, 4096), seeds=100, steps=30, particles=524288)


def run(
    config: Config, *, store: Folder = None, progress: Progress = None, client: Any = None
) -> xr.Dataset:
    r"""Train networks of all widths, and their limits.

    Kept and counted are groups of networks; the six limits come first.

    Returns:
        Over (activation, model, width, step): ``loss`` of the sample of the step, before it, mean over seeds, with
        ``spread``, its standard deviation; over (activation, model, step): ``limit_loss``; over (activation, model,
        width, seed): ``gap``, the distance from the limit; over (model, seed): ``other_gap``, of the widest linear
        networks of two layers from the limit that is not theirs.
    """
    rng = np.random.default_rng(config.seed)
    taught = rng.integers(len(_INPUTS), size=config.steps)
    kinds = {"activation": ACTIVATIONS, "model": MODELS}
    limits = sweep(
        partial(_limit, config=config, taught=taught),
        kinds,
        store=within(store, "limits"),
        client=client,
        progress=False,
    ).outputs.values
    groups = sweep(
        partial(_group, config=config, taught=taught),
        {**kinds, "width": config.widths, "first": range(0, config.seeds, _GROUP)},
        store=within(store, "networks"),
        client=client,
        progress=progress,
    ).outputs.values
    outputs = groups.reshape(*groups.shape[:3], -1, config.steps)[:, :, :, : config.seeds]
    gap = np.sqrt(((outputs - limits[:, :, None, None]) ** 2).mean(-1))
    # The two limits of two hidden layers, exchanged.
    other = np.sqrt(((outputs[0, 1:, -1] - limits[0, :0:-1, None]) ** 2).mean(-1))
    y = _TARGETS[taught]
    loss = (outputs - y) ** 2 / 2
    over = ("activation", "model", "width")
    return xr.Dataset(
        {
            "loss": ((*over, "step"), loss.mean(3)),
            "spread": ((*over, "step"), loss.std(3)),
            "limit_loss": (("activation", "model", "step"), (limits - y) ** 2 / 2),
            "gap": ((*over, "seed"), gap),
            "other_gap": (("deep_model", "seed"), other),
        },
        {
            "activation": list(ACTIVATIONS),
            "model": list(MODELS),
            "deep_model": list(MODELS[1:]),
            "width": list(config.widths),
            "step": np.arange(config.steps),
        },
        attributes(config),
    )


def _group(
    activation: str, model: str, width: int, first: int, *, config: Config, taught: np.ndarray
) -> xr.Dataset:
    """Outputs of the networks of some seeds side by side; NaN in a group that is not full."""
    replicas = min(_GROUP, config.seeds - first)
    on = Finite(width, replicas=replicas, seed=config.seed + 1 + first, dtype=np.float32)
    outputs = np.full((_GROUP, config.steps), np.nan)
    outputs[:replicas] = _outputs(config, activation, model, taught, on)
    return xr.Dataset({"outputs": (("seed", "step"), outputs)})


def _settings(config: Config, phi: str, model: str) -> tuple[Architecture, float, bool]:
    """Network, rate, and whether decoupled."""
    hidden = 1 if model == "depth 1" else 2
    slower = 1 if hidden == 1 else 4
    rate = config.linear_rate if phi == "linear" else config.quadratic_rate / slower
    return Architecture(mup(depth=hidden + 1), phi), rate, model == MODELS[2]


def _outputs(config: Config, phi: str, model: str, taught: np.ndarray, on: object) -> np.ndarray:
    """Outputs of the sample of each step before it, (replica, step)."""
    net, rate, decoupled = _settings(config, phi, model)
    task = Task(_INPUTS, _TARGETS, batches=taught[:, None])
    options = {"steps": config.steps, "decoupled": decoupled}
    found = train(net, task, SGD(rate), on=on, **options).logits.values  # type: ignore
    return found[:, np.arange(config.steps), taught, 0]


def _limit(activation: str, model: str, *, config: Config, taught: np.ndarray) -> xr.Dataset:
    """Outputs of infinite width: exact for linear networks, else the mean of lazy runs."""
    net, rate, decoupled = _settings(config, activation, model)
    if activation != "linear":
        on = Lazy(config.particles, replicas=4, seed=config.seed, antithetic=True)
        outputs = _outputs(config, activation, model, taught, on).mean(0)
    elif decoupled:
        task = Task(_INPUTS, _TARGETS, test_inputs=_INPUTS, batches=taught[:, None])
        program = trained(net, task, SGD(rate), steps=config.steps, decoupled=True)
        outputs = run_program(program, Exact()).f.values[np.arange(config.steps), taught]
    else:
        outputs = _outputs(config, activation, model, taught, Exact())[0]
    return xr.Dataset({"outputs": ("step", outputs)})


def _typical(gap: xr.DataArray) -> tuple[np.ndarray, np.ndarray]:
    """Geometric means over seeds and their standard errors: the tails of the logarithm are not fat."""
    logs = np.log(gap.transpose(..., "seed").values)
    middle = np.exp(logs.mean(-1))
    return middle, middle * logs.std(-1, ddof=1) / logs.shape[-1] ** 0.5


def numbers(dataset: xr.Dataset) -> list[Number]:
    """The rates, where the limit lies among the networks, and whether each follows its own limit."""
    found = []
    for phi in ACTIVATIONS:
        for model in MODELS:
            middle, sem = _typical(dataset.gap.sel(activation=phi, model=model))
            slope, error = power(dataset.width.values, middle, sem)
            found.append(Number(f"rate, {phi}, {model}", -0.5, slope, error, 0.1))
    widest = dataset.isel(width=-1)
    within = (abs(widest.limit_loss - widest.loss) <= widest.spread).mean("step")
    for phi in ACTIVATIONS:
        share = float(within.sel(activation=phi).mean())
        found.append(Number(f"limit within mean ± sd, {phi}, share of steps", 1, share, 0, 0.1))
    own = widest.gap.sel(activation="linear", model=list(MODELS[1:])).values
    nearer = float((own < dataset.other_gap.values).mean())
    found.append(Number("linear networks nearer to their own limit, share", 1, nearer, 0, 0.1))
    ratio = widest.gap.median("seed").mean("model")
    farther = float(ratio.sel(activation="quadratic") > ratio.sel(activation="linear"))
    found.append(Number("quadratic farther off than linear", 1, farther))
    return found


def tables(dataset: xr.Dataset) -> list[Table]:
    """The distance from the limit at each width."""
    rows = [
        (phi, model, *map(float, _typical(dataset.gap.sel(activation=phi, model=model))[0]))
        for phi in ACTIVATIONS
        for model in MODELS
    ]
    head = ("activation", "model", *(f"n = {n}" for n in dataset.width.values.tolist()))
    return [Table.of("Distance from the limit, geometric mean over seeds", head, rows)]


@panels(4, 2, height=2.7)
def figure(dataset: xr.Dataset, *axes: Axes) -> None:
    """Loss curves of the three models and the distances, one row for each activation."""
    steps, widths = dataset.step.values, dataset.width.values
    for i, phi in enumerate(ACTIVATIONS):
        row = axes[4 * i : 4 * i + 4]
        for axis, model in zip(row, MODELS, strict=False):
            one = dataset.sel(activation=phi, model=model)
            for k, color in ((0, COLORS[1]), (-1, COLORS[0])):
                centre, spread = one.loss.isel(width=k), one.spread.isel(width=k)
                axis.fill_between(
                    steps, centre - spread, centre + spread, color=color, alpha=0.18, lw=0
                )
                axis.plot(steps, centre, color=color, lw=1.0, label=f"n = {widths[k]}")
            axis.plot(steps, one.limit_loss, color=INK, lw=1.2, ls="--", label="limit")
            axis.set(title=f"{phi}, {model}", xlabel="step")
        for model, color in zip(MODELS, COLORS, strict=False):
            middle, _ = _typical(dataset.gap.sel(activation=phi, model=model))
            row[3].plot(widths, middle, "o-", ms=3.4, color=color, label=model)
        row[3].set(title="distance from the limit", xlabel="width n")
        log_axes(row[3])
    axes[0].set_ylim(top=1.4 * float(dataset.loss.isel(activation=0, model=0).max()))
    axes[0].legend(loc="upper right")
    axes[3].legend(loc="lower left")
