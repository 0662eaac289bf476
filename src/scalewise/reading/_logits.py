"""Logits of an attention on their way to a softmax: times numbers, masked, and with numbers added."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalewise.reading._fields import Entries, KnownField, LogitsOf
from scalewise.reading._reader import ModelReader
from scalewise.reading._trees import one_number


def of_logits(
    read: ModelReader, name: str, at: int, others: list[np.ndarray], of: tuple[KnownField, Entries]
) -> Entries:
    """Logits times a number, or with numbers added.

    Args:
        read: What has been read.
        name: Of the function, as trees have it.
        at: Which of its arguments they are.
        others: The other arguments.
        of: The field, and its entries.
    """
    known, entries = of
    what = known.what
    assert isinstance(what, LogitsOf)
    if name == "where":
        # where(mask, logits, low) and where(mask, low, logits)
        mask = np.broadcast_to(others[0], entries.shape).astype(bool)
        other = np.broadcast_to(others[1], entries.shape)
        seen = mask if at == 1 else ~mask
        shift = np.where(seen, 0.0, other)
    elif name in ("add", "sub") and at == 0:
        shift = np.broadcast_to(others[0] if name == "add" else -others[0], entries.shape)
    elif name == "add":
        shift = np.broadcast_to(others[0], entries.shape)
    elif (
        name in ("mul", "div")
        and (number := one_number(others[0])) is not None
        and (name == "mul" or at == 0)
    ):
        factor = number if name == "mul" else 1 / number
        added = None if what.added is None else factor * what.added
        made = _logits(read, known, replace(what, scale=factor * what.scale, added=added))
        return entries - known.start + made.start
    else:
        raise read.refuse(
            f"computes {name!r} of the logits of an attention, which is not known. Multiply them by a number, mask "
            "them, or take their softmax."
        )
    d = read.fields.decoded(entries)
    added = np.zeros((known.samples, known.places, known.channels))
    added[d.sample, d.position, d.channel] = shift
    if np.any(added != added[:1]):
        raise read.refuse(
            "masks other positions of other samples. Give samples of the same length."
        )
    total = added[0] if what.added is None else added[0] + what.added
    made = _logits(read, known, replace(what, added=total))
    return entries - known.start + made.start


def _logits(read: ModelReader, like: KnownField, what: LogitsOf) -> KnownField:
    """Logits as a field, which is the same if they are computed twice."""
    none = np.zeros(())
    for known in read.fields.known:
        own = known.what
        if not isinstance(own, LogitsOf) or replace(own, added=None) != replace(what, added=None):
            continue
        one, two = (none if k.added is None else k.added for k in (own, what))
        if np.array_equal(one, two):
            return known
    return read.new(like, what)
