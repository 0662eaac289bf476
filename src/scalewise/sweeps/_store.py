"""A run on disk or in an object store: it survives being killed at any moment, and goes on where it was.

A store is a folder, or any address that fsspec can open. What is in it is written as whole objects, each of
which is there or is not; so whoever reads finds finished things only. One process writes at a time.
"""

from __future__ import annotations

import io
import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import xarray as xr

from scalewise._extras import require

__all__ = ["Store", "opened", "within"]

_CONFIGURATION, _CLAIM = "run.json", "writing.json"
_BEAT = 15.0  # seconds between two signs of life of the process that writes
_DEAD = 90.0  # seconds without one after which it is taken for dead
_CLAIMED: set[str] = set()  # by this process: a number of a process may come back after a restart


class Store:
    """What one run keeps: objects by name, names being parts of a path.

    Args:
        address: A folder, or an address such as ``"s3://bucket/run"``.

    Raises:
        ValueError: If the address is a file, or fsspec cannot open it.
    """

    def __init__(self, address: str | os.PathLike[str]) -> None:
        require("fsspec", for_="A store", extra="sweep")
        import fsspec
        from fsspec.implementations.local import LocalFileSystem

        self.address = os.fspath(address).rstrip("/")
        try:
            self._system, self._root = fsspec.url_to_fs(self.address)
        except (ImportError, ValueError) as error:
            raise ValueError(f"`store` {self.address} cannot be opened: {error}.") from None
        self._here = isinstance(self._system, LocalFileSystem)
        if self._here:
            self.address = self._root
        if self._system.isfile(self._root):
            raise self._foreign()

    def within(self, name: str) -> str:
        """The address of something inside."""
        return f"{self.address}/{name}"

    def _read(self, name: str) -> bytes | None:
        try:
            return self._system.cat_file(f"{self._root}/{name}")
        except FileNotFoundError:
            return None

    def _write(self, name: str, data: bytes, *, durable: bool) -> None:
        path = f"{self._root}/{name}"
        if not self._here:
            self._system.pipe_file(path, data)
            return
        folder, _, last = path.rpartition("/")
        os.makedirs(folder, exist_ok=True)
        temporary = f"{folder}/.{last}.{os.getpid()}.part"
        try:
            with open(temporary, "wb") as file:
                file.write(data)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(temporary, path)  # happens or does not
        except OSError:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
            raise

    def _delete(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._system.rm_file(f"{self._root}/{name}")

    def names(self, folder: str = "") -> list[str]:
        """Names of the objects and folders in a folder."""
        self._system.invalidate_cache()
        try:
            found = self._system.ls(f"{self._root}/{folder}".rstrip("/"), detail=False)
        except FileNotFoundError:
            return []
        return sorted(_last(path) for path in found)

    def clear(self, folder: str) -> None:
        """Delete a folder with all that is in it."""
        if self._system.exists(f"{self._root}/{folder}"):
            self._system.rm(f"{self._root}/{folder}", recursive=True)

    def read_json(self, name: str) -> Any:
        """An object as JSON; ``None`` if it is not there."""
        data = self._read(name)
        return None if data is None else json.loads(data)

    def write_json(self, name: str, value: Any, *, durable: bool = True) -> None:
        """Write or replace an object; one that is not durable may be lost with the power, not with the process."""
        self._write(name, json.dumps(value).encode(), durable=durable)

    def read_all_json(self, folder: str) -> dict[str, Any]:
        """All objects of a folder that are JSON."""
        paths = [f"{self._root}/{folder}/{name}" for name in self.names(folder)]
        found = {}
        for path, data in self._system.cat(paths).items() if paths else ():
            with suppress(ValueError):
                found[_last(path)] = json.loads(data)
        return found

    def load(self, name: str) -> tuple[int, dict[str, np.ndarray]] | None:
        """How many steps of a chain are done, and the arrays after them; ``None`` if it is new."""
        data = self._read(f"{name}.npz")
        if data is None:
            return None
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {key[6:]: archive[key] for key in archive.files if key.startswith("state.")}
            return int(archive["done"]), arrays

    def save(self, name: str, done: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Replace what is known of a chain."""
        buffer = io.BytesIO()
        named: dict[str, Any] = {f"state.{key}": value for key, value in arrays.items()}
        np.savez(buffer, done=np.array(done), **named)
        self._write(f"{name}.npz", buffer.getvalue(), durable=True)

    def keep(self, result: xr.Dataset) -> None:
        """Write a Dataset, as the Zarr group ``result``."""
        require("zarr", for_="A store", extra="sweep")
        result.to_zarr(self.within("result"), mode="w", consolidated=False, zarr_format=3)

    def configure(self, configuration: Mapping[str, Any]) -> None:
        """Begin a run, or go on with one of the same configuration.

        Raises:
            ValueError: If something else is there, or a run of another configuration; the message names
                what differs.
        """
        wanted = json.loads(json.dumps(dict(configuration)))
        found = self._configuration()
        if found is None:
            if [name for name in self.names() if name != _CLAIM]:
                raise self._foreign()
            self.write_json(_CONFIGURATION, wanted)
            return
        differing = [k for k in {**wanted, **found} if wanted.get(k) != found.get(k)]
        if differing:
            what = "; ".join(
                f"{k}: {_short(found.get(k))} there, {_short(wanted.get(k))} here"
                for k in differing
                if k != "code" or differing == ["code"]
            )
            raise ValueError(
                f"`store` {self.address} holds a run with other arguments ({what}). Use the same "
                "arguments to resume it, or another path."
            )

    def _configuration(self) -> dict[str, Any] | None:
        try:
            found = self.read_json(_CONFIGURATION)
        except ValueError:
            raise self._foreign() from None
        if found is not None and not isinstance(found, dict):
            raise self._foreign()
        return found

    def _foreign(self) -> ValueError:
        return ValueError(
            f"`store` must be a new path or the store of an earlier run; {self.address} is neither. "
            "Choose another path."
        )

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Write alone: whoever else tries meanwhile is refused; a claim dies with its process.

        Raises:
            ValueError: If another process is writing.
        """
        other = self._other()
        if other is not None:
            raise ValueError(
                f"`store` {self.address} is being written by process {other['process']} on "
                f"{other['machine']}. Wait for it, stop it, or choose another path."
            )
        ended = threading.Event()
        self._claim()
        _CLAIMED.add(self.address)
        beating = threading.Thread(target=self._beat, args=(ended,), daemon=True)
        beating.start()
        try:
            yield
        finally:
            ended.set()
            beating.join()
            _CLAIMED.discard(self.address)
            self._delete(_CLAIM)

    def _claim(self) -> None:
        self.write_json(
            _CLAIM, {"machine": socket.gethostname(), "process": os.getpid(), "time": time.time()}
        )

    def _beat(self, ended: threading.Event) -> None:
        while not ended.wait(_BEAT):
            try:
                self._claim()
            except OSError:  # a full disk is told by whoever writes results
                continue

    def _other(self) -> dict[str, Any] | None:
        """Who writes just now, if it is alive."""
        try:
            claim = self.read_json(_CLAIM)
            fresh = time.time() - claim["time"] < _DEAD
            here, process = claim["machine"] == socket.gethostname(), int(claim["process"])
        except (ValueError, TypeError, KeyError):  # nobody, or not a claim
            return None
        if fresh and here:
            own = process == os.getpid()
            fresh = self.address in _CLAIMED if own else _exists(process)
        return claim if fresh else None


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


@contextmanager
def opened(
    address: str | os.PathLike[str] | None, configuration: Mapping[str, Any]
) -> Iterator[Store | None]:
    """Open or create the store of a run, for this process alone; ``None`` if nothing is to be kept.

    Args:
        address: A folder or an address of fsspec; made if it does not exist.
        configuration: Everything that determines the numbers, as JSON can hold it.

    Raises:
        ValueError: If something else is there, a run of another configuration, or a run that goes on.
    """
    if address is None:
        yield None
        return
    store = Store(address)
    # Whoever has the wrong address leaves nothing in it.
    found = store._configuration()
    if found is not None or store.names():
        store.configure(configuration)
    with store.claimed():
        store.configure(configuration)
        yield store


def within(address: str | os.PathLike[str] | None, name: str) -> str | None:
    """The address of one part of a run; ``None`` if nothing is to be kept."""
    return None if address is None else f"{os.fspath(address).rstrip('/')}/{name}"


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
