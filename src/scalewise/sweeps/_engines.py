"""Where the cells of a sweep are computed: here, in processes of this machine, or by a cluster of the user's.

The cluster is `dask.distributed`, and what it runs on is the user's affair. Results come back to the process that
asks, which alone writes them; it holds few at a time.
"""

from __future__ import annotations

import logging
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import islice
from tempfile import TemporaryDirectory
from typing import Any

from scalewise._extras import installed, require
from scalewise._words import shown
from scalewise.sweeps._outcomes import CellOutcome, CellSetting, attempt, versions

Cells = Iterator[tuple[int, dict[str, Any]]]

_TIMEOUT = 10  # seconds to answer
_START = 120  # seconds for processes of this machine to import what they need
_DEATH = 30  # seconds after which they end if this process is gone
_AHEAD = 2  # cells that each thread of a worker has or waits for
_PATIENCE = 2.0  # seconds of work here before the rest is estimated
_WORTH = 20.0  # seconds that a cluster of this machine should save before it is started
# What the scheduler keeps of its own past, which nobody reads and which grows while it runs.
_SHORT_MEMORY = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.low-level-log-length": 100,
    "distributed.admin.system-monitor.log-length": 100,
}


def compute(
    function: Callable[..., Any],
    cells: Cells,
    count: int,
    client: Any = None,
    *,
    spread: bool = True,
) -> Generator[CellOutcome, None, None]:
    """Compute cells, and tell what became of each as it ends.

    Args:
        function: The cell.
        cells: Number and arguments of each.
        count: How many there are.
        client: A client of dask; ``None``: here.
        spread: Whether to go on by processes of this machine once that looks worth it.
    """
    setting = CellSetting.here()
    if client is not None:
        yield from _spread(function, cells, client, setting)
        return
    start = time.perf_counter()
    for done, (cell, arguments) in enumerate(cells, 1):
        yield attempt(function, cell, arguments, setting)
        if spread and _pays(time.perf_counter() - start, done, count):
            break
    else:
        return
    with connected(_cores()) as own:
        yield from _spread(function, cells, own, setting)


def _pays(elapsed: float, done: int, count: int) -> bool:
    """True if processes of this machine would save enough of what is left."""
    saved = (count - done) * elapsed / done * (1 - 1 / _cores())
    return elapsed > _PATIENCE and saved > _WORTH and installed("distributed") and not _in_worker()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _in_worker() -> bool:
    """True if this process is itself a worker: its cores are taken."""
    from distributed import get_worker

    try:
        get_worker()
    except ValueError:
        return False
    return True


@contextmanager
def connected(client: Any) -> Iterator[Any]:
    """A client of dask for what the user gave: one, an address, or a number of processes on this machine.

    Raises:
        ValueError: If it is none of these, nobody answers, or a worker computes with another version.
    """
    if client is None or client == 0:
        yield None
        return
    require("distributed", for_="A sweep with `client`", extra="sweep")
    from distributed import Client

    if isinstance(client, Client):
        _check_workers(client)
        yield client
    elif isinstance(client, str):
        with _reached(client) as own:
            _check_workers(own)
            yield own
    elif isinstance(client, int) and not isinstance(client, bool) and client > 0:
        with _processes(client) as own:
            yield own
    else:
        raise ValueError(
            "`client` must be a dask.distributed Client, the address of a scheduler such as "
            f"'tcp://host:8786', or a number of processes; got {shown(client)}."
        )


@contextmanager
def _processes(count: int) -> Iterator[Any]:
    """A scheduler in this process, and workers that end with it.

    They are started by dask's own command. Processes that multiprocessing starts would run a script that has
    no ``if __name__ == "__main__"`` once more.
    """
    require("dask", "distributed", for_="A sweep with `client`", extra="sweep")
    from dask import config
    from distributed import Client, LocalCluster

    with (
        config.set(_SHORT_MEMORY),
        TemporaryDirectory() as folder,
        LocalCluster(
            n_workers=0, host="127.0.0.1", dashboard_address=":0", silence_logs=logging.CRITICAL
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        address: Any = client.scheduler_info(1)["address"]
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address]
        options = {
            "nworkers": count,
            "nthreads": 1,
            "death-timeout": _DEATH,
            "local-directory": folder,
        }
        command += [f"--{key}={value}" for key, value in options.items()] + ["--no-dashboard"]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "DASK_LOGGING__DISTRIBUTED": "critical",
        }
        # An interrupt of the keyboard is for this process, which ends them.
        workers = subprocess.Popen(command, env=environment, start_new_session=True)
        try:
            _await(client, count)
            yield client
        finally:
            workers.terminate()
            workers.wait()


def _await(client: Any, count: int) -> None:
    try:
        client.wait_for_workers(count, timeout=_START)
    except TimeoutError:
        raise ValueError(
            f"`client`: {count} processes of this machine did not start within {_START} s. Pass fewer, or client=0 "
            "to compute in this one."
        ) from None


def _reached(address: str) -> Any:
    from distributed import Client

    try:
        return Client(address, timeout=_TIMEOUT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"`client`: no scheduler answers at {address!r} within {_TIMEOUT} s ({error}). Start one with "
            "`dask scheduler`, or correct the address."
        ) from None


def _check_workers(client: Any) -> None:
    """Refuse workers that would compute something else."""
    try:
        client.wait_for_workers(1, timeout=_TIMEOUT)
    except TimeoutError:
        raise ValueError(
            f"`client`: the scheduler at {client.scheduler.address} has no worker. Start some with "
            f"`dask worker {client.scheduler.address}`."
        ) from None
    own = versions()
    for worker, found in client.run(versions, on_error="return").items():
        if isinstance(found, OSError):
            raise ValueError(
                f"`client`: the worker at {worker} died, or could not be reached, while it was asked to import "
                f"scalewise ({type(found).__name__}: {found}). Its log says why, perhaps for want of memory; start "
                "another, and call again: what is in `store` is safe."
            )
        if isinstance(found, BaseException):
            raise ValueError(
                f"`client`: the worker at {worker} cannot import scalewise ({found}). Install scalewise "
                f"{own['scalewise']} there."
            )
        other = [
            f"{k} {found[k]} there, {own[k]} here" for k in own if own[k] != found.get(k, own[k])
        ]
        if other:
            raise ValueError(
                f"`client`: the worker at {worker} has other versions ({'; '.join(other)}). Install the "
                "same, so that every cell is computed alike."
            )


def _spread(
    function: Callable[..., Any], cells: Cells, client: Any, setting: CellSetting
) -> Iterator[CellOutcome]:
    """Compute cells on workers.

    A worker that dies takes with it what waited there, and dask blames all of it alike. What is blamed is tried
    once more with nothing beside it: an error then names the cell that kills, and one that wanted memory has all.
    """
    from distributed import KilledWorker
    from distributed.protocol import pickle

    # A task like any other: whoever loses the function makes it again.
    shared = client.submit(pickle.loads, _pickled(function), pure=False)
    suspects: list[tuple[int, dict[str, Any]]] = []
    ahead = _AHEAD * max(1, sum(client.nthreads().values()))
    for given, future in _ended(shared, cells, ahead, client, setting):
        try:
            yield _outcome(future)
        except KilledWorker:
            suspects.append(given)
    for (cell, _), future in _ended(shared, iter(suspects), 1, client, setting):
        try:
            yield _outcome(future)
        except KilledWorker as error:
            last = error.last_worker.address
            line = (
                "KilledWorker: every worker that ran it died, with no other cell beside it too, the last at "
                f"{last}; perhaps for want of memory."
            )
            yield CellOutcome(cell, None, line, None, math.nan, last)


def _ended(
    shared: Any, cells: Cells, ahead: int, client: Any, setting: CellSetting
) -> Iterator[tuple[tuple[int, dict[str, Any]], Any]]:
    """Cells with their futures as those end; `ahead` are under way, and the next is sent when one has ended."""
    from distributed import as_completed

    running: dict[Any, tuple[int, dict[str, Any]]] = {}

    def send(given: tuple[int, dict[str, Any]]) -> Any:
        future = client.submit(attempt, shared, *given, setting, pure=False)
        running[future] = given
        return future

    ended = as_completed([send(given) for given in islice(cells, ahead)], loop=client.loop)
    try:
        for future in ended:
            given = running.pop(future)
            for another in islice(cells, 1):
                ended.add(send(another))
            yield given, future
            future.release()
    finally:
        client.cancel(list(running))


def _outcome(future: Any) -> CellOutcome:
    """Outcome of a cell that a worker has computed."""
    from distributed import CancelledError

    try:
        return future.result()
    except CancelledError:
        raise ConnectionError(
            "The scheduler of `client` is gone. What is in `store` is safe: the same call goes on from there."
        ) from None


def _pickled(function: Callable[..., Any]) -> bytes:
    from distributed.protocol import pickle

    try:
        return pickle.dumps(function)
    except Exception as error:
        raise ValueError(
            f"`cell` cannot be sent to another process ({error}). Open files, locks and the like inside it."
        ) from None
