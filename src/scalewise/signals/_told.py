"""What else there is to know: how much draws differ, the depth that a width bears, critical initialisations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from scalewise.signals._findings import critical_variances, spread_by_layer
from scalewise.signals._seen import Seen
from scalewise.signals._streams import streams

_CRITICAL = 0.1  # between a variance and the critical one, in logarithms
_FEW = 4
_SLOW = 0.5  # a phase below which a sine is linear to 4 per cent


def told_of(rows: Sequence[Seen], outputs: Sequence[np.ndarray]) -> Iterator[str]:
    """Sentences.

    Args:
        rows: Places in order of execution.
        outputs: Of each draw the outputs of some samples.
    """
    yield from _draws(outputs)
    yield from _depths(rows)
    yield from _branches(rows)
    yield from _waves(rows)


def _draws(outputs: Sequence[np.ndarray]) -> Iterator[str]:
    """By how much the mean square of the outputs differs between draws."""
    if len(outputs) < 3:
        return
    squares = np.array([np.mean(np.square(out)) for out in outputs])
    if not np.all(np.isfinite(squares)) or squares.mean() <= 0:
        return
    spread = float(squares.std(ddof=1) / squares.mean())
    yield (
        f"Draws differ: the mean square of the outputs varies by {spread:.0%} between {len(outputs)} of them (an "
        f"estimate that is itself good to {1 / math.sqrt(2 * (len(outputs) - 1)):.0%})."
    )


def _depths(rows: Sequence[Seen]) -> Iterator[str]:
    """For layers of one activation between which there is nothing else: the depth, and what is critical."""
    chains: dict[tuple[int, str], list[Seen]] = {}
    for row in rows:
        if (
            row.chain is not None
            and row.drawn is not None
            and row.units is not None
            and not row.normed
        ):
            chains.setdefault((row.chain[0], row.units.name), []).append(row)
    for (_, name), own in chains.items():
        critical = critical_variances(name)
        drawn = [r.drawn for r in own if r.drawn is not None and not r.drawn.lookup]
        if critical is None or len(drawn) < _FEW:
            continue
        widths = [d.fan_in for d in drawn[1:]]
        slope = spread_by_layer(name)
        if slope:
            width = len(widths) / sum(1 / n for n in widths)
            yield (
                f"Width {width:.0f} bears some {width / slope:.0f} layers of {name} at criticality, where V/nK^2 = "
                f"1 and draws differ as much as what they are; it has {len(own)} (V/nK^2 of some "
                f"{slope * len(own) / width:.2g} if drawn so)."
            )
        low, high = min(d.C_W for d in drawn), max(d.C_W for d in drawn)
        here = f"{low:.3g}" if high - low < 0.1 * high else f"{low:.3g} to {high:.3g}"
        if all(abs(math.log(d.C_W / critical[1])) < _CRITICAL for d in drawn if d.C_W > 0):
            yield f"Weights from `{own[0].place}` to `{own[-1].place}` are critical for {name}: C_W = {here}."
        else:
            yield (
                f"Critical for {name}: C_W = {critical[1]:.3g}, C_b = {critical[0]:.3g}; from `{own[0].place}` to "
                f"`{own[-1].place}` C_W is {here}."
            )


def _branches(rows: Sequence[Seen]) -> Iterator[str]:
    for stream in streams(rows):
        own = [rows[k].joined for k in stream]
        joined = [j for j in own if j is not None]
        if len(joined) < _FEW or any(j.normed or j.doubled for j in joined):
            continue
        first, last = joined[0], rows[stream[-1]]
        total = math.sqrt(sum(j.branch**2 for j in joined))
        yield (
            f"The stream up to `{last.place}` goes from {first.skip:.3g} to {last.size:.3g}; its {len(joined)} "
            f"branches together have the size {total:.3g}. Branches of the size of the stream, times "
            f"1/sqrt({len(joined)}), would keep signals and gradients at every depth."
        )


def _waves(rows: Sequence[Seen]) -> Iterator[str]:
    """How far the sines of a first layer turn, which is right or wrong for a task and not for a model."""
    for row in rows:
        if row.units is not None and row.units.name == "sin" and row.chain and row.chain[1] == 1:
            phase = row.size * row.units.factor
            if phase < _SLOW:
                yield (
                    f"The sines behind `{row.place}` turn by {phase:.2g} over these inputs, where a sine is nearly "
                    "linear: whatever varies faster is learned late. SIREN multiplies what they read by 30."
                )
