"""What `measure` accepts: every rule on its arguments, and the sentence for whoever breaks it."""

from __future__ import annotations

from typing import Any

from scalewise.nets._estimators import ESTIMATORS, accumulators, estimators
from scalewise.nets._moments import CovarianceSums
from scalewise.networks import Network
from scalewise.observables import OBSERVABLES
from scalewise.selection import Selection, select


def choose(net: Network, observables: Any, widths: Any, samples: int) -> Selection:
    """The observables to measure, by the rule of `predict`; slopes in 1/n need several widths."""
    chosen = select(observables, net, samples=samples, drawn=True)
    slopes = [name for name in chosen.names if ESTIMATORS[name].slope_of]
    if widths is not None or not slopes:
        return chosen
    why = {
        name: f"{name!r}, the slope of {ESTIMATORS[name].slope_of} in 1/n, which one width does not "
        "show. Pass widths=[...] with two widths or more."
        for name in slopes
    }
    if observables is not None and observables != "all":
        raise ValueError(f"`observables` asks for {why[slopes[0]]}")
    return chosen.without({name: f"It is {reason}" for name, reason in why.items()})


def check_count(networks: int, names: tuple[str, ...]) -> None:
    """Refuse fewer networks than a standard error takes."""
    least = max(ESTIMATORS[name].least for name in names)
    if networks < least:
        reason = " of a covariance" if least == 4 else ""
        raise ValueError(
            f"`networks` must be a whole number of at least {least}, because a standard error{reason} "
            f"takes {least} networks; got {networks}."
        )


def check_size(net: Network, samples: int, names: tuple[str, ...], budget: int) -> None:
    """Refuse tensors with four indices that do not fit the memory."""
    large = [name for name in names if OBSERVABLES[name].legs == 4]
    if not large:
        return
    rows = [estimators(net)[name] for name in large]
    entries = {row.part.name: row.part.entries(samples) for row in rows}
    floats = 2 * samples**4 * len(large)
    for parts in accumulators(rows).values():
        for part, kind in parts.items():
            floats += 9 * entries[part] ** 2 if kind is CovarianceSums else 6 * entries[part]
    need = 8 * net.depth * floats
    if need > budget:
        what = " and ".join(filter(None, (", ".join(map(repr, large[:-1])), repr(large[-1]))))
        verb, it = ("takes", "it") if len(large) == 1 else ("take", "some")
        raise ValueError(
            f"`memory` is {budget / 2**30:.3g} GiB, and {what} of {samples} samples in "
            f"{net.depth} layers {verb} {need / 2**30:.3g} GiB: tensors with four sample indices grow "
            f"as the fourth power of the samples. Raise `memory`, use fewer samples, or leave {it} out "
            "of `observables`."
        )
