r"""Findings of residual streams.

A stream to which $B$ branches of variance $v$ are added has the variance $e+Bv$ in the end, where $e$ is that of
what enters: with branches times $1/\sqrt B$ it is $e+v$ at every depth. Without norms a branch adds $gs/B$ to the
variance $s$ that it reads, and $e(1+g/B)^B<e\,\mathrm e^g$ is left at every depth. The largest $g$ that an
initialisation of linear layers asks for is 2, that of He. What enters is heard as long as $e\gtrsim v$.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from scalewise.signals._seen import Joined, Seen

_MANY = 8  # branches, over which a trend is one
_GAIN = 2.0  # of a branch, the variance that it gives over that which it reads
_CHANCE = 8.0  # over the width: of the logarithm of such a growth, the variance between draws
_DRAWS = (
    2.0  # its standard deviations by which right networks differ; an average over samples, less
)
_HALVED, _FEWEST = 0.6, 4  # a number behind so many sums: that of a mean, but not 1/sqrt(2)
_DROWNED = 8.0  # by how much branches together may exceed what enters
_SMALL = 0.25  # a variance that is small beside 1, which norms give
_LOUD = 0.1  # a variance of all branches below which a model is drawn small as a whole, as GPT-2 is
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
        else:
            halved = [j.factor for j in own if 0 < j.factor <= _HALVED]
            if len(halved) >= _FEWEST:
                yield _means(rows, stream, halved)
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
        "doubled skip",
        place,
        grown,
        f"`{place}` adds what goes past its branch twice (x + x + f(x)), as {len(doubled)} sums do: the stream "
        f"doubles each time, {grown:.3g} times its size in the end, and drowns its branches. Add it once.",
    )


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
        "norm in the stream",
        first.place,
        kept,
        f"Norms stand in the residual stream behind {len(own)} sums, from `{first.place}` to `{last.place}`: along "
        f"the stream, {kept:.1g} of a gradient reaches the first of them, and the rest has to pass all branches "
        f"(there it is {first.gradient / max(last.gradient, 1e-300):.2g} times that of the last).{alike} Put norms "
        "at the beginning of branches.",
    )


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
            "small embedding",
            entry.place,
            enters,
            f"What `{entry.place}` gives is drowned: it enters the stream with the size {enters**0.5:.3g}, and the "
            f"{count} branches from `{first}` on add {total**0.5:.3g}. Draw it with entries of variance 1 (a norm "
            "of sqrt(n), not of 1), or put a norm behind it.",
        )
        if total <= 2:  # as large as branches should be together
            return
    last = rows[stream[-1]]
    if count >= _MANY and ends > _largest(rows, stream, own, count):
        yield (
            "growing stream",
            last.place,
            grown**0.5,
            f"The residual stream grows from {enters**0.5:.3g} to {last.size:.3g} over {count} branches up to "
            f"`{last.place or 'the model'}`, {_so(own)}. Multiply branches by "
            f"1/sqrt({count}) = {count**-0.5:.2g}, for example in the initialisation of their last layers.",
        )


def _so(own: Sequence[Joined]) -> str:
    if any(j.inner for j in own):
        return "so that each later one changes less"
    return "each of which adds a part of what it reads"


def _largest(rows: Sequence[Seen], stream: list[int], own: list[Joined], count: int) -> float:
    """The largest variance at the end of a stream whose branches are scaled by the depth."""
    enters = own[0].skip ** 2
    least = max(enters, _SMALL) if any(j.inner for j in own) else enters
    right = least
    for one in own:
        if one.branch > 0:
            right += _GAIN / count * (least if one.inner else right)
    between = rows[: stream[-1]]
    widths = [r.drawn.fan_in for r in between if r.drawn is not None and not r.drawn.lookup]
    width = sorted(widths)[len(widths) // 2] if widths else 1
    return right * math.exp(_DRAWS * math.sqrt(_CHANCE / width))


def _means(rows: Sequence[Seen], stream: list[int], factors: list[float]) -> Told:
    place, last = rows[stream[0]].place, rows[stream[-1]].place or "the model"
    kept = math.prod(factors)
    return (
        "mean in place of a sum",
        place,
        kept,
        f"The residual stream is multiplied by {max(factors):.3g} behind {len(factors)} of its sums, from "
        f"`{place or 'the model'}` to `{last}`, as a mean (x + f(x)) / 2 does: {kept:.1g} of what enters, and of a "
        "gradient along the stream, is left. Add branches to the stream as it is, over the root of their number.",
    )
