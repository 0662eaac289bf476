"""Layers as text that a result carries: whole, however deep they stand, so that equal text is equal layers.

What a prompt shows of a layer is short, and leaves out what stands in its branches.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from scalewise._readable import arguments, is_default
from scalewise.activations import Activation
from scalewise.networks._builder import Layer
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
