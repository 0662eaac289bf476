"""Who writes into a store: one process at a time, wherever it runs; its claim dies with it."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol, runtime_checkable
from uuid import uuid4

__all__ = ["CLAIM", "claimed"]

CLAIM = "writing.json"
_BEAT = 15.0  # seconds between two signs of life of the process that writes
_DEAD = 90.0  # seconds without one after which it is taken for dead
# A number of a process may come back after a restart; this does not.
_ME = {"machine": socket.gethostname(), "process": os.getpid(), "token": uuid4().hex}


@runtime_checkable
class _Objects(Protocol):
    address: str

    def read(self, name: str) -> Any: ...
    def write(self, name: str, value: Any, *, durable: bool = True) -> None: ...
    def delete(self, name: str) -> None: ...


@contextmanager
def claimed(store: _Objects) -> Iterator[None]:
    """Write alone: whoever else tries meanwhile is refused.

    Raises:
        ValueError: If another process, or this one, is writing.
    """
    claim = store.read(CLAIM)
    if _alive(claim):
        raise ValueError(
            f"`store` {store.address} is being written by process {claim['process']} on "
            f"{claim['machine']}. Wait for it, stop it, or choose another path."
        )
    ended = threading.Event()

    def live() -> None:
        while not ended.wait(_BEAT):
            with suppress(OSError):  # a full disk is told by whoever writes results
                store.write(CLAIM, _now())

    store.write(CLAIM, _now())
    beating = threading.Thread(target=live, daemon=True)
    beating.start()
    try:
        yield
    finally:
        ended.set()
        beating.join()
        store.delete(CLAIM)


def _now() -> dict[str, Any]:
    own = {} if _ME["process"] == os.getpid() else {"process": os.getpid(), "token": uuid4().hex}
    _ME.update(own)  # after a fork
    return {**_ME, "time": time.time()}


def _alive(claim: Any) -> bool:
    """Whether this is a claim, and of a process that lives."""
    if not (isinstance(claim, dict) and {*_ME, "time"} <= claim.keys()):
        return False
    here, process = claim["machine"] == _ME["machine"], int(claim["process"])
    if here and process == os.getpid():
        return claim["token"] == _ME["token"]
    return time.time() - claim["time"] < _DEAD and not (here and _gone(process))


def _gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False
