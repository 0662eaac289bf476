"""Networks of one width and several depths: what every module is given and returns, before and after a step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from scalewise.plan import PlanError
from scalewise.plan._depth import READOUT, DepthCheck, check_depths
from scalewise.plan._fits import check_design
from scalewise.plan._measurement import Quantity
from scalewise.plan._names import bare, pattern
from scalewise.torch._measure import Loss, Places, called_modules, measure_network
from scalewise.torch._plan import TorchPlan
from scalewise.torch._run import Run, Setup

__all__ = ["over_depths"]

_SEEN = (Quantity.OUTPUT, Quantity.CHANGE, Quantity.FEATURES, Quantity.FEATURES_CHANGE)


def over_depths(
    plan: TorchPlan,
    batch: Any,
    loss: Loss,
    *,
    width: int,
    depths: Sequence[int],
    seeds: int,
    lr: float | None,
    steps: int | None,
    setup: Setup | None,
    tolerance: float,
    advance: Callable[[], None],
) -> DepthCheck:
    """Train networks of several depths for a step and see what grows; arguments as for `verify`.

    Raises:
        PlanError: If depths are fewer than three, or the plan has no depth.
    """
    ascending = tuple(sorted(depths))
    if plan.table.depth_name not in plan.table.target:
        raise PlanError(
            f"`depths` was given, but the plan has no depth {plan.table.depth_name!r}: plan with one, in `base` "
            "and in `target`."
        )
    if len(ascending) < 3:
        raise PlanError(f"`depths` must hold at least three different depths; got {ascending}.")
    check_design(np.asarray(ascending, dtype=float), seeds)
    plans = tuple(plan.at(width=width, depth=d) for d in ascending)
    ends = Run((plans[0], plans[-1]), (width, width), batch, loss, setup).prepared(steps)
    if setup is None:
        ends = replace(ends, lr=ends.small_lr() if lr is None else lr)
    found: dict[tuple[str, Quantity], np.ndarray] = {}
    counts: list[Counter[str]] = []
    for i, at in enumerate(plans):
        run = replace(ends, plans=(at,), widths=(width,)).prepared(ends.steps)
        for seed in range(seeds):
            network = run.network(0, seed)
            order = tuple(n for n in called_modules(network) if n)
            counts += [Counter(map(_kind, order))] if seed == 0 else []
            last = {_kind(n): n for n in order} | {READOUT: run.places.reads[-1]}
            sizes = measure_network(network, Places({}, order, order), (), run.steps).module
            for kind, name in last.items():
                for q in (q for q in _SEEN if (name, q) in sizes):
                    missing = np.full((len(ascending), seeds), np.nan)
                    found.setdefault((kind, q), missing)[i, seed] = sizes[name, q]
            advance()
    # Modules inside a block have fewer blocks below them than the depth: what comes after all is measured.
    after = {k for k in counts[0] if all(c[k] == counts[0][k] for c in counts)} | {READOUT}
    whole = {k: v for k, v in found.items() if k[0] in after and not np.isnan(v).any()}
    return check_depths(plan.table, ascending, whole, tolerance)


def _kind(name: str) -> str:
    return pattern(bare(name, ()))
