r"""Pairings of legs: which there are, and how many loops two of them form together."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from jaxtyping import Float

Pairing = tuple[tuple[int, int], ...]


@lru_cache(maxsize=8)
def pairings(legs: int) -> tuple[Pairing, ...]:
    """All perfect matchings of 0, 1, …: (legs - 1)!! of them."""

    def match(left: tuple[int, ...]) -> Iterator[Pairing]:
        if not left:
            yield ()
            return
        for k in range(1, len(left)):
            for rest in match(left[1:k] + left[k + 1 :]):
                yield ((left[0], left[k]), *rest)

    return tuple(match(tuple(range(legs))))


@lru_cache(maxsize=64)
def transfer(n: int, m: int) -> Float[np.ndarray, "pairing pairing"]:
    r"""The matrix $n^{c(\pi,\pi')-m}$, with $c$ the number of loops of two pairings of $2m$ legs."""
    loops = _loops(m)
    return float(n) ** (loops - m)


@lru_cache(maxsize=8)
def _loops(m: int) -> np.ndarray:
    partner = np.zeros((len(pairings(2 * m)), 2 * m), dtype=int)
    for row, pairing in zip(partner, pairings(2 * m), strict=True):
        for a, b in pairing:
            row[a], row[b] = b, a
    out = np.zeros((len(partner), len(partner)))
    for i, j in itertools.product(range(len(partner)), repeat=2):
        left = set(range(2 * m))
        while left:
            start = here = min(left)
            while True:
                left -= {here, int(partner[i, here])}
                here = int(partner[j, partner[i, here]])
                if here == start:
                    break
            out[i, j] += 1
    return out


def even_partitions(items: tuple[int, ...]) -> Iterator[list[tuple[int, ...]]]:
    """Set partitions into blocks of even size, the only ones whose moments do not vanish."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for size in range(1, len(items), 2):
        for others in itertools.combinations(rest, size):
            left = tuple(item for item in rest if item not in others)
            for partition in even_partitions(left):
                yield [(first, *others), *partition]
