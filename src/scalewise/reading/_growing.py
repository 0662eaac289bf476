"""What grows with the width: steps at one width beside those at twice as much, or without another."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from scalewise.reading._fields import UnreadError
from scalewise.reading._steps import BuildStep


def scaled(
    steps: tuple[BuildStep, ...], wide: tuple[BuildStep, ...], width: int, ratio: Fraction
) -> tuple[BuildStep, ...]:
    """Steps whose channels follow the width where they do in a model that is wider by a ratio."""
    found = []
    for one, two in zip(steps, wide, strict=True):
        given = one.given
        if one.verb == "draw":
            own, its = one.given[0].channels, two.given[0].channels
            if its == own * ratio:
                given = (replace(one.given[0], channels=Fraction(own, width)),)
        if one.verb == "attend":
            given = _grown(one, two)
        found.append(BuildStep(one.verb, one.of, given, one.place))
    return tuple(found)


def _grown(one: BuildStep, two: BuildStep) -> tuple[Any, ...]:
    """Arguments of attention that differ at twice the width: heads that grow, or more of them."""
    size, power, _, causal, turns, norm, group, bias = one.given
    grows, its = two.given[0] != size, two.given[6]
    place = f"The model's `{one.place}`" if one.place else "The model"
    if its != group:
        raise UnreadError(
            f"{place} has keys and values that {group} heads share at one width and {its} at another. However "
            "many heads there are, such keys are few, and what they make has no limit that is not random. Let the "
            "number of keys and values grow with the width."
        )
    if grows and (group > 1 or bias):
        raise UnreadError(
            f"{place} has heads that grow with the width, and shares keys or adds numbers to logits; that is known "
            "of heads whose number grows. Keep the size of heads."
        )
    return size, power, grows, causal, turns, norm, group, bias


def fixed(steps: tuple[BuildStep, ...], width: int) -> tuple[BuildStep, ...]:
    """Steps of which all channels but those of the last random layer follow the width."""
    last = max(k for k, step in enumerate(steps) if step.verb == "draw")
    own = tuple(
        replace(s, given=(replace(s.given[0], channels=2 * s.given[0].channels),))
        if s.verb == "draw" and k != last
        else s
        for k, s in enumerate(steps)
    )
    return scaled(steps, own, width, Fraction(2))
