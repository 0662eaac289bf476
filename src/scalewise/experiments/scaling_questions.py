r"""Seven questions of scaling that the field leaves open, each asked of one small decoder, with five seeds.

All networks learn the letters of a text, some the symbols of a teacher as well. Their base is drawn as the theory
proposes, and every size $(n, L)$ is trained on a grid of rates. *Carried* has the best rate of the base, *retuned*
the best of the size.

Claims: those of `numbers`, which are what five seeds at these sizes say, and not more.

Source: Everett et al. 2407.05872 (rates by layer); Kosson et al. 2510.19093 (weight decay); TP4 K.1, Yang et al.
2310.02244 and Dey et al. 2505.01618 (depth); policies as their rows say. The experiment is ours.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from scalewise._extras import require
from scalewise.data import missing_data
from scalewise.experiments._arms import Cell, Common
from scalewise.experiments._cells import about, on_grid, trained
from scalewise.experiments._form import Folder, Progress, settings
from scalewise.experiments._look import COLORS, Number, Table, attributes, house, points, sheet
from scalewise.experiments._questions import (
    CASES,
    DURATIONS,
    LONG,
    LONG_WIDTH,
    MUON_WIDTH,
    NO_RULE,
    ONE_RATE,
    QUESTIONS,
    WIDE,
    Case,
)
from scalewise.experiments._text_families import Family, where_trained
from scalewise.plan.spi import mean_of
from scalewise.sweeps.spi import within

TITLE = "Seven open questions of scaling, with five seeds"
TEXT = (
    "One panel a question: the loss of each arm at the best rate of the base (open) and at the best rate of the "
    "size itself (full), over the width or the depth, with standard errors over seeds."
)
FILES = ("wiki100m.txt.xz",)


@settings(
    widths=(16, 32),
    depths=(2, 3),
    steps=6,
    octaves=(-7, -5),
    seeds=2,
    context=8,
    held=64,
    symbols=100_000,
    questions=(1, 4, 6),
)
class Config:
    r"""Settings.

    Args:
        widths: $n$ at the least depth; the first is the base.
        depths: $L$ at the least width.
        steps: Of the base.
        octaves: First and last learning rate of the base, as powers of 2.
        seeds: Networks at each rate.
        batch: Texts of a step.
        context: Symbols of a text.
        held: Texts of the loss.
        symbols: Length of the sequence.
        questions: Which are asked.
    """

    widths: tuple[int, ...] = (32, 64, 128)
    depths: tuple[int, ...] = (2, 4)
    steps: int = 60
    octaves: tuple[int, int] = (-9, -4)
    seeds: int = 2
    batch: int = 8
    context: int = 32
    held: int = 128
    symbols: int = 400_000
    questions: tuple[int, ...] = (1, 2, 6)

    @classmethod
    def paper(cls) -> Config:
        """Widths to 512, depths to 32, five seeds, all questions: minutes on a GPU, a day on one core."""
        return cls(
            widths=(32, 64, 128, 256, 512),
            depths=(2, 4, 8, 16, 32),
            steps=300,
            octaves=(-11, -3),
            seeds=5,
            context=64,
            held=256,
            symbols=4_000_000,
            questions=tuple(QUESTIONS),
        )

    @property
    def rates(self) -> tuple[float, ...]:
        """Learning rates of the base."""
        return tuple(2.0**k for k in range(self.octaves[0], self.octaves[1] + 1))

    @property
    def sizes(self) -> dict[str, tuple[int, int]]:
        """Width and depth by label, the base first."""
        n, L = self.widths[0], self.depths[0]
        every = [(w, L) for w in self.widths] + [(n, d) for d in self.depths[1:]]
        return {f"n={w}, L={d}": (w, d) for w, d in every}


def needs_data() -> str | None:
    """Why the text cannot be read, as a sentence; ``None`` if it is there."""
    return missing_data(*FILES)


def cases_of(config: Config) -> list[Case]:
    """Those of the questions that are asked, whose base is there."""
    return [
        case
        for case in CASES
        if case.question in config.questions
        and (case.arm.base is None or case.arm.base in config.widths)
    ]


def run(
    config: Config,
    *,
    store: Folder = None,
    progress: Progress = None,
    client: Any = None,
) -> xr.Dataset:
    """Train every arm of every question on the grid.

    Args:
        config: What is trained.
        store: A folder that keeps every finished cell; a killed run goes on from there.
        progress: Called with (cells done, all of them) of each task.
        client: Where they are trained; as in `sweep`.

    Returns:
        ``loss`` over (case, size, rate, seed), infinite where it diverged and NaN where nobody trained;
        ``question`` over case; ``width`` and ``depth`` over size. Attributes: the config.

    Raises:
        ValueError: If the text is not there.
        MissingExtraError: If PyTorch is not installed.
    """
    require("torch", for_="This experiment", extra="torch")
    missing = needs_data()
    if missing is not None:
        raise ValueError(missing)
    cases, sizes = cases_of(config), config.sizes
    losses = np.full((len(cases), len(sizes), len(config.rates), config.seeds), np.nan)
    how: dict[str, Any] = {"progress": progress, "client": client}
    for task in sorted({case.task for case in cases}, reverse=True):
        mine = [i for i, case in enumerate(cases) if case.task == task]
        losses[mine] = _of_task(config, task, [cases[i] for i in mine], store, how)
    return xr.Dataset(
        {
            "loss": (("case", "size", "rate", "seed"), losses),
            "question": ("case", [case.question for case in cases]),
            "width": ("size", [n for n, _ in sizes.values()]),
            "depth": ("size", [L for _, L in sizes.values()]),
        },
        {"case": [case.label for case in cases], "size": list(sizes), "rate": list(config.rates)},
        attributes(config),
    )


def _of_task(
    config: Config, task: str, cases: list[Case], store: Folder, how: dict[str, Any]
) -> np.ndarray:
    """Losses over (case, size, rate, seed): bases at all rates, other sizes about where the best is expected."""
    common = Common(
        task=task,
        base=(config.widths[0], config.depths[0]),
        batch=config.batch,
        steps=config.steps,
        context=config.context,
        held=config.held,
        symbols=config.symbols,
    )
    every = list(config.sizes.values())
    losses = np.full((len(cases), len(every), len(config.rates), config.seeds), np.nan)
    at = [(i, k) for i, k in np.ndindex(losses.shape[:2]) if _asked(cases[i], every[k], config)]
    first = {i: min(k for j, k in at if j == i) for i in range(len(cases))}

    def rates(i: int, k: int) -> tuple[float, ...]:
        if k == first[i]:
            return config.rates
        growth = every[k][0] / every[first[i]][0]
        return about(config.rates, losses[i, first[i]], cases[i].arm, growth)

    for name, isfirst in (("bases", True), ("others", False)):
        places = [(i, k) for i, k in at if (k == first[i]) is isfirst]
        cells = [replace(_cell(cases[i], every[k], config), rates=rates(i, k)) for i, k in places]
        unique = list(dict.fromkeys(cells))
        found = trained(common, unique, store=within(store, f"{task}_{name}"), **how)
        of = dict(zip(unique, found, strict=True))
        for place, cell in zip(places, cells, strict=True):
            losses[place] = on_grid(of[cell], cell, config.rates)
    return losses


def _asked(case: Case, size: tuple[int, int], config: Config) -> bool:
    n, L = size
    base = case.arm.base or config.widths[0]
    if case.over == "depth":
        return n == config.widths[0]
    if case.over == "nothing":
        return size == (config.widths[0], config.depths[0])
    of_width = {
        "few widths": tuple(w for w in config.widths[::2] if w <= LONG_WIDTH),
        "to 256": tuple(w for w in config.widths if w <= MUON_WIDTH),
        "ends": (base, config.widths[-1]),
    }.get(case.over, config.widths)
    return L == config.depths[0] and n in of_width and n >= base


def _cell(case: Case, size: tuple[int, int], config: Config) -> Cell:
    return Cell(
        arm=case.arm,
        size=size,
        rates=config.rates,
        seeds=config.seeds,
        optimizer=case.optimizer,
        steps=case.longer * config.steps,
        batch=config.batch,
        weight_decay=case.weight_decay,
    )


# What the losses say


def family(dataset: xr.Dataset, case: str) -> tuple[Family, list[str]]:
    """Losses of a case and what they say, and the labels of the sizes that it has, its base first."""
    return where_trained(dataset.sel(case=case))


def numbers(dataset: xr.Dataset) -> list[Number]:
    """Answers to each question, from networks that are wide and trained enough."""
    found = {str(case): family(dataset, str(case))[0] for case in dataset.case.values}
    # At the base all rules are the same.
    apart = np.abs(found["1: standard"].losses[0] - found["1: maximal updates"].losses[0]).max()
    same = Number("1: standard and maximal updates at the base", 0.0, float(apart), 0.0, 1e-4)
    if int(dataset.attrs["steps"]) < LONG or int(dataset.width.max()) < WIDE:
        return [same]

    def drift(case: str, axis: int = 0) -> tuple[float, float]:
        one = found[case].check.drifts[axis]
        return one.slope, one.sem

    def lead(one: tuple[str, int], other: tuple[str, int]) -> tuple[float, float]:
        """Loss of one case above another, both carried, at sizes counted from their bases."""
        first, second = (
            found[case].by_seed(i, found[case].check.optima[0].place) for case, i in (one, other)
        )
        return mean_of(first - second)

    layered, maximal = "standard, matrices' rates over n", "maximal updates"
    embeddings = "1: standard, embeddings' rate times n"
    gap = lead((f"2: {layered}", -1), (f"2: {maximal}", -1))
    base = lead(("7: base 32, critical", -1), ("7: base 128, critical", -1))
    half = lead(("6: exponent 1/2", -1), ("6: exponent 1", -1))
    out = [
        same,
        Number(
            "1: octaves of the best rate per octave, embeddings' rate times n",
            -1.0,
            *drift(embeddings),
            0.15,
        ),
        Number("1: the same of maximal updates", 0.0, *drift(f"1: {maximal}"), 0.1),
        Number("2: the same of matrices' rates over n", 0.0, *drift(f"2: {layered}"), 0.1),
        Number(
            "2: rates by layer end below maximal updates (1 for yes)", 1, int(gap[0] < -2 * gap[1])
        ),
        Number(
            "3: drift with rates over n and no decay",
            0.0,
            *drift("3: rates over n, no decay"),
            0.35,
        ),
        Number("3: drift with one rate and decay times n", -0.6, *drift(f"3: {ONE_RATE}"), 0.2),
        Number(
            "6: exponent 1/2 ends below 1 at the deepest (1 for yes)",
            1,
            int(half[0] < -2 * half[1]),
        ),
        Number("7: loss of base 32 above base 128", 0.0, *base, 0.03),
    ]
    for case in map(str, dataset.case.values):
        if case.startswith("5"):
            out.append(
                Number(f"{case}: octaves of the best rate per octave", 0.0, *drift(case), 0.15)
            )
    for task in ("text", "teacher"):
        costs = durations(dataset, task)
        out.append(Number(f"4: cost of horizon, {task}", 0.0, *costs["horizon"], 0.05))
        most = max(costs, key=lambda name: costs[name][0])
        out.append(
            Number(f"4: completed costs most, {task} (1 for yes)", 1, int(most == "completed"))
        )
    return out


def durations(dataset: xr.Dataset, task: str) -> dict[str, tuple[float, float]]:
    """Loss of each rule of duration, at the best rate of the base, above that of the best rate of the long run."""
    place = family(dataset, f"4: the base, {task}")[0].check.optima[0].place
    long = {d or NO_RULE: family(dataset, f"4: {d or NO_RULE}, {task}")[0] for d in DURATIONS}
    best = long[NO_RULE].by_seed(0, long[NO_RULE].check.optima[0].place)
    return {name: mean_of(of.by_seed(0, place) - best) for name, of in long.items()}


def tables(dataset: xr.Dataset) -> list[Table]:
    """For every question its arms at every size: carried, retuned, and the best rates."""
    out = list[Table]()
    for question in np.unique(dataset.question.values):
        mine = [str(c) for c in dataset.case.values[dataset.question.values == question]]
        found = {case: family(dataset, case) for case in mine}
        labels = [
            label
            for label in map(str, dataset["size"].values)
            if any(label in sizes for _, sizes in found.values())
        ]
        rows = [
            row
            for case, (of, _) in found.items()
            for row in of.rows(case.split(": ", 1)[1], labels)
        ]
        out.append(Table.of(f"{question}. {QUESTIONS[int(question)]}", ("arm", *labels), rows))
    return out


@house
def figure(dataset: xr.Dataset) -> Figure:
    """A panel for every question: losses over the size, and of the fourth what each rule costs."""
    asked = [int(q) for q in np.unique(dataset.question.values)]
    canvas, axes = sheet(2, -(-len(asked) // 2), height=3.4)
    for axis in axes[len(asked) :]:
        axis.remove()
    for axis, question in zip(axes, asked, strict=False):
        axis.set(title=f"Question {question}")
        if question == 4:
            _draw_costs(axis, dataset)
            continue
        mine, seen = (
            [str(c) for c in dataset.case.values[dataset.question.values == question]],
            list[int](),
        )
        for case, color in zip(mine, [*COLORS] * 3, strict=False):
            of, sizes = family(dataset, case)
            at = dataset.sel(size=sizes)
            deep = question == 6
            x = at.depth.values if deep else at.width.values
            retuned = np.array([of.retuned(i) for i in range(len(sizes))])
            carried = np.array([of.carried(i) for i in range(len(sizes))])
            points(
                axis,
                x,
                retuned[:, 0],
                np.nan_to_num(retuned[:, 1]),
                color=color,
                label=case.split(": ", 1)[1],
            )
            axis.plot(x, retuned[:, 0], color=color, lw=1.0)
            axis.plot(x, carried[:, 0], "o", mfc="none", ms=6, color=color)
            axis.set_xlabel("depth L" if deep else "width n")
            seen += x.tolist()
        every = np.unique(seen)
        axis.set_xscale("log", base=2)
        axis.set_xticks(every, [str(n) for n in every])
        axis.set_ylabel("loss")
        axis.margins(y=0.2)
        axis.legend()
    return canvas


def _draw_costs(axis: Any, dataset: xr.Dataset) -> None:
    """Each rule of duration a row, each task a colour."""
    for task, color, shift in zip(("text", "teacher"), COLORS, (0.1, -0.1), strict=False):
        costs = durations(dataset, task)
        rows = np.arange(len(costs))[::-1]
        found = np.array([*costs.values()])
        known = {"xerr": np.nan_to_num(found[:, 1]), "color": color, "label": task}
        axis.errorbar(found[:, 0], rows + shift, fmt="o", ms=4, **known)
        axis.set_yticks(rows, list(costs))
    axis.axvline(0, color="0.6", lw=0.8)
    axis.set_xlabel("loss above the best rate's, four times the steps")
    axis.legend()
