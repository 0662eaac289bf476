"""The verb: a function on a grid, as one labelled Dataset."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import numpy as np
import xarray as xr

from scalewise._version import __version__
from scalewise.sweeps._engines import compute, connected
from scalewise.sweeps._fingerprint import fingerprint, fixed
from scalewise.sweeps._gathered import GatheredCells, as_json
from scalewise.sweeps._grid import Grid, check_cell
from scalewise.sweeps._outcomes import CellOutcome, versions
from scalewise.sweeps._progress import Progress, Reporter
from scalewise.sweeps._store import Store, opened, within

_RECORDS, _PARTIAL = "cells", "partial"


class SweepError(RuntimeError):
    """Cells of a sweep raised.

    Args:
        message: How many, and what the first of them raised.
        result: What the others gave; ``cell_error`` tells of each.
    """

    def __init__(self, message: str, result: xr.Dataset) -> None:
        super().__init__(message)
        self.result = result


def sweep(
    cell: Any,
    grid: Any,
    *,
    store: str | os.PathLike[str] | None = None,
    client: Any = None,
    retry: bool = False,
    progress: Progress = None,
    throw: bool = True,
) -> xr.Dataset:
    """Evaluate a function on a grid, in one process or on a cluster, and lose no finished cell.

    The numbers are the same wherever a cell runs and in whatever order, if they depend on its arguments alone:
    a cell that draws random numbers takes its seed from the grid.

    Args:
        cell: Called with one value of each name, by name; returns a Dataset, or a DataArray. The Datasets of
            all cells have the same variables, dimensions and coordinates. A cell with a parameter ``store``
            that is not in the grid is given an address for what it saves on the way, if `store` is given; it
            is cleared when the cell is finished.
        grid: By name, the values: a list, a range or an array of numbers, of texts or of truth values, or a
            dictionary from such labels to anything.
        store: A folder, or an address that fsspec can open, such as ``"s3://bucket/run"``. Every finished
            cell is written there, and the same call goes on behind them. What the cells gave is a Zarr group
            ``data`` in it; ``cells/<number>.json`` tells of each where it ran, for how long, and with which
            versions.
        client: A client of ``dask.distributed``, the address of its scheduler, or a number of processes on
            this machine. ``None``: in this process, and in one for each of its cores as soon as the cells
            prove long enough for that to save twenty seconds, if ``distributed`` is installed; 0: in this
            process.
        retry: Compute those cells of `store` again that raised.
        progress: ``None``: a bar if the run takes over two seconds and standard error is a terminal;
            ``False``: nothing; a callable is called with (done, total) cells.
        throw: Raise at the end if cells raised. If ``False`` the Dataset has NaN in their place.

    Returns:
        The variables of the cells with the names of the grid as leading dimensions, read from the store when
        they are used, and over the grid the coordinates ``cell_seconds``, ``cell_worker`` (machine and
        process) and ``cell_error`` (empty, or what the cell raised). Attributes are those that all cells have
        alike, and ``versions``.

    Raises:
        ValueError: If an argument breaks its rule; the grid does not fit the cell; the scheduler does not
            answer, or its workers compute with other versions; the store holds another sweep, or another
            process writes into it.
        SweepError: If cells raised; the rest is computed first, and is its ``result``.
        OSError: If nothing can be written; what was written stays.

    Example:
        >>> import scalewise as sw
        >>> def last_kernel(depth, C_W):
        ...     net = sw.MLP(depth, 64, "relu", input_dim=1, output_dim=1, C_W=C_W)
        ...     return sw.predict(net, [[1.0]], observables="kernel").kernel[-1, 0, 0]
        >>> found = sw.sweep(last_kernel, dict(depth=[2, 4, 8], C_W=[1.0, 2.0]))
        >>> found.kernel.sel(C_W=2.0).values.tolist()
        [2.0, 2.0, 2.0]
    """
    axes = Grid.of(grid)
    offered = check_cell(cell, axes, () if store is None else ("store",))
    configuration = {
        "sweep": getattr(cell, "__qualname__", type(cell).__qualname__),
        "scalewise": __version__,
        **axes.describe(),
        **fixed(cell),
        "code": fingerprint(cell),
    }
    with opened(store, configuration) as record, Reporter(progress, axes.size, "cells") as report:
        known = _Known(axes, record)
        gathered = GatheredCells(axes, record, resumed=known.any_done)
        todo = known.missing(failed=not retry)
        report.add(axes.size - len(todo))
        if len(todo):
            given = ((int(k), _arguments(axes, int(k), record, offered)) for k in todo)
            # Closed before its client: what is on the way is then called off.
            with (
                connected(client) as engine,
                closing(compute(cell, given, len(todo), engine, spread=client is None)) as outcomes,
            ):
                for outcome in _in_turn(outcomes, todo, gathered):
                    _keep(outcome, axes, gathered, known, record)
                    if record is not None and offered and known.has(outcome.cell):
                        record.delete(f"{_PARTIAL}/{outcome.cell}")
                    report.add(1)
    result = known.onto(gathered.result(known.done))
    wrong = known.errors()
    if wrong and throw:
        first, line = wrong[0]
        again = (
            ""
            if store is None
            else " Mend it, and the same call with retry=True computes only those."
        )
        raise SweepError(
            f"{len(wrong)} of {axes.size} cells raised; the first, at {axes.words(first)}: {line} What the others "
            f"gave is `result` of this error, and `cell_error` in it tells of each.{again}",
            result,
        )
    return result


def _arguments(
    axes: Grid, cell: int, record: Store | None, offered: tuple[str, ...]
) -> dict[str, Any]:
    own = {"store": within(record, f"{_PARTIAL}/{cell}")} if record is not None and offered else {}
    return {**axes.arguments(cell), **own}


def _in_turn(
    outcomes: Iterator[CellOutcome], todo: np.ndarray, gathered: GatheredCells
) -> Iterator[CellOutcome]:
    """Outcomes as they come, but none before the first that gives something: that one says how all must look."""
    waiting: dict[int, CellOutcome] = {}
    first = iter(todo)
    expected = next(first)
    for outcome in outcomes:
        waiting[outcome.cell] = outcome
        while not gathered.begun and expected in waiting:
            yield waiting.pop(expected)
            expected = next(first, -1)
        if gathered.begun:
            yield from waiting.values()
            waiting.clear()


def _keep(
    outcome: CellOutcome, axes: Grid, gathered: GatheredCells, known: _Known, record: Store | None
) -> None:
    error, attributes = outcome.error, {}
    try:
        if outcome.dataset is not None:
            attributes = as_json(outcome.dataset.attrs)
            try:
                gathered.put(outcome.cell, outcome.dataset)
            except ValueError as refused:
                error = f"ValueError: {refused}"
        told = {
            "at": axes.at(outcome.cell),
            "seconds": outcome.seconds,
            "worker": outcome.worker,
            "error": error,
            "trace": outcome.trace,
            "attributes": attributes,
            "versions": versions(),
        }
        if record is not None:
            record.write(f"{_RECORDS}/{outcome.cell}.json", told, durable=False)
    except OSError as failed:
        if failed.errno != errno.ENOSPC:
            raise
        raise OSError(
            errno.ENOSPC,
            f"There is no space left for the store {record and record.address}. What is written there is safe: "
            "make room, and the same call goes on.",
        ) from None
    known.learn(outcome.cell, told)


class _Known:
    """Record of every cell: which are done, how long they took, where, and with what error.

    Args:
        axes: The grid.
        record: An open store with what earlier calls learnt.
    """

    def __init__(self, axes: Grid, record: Store | None) -> None:
        self._axes = axes
        self._seconds = np.full(axes.size, np.nan)
        self._worker = np.zeros(axes.size, np.int32)  # places in the list of them
        self._workers = [""]
        self._error = np.full(axes.size, "", np.dtypes.StringDType())
        self._done = np.zeros(axes.size, bool)
        self._attributes: dict[str, Any] | None = None
        self._versions: set[str] = set()
        if record is not None:
            found = record.read_all(_RECORDS)
            cells = {int(name.removesuffix(".json")): told for name, told in found.items()}
            for cell in sorted(cells):
                self.learn(cell, cells[cell])

    @property
    def any_done(self) -> bool:
        """True if a cell has given something."""
        return bool(self._done.any())

    @property
    def done(self) -> np.ndarray:
        """Mask of cells that have given something, over the grid."""
        return self._done.reshape(self._axes.shape)

    def has(self, cell: int) -> bool:
        """True if this cell has given something."""
        return bool(self._done[cell])

    def missing(self, *, failed: bool) -> np.ndarray:
        """Numbers of the cells that are not finished; one that raised counts as finished if `failed`."""
        return np.flatnonzero(~(self._done | (self._error != "")) if failed else ~self._done)

    def errors(self) -> list[tuple[int, str]]:
        """Cells that raised, and what."""
        return [(int(k), str(self._error[k])) for k in np.flatnonzero(self._error != "")]

    def learn(self, cell: int, told: Mapping[str, Any]) -> None:
        """Add what is told of a cell."""
        self._seconds[cell] = told["seconds"]
        if told["worker"] not in self._workers:
            self._workers.append(told["worker"])
        self._worker[cell] = self._workers.index(told["worker"])
        self._error[cell] = told["error"] or ""
        self._done[cell] = told["error"] is None
        self._versions.add(", ".join(f"{k} {v}" for k, v in told["versions"].items()))
        if told["error"] is None:
            new, old = told["attributes"], self._attributes
            alike = (
                new if old is None else {k: v for k, v in old.items() if k in new and new[k] == v}
            )
            self._attributes = alike

    def onto(self, result: xr.Dataset) -> xr.Dataset:
        """The result with what is known as coordinates over the grid, and the common attributes."""
        names, shape = tuple(self._axes.labels), self._axes.shape
        workers = np.array(self._workers, np.dtypes.StringDType())[self._worker]
        told = {"seconds": self._seconds, "worker": workers, "error": self._error}
        result = result.assign_coords(
            {f"cell_{what}": (names, values.reshape(shape)) for what, values in told.items()}
        )
        result.attrs = {**(self._attributes or {}), "versions": "; ".join(sorted(self._versions))}
        return result
