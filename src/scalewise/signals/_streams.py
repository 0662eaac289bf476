r"""Findings of residual streams.

A stream to which $B$ branches of variance $v$ are added has the variance $e+Bv$ in the end, where $e$ is that of
what enters: with branches times $1/\sqrt B$ it is $e+v$ at every depth. What enters is heard as long as
$e\gtrsim v$.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from scalewise.signals._seen import Joined, Seen

_GROWN, _MANY = 4.0, 8  # of the variance of a stream, over so many branches
_DROWNED = 8.0  # by how much branches together may exceed what enters
_SMALL = 0.25  # a variance that is small beside 1, which norms give
_LOUD = 0.1  # a variance of all branches below which a model is drawn small as a whole, as GPT-2 is
_SHARE = (
    4.0  # of the variance of a stream: branches that add so much together are scaled by the depth
)
_KEPT = 1e-3  # of what enters a stream with norms in it, along the stream

Told = tuple[str, str, float, str]


def of_streams(rows: Sequence[Seen], fresh_norms: bool) -> Iterator[Told]:
    """Mistake, place, number and sentence of each finding."""
    for stream in streams(rows):
        joined = [rows[k].joined for k in stream]
        own = [j for j in joined if j is not None]
        doubled = [(k, j) for k, j in zip(stream, own, strict=True) if j.doubled]
        if doubled:
            yield _doubled(rows, doubled)
        elif sum(j.normed for j in own) >= _MANY:
            yield from _norms(rows, stream, own)
        elif not fresh_norms:
            yield from _growth(rows, stream, own)


def streams(rows: Sequence[Seen]) -> list[list[int]]:
    """Residual sums that follow one another."""
    found: list[list[int]] = []
    of: dict[int, list[int]] = {}
    for k, row in enumerate(rows):
        if row.joined is None:
            continue
        before = row.joined.before
        if before is not None and before in of:
            of[before].append(k)
            of[k] = of[before]
        else:
            of[k] = [k]
            found.append(of[k])
    return found


def _doubled(rows: Sequence[Seen], doubled: list[tuple[int, Joined]]) -> Told:
    place = rows[doubled[0][0]].place or "the model"
    grown = rows[doubled[-1][0]].size / max(doubled[0][1].skip, 1e-300)
    return (
        "doubled skip", place, grown,
        f"`{place}` adds what goes past its branch twice (x + x + f(x)), as {len(doubled)} sums do: the stream "
        f"doubles each time, {grown:.3g} times its size in the end, and drowns its branches. Add it once.",
    )  # fmt: skip


def _norms(rows: Sequence[Seen], stream: list[int], own: list[Joined]) -> Iterator[Told]:
    kept = math.exp(
        sum(
            math.log(max(j.skip, 1e-300) / rows[k].size)
            for k, j in zip(stream, own, strict=True)
            if rows[k].size
        )
    )
    if kept > _KEPT:
        return
    first, last = rows[stream[0]], rows[stream[-1]]
    alike = ""
    if last.positions is not None and last.positions > 0.99:
        alike = f" Positions become alike (a correlation of {last.positions:.3g})."
    yield (
        "norm in the stream", first.place, kept,
        f"Norms stand in the residual stream behind {len(own)} sums, from `{first.place}` to `{last.place}`: along "
        f"the stream, {kept:.1g} of a gradient reaches the first of them, and the rest has to pass all branches "
        f"(there it is {first.gradient / max(last.gradient, 1e-300):.2g} times that of the last).{alike} Put norms "
        "at the beginning of branches.",
    )  # fmt: skip


def _growth(rows: Sequence[Seen], stream: list[int], own: list[Joined]) -> Iterator[Told]:
    enters, ends = own[0].skip ** 2, rows[stream[-1]].size ** 2
    branches = [j.branch**2 for j in own if j.branch > 0]
    if not branches or enters <= 0:
        return
    total, count = sum(branches), len(branches)
    grown = ends / enters
    entry = None if own[0].entry is None else rows[own[0].entry]
    first = rows[stream[0]].place or "the model"
    small = enters < _SMALL and entry is not None and entry.drawn is not None
    if small and grown > _DROWNED and total > _LOUD:
        assert entry is not None
        yield (
            "small embedding", entry.place, enters,
            f"What `{entry.place}` gives is drowned: it enters the stream with the size {enters**0.5:.3g}, and the "
            f"{count} branches from `{first}` on add {total**0.5:.3g}. Draw it with entries of variance 1 (a norm "
            "of sqrt(n), not of 1), or put a norm behind it.",
        )  # fmt: skip
        if total <= 2:  # as large as branches should be together
            return
    scaled = all(j.branch**2 * count <= _SHARE * j.skip**2 for j in own)
    if count >= _MANY and not scaled and grown > _GROWN and total > 2 * max(enters, _SMALL):
        last = rows[stream[-1]]
        yield (
            "growing stream", last.place, grown**0.5,
            f"The residual stream grows from {enters**0.5:.3g} to {last.size:.3g} over {count} branches up to "
            f"`{last.place or 'the model'}`, so that each later one changes less. Multiply branches by "
            f"1/sqrt({count}) = {count**-0.5:.2g}, for example in the initialisation of their last layers.",
        )  # fmt: skip
