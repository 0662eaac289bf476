"""The outcomes that a call computes, and why it leaves out the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NoReturn

from scalewise._words import refuse_name


def is_named(asked: Collection[str] | str | None) -> bool:
    """True if outcomes are asked for one by one, so that one that cannot be had is refused and not left out."""
    return asked is not None and asked != "all"


def selected(
    asked: Collection[str] | str | None,
    known: Collection[str],
    why: Callable[[str], str],
    *,
    default: Collection[str] | None = None,
    lenient: bool = False,
) -> tuple[list[str], dict[str, str]]:
    """Names of the outcomes that a call computes, and of each that is left out the clause that says why.

    Args:
        asked: Names; ``None`` for the default, ``"all"`` for all.
        known: Names that there are, in the order of their table.
        why: From a name to a clause that says why it cannot be had; empty if it can.
        default: Names that are taken if none is asked for; all if ``None``.
        lenient: Leave out also what is named and cannot be had.

    Raises:
        ValueError: If names are asked for and there is none, a name does not exist, or what is named cannot be had.
    """
    if not is_named(asked):
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
    if left_out and is_named(asked) and not lenient:
        refuse_outcome(*next(iter(left_out.items())))
    return [name for name in whys if name not in left_out], left_out


def refusal(left_out: Mapping[str, str]) -> str:
    """The sentence that refuses the first outcome that is left out; empty if there is none.

    Args:
        left_out: Of each outcome the clause that says why it cannot be had.
    """
    return next(
        (
            f"`observables` cannot hold {name!r} here, because {why}."
            for name, why in left_out.items()
        ),
        "",
    )


def refuse_outcome(name: str, why: str) -> NoReturn:
    """Refuse an outcome that was named.

    Args:
        name: Of the outcome.
        why: A clause.
    """
    raise ValueError(refusal({name: why}))
