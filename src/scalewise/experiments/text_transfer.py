r"""Tuned narrow, used wide, on a text: does a planned decoder need no retuning, and is it as good as a retuned one?

Four families of one small decoder on the letters of a text, each on a grid of learning rates at every size:
*plain*, as built; *plain, tuned*, with the constants tuned at the base, drawn at $1/\sqrt n$, with one rate for
all tensors; *planned*, by maximal updates from the base as built; *planned, tuned*, with the constants of the
base. A family *carried* has the best rate of its base, *retuned* the best of its size.

Claims: the best rate of a planned network moves by less than 0.1 octaves for each octave of width, and of depth
where branches are multiplied by $1/L$; carried, with constants tuned at the base alone, it loses less than plain
retuned (under Muon no more), and about as much as plain that has the same constants and is retuned; at equal
settings wider is not worse.

At the base, every policy that a plan has for a batch twice as large (and half the steps) and for a longer run is
held against the best rate found there. At the largest width, one setting of some tensors at a time is taken from
plain, retuned, into planned and carried, and the other way round: which of them the difference comes from.

Source: TP4 K.1 for the rules; policies as their rows say. The experiment is ours.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from scalewise._extras import require
from scalewise.data import missing_data
from scalewise.experiments._form import Folder, Progress, settings
from scalewise.experiments._look import (
    COLORS,
    Number,
    Table,
    attributes,
    house,
    points,
    sheet,
)
from scalewise.experiments._text_families import Family, above, families, widening
from scalewise.experiments._text_runs import (
    FAMILIES,
    PLAIN,
    PLAIN_TUNED,
    PLANNED_TUNED,
    common_of,
    runs_of,
)
from scalewise.plan.spi import find_optimum, mean_of
from scalewise.sweeps.spi import within

TITLE = "A decoder on a text: carried from a narrow one, or retuned"
TEXT = (
    "A decoder learns the letters of a text at several widths and depths: as built, under a plan from the "
    "narrowest, and both with the constants that were tuned there. Left, loss over the learning rate of the base, "
    "from pale to full with the width; right, the loss of each family at the rate of the base (open) and at the "
    "best of its own size (full)."
)
FILES = ("wiki100m.txt.xz",)
_WIDE = 128  # from where the plan is to be better
# Nats that planned and carried is ahead of plain, retuned. The rates of Muon as built already fit many widths, and
# of it we claim only that the plan is not behind.
_AHEAD = {"adamw": 0.05, "muon": 0.0}


@settings(
    widths=(16, 32),
    steps=(12,),
    octaves=(-7, -4),
    budget=6,
    context=16,
    held=64,
    characters=100_000,
)
class Config:
    r"""Settings.

    Args:
        optimizers: AdamW, and Muon with steps of its size beside it.
        widths: $n$ at the least depth; the first is the base.
        depths: $L$ at the least width, for the first duration.
        steps: Durations; constants are tuned for the first.
        octaves: First and last learning rate of the base, as powers of 2; all sizes have all between them.
        seeds: Networks at each rate.
        drift_seeds: The same of planned, tuned, for the first duration: its drift is judged.
        start: Power of 2 of the rate that tuning begins with.
        weight_decay: Of what is not tuned.
        budget: Runs of the tuning.
        tuning_seeds: Seeds of a candidate.
        batch: Texts of a step.
        context: Letters of a text.
        held: Texts of the loss.
        characters: Of the text; 0 for all 100 million.
        allowance: Octaves per octave that the drift of so short runs of so small networks may have.
    """

    optimizers: tuple[str, ...] = ("adamw",)
    widths: tuple[int, ...] = (16, 32, 64)
    depths: tuple[int, ...] = (2,)
    steps: tuple[int, ...] = (60,)
    octaves: tuple[int, int] = (-9, -4)
    seeds: int = 2
    drift_seeds: int = 2
    start: int = -6
    weight_decay: float = 0.1
    budget: int = 24
    tuning_seeds: int = 2
    batch: int = 8
    context: int = 32
    held: int = 128
    characters: int = 400_000
    allowance: float = 0.5

    @classmethod
    def paper(cls) -> Config:
        """Widths to 256, depths to 8, 300 and 1200 steps of AdamW and Muon: minutes on a GPU, hours without."""
        return cls(
            optimizers=("adamw", "muon"),
            widths=(32, 64, 128, 256),
            depths=(2, 4, 8),
            steps=(300, 1200),
            octaves=(-11, -4),
            drift_seeds=6,
            start=-7,
            budget=300,
            tuning_seeds=3,
            context=64,
            held=256,
            characters=4_000_000,
            allowance=0.1,
        )

    @property
    def rates(self) -> list[float]:
        """Learning rates of the base."""
        return [2.0**k for k in range(self.octaves[0], self.octaves[1] + 1)]

    @property
    def sizes(self) -> dict[str, tuple[int, int]]:
        """Width and depth by label, the base first."""
        n, L = self.widths[0], self.depths[0]
        every = [(w, L) for w in self.widths] + [(n, d) for d in self.depths[1:]]
        return {f"n={w}, L={d}": (w, d) for w, d in every}


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
    """Tune at the base, and train every family on the grid.

    Args:
        config: What is trained.
        store: A folder that keeps every finished training; a killed run goes on from there.
        progress: Called with (trainings done, all of them) of each round of trainings.
        client: Where they are trained; as in `sweep`.

    Returns:
        ``loss`` over (optimizer, steps, family, size, rate, seed), infinite where it diverged and NaN where nobody
        trained (other depths, and planned as built, for longer runs);
        of the base, planned and tuned, ``batch_loss`` with a doubled batch and half the steps over
        (optimizer, rate, trial), and ``policy_loss`` over (optimizer, policy, trial), `seeds` trials of each; of
        the widest, ``swap_loss`` over (optimizer, way, swap, trial): the family `way` but for one setting, which is
        the other's; over size ``width`` and ``depth``; ``constants`` and decay as a text, and ``tuned_loss`` over
        optimizer.
        Attributes: the config.

    Raises:
        ValueError: If the text is not there.
        MissingExtraError: If PyTorch is not installed.
    """
    require("torch", for_="This experiment", extra="torch")
    missing = needs_data()
    if missing is not None:
        raise ValueError(missing)
    from scalewise.experiments._decoder import tuned_constants

    start = {"lr": 2.0**config.start, "weight_decay": config.weight_decay}
    found = {
        name: tuned_constants(
            common_of(config),
            name,
            start=start,
            budget=config.budget,
            seeds=config.tuning_seeds,
            store=within(store, f"tuned_{name}"),
            client=client,
        )
        for name in config.optimizers
    }
    parts = [
        runs_of(config, name, tuned, within(store, name), progress=progress, client=client)
        for name, tuned in found.items()
    ]
    said = [
        json.dumps({"constants": t.constants, "decay": t.settings["weight_decay"]}, sort_keys=True)
        for t in found.values()
    ]
    sizes = config.sizes
    labels = {
        "optimizer": list(config.optimizers),
        "steps": list(config.steps),
        "family": list(FAMILIES),
        "size": list(sizes),
        "rate": config.rates,
    }
    return (
        xr.concat(parts, "optimizer")
        .assign(
            width=("size", [n for n, _ in sizes.values()]),
            depth=("size", [L for _, L in sizes.values()]),
            constants=("optimizer", said),
            tuned_loss=("optimizer", [t.loss[0] for t in found.values()]),
        )
        .assign_coords(labels)
        .assign_attrs(attributes(config))
    )


# What the losses say


def numbers(dataset: xr.Dataset) -> list[Number]:
    """Drifts, who loses less from width 128 up, and whether wider is worse."""
    out, line = [], widening(dataset)
    large = [i for i in line if int(dataset.width[i]) >= _WIDE]
    for optimizer, steps, of in families(dataset):
        where = f"{optimizer}, {steps} steps"
        found = of[PLANNED_TUNED]
        for drift in found.check.drifts:
            if not any(o.edge for o in found.check.optima):
                out.append(
                    Number(
                        f"drift with the {drift.axis}, {where}",
                        0.0,
                        drift.slope,
                        drift.sem,
                        float(dataset.attrs["allowance"]),
                    )
                )
        ordered = [above(found, j, found, i, carried=True) for i, j in pairwise(line)]
        worse = sum(d > 2 * e + 0.02 for d, e in ordered)
        out.append(Number(f"widths that are worse than the one before, {where}", 0, worse))
        for i in large:
            at = f"{dataset['size'].values[i]}, {where} (1 for yes)"
            ahead, error = above(found, i, of[PLAIN], i)
            said = f"carried loses {_AHEAD[optimizer]:g} less than plain retuned at {at}"
            out.append(Number(said, 1, int(ahead + _AHEAD[optimizer] < 2 * error)))
            ahead, error = above(found, i, of[PLAIN_TUNED], i)
            said = f"carried within .03 of plain tuned, retuned at {at}"
            out.append(Number(said, 1, int(ahead - 0.03 < 2 * error)))
    return out


def tables(dataset: xr.Dataset) -> list[Table]:
    """Losses of every arm at every size, optima, and policies of batch and duration."""
    out, every = list[Table](), families(dataset)
    for optimizer, steps, of in every:
        labels = [s.label for s in of[PLAIN].check.sizes]
        rows = [row for name, found in of.items() for row in found.rows(name, labels)]
        said = str(dataset.constants.sel(optimizer=optimizer).values)
        caption = f"{optimizer}, {steps} steps; tuned at the base: {said}"
        out.append(Table.of(caption, ("arm", *labels), rows))
    if dataset.sizes["optimizer"] > 1:
        out.append(_optimizers({(o, s): of[PLANNED_TUNED] for o, s, of in every}, dataset))
    head = ("what", "policy", "loss", "above the best rate's")
    caption = "Policies of batch and duration, planned and tuned at the base"
    out.append(Table.of(caption, head, _policies(dataset)))
    return [*out, *_swaps(dataset)]


def _optimizers(found: dict[tuple[str, int], Family], dataset: xr.Dataset) -> Table:
    """Excess loss of every other optimizer over the first, planned, tuned with the same budget, and carried."""
    names, line = list(dict.fromkeys(o for o, _ in found)), widening(dataset)
    rows: list[tuple[object, ...]] = []
    for (other, steps), mine in found.items():
        if other != names[0]:
            first = found[names[0], steps]
            gaps = [above(mine, i, first, i, carried=True) for i in range(len(line))]
            rows.append((other, steps, *(f"{gap:+.3f} ± {sem:.3f}" for gap, sem in gaps)))
    widths = [f"n = {int(dataset.width[i])}" for i in line]
    caption = (
        f"Loss above that of {names[0]}: planned, constants tuned with the same budget, carried"
    )
    return Table.of(caption, ("optimizer", "steps", *widths), rows)


def _policies(dataset: xr.Dataset) -> list[tuple[object, ...]]:
    """Settings of the base under each policy, beside the best rate."""
    x, rows = np.log2(dataset.rate.values), []
    for optimizer in map(str, dataset.optimizer.values):
        mine = dataset.sel(optimizer=optimizer)
        # Of the seeds that policies have.
        seeds = slice(mine.sizes["trial"])
        longest = mine.loss.sel(family=PLANNED_TUNED).isel(size=0, steps=-1, seed=seeds).values
        retuned = {"batch": mine.batch_loss.values, "tokens": longest}
        said = {
            "batch": "batch x 2, steps x 1/2",
            "tokens": f"steps x {dataset.steps.values[-1] / dataset.steps.values[0]:g}",
        }
        for label, losses in zip(
            map(str, mine.policy.values), mine.policy_loss.values, strict=True
        ):
            what, name = label.split(": ")
            there = find_optimum(x, retuned[what])
            mean, sem = mean_of(losses)
            rows.append(
                (
                    f"{optimizer}, {said[what]}",
                    name,
                    f"{mean:.3f} ± {sem:.3f}",
                    f"{mean - there.loss:+.3f}",
                )
            )
    return rows


def _swaps(dataset: xr.Dataset) -> list[Table]:
    """The worth of a single setting: planned with that of plain, plain with that of planned, and their mean."""
    widest, steps = f"n={int(dataset.width.max())}", int(dataset.steps[0])
    head = ("what is swapped", "planned with plain's loses", "plain with planned's gains", "mean")
    out = []
    for optimizer in map(str, dataset.optimizer.values):
        of = dataset.swap_loss.sel(optimizer=optimizer)
        ways = [of.sel(way=way) for way in (PLANNED_TUNED, PLAIN)]
        planned, plain = (way.sel(swap="nothing").values for way in ways)
        rows: list[tuple[object, ...]] = []
        for swap in of.swap.values:
            if swap != "nothing":
                loses = ways[0].sel(swap=swap).values - planned
                gains = plain - ways[1].sel(swap=swap).values
                said = [mean_of(x) for x in (loses, gains, (loses + gains) / 2)]
                rows.append((swap, *(f"{mean:+.3f} ± {sem:.3f}" for mean, sem in said)))
        gap, error = mean_of(plain - planned)
        caption = (
            f"{optimizer}, {steps} steps, {widest}; planned, tuned, carried is {gap:+.3f} ± {error:.3f} ahead "
            "of plain, retuned; one setting swapped at a time"
        )
        out.append(Table.of(caption, head, rows))
    return out


@house
def figure(dataset: xr.Dataset) -> Figure:
    """For every optimizer and duration: losses over rates of the planned network, and losses over the width."""
    every, line = families(dataset), widening(dataset)
    canvas, axes = sheet(2, len(every), height=3.4)
    for k, (optimizer, steps, of) in enumerate(every):
        left, right = axes[2 * k], axes[2 * k + 1]
        found = of[PLANNED_TUNED]
        for j, i in enumerate(line):
            mean = found.losses[i].mean(axis=1)
            alpha = 0.3 + 0.7 * (j + 1) / len(line)
            left.plot(
                found.x,
                mean,
                "o-",
                ms=2.5,
                color=COLORS[0],
                alpha=alpha,
                label=f"n = {int(dataset.width[i])}",
            )
        left.axvline(found.check.optima[0].place, color=COLORS[1], lw=0.8, ls="--")
        left.set(
            title=f"{optimizer}, {steps} steps: {PLANNED_TUNED}",
            xlabel="log₂ of the rate at the base",
        )
        left.legend()
        widths = [int(dataset.width[i]) for i in line]
        for name, color in zip(FAMILIES, COLORS, strict=False):
            if name not in of:
                continue
            best = np.array([of[name].retuned(i) for i in line])
            there = np.array([of[name].carried(i) for i in line])
            points(right, widths, best[:, 0], np.nan_to_num(best[:, 1]), color=color, label=name)
            right.plot(widths, best[:, 0], color=color, lw=1.0)
            right.plot(widths, there[:, 0], "o", mfc="none", ms=6, color=color)
        right.set_xscale("log", base=2)
        right.set_xticks(widths, [str(n) for n in widths])
        right.set(title="loss: retuned (full), carried (open)", xlabel="width n")
        right.legend()
    return canvas
