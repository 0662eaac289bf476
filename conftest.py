"""Settings of every run of tests: which calls have their types checked, what is compiled once, where examples are.

`pyproject.toml` asks jaxtyping to decorate every function of `scalewise` with a check of its annotations. The
check costs more than most of the functions do, and the same function with the same shapes is called thousands
of times in a file of tests. So the first call of each function in every file is checked, and the first, second,
fourth, eighth... of all files; of functions that are made anew in every call of another, whose check is made anew
too and takes milliseconds, the first, 16th, 256th... of all. ``CHECK_CALLS=test`` counts anew in every test,
``CHECK_CALLS=all`` checks every call.
"""

import functools
import gc
import hashlib
import inspect
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jaxtyping
import pytest

_check = jaxtyping.jaxtyped
# Of each function: its calls, whether the next is the first in a file, and whether that is checked.
_calls: dict[object, list[int]] = {}
_counted: list[object] = [None]  # the file, or the test, in which calls are counted
CHECKED = os.environ.get("CHECK_CALLS", "file")

# Most programs of JAX run for a moment in one test, and to optimise them takes longer than to run them; so does
# compiling them in parts, one for each of many cores. Flags of one's own go before:
# XLA_FLAGS=--xla_cpu_parallel_codegen_split_count=32 compiles as for users.
FLAGS = "--xla_cpu_parallel_codegen_split_count=1"
if tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 11):
    FLAGS += " --xla_cpu_use_fusion_emitters=false"  # a flag that it does not know ends a process
QUICK = os.environ.setdefault("XLA_FLAGS", FLAGS) == FLAGS
# Here ensembles run for longer than they are compiled, as where a test is marked `optimised`.
SAMPLING = ("report",)


def _quick(quick: bool) -> None:
    # Kept where processes that a test starts find it and compile alike: some compare bits.
    name, value = "JAX_DISABLE_MOST_OPTIMIZATIONS", str(int(quick))
    if not QUICK or os.environ.get(name) == value:
        return
    os.environ[name] = value
    jax = sys.modules.get("jax")
    if jax is not None:
        jax.config.update(name.lower(), quick)
        jax.clear_caches()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    """What is imported stays: the collector of garbage need not go through it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_pycollect_makemodule() -> None:
    """Activations of a module are compiled when it is imported."""
    _quick(True)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Every file starts to count anew, and every test says whether its programs are worth optimising."""
    place = item if CHECKED == "test" else item.path
    if place != _counted[0]:
        _counted[0] = place
        _count_anew()
    _quick(item.path.parent.name not in SAMPLING and item.get_closest_marker("optimised") is None)


def _count_anew() -> None:
    for count in _calls.values():
        count[1] = count[2]
        if CHECKED == "test":
            count[0] = 0


def _sampled(function: Callable[..., Any], checker: Callable[..., Any]) -> Callable[..., Any]:
    # Functions that are made anew in every call of another share their code, and so their count, which is looked
    # up here: code is hashed anew each time. It is a name of this function, since who compiles what it wraps
    # looks for globals in the wrong place.
    there = int("<locals>" not in getattr(function, "__qualname__", ""))
    powers = -1 if there else 0x1111111111111111  # of 2, or of 16
    count = _calls.setdefault(getattr(function, "__code__", function), [0, 0, there])
    checked = None

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        nonlocal checked
        count[0] = calls = count[0] + 1
        if (calls & (calls - 1) or not calls & powers) and not count[1]:
            return function(*args, **options)
        count[1] = 0
        checked = checked or _check(function, typechecker=checker)
        return checked(*args, **options)

    return call


def _decorator(found: Any = None, *, typechecker: Callable[..., Any]) -> Any:
    if found is None:
        return functools.partial(_decorator, typechecker=typechecker)
    if inspect.isclass(found):
        # A class that holds its own arguments against their annotations is not asked twice.
        if is_dataclass(found) and found.__init__.__globals__ is not globals():
            found.__init__ = _sampled(found.__init__, typechecker)
        return found
    if isinstance(found, classmethod | staticmethod):
        return type(found)(_sampled(found.__func__, typechecker))
    if isinstance(found, property):
        parts = (found.fget, found.fset, found.fdel)
        return property(*(part and _sampled(part, typechecker) for part in parts))
    return _sampled(found, typechecker)


if CHECKED != "all":
    jaxtyping.jaxtyped = _decorator


def _programs(config: pytest.Config) -> Path:
    # JAX finds a program by its operations and flags, and by the version of the compiler, but not by the processor:
    # one of an earlier run is that which would be compiled. Those of sources that are no more go after a month.
    if not config.pluginmanager.hasplugin("cacheprovider"):
        folder = Path(tempfile.mkdtemp())
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        return folder
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else [platform.processor()]
    processor = "".join(
        sorted({n for n in lines if n.lower().startswith(("flags", "features"))} or set(lines[:1]))
    )
    folder = config.cache.mkdir(f"programs-{hashlib.sha256(processor.encode()).hexdigest()[:8]}")
    for program in folder.iterdir():
        if program.stat().st_mtime < time.time() - 30 * 86400:
            program.unlink(missing_ok=True)
    return folder


def pytest_configure(config: pytest.Config) -> None:
    """What one run of tests has compiled no other compiles again, whichever process it runs in."""
    # JAX does work of its own whenever garbage is collected, and whenever it shortens the trace of an error.
    gc.set_threshold(20_000, 20, 20)
    os.environ.setdefault("JAX_TRACEBACK_FILTERING", "off")
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(_programs(config))
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Iterator[Any]:
    """Examples are in the docstrings of the package; tests have none, and need not be read for them."""
    found = yield
    inside = Path(__file__).parent / "tests"
    return [n for n in found if inside not in file_path.parents or type(n) is pytest.Module]
