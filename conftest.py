"""Settings of every run of tests: which calls have their types checked, what is compiled once, where examples are.

`pyproject.toml` asks jaxtyping to decorate every function of `scalewise` with a check of its annotations. The
check costs more than most of the functions do, and the same function with the same shapes is called thousands of
times in a test. So in every test the first, second, fourth, eighth... call of each function is checked, and the
others are not. ``CHECK_CALLS=all`` checks every call.
"""

import functools
import inspect
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import jaxtyping
import pytest

_check = jaxtyping.jaxtyped
_calls: Counter[object] = Counter()


def pytest_runtest_setup() -> None:
    """Every test starts to count anew."""
    _calls.clear()


def _sampled(function: Callable[..., Any], checker: Callable[..., Any]) -> Callable[..., Any]:
    # Functions that are made anew in every call of another share their code, and so their count.
    # The count is a name of this function: who compiles what it wraps looks for globals in the wrong place.
    code, checked, calls = getattr(function, "__code__", function), None, _calls

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        nonlocal checked
        calls[code] += 1
        if calls[code] & (calls[code] - 1):
            return function(*args, **options)
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


if os.environ.get("CHECK_CALLS") != "all":
    jaxtyping.jaxtyped = _decorator


def pytest_configure(config: pytest.Config) -> None:
    """What one test has compiled no other compiles again, whichever process it runs in."""
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    folder = tempfile.mkdtemp()
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    os.environ["JAX_COMPILATION_CACHE_DIR"] = folder
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Iterator[Any]:
    """Examples are in the docstrings of the package; tests have none, and need not be read for them."""
    found = yield
    inside = Path(__file__).parent / "tests"
    return [n for n in found if inside not in file_path.parents or type(n) is pytest.Module]
