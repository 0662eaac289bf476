"""What is known of a field while a network is built, and what layers ask of it before they read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scalewise._readable import readable
from scalewise.networks._nodes import Draw
from scalewise.networks._sites import Matrix, Taps


@dataclass(frozen=True)
@readable
class Field:
    """A field while a network is built.

    Args:
        node: Its number in the program.
        positions: Along each axis.
        channels: How many.
        draws: The random layers that its channels are made of; none of the inputs.
        gaussian: Whether its channels are jointly Gaussian over sites at infinite width.
        parts: Fields whose channels it has beside each other.
        alike: Whether all its channels have one law.
        flat: Whether the next random layer has weights of its own for each position.
        mask: The field that is 1 at the positions which a sample has; ``None`` if all have all.
    """

    node: int
    positions: tuple[int, ...]
    channels: int
    draws: frozenset[int] = frozenset()
    gaussian: bool = False
    parts: tuple[Field, ...] = ()
    alike: bool = True
    flat: bool = False
    mask: int | None = None


def together(name: str, fields: Sequence[Field], does: str, to: str) -> Field:
    """Field made by combining several channel by channel; `name` is the layer that messages name."""
    first = fields[0]
    for other in fields[1:]:
        mine, its = ((f.channels, f.positions, f.flat) for f in (first, other))
        if mine != its:
            raise ValueError(
                f"{name} {does} {mine[0]} channels at {sites(mine[1])} {to} {its[0]} channels at "
                f"{sites(its[1])}. Give both sides the same channels and positions."
            )
    return combined(name, fields, does, to)


def combined(name: str, fields: Sequence[Field], does: str, to: str) -> Field:
    """Field made by combining several: its mask, its random layers, and whether it is Gaussian."""
    if any(not f.draws for f in fields):
        raise ValueError(
            f"{name} {does} the inputs {to} other channels, which are not of their kind. Put a random "
            "layer such as Dense before it."
        )
    masks = sorted({f.mask for f in fields if f.mask is not None})
    if len(masks) > 1:
        raise ValueError(
            f"{name} {does} fields {to} others of which samples have other positions. Give all branches "
            "the same strides."
        )
    return replace(
        fields[0],
        mask=masks[0] if masks else None,
        draws=frozenset().union(*(f.draws for f in fields)),
        gaussian=all(f.gaussian for f in fields),
        parts=(),
        alike=all(f.alike for f in fields),
    )


def need_all(name: str, of: Field) -> None:
    """Refuse a mask."""
    if of.mask is not None:
        raise ValueError(
            f"{name} takes what is beyond the end of a sample to its positions, and is not known with a mask. Let "
            "zeros be there (padding='zero'), Resize all samples to one length before it, or give such samples."
        )


def need_alike(name: str, of: Field) -> None:
    """Refuse channels of several kinds."""
    if not of.alike:
        raise ValueError(
            f"{name} acts on channels of several kinds, which stand beside each other. Put it before "
            "they are joined, or a random layer such as Dense in between."
        )


def need_positions(name: str, of: Field) -> None:
    """Refuse positions that have become channels."""
    if of.flat:
        raise ValueError(
            f"{name} needs positions, and Flatten has made channels of them. Put it before Flatten."
        )


def moved(name: str, of: Field, along: tuple[Taps | Matrix, ...]) -> tuple[int, ...]:
    """Positions after a layer."""
    positions = tuple(own.length(size) for own, size in zip(along, of.positions, strict=True))
    if any(size < 1 for size in positions):
        raise ValueError(
            f"{name} does not fit into {sites(of.positions)}. Make its window smaller, pad it, or shrink "
            "the positions less before it."
        )
    return positions


def need_same_weights(
    name: str, before: tuple[Draw, Field, Field], new: tuple[Draw, Field, Field]
) -> None:
    """Refuse weights that do not fit: of a random layer, what it reads, and what it makes."""
    sizes = [(below.channels, node.taps, made.channels) for node, below, made in (before, new)]
    places = {before[2].positions, new[2].positions}
    if sizes[0] != sizes[1] or (not new[0].shared and len(places) > 1):
        told = ["{} channels through windows of {} to {}".format(*own) for own in sizes]
        raise ValueError(
            f"{name} has weights that take {told[0]}, and here they would take {told[1]}. Layers that "
            "share weights must read fields of the same channels, seen through the same windows."
        )


def need_same_beside(name: str, fields: Sequence[Field], axis: int) -> None:
    """Refuse fields whose positions cannot stand after one another along an axis."""
    first = fields[0]
    for f in fields:
        need_positions(name, f)
        need_alike(name, f)
        others = [f.positions[:axis] + f.positions[axis + 1 :] for f in (first, f)]
        if f.channels != first.channels or others[0] != others[1] or not f.positions:
            raise ValueError(
                f"{name} puts {first.channels} channels at {sites(first.positions)} and {f.channels} "
                f"channels at {sites(f.positions)} after one another along axis {axis}. Give all of them the "
                "same channels, and the same positions along other axes."
            )


def need_groups(name: str, of: Field, made: Field, groups: int) -> None:
    """Refuse channels on either side that do not divide into groups."""
    if of.channels % groups or made.channels % groups:
        raise ValueError(
            f"{name} takes {of.channels} channels to {made.channels}, which do not divide into {groups} "
            "groups. Choose widths that are multiples of their number."
        )


def beside(name: str, fields: Sequence[Field]) -> Field:
    """Field of the channels of several, which must have the same positions."""
    first = fields[0]
    for other in fields[1:]:
        if first.positions != other.positions or first.flat != other.flat:
            raise ValueError(
                f"{name} puts the channels at {sites(first.positions)} beside those at "
                f"{sites(other.positions)}. Give all of them the same positions."
            )
    if any(not f.draws for f in fields):
        raise ValueError(
            f"{name} puts the inputs beside other channels, which are not of their kind. Put a random "
            "layer such as Dense before it."
        )
    return Field(
        0,
        first.positions,
        sum(f.channels for f in fields),
        frozenset().union(*(f.draws for f in fields)),
        parts=tuple(part for f in fields for part in f.parts or (f,)),
        alike=False,
        flat=first.flat,
    )


def need_channels(name: str, of: Field, groups: int) -> None:
    """Refuse channels that are too few for a norm, or do not divide into its groups."""
    if of.flat:
        raise ValueError(
            f"{name} takes the channels of one position, and Flatten has made channels of all positions. "
            "Put it before Flatten."
        )
    if of.channels < 2:
        raise ValueError(
            f"{name} needs at least 2 channels, and there is one, of which a sign would be left. Give the "
            "layer before it more channels."
        )
    if of.channels % groups or of.channels < 2 * groups:
        raise ValueError(
            f"{name} has {of.channels} channels, which do not divide into {groups} groups of two or more. "
            "Choose a width that is a multiple of their number."
        )


def attended(
    name: str,
    fields: tuple[Field, Field, Field],
    size: int,
    group: int,
    matrices: int,
    *,
    causal: bool,
) -> Field:
    """Field of the values of equal heads, averaged at the positions of queries."""
    queries, keys, values = fields
    if (keys.positions, queries.channels) != (values.positions, keys.channels * group) or (
        causal and queries.positions != keys.positions
    ):
        raise ValueError(
            f"{name} has queries of {queries.channels} channels at {sites(queries.positions)}, keys of "
            f"{keys.channels} at {sites(keys.positions)} and values at {sites(values.positions)}. Give keys "
            "the channels of queries and the positions of values; causal attention has one set of positions."
        )
    if values.channels % size:
        raise ValueError(
            f"{name} has {values.channels} channels, which do not divide into heads of {size}. Choose a "
            "width that is a multiple of the size of a head, and of their number."
        )
    if matrices and queries.channels % (size * matrices):
        raise ValueError(
            f"{name} adds {matrices} matrices to the logits of {queries.channels // size} heads in turn. "
            f"Choose a width that is a multiple of {size * matrices}."
        )
    return replace(
        values,
        positions=queries.positions,
        channels=values.channels * group,
        gaussian=False,
        draws=frozenset().union(*(f.draws for f in fields)),
        mask=queries.mask,
    )


def apart(fields: Sequence[Field]) -> bool:
    """True if fields share no random numbers."""
    return len(frozenset().union(*(f.draws for f in fields))) == sum(len(f.draws) for f in fields)


def sites(positions: tuple[int, ...]) -> str:
    """Positions as messages tell them."""
    if not positions:
        return "one site"
    return " x ".join(map(str, positions)) + (" positions" if positions != (1,) else " position")
