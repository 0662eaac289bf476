"""Networks of one width and several depths: what every module is given and returns, before and after a step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from scalewise.plan._adapter import Adapter
from scalewise.plan._depth import READOUT, WHOLE
from scalewise.plan._measurement import Quantity
from scalewise.plan._names import bare, pattern
from scalewise.plan._run import Run
from scalewise.plan._sizes import measure_network

_SEEN = (Quantity.OUTPUT, Quantity.CHANGE, Quantity.FEATURES, Quantity.FEATURES_CHANGE)
_RETURNED = (Quantity.OUTPUT, Quantity.CHANGE)


def seen_over_depths(
    ends: Run, plans: Sequence[Adapter], seeds: int, advance: Callable[[], None]
) -> dict[tuple[str, Quantity], np.ndarray]:
    """Sizes of what comes after all blocks, over depths and seeds.

    Args:
        ends: A run at the least and the largest depth.
        plans: The plan at each depth, ascending.
        seeds: Networks of each depth.
        advance: Called after each.

    Returns:
        By place and quantity, NaN where what reads out was not seen. Where no tensor does, the model as a whole has
        that place, without a name.
    """
    bench, shape = ends.bench, (len(plans), seeds)
    last_place, wanted = (READOUT, _SEEN) if ends.scene.readouts else (WHOLE, _RETURNED)
    found = {(last_place, q): np.full(shape, np.nan) for q in wanted}
    counts: list[Counter[str]] = []
    for i, at in enumerate(plans):
        run = replace(ends, plans=(at,), widths=ends.widths[:1])
        scene = bench.scene(at, run.draw(0))
        whole = replace(run, scene=bench.everywhere(at, scene, run.draw(0)))
        order = whole.scene.places.order
        counts.append(Counter(map(_kind, order)))
        last = {_kind(n): n for n in order}
        if scene.places.reads:
            last[READOUT] = scene.places.reads[-1]
        for seed in range(seeds):
            every = measure_network(whole.network(0, seed), run.steps)
            sizes = every.module
            if last_place == WHOLE:
                pair = every.returned_first, every.returned
                for q, size in zip(_RETURNED, pair, strict=True):
                    found[WHOLE, q][i, seed] = size
            for kind, name in last.items():
                for q in (q for q in _SEEN if (name, q) in sizes):
                    found.setdefault((kind, q), np.full(shape, np.nan))[i, seed] = sizes[name, q]
            advance()
    # Modules inside a block have fewer blocks below them than the depth: what comes after all is measured.
    after = {k for k in counts[0] if all(c[k] == counts[0][k] for c in counts)} | {last_place}
    # Of what reads out also what was not seen: without it nothing is known of the depth.
    return {
        k: v
        for k, v in found.items()
        if k[0] in after and (k[0] == last_place or not np.isnan(v).any())
    }


def _kind(name: str) -> str:
    return pattern(bare(name, ()))
