r"""Maps of pairs of positions: $\sum_\tau B_\tau AB_\tau^T$ of a random layer, $BAB^T$ of a fixed one.

Also which pairs of positions are needed at all: only equal ones, unless something mixes positions later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

import numpy as np

from scalewise.gaussian.spi import Places
from scalewise.networks.spi import Attend, Matrix, Mix, PositionMap, Program, Taps
from scalewise.theory.flow._moves import add_moved

Crossed = tuple[bool, ...]


def crossings(program: Program, each: Iterable[int] = (), shifted: int = 0) -> list[Crossed]:
    """For each node and axis whether each position is paired with each; an axis of one position is.

    Args:
        program: The nodes.
        each: Nodes of which all pairs of positions are wanted.
        shifted: How many of the first axes are taken one shift after another, so that a pool does not need all.
    """
    nodes, sizes = program.nodes, program.positions
    if not any(sizes):
        return [()] * len(nodes)
    if program.estimated:  # channels are drawn at all labels at once
        return [(True,) * len(size) for size in sizes]
    needed = [[False] * len(size) for size in sizes]
    for node in each:
        needed[node] = [True] * len(sizes[node])
    for link in program.links:
        for node, axis in _apart(program, *link):
            needed[node][axis] |= sizes[node][axis] > 1
    before = None
    while before != needed:
        before = [list(row) for row in needed]
        for here in range(len(nodes) - 1, -1, -1):  # what mixes positions needs them all below
            node = nodes[here]
            for below in () if here in program.fixed else node.of:
                for axis, size in enumerate(sizes[below]):
                    mixes = isinstance(node, Attend | Mix)
                    if isinstance(node, PositionMap):
                        mixes = axis >= shifted and node.along[axis].mixes
                    spans = needed[here][axis] and sizes[here][axis] > 1
                    needed[below][axis] |= size > 1 and (mixes or spans)
        for here, node in enumerate(nodes):  # and what is paired so stays so
            for below in () if here in program.fixed else node.of:
                for axis, size in enumerate(sizes[here]):
                    alone = sizes[below][axis] == 1
                    needed[here][axis] |= size > 1 and (needed[below][axis] or alone)
        for one, other in program.links:  # both fields of a pair alike
            for axis, both in enumerate(zip(needed[one], needed[other], strict=True)):
                needed[one][axis] = needed[other][axis] = any(both)
    return [
        tuple(each or size == 1 for each, size in zip(row, sizes[here], strict=True))
        for here, row in enumerate(needed)
    ]


def _apart(program: Program, one: int, other: int) -> Iterator[tuple[int, int]]:
    """Nodes and their axes along which two fields have different positions, or get them from different ones."""
    nodes, sizes = program.nodes, program.positions
    a, b = nodes[one], nodes[other]
    for axis, both in enumerate(zip(sizes[one], sizes[other], strict=True)):
        if both[0] != both[1]:
            yield from ((one, axis), (other, axis))
        if (
            isinstance(a, PositionMap)
            and isinstance(b, PositionMap)
            and a.along[axis] != b.along[axis]
        ):
            yield from ((a.of[0], axis), (b.of[0], axis))


def axes_of(at: Places) -> list[tuple[int, int | None]]:
    """For each axis of positions those of a tile that are of its first and of its second labels."""
    first = 1 + at.by_rows
    beyond = first + len(at.positions)
    found: list[tuple[int, int | None]] = []
    for axis, each in enumerate(at.crossed, first):
        found.append((axis, beyond if each else None))
        beyond += each
    return found


def convolved(
    A: np.ndarray, own: Taps | Matrix, axes: tuple[int, ...], out: np.ndarray, shift: int = 0
) -> None:
    r"""$\sum_\tau B_\tau AB_\tau^T$, on one axis of a tile or two that move together.

    On one, the second position may be further on than the first, by `shift`.
    """
    assert not isinstance(own, Matrix)  # which is for fixed maps
    sizes = [A.shape[axis] for axis in axes]
    if own.covers(sizes[0]) and len(axes) == 1:
        A.sum(axis=axes[0], keepdims=True, out=out)
        return
    if len(set(sizes)) == 1:
        add_moved(A, (own, sizes[0], shift, axes), out)
        return
    out.fill(0.0)
    moved, target = (np.moveaxis(values, axes, (0, 1)) for values in (A, out))
    for firsts, seconds in zip(*(own.pieces(size) for size in sizes), strict=True):
        for one, other in product(firsts, seconds):
            target[one.to, other.to] += moved[one.of, other.of]


def mixed(A: np.ndarray, own: Taps | Matrix, axes: tuple[int, ...], out: np.ndarray) -> None:
    r"""$\sum_\tau B_\tau A$ along one axis of a tile."""
    size = A.shape[axes[0]]
    if isinstance(own, Matrix):
        if axes[0] == A.ndim - 1 and A.flags.c_contiguous and out.flags.c_contiguous:
            np.matmul(A.reshape(-1, size), own.transposed, out=out.reshape(-1, out.shape[-1]))
            return
        if axes[0] != A.ndim - 2:
            A, out = (np.moveaxis(values, axes[0], -2) for values in (A, out))
        np.matmul(own.array, A, out=out)
        return
    if own.covers(size):
        A.sum(axis=axes[0], keepdims=True, out=out)
        return
    add_moved(A, (own, size, 0, axes), out)
