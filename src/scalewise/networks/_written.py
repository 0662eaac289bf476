"""Networks as text: layers whole, however deep they stand, so that equal text is equal layers; nodes as a table.

What a prompt shows of a layer is short, and leaves out what stands in its branches.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from scalewise._readable import Rows, arguments, is_default
from scalewise.activations import Activation
from scalewise.networks._builder import Layer
from scalewise.networks._nodes import Draw
from scalewise.networks._program import Program
from scalewise.networks._sites import Matrix


def written(given: Any) -> str:
    """A layer or an argument of one, as it is written in a call; of a matrix its size and fingerprint."""
    if isinstance(given, Layer):
        told = (
            f"{name}={written(value)}"
            for name, value, default in arguments(given)
            if not is_default(value, default)
        )
        return f"{type(given).__name__}({', '.join(told)})"
    if isinstance(given, Activation):
        return repr(given.name)
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return f"[{', '.join(map(written, given))}]"
    return repr(given)


def matrices(given: Any) -> Iterator[Matrix]:
    """Matrices that layers were given, wherever they stand in them."""
    if isinstance(given, Matrix):
        yield given
    elif isinstance(given, Sequence) and not isinstance(given, str | bytes):
        yield from itertools.chain.from_iterable(map(matrices, given))
    elif isinstance(given, Layer):
        yield from itertools.chain.from_iterable(map(matrices, vars(given).values()))


def shaped(sizes: tuple[int, ...]) -> str:
    """Numbers of positions along each axis, and of channels."""
    return " x ".join(map(str, sizes))


def table(program: Program) -> Rows:
    """One row for each node of a program."""
    cells = []
    for place, node in enumerate(program.nodes):
        sites = program.positions[place]
        row = [f"[{place}] {node.said}", shaped(sites) or "1", str(program.channels[place])]
        if isinstance(node, Draw):
            own = node.own
            numbers = (program.fan_in(place), own.C_b, own.C_W, own.lambda_b, own.lambda_W)
            row += [f"{number:g}" for number in numbers]
        row += [""] * (8 - len(row)) + list(program.modules[place : place + 1])
        cells.append(tuple(row))
    head = ("node", "sites", "channels", "fan-in", "C_b", "C_W", "lambda_b", "lambda_W")
    head += ("module",) if program.modules else ()
    return Rows(head, cells, numbers=True)
