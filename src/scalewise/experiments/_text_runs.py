"""Which trainings of the decoder are made: about the best rate of each size, until it lies inside; and policies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from scalewise._extras import require
from scalewise.plan import POLICIES
from scalewise.plan.proof._optimum import find_optimum
from scalewise.sweeps import sweep
from scalewise.sweeps._store import within

if TYPE_CHECKING:
    from scalewise.plan.proof import Tuned

# Rules, and whether they have the constants of the base. Plain is the network as built, without a plan.
PLAIN, PLAIN_TUNED, PLANNED, PLANNED_TUNED = FAMILIES = (
    "plain",
    "plain, tuned",
    "planned",
    "planned, tuned",
)
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


def runs_of(
    config: Any, optimizer: str, tuned: Tuned, store: str | None, *, progress: Progress, client: Any
) -> xr.Dataset:
    """All that one optimizer trains; see `text_transfer.run`."""
    how: dict[str, Any] = {"progress": progress or False, "client": client}
    cell = partial(_loss, config=config, optimizer=optimizer, tuned=tuned)
    losses = _grid(config, cell, store, **how)

    def trained(runs: dict[str, dict[str, Any]], name: str) -> np.ndarray:
        return sweep(cell, {"run": runs}, store=within(store, name), **how).loss.values

    seeds, rates = list(range(config.seeds)), config.rates
    half = {"batch": 2 * config.batch, "steps": max(1, config.steps[0] // 2)}
    first = {"family": PLANNED_TUNED, "size": (config.widths[0], config.depths[0])}
    double = {
        f"2^{np.log2(rate):g}, seed {seed}": first | half | {"rate": rate, "seed": seed}
        for rate in rates
        for seed in seeds
    }
    batch = trained(double, "batch")
    base = losses[0, FAMILIES.index(PLANNED_TUNED), 0]
    best = 2.0 ** find_optimum(np.log2(rates), base).place
    changes = {"batch": half, "tokens": {"batch": config.batch, "steps": config.steps[-1]}}
    asked = {f"{what}: {name}": changes[what] | {"policy": name}
             for name, row in POLICIES.items()
             for what in (_said(row.covers, len(config.steps)))}  # fmt: skip
    under = {
        f"{label}, seed {seed}": first | asked[label] | {"rate": best, "seed": seed}
        for label in asked
        for seed in seeds
    }
    policies = trained(under, "policies")
    swapped = trained(_swaps(config, best, losses), "swaps")
    return xr.Dataset(
        {
            "loss": (("steps", "family", "size", "rate", "seed"), losses),
            "batch_loss": (("rate", "trial"), batch.reshape(len(rates), -1)),
            "policy_loss": (("policy", "trial"), policies.reshape(len(asked), -1)),
            "swap_loss": (("way", "swap", "trial"), swapped.reshape(2, -1, config.seeds)),
        },
        {"policy": list(asked), "way": [PLANNED_TUNED, PLAIN], "swap": [*SWAPS]},
    )


def _swaps(config: Any, best: float, losses: np.ndarray) -> dict[str, dict[str, Any]]:
    """Trainings of the widest: planned and carried with one setting of plain and retuned, and vice versa."""
    size = (config.widths[-1], config.depths[0])
    at = list(config.sizes.values()).index(size)
    plain = find_optimum(
        np.log2(config.rates), losses[0, FAMILIES.index(PLAIN), at, :, : config.seeds]
    )
    two = {PLANNED_TUNED: best, PLAIN: 2.0**plain.place}
    shared = {"size": size, "steps": config.steps[0], "batch": config.batch}
    return {
        f"{mine} but {what}, seed {seed}": shared
        | {"family": mine, "rate": two[mine], "seed": seed, "swap": what, "of": [other, two[other]]}
        for mine, other in ((PLANNED_TUNED, PLAIN), (PLAIN, PLANNED_TUNED))
        for what in SWAPS
        for seed in range(config.seeds)
    }


def _said(covers: tuple[str, ...], durations: int) -> tuple[str, ...]:
    """Of batch and tokens those that a policy has a rule for; of a batch at equal tokens, and of a longer run."""
    return tuple(what for what in covers if what == "batch" or durations > 1)


def seeds_of(config: Any) -> np.ndarray:
    """How many networks each family has at each rate, over (steps, family).

    The family whose drift is judged has more of them at the first duration; planned as built is trained only there.
    """
    out = np.full((len(config.steps), len(FAMILIES)), config.seeds)
    out[1:, FAMILIES.index(PLANNED)] = 0
    out[0, FAMILIES.index(PLANNED_TUNED)] = max(config.seeds, config.drift_seeds)
    return out


def _grid(config: Any, cell: Any, store: str | None, **how: Any) -> np.ndarray:
    """Losses over (steps, family, size, rate, seed): NaN where nobody trained, infinite where it diverged."""
    sizes, seeds = config.sizes, seeds_of(config)
    of = {"steps": config.steps, "family": FAMILIES, "size": list(sizes.values()),
          "rate": config.rates, "seed": range(seeds.max())}  # fmt: skip
    losses = np.full(tuple(map(len, of.values())), np.nan)
    line = [depth == config.depths[0] for _, depth in sizes.values()]
    rounds = count()
    while len(places := np.argwhere(wanted(losses, line, seeds))):
        runs = {}
        for place in places:
            run = {name: of[name][j] for name, j in zip(of, place, strict=True)}
            runs[", ".join(map(str, run.values()))] = run | {"batch": config.batch}
        kept = within(store, f"round_{next(rounds)}")
        made = sweep(cell, {"run": runs}, store=kept, **how).loss.values
        losses[tuple(places.T)] = np.where(np.isfinite(made), made, np.inf)
    return losses


def wanted(losses: np.ndarray, line: list[bool], seeds: np.ndarray) -> np.ndarray:
    """What is to be trained next, given what was.

    The base has every rate at the first duration. Another size begins with an octave to either side of the base's
    best rate; a longer run, for which the best rate falls, with the best of the duration before and two octaves
    below. Each goes on until its best rate has neighbours on both sides, and has those of the base's best as well.

    Args:
        losses: Over (steps, family, size, rate, seed); NaN where nobody trained.
        line: Of each size, whether it has runs of more than the first duration.
        seeds: How many are trained, over (steps, family).

    Returns:
        Truth values of the shape of the losses; none when all is done.
    """
    asked = (np.arange(losses.shape[-1]) < seeds[..., None])[:, :, None, None]
    known: np.ndarray = ~(np.isnan(losses) & asked).any(axis=-1)
    mean = np.where(asked, losses, 0.0).sum(axis=-1) / np.maximum(seeds, 1)[..., None, None]
    best = np.where(known, mean, np.inf).argmin(axis=-1)
    rates = np.arange(losses.shape[-2])

    def about(k: int, below: int, above: int) -> np.ndarray:
        return (rates >= k - below) & (rates <= k + above)

    out = np.zeros(known.shape, bool)
    for steps, family in np.ndindex(*known.shape[:2]):
        if steps and out[:steps, family].any():
            continue  # what was trained for less time decides
        for size in range(known.shape[2]):
            at, base = (steps, family, size), (steps, family, 0)
            if steps and not line[size]:
                continue
            if not size and not steps:
                ask = np.ones(len(rates), bool)
            elif known[at].any():
                ask = about(int(best[at]), 1, 1)
            elif steps:
                ask = about(int(best[steps - 1, family, size]), 2, 0)
            else:
                ask = about(int(best[base]), 1, 1)
            if size:
                if out[base].any():
                    continue  # the base decides
                ask = ask | about(int(best[base]), 1, 1)
            out[at] = ask & ~known[at]
    return out[..., None] & asked


def _loss(run: dict[str, Any], *, config: Any, optimizer: str, tuned: Tuned) -> xr.Dataset:
    require("torch", for_="This experiment", extra="torch")
    from scalewise.experiments._decoder import Recipe, losses_of, plan_of

    def recipe(family: str, rate: float) -> Recipe:
        constants, policy = tuned.constants, run.get("policy")
        plan = plan_of(
            config, optimizer, family, run["size"], constants,
            batch=run["batch"], steps=run["steps"], policy=policy,
        )  # fmt: skip
        own = tuned.settings["weight_decay"] if family.endswith("tuned") else config.weight_decay
        return Recipe(plan, rate, own)

    mine = recipe(run["family"], run["rate"])
    if "swap" in run:
        mine = mine.swapped(*SWAPS[run["swap"]], recipe(*run["of"]))
    return xr.Dataset({"loss": losses_of(config, mine, run["seed"], run["steps"], run["batch"])})
