"""Factors of the forward pass that the user wants left as they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction

from scalewise.plan._ambiguous import few
from scalewise.plan._errors import PlanError
from scalewise.plan._forward import Heads, Passes, attentions, distances, products
from scalewise.plan._multiplier import Multiplier, Place
from scalewise.plan._names import matching

_WHAT = {
    Place.ATTENTION: "attention logits",
    Place.PRODUCT: "products of two activations",
    Place.DISTANCE: "distances of two activations",
}


def kept(keep: Collection[str], name: str, place: Place | None = None) -> bool:
    """True if a factor is to be left as it is.

    Args:
        keep: What the user says: kinds of factors, or patterns of names.
        name: Of the module or the tensor at which it stands.
        place: Its kind; ``None`` for a tensor's own.
    """
    return any(wanted == place or (name and matching(wanted, [name])) for wanted in keep)


def left_as_it_is(head: Heads, place: Place, lack: Fraction) -> Multiplier:
    """The row of such a factor between activations.

    Args:
        head: Where it was seen.
        place: Its kind.
        lack: The power of the summed length that it lacks.
    """
    scale = f"d^({head.scale})" if head.scale else "a constant"
    length = "d" if head.grow else "n"
    effect = (
        f", which lets them {'grow' if lack < 0 else 'fade'} by {length}^({-lack}) in the end"
        if lack
        else ""
    )
    text = (
        f"The {_WHAT[place]} of {f'`{head.place}`' if head.place else 'the model'} keep the factor that the "
        f"model's own code gives them, {scale}, as asked{effect}."
    )
    return Multiplier(head.place or place.value, 1.0, text, place, -lack)


def readout_left(name: str, power: Fraction) -> Multiplier:
    """Multiplier of one, as the user asks, for a readout that shares its weights.

    Args:
        name: The module that reads out.
        power: The power of the width that it lacks.
    """
    text = (
        f"What enters `{name}` is multiplied by nothing, as asked, so that its outputs "
        f"{'grow' if power < 0 else 'fade'} by n^({-power})."
        if power
        else f"What enters `{name}` is multiplied by nothing, as asked."
    )
    return Multiplier(name, 1.0, text, Place.READOUT, -power)


def refuse_unknown(
    keep: Collection[str],
    passes: Passes | None,
    tensors: Iterable[str],
    readouts: Iterable[str],
) -> None:
    """Refuse names that fit no factor.

    Args:
        keep: What the user says.
        passes: What was seen.
        tensors: Those that the model's own code multiplies by a power of the width.
        readouts: Modules that read out with weights that are drawn for another place.

    Raises:
        PlanError: With all factors that were seen.
    """
    if not keep:
        return
    seen: Mapping[Place, list[Heads]] = (
        {}
        if passes is None
        else {
            Place.ATTENTION: attentions(passes),
            Place.PRODUCT: products(passes),
            Place.DISTANCE: distances(passes),
        }
    )
    kinds = [str(place) for place, found in seen.items() if found]
    names = [*tensors, *readouts, *(h.place for found in seen.values() for h in found if h.place)]
    known = list(dict.fromkeys([*kinds, *names]))
    for wanted in keep:
        if wanted not in known and not matching(wanted, known):
            raise PlanError(
                f"`keep` names {wanted!r}, and the forward pass has no such factor. "
                f"{f'It has {few(known)}' if known else 'None was seen in it'}: name a kind, a module or a tensor."
            )
