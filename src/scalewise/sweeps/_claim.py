"""Who writes into a store: one process at a time, wherever it runs; its claim dies with it."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import uuid4

CLAIM = "writing.json"
_BEAT = 15.0  # seconds between two signs of life of the process that writes
_DEAD = 90.0  # seconds without one after which it is taken for dead
_MACHINE = socket.gethostname()
_TOKEN = uuid4().hex  # the number of a process may come back after a restart; this does not


@contextmanager
def claimed(store: Any) -> Iterator[None]:
    """Write alone: whoever else opens the same `Store` meanwhile is refused.

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

    def sign() -> None:
        me = {"machine": _MACHINE, "process": os.getpid(), "token": _TOKEN}
        store.write(CLAIM, {**me, "time": time.time()})

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
        store.delete(CLAIM)


def _alive(claim: Any) -> bool:
    """Whether this is a claim, and of a process that lives."""
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
