"""A run on disk or in an object store: it survives being killed at any moment, and goes on where it was.

A store is a folder, or any address that fsspec can open. What is in it is written as whole objects, each of
which is there or is not; so whoever reads finds finished things only. One process writes at a time.
"""

from __future__ import annotations

import io
import json
import os
import reprlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import Any
from uuid import uuid4

import numpy as np
import xarray as xr

from scalewise._extras import require

State = dict[str, np.ndarray]
_CONFIGURATION, _CLAIM, _DONE = "run.json", "writing.json", "steps done"
_BEAT = 15.0  # seconds between two signs of life of the process that writes
_DEAD = 90.0  # seconds without one after which it is taken for dead
_MACHINE = socket.gethostname()
_TOKEN = uuid4().hex  # the number of a process may come back after a restart; this does not


class Store:
    """Objects of one run by name, names being parts of a path.

    Args:
        address: A folder, or an address such as ``"s3://bucket/run"``.

    Raises:
        ValueError: If fsspec cannot open it.
    """

    def __init__(self, address: str | os.PathLike[str]) -> None:
        require("fsspec", for_="A store", extra="sweep")
        import fsspec

        try:
            self._system, self._root = fsspec.url_to_fs(os.fspath(address).rstrip("/"))
        except (ImportError, ValueError) as error:
            raise ValueError(f"`store` {address} cannot be opened: {error}.") from None
        self._here = "local" in self._system.protocol
        self.address = self._root if self._here else os.fspath(address).rstrip("/")

    def read(self, name: str) -> Any:
        """An object: JSON, or bytes if it is not; ``None`` if it is not there."""
        with suppress(FileNotFoundError, NotADirectoryError):
            return _decoded(self._system.cat_file(f"{self._root}/{name}"))
        return None

    def read_all(self, folder: str) -> dict[str, Any]:
        """Objects of a folder, all of them."""
        paths = [f"{self._root}/{folder}/{name}" for name in self.names(folder)]
        found = self._system.cat(paths) if paths else {}
        return {PurePosixPath(path).name: _decoded(data) for path, data in found.items()}

    def write(self, name: str, value: Any, *, durable: bool = True) -> None:
        """Write or replace an object, bytes or JSON; not durable, it may be lost with the power."""
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        path = f"{self._root}/{name}"
        if not self._here:
            self._system.pipe_file(path, data)
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        part = f"{path}.{os.getpid()}.part"
        try:
            with open(part, "wb") as file:
                file.write(data)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(part, path)  # happens or does not
        finally:
            with suppress(FileNotFoundError):
                os.unlink(part)

    def delete(self, name: str) -> None:
        """Delete an object, or a folder with all that is in it, if it is there."""
        with suppress(FileNotFoundError):
            self._system.rm(f"{self._root}/{name}", recursive=True)

    def names(self, folder: str = "") -> list[str]:
        """Names of the objects and folders in a folder."""
        self._system.invalidate_cache()
        with suppress(FileNotFoundError):
            paths = self._system.ls(f"{self._root}/{folder}", detail=False)
            return [PurePosixPath(path).name for path in paths]
        return []

    def check(self, configuration: Mapping[str, Any]) -> bool:
        """True if a run of this configuration is here; if not, nothing is.

        Raises:
            ValueError: If something else is there, or a run of another configuration; the message names
                what differs.
        """
        found = self.read(_CONFIGURATION)
        if found is None and set(self.names()) <= {_CLAIM}:
            return False
        if not isinstance(found, dict):
            raise ValueError(
                f"`store` must be a new path or the store of an earlier run; {self.address} is neither. "
                "Choose another path."
            )
        here: dict[str, Any] = json.loads(json.dumps(dict(configuration)))
        differing = [k for k in {**here, **found} if here.get(k) != found.get(k)]
        if not differing:
            return True
        what = "; ".join(
            f"{k}: {reprlib.repr(found.get(k))} there, {reprlib.repr(here.get(k))} here"
            for k in [k for k in differing if k != "code"] or ["code"]
        )
        raise ValueError(
            f"`store` {self.address} holds a run with other arguments ({what}). Use the same "
            "arguments to resume it, or another path."
        )


@contextmanager
def opened(
    address: str | os.PathLike[str] | None, configuration: Mapping[str, Any]
) -> Iterator[Store | None]:
    """Open or create the store of a run, for this process alone; ``None`` if nothing is to be kept.

    The configuration is everything that determines the numbers, as JSON can hold it.

    Raises:
        ValueError: If something else is there, a run of another configuration, or a run that goes on.
    """
    if address is None:
        yield None
        return
    store = Store(address)
    store.check(configuration)  # whoever has the wrong address leaves nothing in it
    with _claimed(store):
        if not store.check(configuration):
            store.write(_CONFIGURATION, dict(configuration))
        yield store


@contextmanager
def _claimed(store: Store) -> Iterator[None]:
    """A context of the only writer: whoever else opens the same `Store` meanwhile is refused.

    Raises:
        ValueError: If another process, or this one, is writing.
    """
    claim = store.read(_CLAIM)
    if _alive(claim):
        raise ValueError(
            f"`store` {store.address} is being written by process {claim['process']} on "
            f"{claim['machine']}. Wait for it, stop it, or choose another path."
        )
    ended = threading.Event()

    def sign() -> None:
        who = {"machine": _MACHINE, "process": os.getpid(), "token": _TOKEN}
        store.write(_CLAIM, {**who, "time": time.time()})

    def live() -> None:
        while not ended.wait(_BEAT):
            with suppress(OSError):  # a full disk is told by whoever writes results
                sign()

    sign()
    beating = threading.Thread(target=live, daemon=True)
    beating.start()
    try:
        yield
    finally:
        ended.set()
        beating.join()
        store.delete(_CLAIM)


def _alive(claim: Any) -> bool:
    """True if this is a claim, and of a process that lives."""
    match claim:
        case {"machine": machine, "process": int(process), "token": token, "time": float(sign)}:
            fresh = time.time() - sign < _DEAD
            if machine != _MACHINE:
                return fresh
            return token == _TOKEN if process == os.getpid() else fresh and _exists(process)
    return False


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:
        return isinstance(error, PermissionError)  # somebody else's
    return True


def kept(result: xr.Dataset, record: Store | None) -> xr.Dataset:
    """A Dataset, written as the Zarr group ``result`` if anything is to be kept."""
    if record is not None:
        require("zarr", for_="A store", extra="sweep")
        result.to_zarr(within(record, "result"), mode="w", consolidated=False, zarr_format=3)
    return result


def within(address: str | os.PathLike[str] | Store | None, name: str) -> str | None:
    """The address of one part of a run; ``None`` if nothing is to be kept."""
    whole = address.address if isinstance(address, Store) else address
    return None if whole is None else f"{os.fspath(whole).rstrip('/')}/{name}"


def resumable(
    step: Callable[[int, State], State],
    state: State,
    steps: int,
    *,
    record: Store | None = None,
    name: str = "state",
    told: Callable[[int, int], Any] | None = None,
) -> State:
    """Apply `step` to a state so many times, and lose no finished one to a kill.

    A later call with the same open store goes on behind the last finished step, by the same `name`. Step
    ``step(index, state)`` may reuse the arrays; it draws its random numbers from its index, so the result is the
    same. `told` is called with the numbers of steps done and of all, at the start and after each.
    """
    file = f"{name}.npz"
    if record is not None and (saved := record.read(file)) is not None:
        state = dict(np.load(io.BytesIO(saved), allow_pickle=False))
    told = told or (lambda done, steps: None)
    for index in range(int(state.pop(_DONE, 0)), steps):
        told(index, steps)
        state = step(index, state)
        if record is not None:
            buffer = io.BytesIO()
            np.savez(buffer, allow_pickle=False, **state, **{_DONE: np.array(index + 1)})
            record.write(file, buffer.getvalue())
    told(steps, steps)
    return state


def _decoded(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data
