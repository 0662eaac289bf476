"""Which of the outcomes that there are a call computes, and of the rest why not."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple, NoReturn

from scalewise._words import refuse_name


class Selection(NamedTuple):
    """What a call computes.

    Args:
        names: Of outcomes, in the order of their table.
        left_out: Of what could have been wanted the clause that says why it cannot be had.
        named: Whether every one of these outcomes was named.
    """

    names: list[str]
    left_out: dict[str, str]
    named: bool


def selected(
    asked: Collection[str] | str | None,
    known: Collection[str],
    why: Callable[[str], str],
    *,
    default: Collection[str] | None = None,
) -> Selection:
    """What a call computes.

    Args:
        asked: Names; ``None`` for the default, ``"all"`` for all.
        known: Names that there are, in the order of their table.
        why: From a name to a clause that says why it cannot be had; empty if it can.
        default: Names that are taken if none is asked for; all if ``None``.

    Raises:
        ValueError: If names are asked for and there is none, a name does not exist, or what is named cannot be had.
    """
    named = asked is not None and asked != "all"
    if not named:
        wanted = known if asked == "all" or default is None else default
    else:
        wanted = (asked,) if isinstance(asked, str) else tuple(asked or ())
        if not wanted:
            raise ValueError(f"`observables` is empty; choose from {', '.join(known)}.")
    for name in wanted:
        if name not in known:
            refuse_name("observables", name, known, "'all'")
    whys = {name: why(name) for name in known if name in wanted}
    left_out = {name: clause for name, clause in whys.items() if clause}
    if named and left_out:
        refuse_outcome(*next(iter(left_out.items())))
    return Selection([name for name in whys if name not in left_out], left_out, named)


def refuse_outcome(name: str, why: str) -> NoReturn:
    """Refuse what was named.

    Args:
        name: Of an outcome.
        why: A clause.
    """
    raise ValueError(f"`observables` cannot hold {name!r} here, because {why}.")
