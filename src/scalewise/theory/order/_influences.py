r"""$V$, $D$, $A$, $B$ and $F$: covariances of the influences of single units.

Of two letters $a$, $b$, independent given the path $z$ of a unit, with $R'$ the influence of a unit on an average,
$$V=\langle z_1z_2\rangle'\,\langle z_3z_4\rangle',\quad D=\langle z_1z_2\rangle'\,\langle z^a_3z^a_4\rangle',\quad
  A=\langle z^a_1z^a_2\rangle'\,\langle z^b_3z^b_4\rangle',\quad
  B=\langle z^a_1z^b_3\rangle'\,\langle z^a_2z^b_4\rangle',\quad
  F=\langle z_1z^a_3\rangle'\,\langle z_2z^a_4\rangle',$$
on average over units. Those of the first three are averages over the tangents of a unit given its path, by hand. Of
the last two they are linear in the tangents of each letter, whose columns or draws are summed over.

What two inputs have in common takes these two inputs alone: of many labels the program runs on one pair of inputs
after the other, on the same paths.

Source: derived; PDLT (4.119), (8.77), (8.79), (8.89), (8.97) are its values for fully connected layers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.networks.spi import Program
from scalewise.theory.order._charged import Charged, own_tangents
from scalewise.theory.order._given import GivenUnits, equal
from scalewise.theory.order._letters import Letters
from scalewise.theory.order._particles import Particles, Weights
from scalewise.theory.order._populations import Populations, populations

# Which averages are multiplied: of two fields, of a field and a tangent, of two tangents of one or of two letters.
FACTORS = {
    "V": ("zz", "zz"),
    "D": ("zz", "aa"),
    "A": ("aa", "aa"),
    "B": ("ab", "ab"),
    "F": ("za", "za"),
}
_SYMMETRIC = ("zz", "aa")
_TOGETHER = 64  # labels of a layer: beyond them pairs of inputs one after the other

Entries = tuple[tuple[int, int], ...]
Rows = dict[str, Any]  # by average (layer, entry, unit)


@dataclass(frozen=True)
class InfluenceBlock:
    """Inputs that a program runs on, and which of their pairs are read off.

    Args:
        inputs: Which.
        symmetric: Pairs of these, by their place, of averages that have no order.
        ordered: Pairs of others.
    """

    inputs: tuple[int, ...]
    symmetric: Entries
    ordered: Entries


def blocks(inputs: int, labels: int) -> Iterator[InfluenceBlock]:
    """All at once if there are few labels, or one after another in pairs.

    Args:
        inputs: How many.
        labels: Of one input in the largest layer.
    """
    if inputs * labels <= _TOGETHER:
        pairs = tuple(itertools.combinations_with_replacement(range(inputs), 2))
        yield InfluenceBlock(
            tuple(range(inputs)), pairs, tuple(itertools.product(range(inputs), range(inputs)))
        )
        return
    for a in range(inputs):
        yield InfluenceBlock((a,), ((0, 0),), ((0, 0),))
    for a, b in itertools.combinations(range(inputs), 2):
        yield InfluenceBlock((a, b), ((0, 1),), ((0, 1), (1, 0)))


def rows_of(
    fixed: Mapping[int, Any],
    given: GivenUnits,
    own: InfluenceBlock,
    averages: Sequence[str],
    program: Program,
    ends: tuple[int, ...],
) -> tuple[Rows, Rows]:
    """Influences on the pairs of a block, and those of a neuron on itself, where it remembers."""
    at = np.array(own.inputs)
    some = [
        {k: np.asarray(x)[..., at, *(slice(None),) * len(program.positions[k]), :] for k, x in of.items()}
        for of in (fixed, given.paths, given.tangents)
    ]  # fmt: skip
    entries = own.symmetric, own.ordered
    return _rows(
        *some, averages=tuple(averages), entries=entries, program=program, ends=ends, exact=given.exact
    )  # fmt: skip


@partial(jax.jit, static_argnames=("averages", "entries", "program", "ends", "exact"))
def _rows(
    fixed: Mapping[int, Any],
    paths: Mapping[int, Any],
    given: Mapping[int, Any],
    *,
    averages: tuple[str, ...],
    entries: tuple[Entries, Entries],
    program: Program,
    ends: tuple[int, ...],
    exact: bool,
) -> tuple[Rows, Rows]:
    own = populations(program, ends)
    weights = equal(own, paths)
    symmetric, ordered = (tuple(np.array(pairs).T) for pairs in entries)
    neutral = [name for name in averages if name in _SYMMETRIC]
    charged = [name for name in averages if name not in _SYMMETRIC]
    rows: Rows = {}

    def values(now: Weights) -> Any:
        made = Particles.run(program, ends, fixed, now, paths=paths)
        letters = Letters(made)
        read: dict[str, Callable[[int], Any]] = {"zz": made.metric, "aa": letters.ntk}
        return _read([read[name](end) for name in neutral for end in ends], symmetric)

    if neutral:
        _, found = slopes(values, weights)
        for place, name in enumerate(neutral):
            size = len(ends) * len(entries[0])
            part = {
                p: own_slopes[place * size : (place + 1) * size] for p, own_slopes in found.items()
            }
            rows[name] = _laid(scaled(own, part, centred=True), ends)
    made = Particles.run(program, ends, fixed, weights, paths=paths)
    mine = own_tangents(made, given) if charged else {}
    for name in charged:
        copies = len(next(iter(given.values())))
        lead = (copies,) if name == "za" else (copies, copies)
        nothing = {p: jnp.zeros((*lead, len(w))) for p, w in weights.items()}
        _, found = slopes(partial(_CHARGED[name], made, mine, ends, ordered), nothing)
        if name == "ab" and not exact:
            found = {p: of_different(part) for p, part in found.items()}
        rows[name] = _laid(scaled(own, found), ends)
    alone = _alone(made, mine, averages, (symmetric, ordered), ends, exact=exact)
    return rows, alone


def _of_one(made: Particles, mine: Any, ends: tuple[int, ...], at: Any, weights: Weights) -> Any:
    """Averages of a field and a tangent, as weights of tangents move them."""
    found = Charged.run(made, mine, weights, ends)
    return _read([found.metric(end) for end in ends], at)


def _of_two(made: Particles, mine: Any, ends: tuple[int, ...], at: Any, weights: Weights) -> Any:
    """Averages of tangents of two letters, as weights (copy, copy of the other, unit) move them."""

    def own(one: int, other: int) -> Any:
        left, right = (mine[k].reshape(len(mine[k]), made.labels(k), -1) for k in (one, other))
        shares = made.shares(one, weights)
        return jnp.einsum("dsn,dtn->st", jnp.einsum("cdn,csn->dsn", shares, left), right)

    letters = Letters(made, own=own, moving=False)
    return _read([letters.ntk(end) for end in ends], at)


_CHARGED = {"za": _of_one, "ab": _of_two}


def _alone(
    made: Particles, mine: Any, averages: Sequence[str], entries: Any, ends: tuple[int, ...], *, exact: bool
) -> Rows:  # fmt: skip
    """Own products of layers that neurons remember, scaled like influences."""
    symmetric, ordered = entries
    found: Rows = {name: {} for name in averages}
    for end in ends:
        if made.program.averages_out(((end, 1.0),)):
            continue
        z, population = made.flat(end), made.own.parts[end][0].population
        scale = math.sqrt(z.shape[1] * made.own.units[population])
        first, second = symmetric
        square = z[first] * z[second]
        parts = {"zz": square - square.mean(axis=1, keepdims=True)}
        if mine:
            a = mine[end].reshape(len(mine[end]), *z.shape).swapaxes(0, 1)
            first, second = ordered
            parts["za"] = (z[first, None] * a[second]).reshape(len(first), -1)
            both = a[first][:, :, None] * a[second][:, None]
            parts["ab"] = (both if exact else of_different(both)).reshape(len(first), -1)
        for name in averages:
            if (
                name in parts
            ):  # of tangents of one letter there is nothing that differs from neuron to neuron
                found[name][end] = parts[name] / scale
    return found


def of_different(found: Any) -> Any:
    """(..., copy, other copy, unit) of independent draws: two letters have none in common."""
    copies = found.shape[-2]
    apart = (1 - np.eye(copies)) * math.sqrt(copies / (copies - 1))
    return found * apart[:, :, None]


def slopes(values: Callable[[Weights], Any], weights: Weights) -> tuple[Any, Weights]:
    """A list of numbers, and their derivatives one after the other, so that one pass back is in memory."""
    found, back = jax.vjp(values, weights)
    (own,) = jax.lax.map(back, jnp.eye(len(found)))
    return found, own


def scaled(own: Populations, found: Weights, *, centred: bool = False) -> Any:
    """Influences (entry, ..., unit) times the root of what a unit weighs: their products are covariances."""
    parts = []
    for p in own.units:
        part = found[p] - found[p].mean(axis=-1, keepdims=True) if centred else found[p]
        parts.append(part.reshape(len(part), -1) / math.sqrt(part.shape[-1] * own.units[p]))
    return jnp.concatenate(parts, axis=1)


def _read(metrics: Sequence[Any], at: Any) -> Any:
    return jnp.concatenate([metric[at] for metric in metrics])


def _laid(found: Any, ends: tuple[int, ...]) -> Any:
    """(layer, entry, unit)."""
    return found.reshape(len(ends), -1, found.shape[1])


class Gathered:
    """Influences of one scramble on all pairs of inputs, and what they give.

    Args:
        inputs: How many.
        ends: The layers.
        letters: Which tensors.
    """

    def __init__(self, inputs: int, ends: tuple[int, ...], letters: Sequence[str]) -> None:
        self.inputs, self.ends, self.letters = inputs, ends, letters
        self.rows: dict[str, np.ndarray] = {}
        self.alone: dict[str, dict[int, np.ndarray]] = {}

    def add(self, own: InfluenceBlock, found: tuple[Rows, Rows]) -> None:
        """Add the units of a block."""
        rows, alone = found
        for name, values in rows.items():
            at = self._places(own, name)
            if name not in self.rows:
                shape = (len(self.ends), self._count(name), values.shape[2])
                self.rows[name] = np.empty(shape)
            self.rows[name][:, at] = values
        for name, ends in alone.items():
            for end, values in ends.items():
                whole = self.alone.setdefault(name, {})
                if end not in whole:
                    whole[end] = np.empty((self._count(name), values.shape[1]))
                whole[end][self._places(own, name)] = values

    def tensors(self, below: Sequence[int]) -> dict[str, np.ndarray]:
        """(layer, entry, entry) of each letter, times the widths of the layers below."""
        found = {}
        for letter in self.letters:
            left, right = FACTORS[letter]
            values = np.stack(
                [a @ b.T for a, b in zip(self.rows[left], self.rows[right], strict=True)]
            )
            for number, end in enumerate(self.ends):
                first, second = (self.alone.get(name, {}).get(end) for name in (left, right))
                if first is not None and second is not None:
                    values[number] -= first @ second.T
            found[letter] = np.array(below)[:, None, None] * values
        return found

    def _count(self, name: str) -> int:
        return len(place(self.inputs)[1]) if name in _SYMMETRIC else self.inputs**2

    def _places(self, own: InfluenceBlock, name: str) -> list[int]:
        pairs = own.symmetric if name in _SYMMETRIC else own.ordered
        among = [(own.inputs[a], own.inputs[b]) for a, b in pairs]
        if name in _SYMMETRIC:
            return [int(place(self.inputs)[0][pair]) for pair in among]
        return [a * self.inputs + b for a, b in among]


def place(samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the pair (a, b) stands in the list of pairs a <= b; and the list's first members."""
    found = np.zeros((samples, samples), dtype=int)
    first, second = np.triu_indices(samples)
    found[first, second] = found[second, first] = np.arange(len(first))
    return found, first


def expanded(letter: str, values: np.ndarray, inputs: int) -> np.ndarray:
    """(layer, sample, sample, sample, sample) from (layer, entry, entry)."""
    flat = place(inputs)[0].ravel()
    for axis, name in enumerate(FACTORS[letter], 1):
        values = np.take(values, flat, axis=axis) if name in _SYMMETRIC else values
    return values.reshape(len(values), *(inputs,) * 4)
