"""The record of a comparison: rows, verdict, and how it is told."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Bool, Float

from scalewise._checked import Index, checked
from scalewise._labelled import dataset
from scalewise._readable import Rows, readable
from scalewise._words import listed
from scalewise.comparison._normal import as_normal

_NUMBERS = ("predicted", "measured", "sem", "bias", "z", "z_excess")


@dataclass(frozen=True)
@readable
class Entry:
    """One number of the theory beside its measurement.

    Attributes:
        observable: Name in the table of observables.
        layer: Counted from 1; 0 of what is known of the output alone, as of trained networks.
        samples: Sample indices, counted from 0; of trained networks outputs before them.
        predicted: By the theory, in the units of the observable.
        measured: Mean over the ensemble.
        sem: Standard error of that mean, if the observable has at least the size that the theory says, with the
            numerical error of the theory added in squares.
        bias: Stated size of the first neglected order.
        z: Difference in standard errors, of many networks; of few the normal number that is as rare.
        z_excess: The same of what the difference exceeds the bias by; 0 within the bias.
        exact: Whether there is nothing random to compare; then `z` is 0 if the two numbers agree to
            the rounding of the measurement, and larger than the limit in proportion if not.
    """

    observable: str
    layer: int
    samples: tuple[int, ...]
    predicted: float
    measured: float
    sem: float
    bias: float
    z: float
    z_excess: float
    exact: bool


@dataclass(frozen=True)
@readable
class Comparison:
    """How far a theory and an ensemble are apart, in standard errors.

    Attributes:
        table: One row (dimension ``entry``) per distinct number, worst first. Variables as in
            `Entry`; ``samples`` has a second dimension and is padded with -1.
        z: For every observable its z-scores over all its dimensions, repeated entries included.
        predicted: The theory as it was compared, with ``<name>_bias``.
        summary: Per observable (dimension ``observable``) the number of random entries ``count``,
            ``max_z``, ``max_z_excess``, ``rms_z``, the fractions ``within_1`` and ``within_2``
            standard errors, and the counts ``exact`` and ``exact_failures``.
        tolerance: In standard errors, as asked for.
        limit: The tolerance, raised so that fewer than 0.001 false alarms are expected among all
            entries if the theory is right.
        passed: Whether no entry lies beyond its bias by more than `limit`, and every exact entry agrees to
            rounding; ``None`` where that says too little for a verdict. ``True`` is said of `decided` alone.
        reason: Why there is no verdict, or what it leaves out, in sentences; empty where it is on everything.
        decided: The observables of which the verdict is; empty without one.
    """

    table: xr.Dataset = field(repr=False)
    z: xr.Dataset = field(repr=False)
    predicted: xr.Dataset = field(repr=False)
    summary: xr.Dataset = field(repr=False)
    tolerance: float
    limit: float
    passed: bool | None
    reason: str = ""
    decided: tuple[str, ...] = ()

    @checked
    def worst(self, n: Index = 10) -> tuple[Entry, ...]:
        """The `n` entries that are furthest beyond their bias, worst first."""
        rows = self.table.isel(entry=slice(0, n))
        return tuple(
            Entry(
                str(rows["observable"].values[i]),
                int(rows["layer"].values[i]),
                tuple(int(s) for s in rows["samples"].values[i] if s >= 0),
                **{name: float(rows[name].values[i]) for name in _NUMBERS},
                exact=bool(rows["exact"].values[i]),
            )
            for i in range(rows.sizes["entry"])
        )

    @checked
    def to_dict(self, rows: Index = 20) -> dict[str, Any]:
        """Plain numbers and text for JSON: the verdict, the summary and the worst `rows` entries."""
        summary = {
            str(name): {key: plain(self.summary[key].values[i]) for key in self.summary.data_vars}
            for i, name in enumerate(self.summary["observable"].values)
        }
        worst = [{**vars(entry), "samples": list(entry.samples)} for entry in self.worst(rows)]
        return {
            "passed": self.passed,
            "reason": self.reason,
            "decided": list(self.decided),
            "limit": self.limit,
            "tolerance": self.tolerance,
            "entries": self.table.sizes["entry"],
            "summary": summary,
            "worst": worst,
        }

    @property
    def _by_bias(self) -> str:
        """Why what is far off in standard errors agrees all the same; empty where nothing is."""
        found = self.summary
        far = (found["max_z"].values > self.limit) & (found["max_z_excess"].values <= self.limit)
        names = [str(name) for name in found["observable"].values[far]]
        if not self.passed or not names:
            return ""
        return (
            f"In {in_words(names)} differences of more than {self.limit:.2f} standard errors lie within the bias, "
            "the size of the next order in the width: the ensemble sees that order. Wider networks have less of it."
        )

    def _told(self) -> list[str | Rows]:
        verdicts = {True: "agree", False: "DISAGREE", None: "are compared without a verdict"}
        summary = []
        for i, name in enumerate(self.summary["observable"].values):
            row = {str(key): self.summary[key].values[i] for key in self.summary.data_vars}
            numbers = (f"{row[key]:.2f}" for key in ("max_z", "max_z_excess", "rms_z"))
            shares = (f"{row[key]:.0%}" for key in ("within_1", "within_2"))
            exact = (str(row[key]) for key in ("exact", "exact_failures"))
            summary.append((str(name), str(row["count"]), *numbers, *shares, *exact))
        head = (
            "observable",
            "entries",
            "max |z|",
            "excess",
            "rms z",
            "<1σ",
            "<2σ",
            "exact",
            "failed",
        )
        partly = f" in {in_words(self.decided)}" if self.passed and self.reason else ""
        lines: list[str | Rows] = [
            f"Theory and ensemble {verdicts[self.passed]}{partly}: {self.table.sizes['entry']} entries, limit "
            f"{self.limit:.2f} standard errors beyond the stated bias.",
            *([self.reason] if self.reason else []),
            Rows(head, summary, numbers=True),
            *([self._by_bias] if self._by_bias else []),
            "Worst entries:",
        ]
        for e in self.worst(5):
            layer = f"layer {e.layer}; " if e.layer else ""
            place = f"{e.observable}[{layer}{', '.join(map(str, e.samples))}]"
            lines.append(
                f"  {place:<40} predicted {e.predicted:.6g}, measured {e.measured:.6g} "
                f"± {e.sem:.2g}, bias {e.bias:.2g}: z = {e.z:+.2f}, beyond bias {e.z_excess:+.2f}"
            )
        return lines


@dataclass(frozen=True)
class Scores:
    """One observable, compared: arrays over all its dimensions; layers, if it has them, along the first.

    `sem` is known with `freedom` degrees of freedom; `beside_another`: of no size of its own. By layer, or once
    where there are none: `still`, where nothing fluctuates, and `beyond`, where nothing is decided.
    """

    name: str
    layers: np.ndarray | None
    predicted: np.ndarray
    measured: np.ndarray
    sem: np.ndarray
    bias: np.ndarray
    floor: np.ndarray
    distinct: Bool[np.ndarray, "..."]
    freedom: np.ndarray
    beside_another: bool
    still: Bool[np.ndarray, "#layer"]
    beyond: Bool[np.ndarray, "#layer"]

    def in_layers(self, where: Bool[np.ndarray, "#layer"]) -> Bool[np.ndarray, "..."]:
        """A statement on layers, or on all entries, entry by entry."""
        return np.broadcast_to(
            where.reshape(-1, *[1] * (self.sem.ndim - 1)) if self.sem.ndim else where[0],
            self.sem.shape,
        )

    @property
    def exact(self) -> Bool[np.ndarray, "..."]:
        # A tenth: what fluctuates a little above rounding is compared by its standard error.
        return np.asarray(self.in_layers(self.still) & (self.sem <= 0.1 * self.floor))

    def contradicts(self, limit: float) -> bool:
        """True if an entry that can be decided is too far off."""
        far = np.abs(self.z(limit, beyond_bias=True)) > limit
        return bool((far & self.distinct & ~self.in_layers(self.beyond)).any())

    def z(self, limit: float, *, beyond_bias: bool) -> Float[np.ndarray, "..."]:
        difference = self.measured - self.predicted
        size = np.abs(difference)
        # A failed exact entry has no standard error; it counts `limit` per rounding tolerance.
        random = np.maximum(size - (self.bias if beyond_bias else 0.0), 0.0)
        failed = np.where(random > self.floor, limit * random / self.floor, 0.0)
        # Of few networks two or three may be alike to rounding: what they know is no better than that.
        sem = np.where(self.exact, 1.0, np.maximum(self.sem, self.floor))
        z = as_normal(random / sem, self.freedom)
        return np.asarray(np.sign(difference) * np.where(self.exact, failed, z))


def tabulate(scores: Sequence[Scores], limit: float) -> xr.Dataset:
    legs = max(s.predicted.ndim - (s.layers is not None) for s in scores)
    columns: dict[str, list[np.ndarray]] = {
        key: [] for key in ("observable", "layer", "samples", *_NUMBERS, "exact")
    }
    for s in scores:
        places = np.argwhere(s.distinct)
        own = places if s.layers is None else places[:, 1:]
        samples = np.full((len(places), legs), -1)
        samples[:, : own.shape[1]] = own
        z, excess = (s.z(limit, beyond_bias=flag) for flag in (False, True))
        columns["observable"].append(np.full(len(places), s.name, dtype=object))
        columns["layer"].append(
            np.zeros(len(places), dtype=int) if s.layers is None else s.layers[places[:, 0]]
        )
        columns["samples"].append(samples)
        columns["exact"].append(s.exact[s.distinct])
        values = (s.predicted, s.measured, s.sem, s.bias, z, excess)
        for key, value in zip(_NUMBERS, values, strict=True):
            columns[key].append(value[s.distinct])
    stacked = {key: np.concatenate(parts) for key, parts in columns.items()}
    order = np.lexsort((-np.abs(stacked["z"]), -np.abs(stacked["z_excess"])))
    return dataset(
        {
            key: (("entry", "leg") if key == "samples" else ("entry",), value[order])
            for key, value in stacked.items()
        }
    )


def summarise(table: xr.Dataset, names: Sequence[str]) -> xr.Dataset:
    rows: dict[str, list[float]] = {}
    for name in names:
        mine = table["observable"].values == name
        exact = mine & table["exact"].values
        z = np.abs(table["z"].values[mine & ~exact])
        excess = np.abs(table["z_excess"].values[mine & ~exact])
        some = bool(z.size)
        row = {
            "count": z.size,
            "max_z": z.max() if some else 0.0,
            "max_z_excess": excess.max() if some else 0.0,
            "rms_z": math.sqrt(float(np.mean(z**2))) if some else 0.0,
            "within_1": float(np.mean(z <= 1)) if some else 1.0,
            "within_2": float(np.mean(z <= 2)) if some else 1.0,
            "exact": int(exact.sum()),
            "exact_failures": int((table["z"].values[exact] != 0).sum()),
        }
        for key, value in row.items():
            rows.setdefault(key, []).append(value)
    return dataset(
        {key: ("observable", np.array(values)) for key, values in rows.items()},
        coords={"observable": list(names)},
    )


def distinct(legs: int, samples: int) -> Bool[np.ndarray, "..."]:
    """One representative of the entries that are equal by symmetry."""
    index = np.indices((samples,) * legs)
    half = legs // 2
    mask = np.ones((samples,) * legs, dtype=bool)
    for legs_of_half in (range(half), range(half, legs)):
        for a, b in zip(legs_of_half, list(legs_of_half)[1:], strict=False):
            mask &= index[a] <= index[b]
    weight = samples ** np.arange(half - 1, -1, -1).reshape(-1, *([1] * legs))
    first, second = (
        (index[part] * weight).sum(axis=0) for part in (slice(half), slice(half, None))
    )
    return mask & (first <= second)


def in_words(names: Iterable[str]) -> str:
    """Names of observables in running text: a, b and c."""
    return listed((name.replace("_", " ") for name in names), "and")


def plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    return list(value) if isinstance(value, tuple) else value
