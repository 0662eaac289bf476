"""Sequences of symbols that decoders learn: letters of a text, and symbols of a teacher that reads four."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from scalewise.experiments._readers import read_bytes

TASKS = ("text", "teacher")
_SYMBOLS, _READS, _HIDDEN, _GAIN = 32, 4, 64, 4.0
_CHAINS = 1000  # of the teacher, one behind the other


class Corpus(NamedTuple):
    """A sequence.

    Args:
        symbols: How many there are.
        tokens: Their numbers, one after the other.
    """

    symbols: int
    tokens: np.ndarray

    @property
    def unigram(self) -> float:
        """The loss of the best constant predictor, in nats."""
        share = np.bincount(self.tokens, minlength=self.symbols) / self.tokens.size
        share = share[share > 0]
        return float(-(share * np.log(share)).sum())


@lru_cache(maxsize=2)
def corpus(task: str, length: int) -> Corpus:
    """The first symbols of a task.

    Args:
        task: One of `TASKS`.
        length: How many.
    """
    if task == "teacher":
        return Corpus(_SYMBOLS, _taught(length))
    letters, tokens = np.unique(read_bytes(length), return_inverse=True)
    return Corpus(len(letters), tokens.astype(np.int64))


def _taught(length: int) -> np.ndarray:
    r"""Drawn from a softmax of $W\tanh(\sum_j U_jx_{t-j})$ of the last four symbols, weights of a fixed seed.

    One symbol tells little of the next: networks learn the frequencies, then rest, and begin with the rest late.
    """
    rng = np.random.default_rng(0)
    U = rng.standard_normal((_READS, _SYMBOLS, _HIDDEN)) / np.sqrt(_READS)
    W = rng.standard_normal((_HIDDEN, _SYMBOLS)) * _GAIN / np.sqrt(_HIDDEN)
    last = rng.integers(_SYMBOLS, size=(_CHAINS, _READS))
    begun, rows = 20, []
    for _ in range(begun - (-length // _CHAINS)):
        hidden = np.tanh(sum(U[j][last[:, j]] for j in range(_READS)))
        odds = np.exp(hidden @ W)
        edges = (odds / odds.sum(axis=1, keepdims=True)).cumsum(axis=1)
        drawn = (edges < rng.random((_CHAINS, 1))).sum(axis=1).clip(max=_SYMBOLS - 1)
        last = np.concatenate([last[:, 1:], drawn[:, None]], axis=1)
        rows.append(drawn)
    return np.array(rows[begun:]).T.ravel()[:length].astype(np.int64)
