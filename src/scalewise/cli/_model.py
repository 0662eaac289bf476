"""Objects of the user's own modules, named as module:object, and what their code raises."""

from __future__ import annotations

import importlib
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scalewise.cli._output import complain
from scalewise.cli._words import Refusal


def named(text: str, option: str, module: str = "") -> Any:
    """An object of a module, which may be a file of the working directory.

    Args:
        text: ``module:object``, or the object alone if `module` is given.
        option: What asked for it, for messages.
        module: Where the object is if `text` does not say.

    Raises:
        Refusal: If there is none.
    """
    place, _, name = text.rpartition(":")
    place = place or module
    if not place or not name:
        raise Refusal(
            f"{option} must be module:object, such as model:build for build in model.py; got {text!r}."
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = importlib.import_module(place)
    except ModuleNotFoundError as error:
        raise Refusal(
            f"There is no module {error.name!r}, which {option} asks for: {text}. Run the command where it can be "
            "imported, such as in the folder of its file."
        ) from None
    except Exception as error:
        raise Refusal(
            f"The module {place!r}, which {option} asks for, cannot be imported: {_first_line(error)}."
        ) from None
    if not hasattr(found, name):
        raise Refusal(f"The module {place!r} has no {name!r}, which {option} asks for: {text}.")
    return getattr(found, name)


def batch_of(text: str, module: str) -> Any:
    """Batch that ``--batch`` names: the object itself, or what a function returns."""
    given = named(text, "--batch", module)
    return given() if callable(given) else given


@contextmanager
def own_code(text: str) -> Iterator[None]:
    """An error that the user's module raises becomes one sentence that says where.

    Args:
        text: ``module:object``; its file, and those beside it, are the user's.

    Raises:
        Refusal: In place of such an error.
    """
    from scalewise.plan import PlanError

    try:
        with _warnings_told():
            yield
    except (PlanError, Refusal, ImportError):
        raise
    except Exception as error:
        file = getattr(sys.modules.get(text.rpartition(":")[0]), "__file__", None)
        folder = Path(file).resolve().parent if file else None
        calls = traceback.extract_tb(error.__traceback__)
        mine = [c for c in calls if folder and Path(c.filename).resolve().is_relative_to(folder)]
        if not mine:
            raise
        where = f"{Path(mine[-1].filename).name}, line {mine[-1].lineno}, in {mine[-1].name}"
        raise Refusal(f"Your own code failed ({where}): {_first_line(error)}.") from None


@contextmanager
def _warnings_told() -> Iterator[None]:
    """Print each warning of a plan as a sentence, and no line of ours with it."""
    from scalewise.plan.spi import PlanWarning

    with warnings.catch_warnings():
        warnings.simplefilter("always", PlanWarning)
        shown = warnings.showwarning

        def show(message: Any, category: Any, *where: Any) -> None:
            if issubclass(category, PlanWarning):
                complain(str(message).replace("inputs=...", "--inputs module:object"))
            else:
                shown(message, category, *where)

        warnings.showwarning = show
        yield


def _first_line(error: Exception) -> str:
    line = (str(error).splitlines() or [""])[0].rstrip(".")
    return f"{type(error).__name__}: {line}" if line else type(error).__name__
