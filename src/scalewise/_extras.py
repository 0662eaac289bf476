"""What a room needs beyond the core, and the one sentence for whoever has not installed it.

``pyproject.toml`` lists the extras. A room whose files import a package of an extra asks for it in its
``__init__``; a function asks for what it alone needs. ``tests/test_imports.py`` finds a place that does not ask.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, NoReturn

__all__ = ["Missing", "MissingExtraError", "installed", "require"]

# What people install, where it is called otherwise than what they import.
_DISTRIBUTIONS = {"sklearn": "scikit-learn"}


class MissingExtraError(ModuleNotFoundError):
    """A package of an extra is not installed; the message says how to install it."""


class Missing:
    """Stands for a room or a function whose extra is not installed, and says so when it is used.

    So a name of ``scalewise`` exists whatever is installed, and ``from scalewise import *`` works.

    Args:
        error: What to raise.
    """

    def __init__(self, error: MissingExtraError) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python and its tools ask of any object
            raise AttributeError(name)
        raise self._error

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise self._error


def require(*packages: str, for_: str, extra: str) -> None:
    """Refuse, in one sentence, to go on without these packages. They are looked for and not imported.

    Args:
        packages: Names under which they are imported, all of them in `extra`.
        for_: What needs them; the subject of the sentence.
        extra: A key of ``[project.optional-dependencies]``.

    Raises:
        MissingExtraError: If one of them is not installed.

    Example:
        >>> from scalewise._extras import require
        >>> require("torch_of_tomorrow", for_="This example", extra="torch")
        Traceback (most recent call last):
        scalewise._extras.MissingExtraError: This example needs torch_of_tomorrow, which is not installed; \
install it with: pip install 'scalewise[torch]'
    """
    absent = [name for name in packages if not installed(name)]
    if absent:
        *most, last = (_DISTRIBUTIONS.get(name, name) for name in absent)
        names = f"{', '.join(most)} and {last}" if most else last
        which, them = ("are", "them") if most else ("is", "it")
        raise MissingExtraError(
            f"{for_} needs {names}, which {which} not installed; install {them} with: "
            f"pip install 'scalewise[{extra}]'",
            name=absent[0],
        )


def installed(package: str) -> bool:
    """True if a package is there; a folder of that name, where somebody works, is not the package."""
    try:
        spec = find_spec(package)
    except (ModuleNotFoundError, ValueError):
        return False
    return spec is not None and spec.origin is not None
