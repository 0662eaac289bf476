"""Objects of the user's own modules, named as module:object."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from scalewise.cli._options import Refusal


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
    if not hasattr(found, name):
        raise Refusal(f"The module {place!r} has no {name!r}, which {option} asks for: {text}.")
    return getattr(found, name)
