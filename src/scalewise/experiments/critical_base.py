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
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from scalewise._extras import require
from scalewise.data import missing_data
from scalewise.experiments._arms import Arm, Cell, Common
from scalewise.experiments._cells import about, on_grid, trained
from scalewise.experiments._form import Folder, Progress, settings
from scalewise.experiments._look import COLORS, Number, Table, attributes, house, points, sheet
from scalewise.experiments._text_families import Family, where_trained
from scalewise.plan.spi import mean_of
from scalewise.sweeps.spi import within

if TYPE_CHECKING:
    from scalewise.plan.proof import Tuned

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
PLAIN, TUNED, CRITICAL = "plain", "planned, tuned", "planned, critical"
_WIDE_TASK, _WIDE_ARMS = "text", (PLAIN, TUNED)  # of the widths that two arms alone have
_REACH = 2.0  # octaves about the expected best rate that are trained there
ARMS = (
    Arm(PLAIN, rules="standard", based=False, drift=-1.2),
    Arm("planned"),
    Arm(TUNED, tuned=True),
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
    wide=(48,),
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
        wide: More widths, where plain and planned, tuned alone are trained on the text, at the rates of the base
            that are near their best.
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
    wide: tuple[int, ...] = ()

    @classmethod
    def paper(cls) -> Config:
        """Widths to 512, 300 steps, five seeds: minutes on a GPU, some hours on one core."""
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
            wide=(512,),
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
        training losses over the tenth of the steps before the middle; both infinite where a training diverged, and
        NaN where nobody trained. Over
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

    widths = (*config.widths, *config.wide)
    shape = (len(config.tasks), len(ARMS), len(widths), len(config.rates), config.seeds)
    losses, said, unigram = np.full((2, *shape), np.nan), list[str](), list[float]()
    for i, task in enumerate(config.tasks):
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
        losses[:, i] = _losses(
            config, common, tuned, within(store, task), progress=progress, client=client
        )
        own = {"constants": tuned.constants, "decay": tuned.settings["weight_decay"]}
        said.append(json.dumps(own, sort_keys=True))
        unigram.append(corpus(task, config.symbols).unigram)
    dims = ("task", "arm", "size", "rate", "seed")
    return xr.Dataset(
        {
            "loss": (dims, losses[0]),
            "middle_loss": (dims, losses[1]),
            "constants": ("task", said),
            "unigram": ("task", unigram),
            "width": ("size", list(widths)),
            "depth": ("size", [config.depth] * len(widths)),
        },
        {
            "task": list(config.tasks),
            "arm": [arm.name for arm in ARMS],
            "size": [f"n={n}" for n in widths],
            "rate": list(config.rates),
        },
        attributes(config),
    )


def _losses(
    config: Config, common: Common, tuned: Tuned, store: str | None, **how: Any
) -> np.ndarray:
    """Losses of a task over (moment, arm, size, rate, seed): where two arms alone are trained, about their best."""
    widths = (*config.widths, *config.wide)
    losses = np.full((2, len(ARMS), len(widths), len(config.rates), config.seeds), np.nan)

    def train(cells: dict[tuple[int, int], Cell], store: str | None) -> None:
        found = trained(common, list(cells.values()), store=store, **how)
        for (j, k), cell, moments in zip(cells, cells.values(), found, strict=True):
            for m, loss in enumerate(moments):
                losses[m, j, k] = on_grid(loss[None], cell, config.rates)

    def cell(arm: Arm, n: int, rates: tuple[float, ...]) -> Cell:
        return Cell(
            arm=arm,
            size=(n, config.depth),
            rates=rates,
            seeds=config.seeds,
            optimizer="adamw",
            steps=config.steps,
            batch=config.batch,
            weight_decay=tuned.settings["weight_decay"] if arm.tuned else config.weight_decay,
            constants=tuned.constants if arm.tuned else None,
        )

    every = [*enumerate(ARMS)]
    narrow = [*enumerate(config.widths)]
    train({(j, k): cell(arm, n, config.rates) for j, arm in every for k, n in narrow}, store)
    if common.task != _WIDE_TASK:
        return losses
    wide = {}
    for k, n in enumerate(config.wide, len(config.widths)):
        for j, arm in every:
            if arm.name in _WIDE_ARMS:
                growth = n / config.widths[0]
                rates = about(config.rates, losses[0, j, 0], arm, growth, reach=_REACH)
                wide[j, k] = cell(arm, n, rates)
    train(wide, within(store, "wide"))
    return losses


# What the losses say


def arms_of(dataset: xr.Dataset, task: str) -> dict[str, tuple[Family, list[str]]]:
    """Losses of each arm and what they say, and the labels of the sizes where it was trained, the base first."""
    return {str(a): where_trained(dataset.sel(task=task, arm=a)) for a in dataset.arm.values}


def numbers(dataset: xr.Dataset) -> list[Number]:
    """The critical base, carried, beside plain retuned, and the cost of carrying."""
    out = list[Number]()
    for task in map(str, dataset.task.values):
        found = {arm: of for arm, (of, _) in arms_of(dataset, task).items()}
        critical, plain = found[CRITICAL], found[PLAIN]
        large = [i for i, size in enumerate(critical.check.sizes) if size.at["width"] >= _WIDE]
        # A plan for the base itself changes nothing.
        apart = np.abs(found["planned"].losses[0] - plain.losses[0]).max()
        out.append(Number(f"planned and plain at the base, {task}", 0.0, float(apart), 0.0, 1e-4))
        for i in large:
            where = f"{task}, n = {critical.check.sizes[i].at['width']}"
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
        found = arms_of(dataset, task).items()
        labels = [label for label in labels if any(label in own for _, (_, own) in found)]
        rows = [row for name, (of, _) in found for row in of.rows(name, labels)]
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
    for axis, task in zip(axes, tasks, strict=True):
        for (name, (of, own)), color in zip(arms_of(dataset, task).items(), COLORS, strict=False):
            widths = dataset.sel(size=own).width.values
            retuned = np.array([of.retuned(i) for i in range(len(widths))])
            carried = np.array([of.carried(i) for i in range(len(widths))])
            points(
                axis, widths, retuned[:, 0], np.nan_to_num(retuned[:, 1]), color=color, label=name
            )
            axis.plot(widths, retuned[:, 0], color=color, lw=1.0)
            axis.plot(widths, carried[:, 0], "o", mfc="none", ms=6, color=color)
        axis.axhline(float(dataset.unigram.sel(task=task)), color="0.6", lw=0.8, ls="--")
        axis.set_xscale("log", base=2)
        every = dataset.width.values
        axis.set_xticks(every, [str(n) for n in every])
        axis.set(title=task, xlabel="width n", ylabel="loss")
        axis.legend()
    return canvas
