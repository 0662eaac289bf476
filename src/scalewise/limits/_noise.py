r"""Normal numbers: many at once from uniform bits, or spread evenly over the particles.

Two numbers come from two words of 32 bits, $\sqrt{-2\log u}\,(\cos\alpha,\sin\alpha)$, whole arrays at a time: six
times less work than one number after another. They have 24 binary digits, in double precision too, and none
is larger than 6.7: a law within $10^{-7}$ of the normal one, where samples cannot tell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtri

# Numbers at a time: the arrays of the transform stay in the cache.
_BLOCK = 1 << 15
_AHEAD = 1 << 14


def generator(seed: int | Sequence[int] | np.random.Generator) -> np.random.Generator:
    """A stream of numbers from a seed, or the stream given."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed)))


def normal(stream: np.random.Generator, out: np.ndarray) -> None:
    """Fill an array whose numbers lie side by side with independent standard normal ones."""
    flat = out.reshape(-1)
    if not np.shares_memory(flat, out):
        raise AssertionError("the numbers of `out` must lie side by side")
    for start in range(0, flat.size, _BLOCK):
        part = flat[start : start + _BLOCK]
        pairs = (part.size + 1) // 2
        bits = stream.integers(0, 2**64 - 1, pairs, np.uint64, endpoint=True)
        words = bits.view(np.int32).astype(np.float32)
        radius, angle = np.abs(words[:pairs]), words[pairs:]
        # Never zero, whose logarithm is not finite.
        radius += np.float32(0.5)
        radius *= np.float32(2.0**-31)
        np.log(radius, out=radius)
        radius *= np.float32(-2.0)
        np.sqrt(radius, out=radius)
        angle *= np.float32(math.pi * 2.0**-31)
        np.multiply(radius, np.cos(angle), out=part[:pairs])
        radius *= np.sin(angle, out=angle)
        part[pairs:] = radius[: part.size - pairs]


class ParticleNoise:
    """Standard normal rows over the particles of one space, equal in its two halves if `paired`.

    The first `spread` rows are spread: each particle has its law, but together they are not independent points
    but those of a Sobol net, moved as a whole by random bits. Averages over particles are unbiased and far more
    accurate, above all those of the initial network; rows beyond the net are independent.
    """

    def __init__(
        self,
        seed: int | Sequence[int] | np.random.Generator,
        width: int,
        *,
        spread: int = 0,
        paired: bool = False,
    ) -> None:
        self._stream = generator(seed)
        self._own = width // 2 if paired else width
        self._paired = paired
        self._given = 0
        self._ahead = np.empty((0, self._own), np.float32)
        self._shift: Any = np.zeros((0, 1), np.uint32)
        if spread:
            self._shift = self._stream.integers(0, 2**32 - 1, (spread, 1), np.uint32, endpoint=True)

    def fill(self, out: np.ndarray) -> None:
        """Fill the rows of `out` with standard normal numbers."""
        own = np.empty((len(out), self._own), out.dtype) if self._paired else out
        more = min(len(out), len(self._shift) - self._given)
        if more:
            rows = slice(self._given, self._given + more)
            points = _sobol(len(self._shift), max(self._own - 1, 1).bit_length())[rows, : self._own]
            own[:more] = ndtri(((points ^ self._shift[rows]) + 0.5) * 2.0**-32)
            self._given += more
        if more < len(out):
            self._independent(own[more:])
        if self._paired:
            out[:, : self._own] = own
            out[:, self._own :] = own

    def _independent(self, out: np.ndarray) -> None:
        # Of narrow rows many at once: a call costs more than its numbers.
        ahead = min(_AHEAD // self._own, 64)
        if ahead <= len(out):
            normal(self._stream, out)
            return
        done = min(len(out), len(self._ahead))
        out[:done] = self._ahead[:done]
        self._ahead = self._ahead[done:]
        if done < len(out):
            self._ahead = np.empty((ahead, self._own), np.float32)
            normal(self._stream, self._ahead)
            self._independent(out[done:])


@lru_cache(maxsize=4)
def _sobol(dimensions: int, bits: int) -> np.ndarray:
    """The first $2^{bits}$ points of the Sobol sequence, as integers below $2^{32}$; one coordinate a row."""
    from scipy.stats import qmc  # here, because its import takes as long as many a run

    points = qmc.Sobol(dimensions, scramble=False, bits=32).random_base2(bits)
    found = np.ascontiguousarray((points.T * 2.0**32).astype(np.uint32))
    found.flags.writeable = False
    return found
