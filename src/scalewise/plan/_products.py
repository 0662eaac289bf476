"""What multiplies products and distances of two activations over a length that grows, attention among them."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from scalewise.plan._errors import PlanError
from scalewise.plan._forward import Heads, attentions, distances, products
from scalewise.plan._kept import kept, left_as_it_is
from scalewise.plan._multiplier import Multiplier, Place
from scalewise.plan._probed import Probe, head_size
from scalewise.plan._request import Request
from scalewise.scaling import update_exponents

# A multiplier, and whether the model's own code lacks it.
Needed = tuple[Multiplier, bool]
_HALF = Fraction(1, 2)
_WHAT = {
    Place.ATTENTION: "attention logits",
    Place.PRODUCT: "products of two activations",
    Place.DISTANCE: "distances of two activations",
}


def of_activations(probe: Probe, request: Request) -> list[Needed]:
    r"""The factors of attention logits, where heads grow or their scale goes with the width, and of their like.

    Queries and keys align by $n^{-r_\ell}$ an entry, which a head of size $d$ sums to $d\,n^{-r_\ell}$: so
    the scale may be $d^{r_\ell-1}$ at most, and no less than $d^{-1}$, with which aligned logits stay of
    order one. Heads that do not grow need a scale that does not move. So do other products whose length grows.
    The squares of a distance are positive, and sum to $d$ from the start: its scale is $d^{-1}$ under any strategy.

    Raises:
        PlanError: If the heads that are said are not those of the pass, or attentions lack different factors.
    """
    if probe.passes is None or request.strategy.plain_biases:
        return []
    size = head_size(request.base, request.target, request.wider)
    every = attentions(probe.passes)
    said = _as_said(every, probe.passes.ratio, request)
    found = [h for h in every if (size != 1 or h not in said if h.grow else h.scale)]
    others, apart = products(probe.passes), distances(probe.passes)
    if "heads" in request.base:
        # Products of heads that go along are seen to keep their size.
        said = [*said, *(h for h in [*others, *apart] if every and size != 1)]
    every = zip(_WHAT, (found, others, apart), strict=True)
    out: list[Needed] = []
    for place, of_place in every:
        left = [h for h in of_place if kept(request.keep, h.place, place)]
        out += [(left_as_it_is(h, place, _beyond(h, place, _most(request))), False) for h in left]
        rest = [h for h in of_place if h not in left]
        out += _multiplier(place, rest, probe, request, said, size)
    return out


def _multiplier(
    place: Place,
    found: list[Heads],
    probe: Probe,
    request: Request,
    said: list[Heads],
    size: Fraction | None,
) -> list[Needed]:
    """The one factor that all of these lack."""
    assert probe.passes is not None
    most = _most(request)
    missing = {h: _beyond(h, place, most) for h in found}
    off = [h for h in found if missing[h]]
    if not off:
        growing = any(h.grow for h in found) and (place.may_read_out or most < -_HALF)
        return [
            (Multiplier(place.value, 1.0, "The model's own code applies it.", place), False)
        ] * growing
    if len(set(missing.values())) > 1 or len(off) < len(found):
        listed = ", ".join(f"`{h.place}` by n^({m})" for h, m in missing.items())
        raise PlanError(
            f"The {_WHAT[place]} of this model lack different multipliers: {listed}. No one factor suits "
            "them; let the model scale them alike."
        )
    head, lack = off[0], missing[off[0]]
    grown = Fraction(head.length[1], head.length[0]) if head.grow else probe.passes.ratio
    # The target may be wider than what was looked at, and have other heads.
    ratio = float(grown) ** (math.log(request.wider) / math.log(probe.passes.ratio))
    if head.grow and size is not None and head in said:
        ratio = float(size)
    text = _TEXTS[place](head, lack)
    return [(Multiplier(place.value, ratio ** float(lack), text, place), True)]


def _of_product(head: Heads, lack: Fraction) -> str:
    where = f"`{head.place}`" if head.place else "the model"
    scale = f"d^({head.scale})" if head.scale else "a constant"
    return (
        f"In {where} two activations are multiplied and summed over a length d that grows with the width, and the "
        f"scale of its code, {scale}, lets their products "
        f"{'grow once the two align' if lack < 0 else 'fade'}: multiply them by a further factor, d^({lack})."
    )


def _of_distance(head: Heads, lack: Fraction) -> str:
    where = f"`{head.place}`" if head.place else "the model"
    scale = f"d^({head.scale})" if head.scale else "a constant"
    return (
        f"In {where} the difference of two activations is squared, or made positive, and summed over a length d "
        f"that grows with the width, and the scale of its code, {scale}, lets these distances "
        f"{'grow' if lack < 0 else 'fade'}: multiply the sums, before any root, by a further factor, d^({lack})."
    )


def _as_said(every: list[Heads], ratio: Fraction, request: Request) -> list[Heads]:
    """Those that keep their size or grow as the heads do that base and target have; all where none are said.

    Args:
        every: What was seen at two widths.
        ratio: The second of these over the first.
        request: What the user says.

    Raises:
        PlanError: If some are said, and none of those that were seen does.
    """
    base, target, width = request.base, request.target, request.width
    if "heads" not in base:
        return every
    heads = Fraction(target["heads"]) / Fraction(base["heads"])
    # At another width than the target's there are more heads only where they go along with the width.
    keep = heads == ratio if ratio == request.wider else heads == request.wider != 1
    said = [h for h in every if h.grow != keep]
    if every and not said:
        one, other = every[0], ratio * Fraction(base[width])
        raise PlanError(
            f"With {base['heads']} heads at the base and {target['heads']} at the target a head "
            f"{'keeps its size' if keep else 'changes its size with the width'}, but in the forward pass "
            f"{f'of `{one.place}` ' if one.place else ''}it has {one.length[0]} entries at {width} = {base[width]} "
            f"and {one.length[1]} at {float(other):g}. Let the factory make as many heads as you say, or leave "
            "'heads' out of `base` and `target`."
        )
    return said


def _most(request: Request) -> Fraction:
    """The power of a length that its scale may have where both factors align."""
    return update_exponents(request.strategy)[-1] - 1


def _beyond(head: Heads, place: Place, most: Fraction) -> Fraction:
    """The power that the scale of what is summed lacks; of the size of a head where heads grow."""
    if place is Place.DISTANCE:
        return -1 - head.scale
    if not head.grow:
        return -head.scale
    return min(most - head.scale, Fraction(0)) or max(-1 - head.scale, Fraction(0))


def _lacking(head: Heads, lack: Fraction) -> str:
    scale = f"d^({head.scale})" if head.scale else "a constant"
    where = f"`{head.place}`" if head.place else "the model"
    if not head.grow:
        return (
            f"The heads of {where} keep their size, but the forward pass multiplies attention logits by "
            f"n^({head.scale}) of the width n: take that back by a further factor."
        )
    grows = "then grow once queries and keys align" if lack < 0 else "then fade"
    return (
        f"The heads of {where} grow with the width, and attention logits of the scale of its code, "
        f"{scale} of the size d of a head, {grows}: multiply them by a further factor, d^({lack})."
    )


_TEXTS: dict[Place, Callable[[Heads, Fraction], str]] = {
    Place.ATTENTION: _lacking,
    Place.PRODUCT: _of_product,
    Place.DISTANCE: _of_distance,
}
