"""How layers read a field of which a sample has a part: as if it stood alone.

A field is 0 where a sample has nothing, so that windows see the zeros that are beyond its ends. Where ends meet,
they are joined by a matrix of each sample.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scalewise.networks._field import Field, moved, need_all
from scalewise.networks._masks import Moved, Wrapped, Written
from scalewise.networks._nodes import Node, PositionMap, Read
from scalewise.networks._sites import Matrix, Transposed, Window

if TYPE_CHECKING:
    from scalewise.networks._builder import Builder


def shown(build: Builder, of: Field) -> Field:
    """A field that is 0 at positions which a sample does not have."""
    return of if of.mask is None else build.weigh(of, build.fields[of.mask])


def seen_by(build: Builder, of: Field, along: tuple[Any, ...]) -> tuple[Field, Any, int | None]:
    """A field as a layer sees it.

    Args:
        build: The program as far as it goes.
        of: The field.
        along: A window or a matrix for each axis, what the layer does there.

    Returns:
        The field, what the layer then does along each axis, and the mask of what comes out.
    """
    if of.flat:
        return shown(build, of), along, None
    if of.mask is None or all(own.is_identity for own in along):
        return of, along, of.mask
    mask = _mask(build, of, along)
    if any(isinstance(own, Window) and own.is_circular and own.mixes for own in along):
        if not all(isinstance(own, Window) for own in along):
            need_all(build.name, of)
        return (*_joined(build, of, along), mask)
    return shown(build, of), along, mask


def _mask(build: Builder, of: Field, along: tuple[Any, ...]) -> int:
    """Mask of the places of a layer that a sample has."""
    assert of.mask is not None
    matrices = [own for own in along if isinstance(own, Matrix)]
    transposed = [own for own in along if isinstance(own, Transposed)]
    node: Node
    if transposed:
        if any(own.is_circular for own in transposed):
            need_all(build.name, of)
        node = Read((of.mask,), Written(along, of.positions))
    elif matrices and all(own.is_choice for own in matrices):
        node = PositionMap((of.mask,), along, 1.0)
    elif matrices or all(own.stays for own in along):
        still = all(own.length(own.size) == own.size for own in matrices)
        if not (still and all(own.stays for own in along if isinstance(own, Window))):
            need_all(build.name, of)
        return of.mask
    else:
        node = Read((of.mask,), Moved(along, of.positions))
    return _once(build, node, Field(0, moved(build.name, of, along), 1)).node


def _joined(
    build: Builder, of: Field, along: tuple[Window, ...]
) -> tuple[Field, tuple[Window, ...]]:
    """The positions of a sample with the other end beyond each, and windows that fit into them."""
    assert of.mask is not None
    longer = tuple(
        size + (own.reach - 1) * own.is_circular
        for own, size in zip(along, of.positions, strict=True)
    )
    node = Read((of.mask,), Wrapped(along, of.positions))
    rows = _once(build, node, Field(0, longer, math.prod(of.positions)))
    windows = tuple(replace(own, padding="valid") if own.is_circular else own for own in along)
    return build.mix(replace(of, mask=None), rows), windows


def _once(build: Builder, node: Node, made: Field) -> Field:
    """A field without weights, made once, however often it is needed."""
    if node in build.nodes:
        return build.fields[build.nodes.index(node)]
    return build.put(node, made)
