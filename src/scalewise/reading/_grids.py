"""An array of entries by sample, position and channel."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from scalewise.reading._fields import Entries, KnownField, ModelFields
from scalewise.reading._moves import laid_out, numbered


@dataclass(frozen=True)
class FieldGrid:
    """Entries by sample, position and channel, as the array that holds them lies.

    Args:
        ids: (sample, position, channel).
        positions: Along each axis.
        where: Of each entry of the array its sample, position and channel.
    """

    ids: Entries
    positions: tuple[int, ...]
    where: tuple[np.ndarray, np.ndarray, np.ndarray]

    @classmethod
    def of(cls, fields: ModelFields, entries: Entries, flat: bool) -> FieldGrid:
        """Channels are the axes along which they change, and other axes are positions or samples.

        Args:
            fields: All fields.
            entries: The array.
            flat: Whether positions are one axis in any case.
        """
        d = fields.decoded(entries)
        there = d.owner >= 0
        axes = [a for a in range(entries.ndim) if _changes(d.channel, a, there)]
        pure = [a for a in axes if not _changes(d.position, a, there)]
        axes = pure if len(axes) > 1 else axes
        order = [a for a in range(entries.ndim) if a not in axes] + axes
        lead = entries.ndim - len(axes)

        def apart(a: np.ndarray) -> np.ndarray:
            a = a.transpose(order)
            return a.reshape(*a.shape[:lead], -1)

        ids, owner, position = map(apart, (entries, d.owner, d.position))
        sample = sample_of_rows(fields, ids)
        owners = [fields.known[k] for k in np.unique(owner) if k >= 0]
        key = numbered(np.stack([owner.max(axis=-1), position.max(axis=-1)], axis=-1))
        positions, index = kept(owners, sample, position.max(axis=-1)) or laid_out(
            sample, key, flat
        )
        shape = (int(sample.max()) + 1, math.prod(positions), ids.shape[-1])
        grid = np.zeros(shape, dtype=int)
        grid[sample, index] = ids
        channel = np.broadcast_to(np.arange(shape[-1]), ids.shape)
        back = np.argsort(order)

        def together(a: np.ndarray) -> np.ndarray:
            a = np.broadcast_to(a, ids.shape)
            return a.reshape([entries.shape[k] for k in order]).transpose(back)

        where = together(sample[..., None]), together(index[..., None]), together(channel)
        return cls(grid, positions, where)

    def channels(self, low: int, high: int) -> FieldGrid:
        """Some channels."""
        return replace(self, ids=self.ids[:, :, low:high])

    def slab(self, axis: int, low: int, high: int) -> FieldGrid:
        """Some positions along an axis."""
        index = np.arange(self.ids.shape[1]).reshape(self.positions)
        some = np.take(index, np.arange(low, high), axis=axis)
        return replace(self, ids=self.ids[:, some.ravel()], positions=some.shape)

    def entries(self, made: KnownField) -> Entries:
        """This array, of the entries of a field that lies so."""
        s, p, c = self.where
        s = s if made.samples > 1 else np.zeros_like(s)
        return made.start + (s * made.places + p) * made.channels + c


def kept(
    owners: list[KnownField], sample: np.ndarray, position: np.ndarray
) -> tuple[tuple[int, ...], np.ndarray] | None:
    """The positions of the only owner, if each of them is there once; else ``None``."""
    if len(owners) != 1 or position.min() < 0:
        return None
    (own,) = owners
    both = np.unique(sample * own.places + position)
    if both.size != sample.size or both.size != (int(sample.max()) + 1) * own.places:
        return None
    return own.positions, position


def sample_of_rows(fields: ModelFields, rows: Entries) -> np.ndarray:
    """The sample of each row of entries; of what is the same for all samples, as the axis of the others says."""
    d = fields.decoded(rows)
    counts = np.array([k.samples for k in fields.known])
    known = (d.owner >= 0) & (counts[np.maximum(d.owner, 0)] > 1)
    sample = np.where(known, d.sample, -1).max(axis=-1)
    if np.any(known & (d.sample != sample[..., None])):
        raise MixedSamplesError(
            "The model puts numbers of different samples together. Samples must be independent."
        )
    if sample.min() < 0 <= sample.max():
        for axis in range(sample.ndim):
            line = np.moveaxis(sample, axis, 0).reshape(sample.shape[axis], -1)
            told = line.max(axis=1)
            pure = np.all((line == told[:, None]) | (line < 0)) and told.min() >= 0
            if pure and len(np.unique(told)) > 1:
                shape = [-1 if a == axis else 1 for a in range(sample.ndim)]
                return np.broadcast_to(told.reshape(shape), sample.shape)
    return np.maximum(sample, 0)


class MixedSamplesError(ValueError):
    """Samples are put together."""


def _changes(values: np.ndarray, axis: int, there: np.ndarray) -> bool:
    high = np.where(there, values, -1).max(axis=axis, keepdims=True)
    return bool(np.any((values != high) & there))
