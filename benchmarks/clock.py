"""The clock of both sides: the same few lines run in either environment."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from cases import CASES, Case

Results = dict[str, np.ndarray]


def main(side: Callable[[Case], tuple[Callable[[], Any], Callable[[Any], Results]]]) -> None:
    """Time one case in this process and print the record.

    Args:
        side: Gives, for a case, the call to be timed and a function from its result to the arrays
            that the two sides must agree on. Imports happen before, so they are not timed.
    """
    name, repeats, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    case = CASES[name]
    call, arrays = side(case)
    before = peak_megabytes()
    cpu, wall, result = [], [], None
    for _ in range(1 + repeats):
        start = time.process_time(), time.perf_counter()
        result = call()
        cpu.append(time.process_time() - start[0])
        wall.append(time.perf_counter() - start[1])
    peak, woken = peak_megabytes(), dask()
    np.savez(out, **arrays(result))
    record = {"cpu": cpu, "wall": wall, "peak_mb": peak, "imports_mb": before, "dask": woken}
    print(json.dumps(record))


def dask() -> str:
    """Whether dask, which xarray imports to look at arrays, is there, and has been imported."""
    if find_spec("dask") is None:
        return "absent"
    return "awake" if "dask" in sys.modules else "asleep"


def peak_megabytes() -> float:
    """Largest resident set of this process so far."""
    unit = 1e6 if sys.platform == "darwin" else 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def corner(kernel: np.ndarray, ntk: np.ndarray) -> Results:
    """What is compared of two large kernels: the pairs of the first 64 inputs."""
    return {"kernel": np.asarray(kernel)[:64, :64], "ntk": np.asarray(ntk)[:64, :64]}
