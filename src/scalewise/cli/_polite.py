"""What every command does with bad input and with an interruption."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Signature, signature
from typing import Any

import typer

from scalewise.cli import _output as tell
from scalewise.cli._words import as_options


def polite(command: Callable[..., None]) -> Callable[..., None]:
    """Take groups of options apart; turn bad input into a sentence and exit code 2, an interruption into 130."""
    own = signature(command).parameters.values()
    groups: dict[str, Any] = {p.name: p.annotation for p in own if is_dataclass(p.annotation)}
    options = [
        option.replace(kind=option.KEYWORD_ONLY)
        for p in own
        for option in (signature(groups[p.name]).parameters.values() if p.name in groups else [p])
    ]

    @wraps(command)
    def wrapper(**given: Any) -> None:
        try:
            parts = {
                name: group(**{f.name: given.pop(f.name) for f in fields(group)})
                for name, group in groups.items()
            }
            command(**parts, **given)
        except KeyboardInterrupt:
            tell.complain("Interrupted; run the same command again to start over.")
            raise typer.Exit(tell.INTERRUPTED) from None
        except (ValueError, ImportError, OSError) as error:
            sentence = as_options(str(error), {option.name for option in options})
            if isinstance(error, OSError) and error.strerror and error.filename:  # of the system
                sentence = f"{str(error.filename)!r} cannot be used: {error.strerror.lower()}."
            tell.complain(sentence)
            raise typer.Exit(tell.BAD_INPUT) from None

    taken: Any = wrapper
    taken.__signature__ = Signature(options)
    taken.__annotations__ = {option.name: option.annotation for option in options}
    return wrapper
