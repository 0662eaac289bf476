r"""A base that the theory draws: does a network carried from it end lower than one that is tuned at its size?

A small decoder learns the letters of a text, and the symbols of a teacher that reads four of them, where networks
rest on a plateau before they begin. Most scripts draw all weights at 0.02; a narrow base then hardly leaves the
plateau in the steps that it has, and what was tuned there says little of the wide one. Five arms on a grid of
rates: *plain*, as built; *planned*, by maximal updates from the base as built; *planned, tuned*, with the constants
tuned at the base; *planned, critical*, from a base drawn as the theory proposes, nothing tuned but one rate;
*planned, by hand*, with variances 1/fan-in, embeddings of unit size, a halved readout and branches over $\sqrt 2$.

Claims: from width 128 up, planned, critical and carried ends below plain, retuned, on both tasks, and loses less
than 0.02 nats by being carried. Constants that are tuned at the base are better still on the text, and on the
teacher, where the base rests on its plateau, worthless.

Source: PDLT 5.1 for what a critical layer is; TP4 K.1 for the rules. The experiment is ours.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from scalewise._extras import require
from scalewise.data import missing_data
from scalewise.experiments._arms import Arm, Cell, Common
from scalewise.experiments._cells import trained
from scalewise.experiments._form import Folder, Progress, settings
from scalewise.experiments._look import COLORS, Number, Table, attributes, house, points, sheet
from scalewise.experiments._text_families import Family
from scalewise.plan.spi import mean_of
from scalewise.sweeps.spi import within

TITLE = "A base drawn by theory: carried from it, or tuned at every size"
TEXT = (
    "A decoder learns letters of a text (left) and symbols of a teacher that reads four of them (right). Loss over "
    "the width at the best rate of the base (open) and of the size itself (full): as built, under a plan from the "
    "base as built, with constants tuned there, and from a base that is drawn as the theory proposes. Dashed: the "
    "best constant predictor."
)
FILES = ("wiki100m.txt.xz",)
_WIDE = 128  # from where the base is to be better
_COST = 0.02  # nats
PLAIN, CRITICAL = "plain", "planned, critical"
ARMS = (
    Arm(PLAIN, rules="standard", based=False),
    Arm("planned"),
    Arm("planned, tuned", tuned=True),
    Arm(CRITICAL, init="critical"),
    Arm("planned, by hand", init="by hand"),
)


@settings(
    widths=(16, 32),
    steps=12,
    octaves=(-7, -4),
    budget=6,
    context=16,
    held=64,
    symbols=100_000,
)
class Config:
    r"""Settings.

    Args:
        tasks: What is learnt.
        widths: $n$; the first is the base.
        depth: $L$.
        steps: Duration.
        octaves: First and last learning rate of the base, as powers of 2.
        seeds: Networks at each rate.
        start: Power of 2 of the rate that tuning begins with.
        weight_decay: Of what is not tuned.
        budget: Runs of the tuning.
        tuning_seeds: Seeds of a candidate.
        batch: Texts of a step.
        context: Symbols of a text.
        held: Texts of the loss.
        symbols: Length of the sequence.
    """

    tasks: tuple[str, ...] = ("text", "teacher")
    widths: tuple[int, ...] = (16, 32, 64)
    depth: int = 2
    steps: int = 60
    octaves: tuple[int, int] = (-9, -4)
    seeds: int = 2
    start: int = -6
    weight_decay: float = 0.1
    budget: int = 24
    tuning_seeds: int = 2
    batch: int = 8
    context: int = 32
    held: int = 128
    symbols: int = 400_000

    @classmethod
    def paper(cls) -> Config:
        """Widths to 256, 300 steps, five seeds: a minute on a GPU, some hours on one core."""
        return cls(
            widths=(32, 64, 128, 256),
            steps=300,
            octaves=(-11, -3),
            seeds=5,
            start=-7,
            budget=300,
            tuning_seeds=3,
            context=64,
            held=256,
            symbols=4_000_000,
        )

    @property
    def rates(self) -> tuple[float, ...]:
        """Learning rates of the base."""
        return tuple(2.0**k for k in range(self.octaves[0], self.octaves[1] + 1))


def needs_data() -> str | None:
    """Why the text cannot be read, as a sentence; ``None`` if it is there."""
    return missing_data(*FILES)


def run(
    config: Config,
    *,
    store: Folder = None,
    progress: Progress = None,
    client: Any = None,
) -> xr.Dataset:
    """Tune at the base, and train every arm on the grid.

    Args:
        config: What is trained.
        store: A folder that keeps every finished cell; a killed run goes on from there.
        progress: Called with (cells done, all of them) of each task.
        client: Where they are trained; as in `sweep`.

    Returns:
        ``loss`` over (task, arm, size, rate, seed) on what nobody trains on, and ``middle_loss``, the mean of the
        training losses over the tenth of the steps before the middle; both infinite where a training diverged. Over
        task: ``unigram``, the loss of the best constant predictor; ``constants``, what was tuned, as a text. Over
        size: ``width`` and ``depth``. Attributes: the config.

    Raises:
        ValueError: If the text is not there.
        MissingExtraError: If PyTorch is not installed.
    """
    require("torch", for_="This experiment", extra="torch")
    missing = needs_data()
    if missing is not None:
        raise ValueError(missing)
    from scalewise.experiments._corpus import corpus
    from scalewise.experiments._decoder import tuned_constants

    losses, said, unigram = [], [], []
    for task in config.tasks:
        common = Common(
            task=task,
            base=(config.widths[0], config.depth),
            batch=config.batch,
            steps=config.steps,
            context=config.context,
            held=config.held,
            symbols=config.symbols,
        )
        start = {"lr": 2.0**config.start, "weight_decay": config.weight_decay}
        tuned = tuned_constants(
            common,
            "adamw",
            start=start,
            budget=config.budget,
            seeds=config.tuning_seeds,
            store=within(store, f"tuned_{task}"),
            client=client,
        )
        cells = [
            Cell(
                arm=arm,
                size=(n, config.depth),
                rates=config.rates,
                seeds=config.seeds,
                optimizer="adamw",
                steps=config.steps,
                batch=config.batch,
                weight_decay=tuned.settings["weight_decay"] if arm.tuned else config.weight_decay,
                constants=tuned.constants if arm.tuned else None,
            )
            for arm in ARMS
            for n in config.widths
        ]
        kept = within(store, task)
        found = trained(common, cells, store=kept, progress=progress, client=client)
        losses.append(np.array(found).reshape(len(ARMS), len(config.widths), *found[0].shape))
        own = {"constants": tuned.constants, "decay": tuned.settings["weight_decay"]}
        said.append(json.dumps(own, sort_keys=True))
        unigram.append(corpus(task, config.symbols).unigram)
    whole, dims = np.array(losses), ("task", "arm", "size", "rate", "seed")
    return xr.Dataset(
        {
            "loss": (dims, whole[:, :, :, 0]),
            "middle_loss": (dims, whole[:, :, :, 1]),
            "constants": ("task", said),
            "unigram": ("task", unigram),
            "width": ("size", list(config.widths)),
            "depth": ("size", [config.depth] * len(config.widths)),
        },
        {
            "task": list(config.tasks),
            "arm": [arm.name for arm in ARMS],
            "size": [f"n={n}" for n in config.widths],
            "rate": list(config.rates),
        },
        attributes(config),
    )


# What the losses say


def _found(dataset: xr.Dataset, task: str) -> dict[str, Family]:
    here = dataset.sel(task=task)
    return {str(arm): Family.of(here.sel(arm=arm)) for arm in dataset.arm.values}


def numbers(dataset: xr.Dataset) -> list[Number]:
    """The critical base, carried, beside plain retuned, and the cost of carrying."""
    out = list[Number]()
    large = [i for i, n in enumerate(dataset.width.values) if n >= _WIDE]
    for task in map(str, dataset.task.values):
        found = _found(dataset, task)
        critical, plain = found[CRITICAL], found[PLAIN]
        # A plan for the base itself changes nothing.
        apart = np.abs(found["planned"].losses[0] - plain.losses[0]).max()
        out.append(Number(f"planned and plain at the base, {task}", 0.0, float(apart), 0.0, 1e-4))
        for i in large:
            where = f"{task}, n = {int(dataset.width[i])}"
            mine = critical.by_seed(i, critical.check.optima[0].place)
            lead, error = mean_of(mine - plain.by_seed(i, plain.check.optima[i].place))
            said = f"critical, carried ends below plain, retuned: {where} (1 for yes)"
            out.append(Number(said, 1, int(lead < -2 * error)))
            cost = mean_of(mine - critical.by_seed(i, critical.check.optima[i].place))
            out.append(Number(f"cost of carrying the critical base: {where}", 0.0, *cost, _COST))
    return out


def tables(dataset: xr.Dataset) -> list[Table]:
    """Losses of every arm at every width, and best rates; the constants that were tuned."""
    out = list[Table]()
    for task in map(str, dataset.task.values):
        labels = [str(label) for label in dataset["size"].values]
        found = _found(dataset, task).items()
        rows = [row for name, of in found for row in of.rows(name, labels)]
        here = dataset.sel(task=task)
        caption = (
            f"{task}: the best constant predictor has {float(here.unigram):.3f}; tuned at the base: "
            f"{here.constants.values}"
        )
        out.append(Table.of(caption, ("arm", *labels), rows))
    return out


@house
def figure(dataset: xr.Dataset) -> Figure:
    """For every task losses over the width, carried and retuned."""
    tasks = [str(task) for task in dataset.task.values]
    canvas, axes = sheet(len(tasks), 1, height=3.4)
    widths = dataset.width.values
    for axis, task in zip(axes, tasks, strict=True):
        for (name, of), color in zip(_found(dataset, task).items(), COLORS, strict=False):
            retuned = np.array([of.retuned(i) for i in range(len(widths))])
            carried = np.array([of.carried(i) for i in range(len(widths))])
            points(
                axis, widths, retuned[:, 0], np.nan_to_num(retuned[:, 1]), color=color, label=name
            )
            axis.plot(widths, retuned[:, 0], color=color, lw=1.0)
            axis.plot(widths, carried[:, 0], "o", mfc="none", ms=6, color=color)
        axis.axhline(float(dataset.unigram.sel(task=task)), color="0.6", lw=0.8, ls="--")
        axis.set_xscale("log", base=2)
        axis.set_xticks(widths, [str(n) for n in widths])
        axis.set(title=task, xlabel="width n", ylabel="loss")
        axis.legend()
    return canvas
