"""Which trainings of the decoder are made: families over sizes and rates; policies, and swaps of settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from scalewise.experiments._arms import Arm, Cell, Common
from scalewise.experiments._cells import about, on_grid, trained
from scalewise.plan import POLICIES
from scalewise.plan.spi import find_optimum
from scalewise.sweeps.spi import within

if TYPE_CHECKING:
    from scalewise.plan.proof import Tuned

# Rules, and whether they have the constants of the base. Plain is the network as built, without a plan.
PLAIN, PLAIN_TUNED, PLANNED, PLANNED_TUNED = FAMILIES = (
    "plain",
    "plain, tuned",
    "planned",
    "planned, tuned",
)
ARMS = {
    PLAIN: Arm(PLAIN, rules="standard", based=False, drift=-1.2),
    PLAIN_TUNED: Arm(PLAIN_TUNED, rules="standard", tuned=True, drift=-0.8),
    PLANNED: Arm(PLANNED),
    PLANNED_TUNED: Arm(PLANNED_TUNED, tuned=True),
}
_HIDDEN = ("*.queries.*", "*.keys.*", "*.values.*", "*.up.*")
_ENDS = ("*.out_*",)
# What is taken from another network, one row at a time: a setting, and names of tensors.
SWAPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "nothing": ("std", ()),
    "std of hidden weights": ("std", _HIDDEN),
    "std of ends of branches": ("std", _ENDS),
    "std of the readout": ("std", ("head.*",)),
    "rate of embeddings": ("lr", ("letters.*", "places.*")),
    "rate of gains": ("lr", ("*norm*",)),
    "rate of hidden weights": ("lr", _HIDDEN + _ENDS),
    "rate of the readout": ("lr", ("head.*",)),
    "weight decay": ("weight_decay", ("*",)),
}
Progress = Callable[[int, int], None] | None


def common_of(config: Any) -> Common:
    """Settings that the trainings of a config share."""
    return Common(
        task="text",
        base=(config.widths[0], config.depths[0]),
        batch=config.batch,
        steps=config.steps[0],
        context=config.context,
        held=config.held,
        symbols=config.characters,
    )


def runs_of(
    config: Any, optimizer: str, tuned: Tuned, store: str | None, *, progress: Progress, client: Any
) -> xr.Dataset:
    """All that one optimizer trains; see `text_transfer.run`."""
    common = common_of(config)

    def made(cells: list[Cell], name: str) -> list[np.ndarray]:
        kept = within(store, name)
        return trained(common, cells, store=kept, progress=progress, client=client)

    def cell(family: str, size: tuple[int, int], steps: int) -> Cell:
        own = tuned.settings["weight_decay"] if ARMS[family].tuned else config.weight_decay
        return Cell(
            arm=ARMS[family],
            size=size,
            rates=tuple(config.rates),
            seeds=config.seeds,
            optimizer=optimizer,
            steps=steps,
            batch=config.batch,
            weight_decay=own,
            constants=tuned.constants,
        )

    sizes = list(config.sizes.values())
    of = (config.steps, FAMILIES, sizes)
    most = max(config.seeds, config.drift_seeds)
    losses = np.full((*map(len, of), len(config.rates), most), np.nan)
    places = [
        (i, j, k)
        for i, j, k in np.ndindex(losses.shape[:3])
        if i == 0 or (sizes[k][1] == config.depths[0] and FAMILIES[j] != PLANNED)
    ]

    def train(places: list[tuple[int, int, int]], name: str) -> None:
        grid = list[Cell]()
        for i, j, k in places:
            one = cell(FAMILIES[j], sizes[k], config.steps[i])
            if k:
                base, growth = losses[i, j, 0, :, : config.seeds], sizes[k][0] / sizes[0][0]
                one = replace(one, rates=about(config.rates, base, _arm(j, optimizer), growth))
            judged = i == 0 and FAMILIES[j] == PLANNED_TUNED
            grid.append(replace(one, seeds=most) if judged else one)
        for place, one, found in zip(places, grid, made(grid, name), strict=True):
            losses[place][:, : one.seeds] = on_grid(found, one, config.rates)

    train([place for place in places if not place[2]], "bases")
    train([place for place in places if place[2]], "grid")
    base = cell(PLANNED_TUNED, sizes[0], config.steps[0])
    half = replace(base, batch=2 * config.batch, steps=max(1, config.steps[0] // 2))
    batch = made([half], "batch")[0][0]
    x = np.log2(config.rates)
    best = 2.0 ** find_optimum(x, losses[0, FAMILIES.index(PLANNED_TUNED), 0]).place
    longer = replace(base, steps=config.steps[-1])
    asked = {
        f"{what}: {name}": replace(at, arm=replace(base.arm, policy=name), rates=(best,))
        for name, row in POLICIES.items()
        for what, at in (("batch", half), ("tokens", longer))
        if what in row.covers and (what == "batch" or len(config.steps) > 1)
    }
    policies = np.array(made(list(asked.values()), "policies"))[:, 0, 0]
    swapped = np.array(made(_swaps(config, cell, best, losses), "swaps"))[:, 0, 0]
    return xr.Dataset(
        {
            "loss": (("steps", "family", "size", "rate", "seed"), losses),
            "batch_loss": (("rate", "trial"), batch),
            "policy_loss": (("policy", "trial"), policies),
            "swap_loss": (("way", "swap", "trial"), swapped.reshape(2, -1, config.seeds)),
        },
        {"policy": list(asked), "way": [PLANNED_TUNED, PLAIN], "swap": [*SWAPS]},
    )


def _arm(family: int, optimizer: str) -> Arm:
    """The rules of a family; where the best rate of Muon goes without a plan, nobody knows."""
    arm = ARMS[FAMILIES[family]]
    return replace(arm, drift=None) if optimizer == "muon" and arm.drift else arm


def _swaps(config: Any, cell: Callable[..., Cell], best: float, losses: np.ndarray) -> list[Cell]:
    """Trainings of the widest: planned and carried with one setting of plain and retuned, and vice versa."""
    size = (config.widths[-1], config.depths[0])
    at = list(config.sizes.values()).index(size)
    ours = losses[0, FAMILIES.index(PLAIN), at, :, : config.seeds]
    plain = find_optimum(np.log2(config.rates), ours)
    two = {
        family: replace(cell(family, size, config.steps[0]), rates=(rate,))
        for family, rate in ((PLANNED_TUNED, best), (PLAIN, 2.0**plain.place))
    }
    return [
        replace(two[mine], swap=(*SWAPS[what], two[other]))
        for mine, other in ((PLANNED_TUNED, PLAIN), (PLAIN, PLANNED_TUNED))
        for what in SWAPS
    ]
