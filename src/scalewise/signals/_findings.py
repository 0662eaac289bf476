"""Mistakes that sizes, gradients and shares give away: one sentence each, with what to do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from scalewise._readable import readable
from scalewise.critical import Criticality, criticality
from scalewise.signals._seen import Seen
from scalewise.signals._streams import of_streams

_FEWEST = 4  # random layers in a row before a trend is one
_RATIO, _OFF_RATIO = (
    30.0,
    10.0,
)  # of sizes over such a chain, of weights that are critical and of others
_DRAWS = 3.0  # standard deviations by which draws of a right network may differ
_PER_LAYER = (
    5.0  # relative variance times the width, for each layer, where it is not known: that of ReLU
)
_ALIKE, _APART = 0.15, 0.35  # between logarithms of variances
_WIDER = math.log(1.5)
_FLAT = 0.6
_SHARP = 4.0  # a variance of logits at which the largest of a few keys has half of the weight
_ADDED, _EPS = 1 / 3, 1e-3  # a share in variances; the largest number that libraries add by default
_DEAD, _UNITS = 0.5, 5.0
_LARGEST, _VARIANCE = 0.6, 8.0
_LOST = 1e-3


@dataclass(frozen=True)
@readable
class Finding:
    """Something wrong, in a sentence.

    Args:
        mistake: Which kind, in a word or two.
        place: The module, by its path.
        number: What gave it away.
        sentence: All of it, and what to do.
    """

    mistake: str
    place: str
    number: float
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def findings(
    rows: Sequence[Seen],
    *,
    fresh_norms: bool = False,
    norms: Sequence[tuple[str, float, float]] = (),
    outputs: float = math.inf,
) -> list[Finding]:
    """All findings of a model.

    Args:
        rows: Its places in order of execution.
        fresh_norms: Whether norms of batches stand with statistics that change nothing, so that streams grow here
            and not in training.
        norms: Of norms that add a number to variances: the place, the number, and its share in them.
        outputs: The root mean square of the outputs.
    """
    found = [*_zeros(rows), *_dead(rows)]
    broken = bool(found)
    found += _flat(rows)
    found += [Finding(*own) for own in of_streams(rows, fresh_norms)]
    found += _attention(rows) or list(_unscaled(rows))
    found += _drowned_norms(norms)
    found += _readout(rows, outputs)
    fans = list(_fans(rows))
    found += fans
    if not broken:
        chains = [] if fans or fresh_norms else list(_chains(rows))
        found += chains
        if not chains and not fans and not any(f.mistake == "norm in the stream" for f in found):
            found += _lost(rows)
    return found


@cache
def critical_variances(name: str) -> tuple[float, float] | None:
    """The critical C_b and C_W of an activation; ``None`` if there are none or it is not a built-in."""
    own = _critical(name)
    return None if own is None or own.C_b is None or own.C_W is None else (own.C_b, own.C_W)


@cache
def spread_by_layer(name: str) -> float | None:
    r"""By how much $V/nK^2$ grows with every layer at criticality, times the width: $\nu$ of PDLT 5."""
    own = _critical(name)
    return None if own is None else own.coefficients.get("nu")


@cache
def _critical(name: str) -> Criticality | None:
    try:
        return criticality(name)
    except ValueError:
        return None


def _zeros(rows: Sequence[Seen]) -> Iterator[Finding]:
    """A layer that reads zeros, where no activation is to blame."""
    dead = next((k for k, r in enumerate(rows) if r.units and r.units.dead == 1.0), len(rows))
    told: set[str] = set()
    for row in rows[: dead + 1]:
        if row.silent is None or row.silent in told:
            continue
        if row.joined is not None or (row.chain is not None and row.chain[1] > 1 and told):
            continue
        told.add(row.silent)
        yield Finding(
            "zero gains",
            row.silent,
            0.0,
            f"`{row.silent}` gives 0 for every sample, and all that `{row.place}` reads is 0: neither signals nor "
            "gradients pass. Let its gain begin at 1; zeros belong at the end of a branch, where they are added.",
        )


def _dead(rows: Sequence[Seen]) -> Iterator[Finding]:
    for row in rows:
        own = row.units
        if own is None or own.dead is None or row.size == 0:
            continue
        # Of an activation that halves its inputs, units are dead by chance, and with fewer units more of them.
        if own.dead > min(_DEAD + _UNITS * math.sqrt(0.25 / own.count), 0.95):
            yield Finding(
                "dead units",
                row.place,
                own.dead,
                f"{own.dead:.0%} of the {own.count} units behind `{row.place}` are dead: {own.name} gives 0 for "
                "every sample, and no gradient passes. Begin with biases of 0, and with weights of mean 0.",
            )
            return


def _flat(rows: Sequence[Seen]) -> Iterator[Finding]:
    for row in rows:
        own = row.units
        if own is not None and own.saturated is not None and own.saturated > _FLAT:
            yield Finding(
                "saturated",
                row.place,
                own.saturated,
                f"{own.saturated:.0%} of what {own.name} reads behind `{row.place}`, of size {row.size:.3g}, is "
                "where it is flat, and gradients there are near 0. Draw these weights smaller, or put a norm "
                "before it.",
            )
            return


def _attention(rows: Sequence[Seen]) -> list[Finding]:
    own = [
        r for r in rows if r.looks and r.looks.largest > _LARGEST and r.looks.variance > _VARIANCE
    ]
    if not own:
        return []
    row = own[0]
    assert row.looks is not None
    more = f" (and {len(own) - 1} more)" if len(own) > 1 else ""
    return [
        Finding(
            "saturated attention",
            row.place,
            row.looks.largest,
            f"The attention of `{row.place}`{more} is saturated: its logits have the variance "
            f"{row.looks.variance:.3g}, and of {row.looks.keys:.0f} keys one has {row.looks.largest:.0%} of the "
            "weight, so it learns slowly. Multiply logits by 1/sqrt(size of a head), or draw queries and keys "
            "smaller.",
        )
    ]


def _unscaled(rows: Sequence[Seen]) -> Iterator[Finding]:
    """Products of queries and keys that nothing scales, where these are not drawn smaller instead."""
    own = [(r, r.looks) for r in rows if r.looks and (r.looks.unscaled or 0.0) > _SHARP]
    if own:
        row, looks = own[0]
        variance, more = (
            looks.unscaled or 0.0,
            f" (and {len(own) - 1} more)" if len(own) > 1 else "",
        )
        yield Finding(
            "attention without a scale",
            row.place,
            variance,
            f"No number multiplies the products of queries and keys in the attention of `{row.place}`{more}: they "
            f"add up {looks.head} terms, and have the variance {variance:.3g}, which grows with the size of a "
            f"head. Multiply them by 1/sqrt({looks.head}), or draw queries and keys smaller.",
        )


def _drowned_norms(norms: Sequence[tuple[str, float, float]]) -> Iterator[Finding]:
    own = [n for n in norms if n[1] > _EPS and n[2] > _ADDED]
    if own:
        place, eps, share = max(own, key=lambda n: n[2])
        more = f" (and {len(own) - 1} more)" if len(own) > 1 else ""
        yield Finding(
            "large eps",
            place,
            eps,
            f"The norm of `{place}`{more} adds eps = {eps:.3g} to variances, {share:.0%} of what it divides by, so "
            f"it gives the size {math.sqrt(1 - share):.2g} in place of 1 and does not undo what is before it. "
            "Take eps = 1e-5.",
        )


def _readout(rows: Sequence[Seen], outputs: float) -> Iterator[Finding]:
    r"""A read-out with the weights of an embedding whose logits are too large.

    Of $N$ independent logits of variance $s^2$ one has nearly all of the weight for $s>\sqrt{2\ln N}$
    (Derrida's random energy model).
    """
    for row in rows[-1:]:
        own = row.drawn
        if own is None or not own.tied or row.reads is None:
            continue
        size = row.reads * math.sqrt(own.C_W)
        if size > math.sqrt(2 * math.log(own.fan_out)) and outputs > size / 2:
            yield Finding(
                "tied readout",
                row.place,
                size,
                f"`{row.place or 'the model'}` reads out with the weights of an embedding, which have the "
                f"variance {own.C_W / own.fan_in:.3g}: outputs have the size {size:.3g}, and one of "
                f"{own.fan_out} has nearly all of the probability. Multiply what it reads by "
                f"1/sqrt({own.fan_in}), or draw the embedding with the variance 1/{own.fan_in} and multiply what "
                f"it gives by sqrt({own.fan_in}).",
            )


def _fans(rows: Sequence[Seen]) -> Iterator[Finding]:
    """Variances over the number of outputs where that of inputs is meant."""
    told, of = [], 0
    for row in rows:
        own, units = row.drawn, row.units
        if own is None or units is None or row.normed or own.lookup or own.C_W <= 0:
            continue
        critical = critical_variances(units.name)
        if critical is None or abs(math.log(own.fan_out / own.fan_in)) < _WIDER:
            continue
        of += 1
        off = math.log(own.C_W / critical[1])
        if abs(math.log(own.C_W)) < _ALIKE:  # 1/fan_in, which is right for gates and linear layers
            continue
        if abs(off) > _APART and abs(off + math.log(own.fan_out / own.fan_in)) < _ALIKE:
            told.append((row, critical[1]))
    if len(told) >= 2 and len(told) * 3 >= of * 2:
        row, C_W = max(
            told, key=lambda r: abs(math.log(r[0].drawn.C_W / r[1])) if r[0].drawn else 0.0
        )
        assert row.drawn is not None
        yield Finding(
            "fan mode",
            row.place,
            row.drawn.C_W,
            f"{len(told)} layers are drawn with the variance {C_W:.3g}/fan_out, where {C_W:.3g}/fan_in keeps the "
            f"size of signals: `{row.place}` has C_W = {row.drawn.C_W:.3g}, so it changes sizes by a factor of "
            f'{math.sqrt(row.drawn.C_W / C_W):.2g}. Take mode="fan_in".',
        )


def _chains(rows: Sequence[Seen]) -> Iterator[Finding]:
    """Trends over random layers between which nothing restores sizes."""
    members: dict[int, list[Seen]] = {}
    for row in rows:
        if row.chain is not None and row.drawn is not None and row.units is not None:
            members.setdefault(row.chain[0], []).append(row)
    for own in members.values():
        own = [r for r in own if r.size > 0 and r.influence > 0]
        waves = bool(own and own[0].units and own[0].units.name == "sin")
        own = own[waves:]  # the first phases of a sine are as large as its data ask for
        if len(own) < _FEWEST - waves or any(r.normed for r in own):
            continue
        name = own[-1].units.name if own[-1].units else ""
        slope, critical = spread_by_layer(name) or _PER_LAYER, critical_variances(name)
        chance = sum(slope / r.drawn.fan_in for r in own[1:] if r.drawn) ** 0.5 / 2
        off = critical is not None and all(
            abs(math.log(r.drawn.C_W / critical[1])) > _APART
            for r in own
            if r.drawn and r.drawn.C_W > 0
        )
        bound = math.log(_OFF_RATIO if off else _RATIO) + _DRAWS * chance
        first, last = own[0], own[-1]
        size, influence = (
            math.log(last.size / first.size),
            math.log(first.influence / last.influence),
        )
        if max(abs(size), abs(influence)) > bound:
            yield _trend(own, size, influence)


def _trend(own: Sequence[Seen], size: float, influence: float) -> Finding:
    first, last = own[0], own[-1]
    vanish = (size if abs(size) > abs(influence) else influence) < 0
    word = "vanish" if vanish else "explode"
    gradients = first.gradient / last.gradient
    advice = "Draw them at criticality: scalewise.criticality says how."
    units, drawn = last.units, last.drawn
    critical = critical_variances(units.name) if units else None
    if critical is not None and drawn is not None and units is not None and drawn.C_W > 0:
        factor = math.sqrt(critical[1] / drawn.C_W)
        biases = (
            f" and biases with the variance {critical[0]:.3g}" if critical[0] else " and biases 0"
        )
        advice = (
            f"Weights have C_W = {drawn.C_W:.3g}, and {units.name} is critical at {critical[1]:.3g}: draw them "
            f"with the variance {critical[1]:.3g}/fan_in ({factor:.3g} times the standard deviation){biases}."
        )
        if abs(math.log(factor)) < _ALIKE:
            advice = "Weights are critical, so the width does not bear this depth: take skip connections or norms."
    alike = "" if last.samples is None or last.samples < 0.99 else ", samples become alike"
    return Finding(
        f"signals {word}",
        last.place,
        gradients if abs(influence) > abs(size) else math.exp(size),
        f"Signals and gradients {word} from `{first.place}` to `{last.place}`: over {len(own)} layers the size "
        f"goes from {first.size:.3g} to {last.size:.3g}{alike}, and the gradient at the first is {gradients:.2g} "
        f"times that at the last. {advice}",
    )


def _lost(rows: Sequence[Seen]) -> Iterator[Finding]:
    random = [r for r in rows if r.drawn is not None and r.size > 0]
    largest = max((r.influence for r in rows), default=0.0)
    if len(random) > 2 and 0 < random[0].influence < _LOST * largest:
        place = max(rows, key=lambda r: r.influence).place
        yield Finding(
            "gradients vanish",
            random[0].place,
            random[0].influence / largest,
            f"A relative change of what `{random[0].place}` gives moves the outputs "
            f"{random[0].influence / largest:.1g} times as much as one at `{place}`: gradients vanish between "
            "them. Look down the table for where the gradient falls.",
        )
