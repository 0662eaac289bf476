"""How layers read a field of which a sample has a part: as if it stood alone.

A field is 0 where a sample has nothing, so that windows see the zeros that are beyond its ends. Where ends meet,
they are joined by a matrix of each sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from scalewise.networks._field import Field, moved, need_all
from scalewise.networks._masks import within, wrapped, written
from scalewise.networks._nodes import Mix, Node, PositionMap, Read, Weigh
from scalewise.networks._sites import Matrix, Transposed, Window

Put = Callable[..., Field]  # `Builder.put`


def shown(put: Put, of: Field) -> Field:
    """A field that is 0 at positions which a sample does not have."""
    return of if of.mask is None else put(Weigh((of.node, of.mask)), replace(of, parts=()))


def seen_by(
    put: Put, name: str, of: Field, along: tuple[Any, ...]
) -> tuple[Field, Any, int | None]:
    """A field as a layer sees it.

    Args:
        put: Adds a node to the program, and returns its field.
        name: The layer, for messages.
        of: The field.
        along: A window or a matrix for each axis, what the layer does there.

    Returns:
        The field, what the layer then does along each axis, and the mask of what comes out.
    """
    if of.flat:
        return shown(put, of), along, None
    if of.mask is None or all(own.is_identity for own in along):
        return of, along, of.mask
    mask = _mask(put, name, of, along)
    if any(isinstance(own, Window) and own.is_circular and own.mixes for own in along):
        if not all(isinstance(own, Window) for own in along):
            need_all(name, of)
        return (*_joined(put, of, along), mask)
    return shown(put, of), along, mask


def _mask(put: Put, name: str, of: Field, along: tuple[Any, ...]) -> int:
    """Mask of the places of a layer that a sample has."""
    assert of.mask is not None
    matrices = [own for own in along if isinstance(own, Matrix)]
    transposed = [own for own in along if isinstance(own, Transposed)]
    node: Node
    if transposed:
        if any(own.is_circular for own in transposed):
            need_all(name, of)
        node = Read((of.mask,), written, (along, of.positions), "mask of transposed windows")
    elif matrices and all(own.is_choice for own in matrices):
        node = PositionMap((of.mask,), along, 1.0)
    elif matrices or all(own.stays for own in along):
        still = all(own.length(own.size) == own.size for own in matrices)
        if not (still and all(own.stays for own in along if isinstance(own, Window))):
            need_all(name, of)
        return of.mask
    else:
        node = Read((of.mask,), within, (along, of.positions), "mask of windows")
    return put(node, Field(0, moved(name, of, along), 1), once=True).node


def _joined(put: Put, of: Field, along: tuple[Window, ...]) -> tuple[Field, tuple[Window, ...]]:
    """The positions of a sample with the other end beyond each, and windows that fit into them."""
    assert of.mask is not None
    longer = tuple(
        size + (own.reach - 1) * own.is_circular
        for own, size in zip(along, of.positions, strict=True)
    )
    node = Read((of.mask,), wrapped, (along, of.positions), "ends joined")
    rows = put(node, Field(0, longer, math.prod(of.positions)), once=True)
    windows = tuple(replace(own, padding="valid") if own.is_circular else own for own in along)
    return put(
        Mix((of.node, rows.node)), replace(of, parts=(), positions=longer, mask=None)
    ), windows
