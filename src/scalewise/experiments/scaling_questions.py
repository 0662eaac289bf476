r"""Seven questions of scaling that the field leaves open, each asked of one small decoder, with five seeds.

All networks learn the letters of a text, some the symbols of a teacher as well. They are drawn at the base as the
theory proposes, so that none of them rests on a plateau, and trained on a grid of rates at every size. *Carried*
has the best rate of the base, *retuned* the best of the size.

Claims: those of `numbers`, which are what five seeds at these sizes say, and not more.

Source: Everett et al. 2407.05872 (rates by layer); Kosson et al. 2510.19093 (weight decay); TP4 K.1, Yang et al.
2310.02244 and Dey et al. 2505.01618 (depth); policies as their rows say. The experiment is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
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
from scalewise.experiments._text_families import Family, above
from scalewise.sweeps._store import within

__all__ = ["SOURCE", "TEXT", "TITLE", "Config", "figure", "needs_data", "numbers", "run", "tables"]

TITLE = "Seven open questions of scaling, with five seeds"
SOURCE = "TP4 K.1; Everett et al. 2407.05872; Kosson et al. 2510.19093; the experiment is ours"
TEXT = (
    "One panel a question: the loss of each arm at the best rate of the base (open) and at the best rate of the "
    "size itself (full), over the width or the depth, with standard errors over seeds."
)
FILES = ("wiki100m.txt.xz",)
_HIDDEN = ("*.queries.*", "*.keys.*", "*.values.*", "*.up.*", "*.out_*")
_EMBEDDINGS = ("letters.*", "places.*")


def _rates_by_layer(power: float) -> tuple[tuple[str, str, float], ...]:
    """Rates of matrices inside and of the readout as a power of the width."""
    return tuple((pattern, "lr", power) for pattern in (*_HIDDEN, "head.*"))


_STANDARD = Arm("standard", rules="standard", init="critical")
_MAXIMAL = Arm("maximal updates", init="critical")


@dataclass(frozen=True)
class Case:
    """One arm of a question.

    Args:
        question: Its number.
        arm: The rules.
        over: What its sizes differ in: ``"width"``, ``"few widths"``, ``"depth"`` or ``"nothing"``.
        optimizer: Its name.
        longer: Durations of the base that it is trained for.
        task: What it learns.
        weight_decay: At the base.
    """

    question: int
    arm: Arm
    over: str = "width"
    optimizer: str = "adamw"
    longer: int = 1
    task: str = "text"
    weight_decay: float = 0.0

    @property
    def label(self) -> str:
        """Unique among all cases."""
        more = f", {self.task}" if self.question == 4 else ""
        return f"{self.question}: {self.arm.name}{more}"


QUESTIONS = {
    1: "Does the standard parametrisation with the embeddings' rate times n equal maximal updates under AdamW?",
    2: "Do rates by layer on the standard parametrisation beat maximal updates?",
    3: "Is it weight decay that carries the rate after the warm-up?",
    4: "Which rule of duration holds for four times the steps?",
    5: "Which factor of Muon carries its rate?",
    6: "Residual exponent 1/2 or 1, at depths 2 to 32 of thin networks?",
    7: "How small may a base be?",
}
_DURATIONS = (None, "horizon", "root_horizon", "delphi", "completed")
_DECAY = 0.5  # of the third question: it shrinks weights within the run


def _named(arm: Arm, name: str, **more: Any) -> Arm:
    return Arm(**{**arm.__dict__, "name": name, **more})


CASES = (
    Case(1, _STANDARD),
    Case(1, _named(_STANDARD, "standard, embeddings' rate times n",
                   powers=tuple((p, "lr", 1.0) for p in _EMBEDDINGS))),
    Case(1, _MAXIMAL),
    Case(2, _named(_STANDARD, "standard, matrices' rates over n", powers=_rates_by_layer(-1.0))),
    Case(2, _named(_STANDARD, "standard, matrices' rates over root n", powers=_rates_by_layer(-0.5))),
    Case(2, _MAXIMAL),
    Case(3, _named(_MAXIMAL, "rates over n, rate times decay kept", decay="shrinkage"), "few widths", longer=4,
         weight_decay=_DECAY),
    Case(3, _named(_MAXIMAL, "rates over n, decay kept", decay="constant"), "few widths", longer=4,
         weight_decay=_DECAY),
    Case(3, _named(_MAXIMAL, "rates over n, no decay"), "few widths", longer=4),
    Case(3, _named(_STANDARD, "one rate, decay of matrices times n",
                   powers=tuple((p, "weight_decay", 1.0) for p in (*_HIDDEN, "head.*"))), "few widths", longer=4,
         weight_decay=_DECAY),
    *(Case(4, _named(_MAXIMAL, name or "no rule", policy=name), "nothing", longer=4, task=task, weight_decay=0.1)
      for task in ("text", "teacher") for name in _DURATIONS),
    *(Case(4, _named(_MAXIMAL, "the base"), "nothing", task=task, weight_decay=0.1)
      for task in ("text", "teacher")),
    *(Case(5, _named(_STANDARD, f"{name}, one rate", adjust=name), optimizer="muon")
      for name in ("original", "match_rms_adamw", "spectral_norm")),
    *(Case(5, _named(_MAXIMAL, f"{name}, planned", adjust=name), optimizer="muon")
      for name in ("original", "match_rms_adamw", "spectral_norm")),
    *(Case(6, Arm(f"exponent {said}", init="by hand", residual=residual), "depth")
      for said, residual in (("0", 0.0), ("1/2", 0.5), ("1", 1.0))),
    *(Case(7, _named(_MAXIMAL, f"base {base}, {said}", init=init, base=base))
      for init, said in (("critical", "critical"), ("drawn", "as built")) for base in (32, 64, 128)),
)  # fmt: skip


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
    r"""What is trained.

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
    for task in sorted({case.task for case in cases}, reverse=True):
        common = Common(
            task, (config.widths[0], config.depths[0]), config.batch, config.steps, config.context,
            config.held, config.symbols,
        )  # fmt: skip
        places = [
            (i, k)
            for i, case in enumerate(cases)
            if case.task == task
            for k, size in enumerate(sizes.values())
            if _asked(case, size, config)
        ]
        wanted = [_cell(cases[i], list(sizes.values())[k], config) for i, k in places]
        unique = list(dict.fromkeys(wanted))
        kept = within(store, task)
        found = trained(common, unique, store=kept, progress=progress, client=client)
        of = dict(zip(unique, found, strict=True))
        for place, cell in zip(places, wanted, strict=True):
            losses[place] = of[cell][0]
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


def _asked(case: Case, size: tuple[int, int], config: Config) -> bool:
    n, L = size
    base = case.arm.base or config.widths[0]
    if case.over == "depth":
        return n == config.widths[0]
    if case.over == "nothing":
        return size == (config.widths[0], config.depths[0])
    few = case.over == "few widths"
    return L == config.depths[0] and n >= base and (not few or config.widths.index(n) % 2 == 0)


def _cell(case: Case, size: tuple[int, int], config: Config) -> Cell:
    return Cell(
        case.arm, size, config.rates, config.seeds, case.optimizer, case.longer * config.steps, config.batch,
        case.weight_decay,
    )  # fmt: skip


# What the losses say


def family(dataset: xr.Dataset, case: str) -> tuple[Family, list[str]]:
    """Losses of a case and what they say, and the labels of the sizes that it has, its base first."""
    here = dataset.sel(case=case).dropna("size", how="all", subset=["loss"])
    return Family.of(here), [str(label) for label in here["size"].values]


def numbers(dataset: xr.Dataset) -> list[Number]:
    """Nothing yet."""
    return []


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
        rows: list[tuple[object, ...]] = []
        for case, (of, sizes) in found.items():
            name = case.split(": ", 1)[1]
            for how, get in (("carried", of.carried), ("retuned", of.retuned)):
                said = {s: get(i) for i, s in enumerate(sizes)}
                rows.append(
                    (
                        f"{name}, {how}",
                        *(
                            f"{said[s][0]:.3f} ± {said[s][1]:.3f}" if s in said else ""
                            for s in labels
                        ),
                    )
                )
            best = {
                s: f"{o.edge} of {o.place:g}" if o.edge else f"{o.place:.2f} ± {o.sem:.2f}"
                for s, o in zip(sizes, of.check.optima, strict=True)
            }
            rows.append((f"{name}, log₂ of the best rate", *(best.get(s, "") for s in labels)))
        out.append(Table.of(f"{question}. {QUESTIONS[int(question)]}", ("arm", *labels), rows))
    return out


@house
def figure(dataset: xr.Dataset) -> Figure:
    """A panel for every question: losses over the size."""
    asked = [int(q) for q in np.unique(dataset.question.values)]
    canvas, axes = sheet(2, -(-len(asked) // 2), height=3.4)
    for axis, question in zip(axes, asked, strict=False):
        mine = [str(c) for c in dataset.case.values[dataset.question.values == question]]
        for case, color in zip(mine, [*COLORS] * 3, strict=False):
            of, sizes = family(dataset, case)
            at = dataset.sel(size=sizes)
            x = at.depth.values if len(set(at.width.values)) == 1 else at.width.values
            retuned = np.array([of.retuned(i) for i in range(len(sizes))])
            carried = np.array([of.carried(i) for i in range(len(sizes))])
            points(axis, x, retuned[:, 0], np.nan_to_num(retuned[:, 1]), color=color,
                   label=case.split(": ", 1)[1])  # fmt: skip
            axis.plot(x, retuned[:, 0], color=color, lw=1.0)
            axis.plot(x, carried[:, 0], "o", mfc="none", ms=6, color=color)
        axis.set_xscale("log", base=2)
        axis.set(title=f"Question {question}", ylabel="loss")
        axis.legend()
    return canvas


_ = above
