"""Products of two fields: logits of an attention, their softmax, and what it makes of its values."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from scalewise.networks.spi import Matrix, Normalise
from scalewise.reading._fields import (
    Entries,
    Function,
    KnownField,
    LogitsOf,
    Made,
    Shares,
    Turned,
    distinct,
)
from scalewise.reading._reader import ModelReader
from scalewise.reading._trees import norm_in, softmax_in


def shares_of(read: ModelReader, own: Entries) -> tuple[KnownField, Entries] | None:
    """Entries as weights of positions: what a function makes of logits tells whether it is their softmax."""
    owners = read.fields.owners(own)
    if len(owners) != 1:
        return None
    (known,) = owners
    if isinstance(known.what, Shares):
        return known, own
    logits = read.source(known).what
    if not isinstance(logits, LogitsOf):
        return None
    _, tree = read.tree(known)
    factor = None if known.channels == 1 else softmax_in(tree, known.channels)
    if factor is None:
        raise read.refuse(
            "weighs positions by something other than the softmax of logits. Take their softmax."
        )
    added = None if logits.added is None else factor * logits.added
    made = read.new(known, Shares(replace(logits, scale=factor * logits.scale, added=added)))
    return made, own - known.start + made.start


def _asked(read: ModelReader, x: Entries) -> tuple[KnownField, Entries, float, Normalise | None]:
    """Queries or keys: a field, its entries, the number by which it is multiplied, and the norm of its heads."""
    known, x = read.settled(x)
    of, factor, norm = known, 1.0, None
    if isinstance(of.what, Turned):
        of = read.fields.known[of.what.of]
    terms = read.terms(of)
    if (
        len(terms) == 1
        and (own := next(iter(terms.items())))
        and read.fields.known[own[0]].size == of.size
    ):
        of, factor = read.fields.known[own[0]], factor * own[1]
    if isinstance(of.what, Function) and (found := norm_in(of.what.tree)) and found.groups > 1:
        norm = Normalise((), found.eps, found.centred)
        factor *= found.factor
        of = read.fields.known[of.what.of]
    return of, x - known.start + of.start, factor, norm


def _turns(read: ModelReader, x: Entries, size: int) -> Matrix | None:
    """The matrices of positions by which heads are multiplied; ``None`` if they are not."""
    known, _ = read.settled(x)
    what = known.what
    if not isinstance(what, Turned):
        return None
    full = np.zeros((known.places, known.channels, known.channels))
    for order, by in what.terms:
        at: Any = (slice(None), np.arange(known.channels), order)
        np.add.at(full, at, by)
    heads = full.reshape(known.places, known.channels // size, size, known.channels // size, size)
    own = heads[:, 0, :, 0]
    rest = heads - np.einsum("gh,pij->pgihj", np.eye(heads.shape[1]), own)
    if np.abs(rest).max() > 1e-6:
        raise read.refuse(
            "multiplies channels of its heads by numbers that differ from head to head. Let parameters do that."
        )
    return Matrix.of(own.reshape(known.places, -1))


def logits_of(read: ModelReader, q: Entries, k: Entries) -> Entries:
    """Products of queries and keys (..., position, channel) in heads."""
    k, times = _alone(read, k)
    if read.settled(q)[0].channels < read.settled(k)[0].channels:  # those of fewer heads are keys
        return np.swapaxes(logits_of(read, k, q), -1, -2)
    turns = _turns(read, q, q.shape[-1]), _turns(read, k, q.shape[-1])
    if (turns[0] is None) != (turns[1] is None):
        raise read.refuse("turns queries or keys alone by their positions. Turn both.")
    queries, q, f, norm = _asked(read, q)
    keys, k, g, its = _asked(read, k)
    k = k if times == 1 else np.repeat(k, times, axis=-3)
    if norm != its:
        raise read.refuse("norms queries or keys alone. Normalise both of them alike.")
    a, b = read.fields.decoded(q), read.fields.decoded(k)
    size = q.shape[-1]
    head = a.channel[..., 0] // size
    wanted = head[..., None] * size + np.arange(size)
    group = max(1, queries.channels // keys.channels)
    same = np.array_equal(a.channel, wanted) and np.all(
        head // group == b.channel[..., :1, 0] // size
    )
    if (
        not same
        or np.any(b.channel != b.channel[..., :1, :])
        or np.any(a.position != a.position[..., :1])
    ):
        raise read.refuse(
            "multiplies two fields over channels that are not those of equal heads. Attention has queries and keys "
            "of equal heads, each of channels that follow one another, as heads that share a key do."
        )
    if np.any(a.sample[..., 0] != b.sample[..., :1, 0]):
        raise read.refuse("compares different samples. Samples must be independent of each other.")
    heads = queries.channels // size
    both = None if turns[0] is None or turns[1] is None else (turns[0], turns[1])
    what = LogitsOf(queries.number, keys.number, size, f * g, turns=both, norm=norm, group=group)
    made = read.fields.new(queries.samples, (heads, queries.places), keys.places, what)
    index = (a.sample[..., 0] * heads + head) * queries.places + a.position[..., 0]
    return made.start + index[..., :, None] * keys.places + b.position[..., None, :, 0]


def _alone(read: ModelReader, x: Entries) -> tuple[Entries, int]:
    """Keys or values (..., position, channel), once where heads in a row have the same; and how many have it."""
    times = x.size // max(1, distinct(x))
    if times == 1 or x.ndim < 3:
        return x, 1
    once = x[..., ::times, :, :]
    if x.shape[-3] % times or not np.array_equal(np.repeat(once, times, axis=-3), x):
        raise read.refuse(
            "has keys or values that several heads share which do not follow one another. Give those of one group "
            "numbers in a row, as repeat_interleave does."
        )
    return once, times


def softmax(read: ModelReader, x: Entries, axis: int) -> Entries:
    """Weights of positions from logits."""
    (known,) = read.fields.owners(x) or (None,)
    if known is None or not isinstance(known.what, LogitsOf):
        raise read.refuse("takes a softmax of something other than the logits of an attention.")
    d = read.fields.decoded(x)
    if x.shape[axis] != known.channels or np.any(d.position != d.position.take([0], axis=axis)):
        raise read.refuse(
            "takes a softmax over something other than all positions that are looked at."
        )
    made = read.new(known, Shares(known.what))
    return x - known.start + made.start


def attended(read: ModelReader, shares: KnownField, p: Entries, v: Entries) -> Entries:
    """Averages of values (..., other, channel) by weights (..., position, other)."""
    what = shares.what
    assert isinstance(what, Shares)
    logits = what.logits
    v, times = _alone(read, v)
    values, v = read.settled(v)
    v = v if times == 1 else np.repeat(v, times, axis=-3)
    a, b = read.fields.decoded(p), read.fields.decoded(v)
    heads, places = shares.positions
    size = v.shape[-1]
    head, row = a.position // places, a.position % places
    own = head[..., :1] // logits.group
    if (
        size * heads != values.channels * logits.group
        or np.any(own != own[..., :1, :])
        or np.any(b.channel != own[..., :1, :] * size + np.arange(size))
        or np.any(a.channel != np.swapaxes(b.position[..., :, :1], -1, -2))
    ):
        raise read.refuse(
            "averages channels that are not those of the heads of its logits. Give values equal heads."
        )
    q = read.fields.known[logits.queries]
    power = _power(read, logits)
    causal, bias = _added(read, logits, (*shares.positions, shares.channels))
    given = (size, power, causal, logits.turns, logits.norm, logits.group, bias)
    made = read.fields.new(
        values.samples,
        q.positions,
        size * heads,
        Made("attend", (q.number, logits.keys, values.number), given),
    )
    index = (a.sample[..., 0] * places + row[..., 0]) * made.channels
    channel = head[..., 0] * size
    return made.start + index[..., None] + channel[..., None] + np.arange(size)


def _power(read: ModelReader, logits: LogitsOf) -> float:
    if logits.scale <= 0:
        raise read.refuse("multiplies logits by a negative number. Let it be positive.")
    if logits.size == 1:
        if logits.scale != 1:
            raise read.refuse("has heads of one channel, with a scale. Give heads more channels.")
        return 0.5
    power = -math.log(logits.scale) / math.log(logits.size)
    near = round(2 * power) / 2
    return near if abs(power - near) < 1e-6 else power


def _added(
    read: ModelReader, logits: LogitsOf, shape: tuple[int, ...]
) -> tuple[bool, tuple[Matrix, ...]]:
    """Whatever is added to logits, (head, position, other): true if it masks what follows; and numbers of heads."""
    if logits.added is None:
        return False, ()
    added = logits.added.reshape(shape)
    seen = added > -1e3
    causal = not seen.all()
    if causal and np.any(seen != np.tri(*shape[1:], dtype=bool)):
        raise read.refuse(
            "masks positions otherwise than those that follow. Use a causal mask or none."
        )
    bias = np.where(seen, added, 0.0)
    if not bias.any():
        return causal, ()
    heads = len(bias)
    kinds = next(
        n
        for n in range(1, heads + 1)
        if heads % n == 0 and np.array_equal(np.tile(bias[:n], (heads // n, 1, 1)), bias)
    )
    return causal, tuple(map(Matrix.of, bias[:kinds]))
