r"""$P$ to $U$ of any network: its program on single units, with jets of every field.

With letters as numbers whose squares are 0 a function of fields is the same function of truncated polynomials,
averages of norms and of logits included, and random layers have the covariance
$$\Sigma^{S,T}=C_W\mathcal L\langle F^SF^T\rangle+\lambda_W\sum_{a\in S\cap T}\mathcal L\langle F^{S\setminus a}
F^{T\setminus a}\rangle+\delta_{S,T}(\delta_{S,\emptyset}C_b+\delta_{|S|,1}\lambda_b)$$
over all jets and labels. A tensor is a covariance of two influences on such covariances, see
`scalewise.theory.order._responses`. The product of both takes every letter twice, so that signs do in place of the
normal numbers of all jets but $z$ itself. A letter that one influence has twice is not in the other: what is normal
of jets of several letters with such a one among them is there once at most, averages to 0, and is left out, but for
that of the first of the two jets of a pair, along which they covary.

Source: derived; PDLT (11.49), (11.52), (∞.177)-(∞.181) are its values for fully connected layers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.networks.spi import Draw, Program
from scalewise.theory.order._given import Fields, equal
from scalewise.theory.order._influences import scaled, slopes
from scalewise.theory.order._jets import TENSORS, Component, Jet, Pair
from scalewise.theory.order._particles import Particles, Weights, rooted
from scalewise.theory.order._populations import populations

LETTERS = ("P", "Q", "R", "S", "T", "U")


def lifted(function: Callable[..., Any], letters: int) -> Callable[..., Any]:
    """A function of arrays as one of jets (jet, ...).

    The last letter is in the second half of them, which is the derivative of the first.
    """
    if not letters:
        return lambda *x: function(*(part[0] for part in x))[None]
    below, half = lifted(function, letters - 1), 1 << (letters - 1)

    def of_jets(*x: Any) -> Any:
        without, along = (
            tuple(part[own] for part in x) for own in (slice(half), slice(half, None))
        )
        return jnp.concatenate(jax.jvp(below, without, along))

    return of_jets


@dataclass
class UnitJets:
    """The program on weighted units, with jets; the number of a jet has a bit for each of its letters.

    Args:
        made: Units without fields: their shares, covariances with jets, what nodes do that are not random layers.
        letters: How many.
        normals: (jet, label, channel) of every random layer whose units are drawn.
        fields: Of each node (jet, sample, *positions, channel).
    """

    made: Particles
    letters: int
    normals: Mapping[int, Any]
    fields: dict[int, Any] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many jets there are."""
        return 1 << self.letters

    def run(self, wanted: tuple[int, ...]) -> UnitJets:
        """All nodes behind some."""
        program = self.made.program
        for here in program.behind(wanted):
            node = program.nodes[here]
            if here in program.fixed:
                x = self.made.fields[here]
                self.fields[here] = jnp.zeros((self.count, *x.shape)).at[0].set(x)
            elif isinstance(node, Draw):
                self._draw(here)
            else:
                value = lifted(partial(self.made.value, here), self.letters)
                self.fields[here] = value(*(self.fields[k] for k in node.of))
        return self

    def metric(self, node: int) -> Any:
        """The covariance of jets and samples of a field of one site, given what is below where that is a law."""
        if self.made.program.averages_out(((node, 1.0),)):
            return self.made.covariances[node, node]
        z = self._flat(node).reshape(-1, self.fields[node].shape[-1])
        return (z * self.made.shares(node)) @ z.T

    def own_products(self, node: int, at: Any) -> Any:
        """Some products of two jets in each unit less their average, (product, unit).

        Args:
            node: Whose jets.
            at: Which, in the order of `metric`.
        """
        z = self._flat(node).reshape(-1, self.fields[node].shape[-1])
        products = z[at // len(z)] * z[at % len(z)]
        return products - products.mean(axis=1, keepdims=True)

    def _flat(self, node: int) -> Any:
        """(jet, label, channel)."""
        return self.fields[node].reshape(self.count, self.made.labels(node), -1)

    def _draw(self, here: int) -> None:
        program, made = self.made.program, self.made
        calls, size = made.meet(here, self._covariance), self.count * made.labels(here)
        if not calls:
            return
        scale, L = rooted(made.joint(made.covariances, calls))
        g = jnp.concatenate(
            [z.reshape(-1, z.shape[-1]) for z in map(self.normals.__getitem__, calls)]
        )
        z = (scale[-size:, None] * L[-size:]) @ g
        self.fields[here] = z.reshape(self.count, made.inputs, *program.positions[here], -1)

    def _covariance(self, one: int, other: int) -> Any:
        """The covariance of two random layers of the same weights, over jets and labels."""
        made, nodes = self.made, self.made.program.nodes
        (x,), (y,) = nodes[one].of, nodes[other].of
        node = nodes[other]
        assert isinstance(node, Draw)
        average = jnp.einsum("sac,tbc->stab", self._flat(x) * made.shares(x), self._flat(y))
        entering = jax.vmap(jax.vmap(partial(made.entering, one, other)))
        seen, own = entering(average), node.own
        constant = np.zeros((self.count, self.count, 1, 1))
        constant[0, 0] = own.C_b
        learnt = jnp.zeros_like(seen)
        for a in (1 << k for k in range(self.letters)):
            constant[a, a] = own.lambda_b
            have = np.array([S for S in range(self.count) if S & a])
            learnt = learnt.at[np.ix_(have, have)].add(seen[np.ix_(have ^ a, have ^ a)])
        found = own.C_W * seen + own.lambda_W * learnt + constant
        found = (found * made.same_place(one, other)).transpose(0, 2, 1, 3)
        return found.reshape(self.count * made.labels(one), -1)


def third_derivatives(
    fixed: Mapping[int, Any],
    normals: Fields,
    wanted: Sequence[str],
    program: Program,
    ends: tuple[int, ...],
    seed: Sequence[int],
) -> dict[str, np.ndarray]:
    """Tensors by letter, (layer, sample, sample, sample, sample), not yet times the widths of the layers below.

    Args:
        fixed: Fields without weights.
        normals: (label, channel) of every random layer whose units are drawn.
        wanted: Of `LETTERS`; any other four-point tensor of `TENSORS` as well.
        program: The nodes.
        ends: The layers.
        seed: Of the signs of jets.
    """
    rng, found = np.random.default_rng(seed), {}
    samples = len(fixed[min(fixed)])
    for letter in wanted:
        own = TENSORS[letter]
        jets = 1 << len(own.letters)
        once = [_number((x,)) for x in own.letters if not _in_both(x, own)]
        first = [min(map(_number, pair)) for pair in (own.first, own.second or own.first)]
        numbers = {
            k: np.stack([z, *(rng.choice([-1.0, 1.0], z.shape) for _ in range(1, jets))])
            for k, z in normals.items()
        }
        for jet in range(jets):
            if jet & (jet - 1) and jet not in first and any(jet & x for x in once):
                for z in numbers.values():
                    z[jet] = 0.0
        at = np.concatenate([_entries(pair, jets, samples) for pair in (own.first, own.second)])
        rows, alone = _influences(fixed, numbers, at, program=program, ends=ends)
        values = []
        for place in range(len(ends)):
            first, second = np.split(np.asarray(rows[place]), 2)
            values.append(first @ second.T)
            if place in alone:
                first, second = np.split(np.asarray(alone[place]), 2)
                values[-1] -= first @ second.T
        source, target = own.printed.split("->")
        whole = np.stack(values).reshape(-1, *(samples,) * 4)
        found[letter] = np.einsum(f"z{source}->z{target}", whole)
    return found


def _in_both(letter: str, own: Component) -> bool:
    """True if both pairs of a tensor have a letter."""
    assert own.second is not None
    return all(letter in itertools.chain(*pair) for pair in (own.first, own.second))


def _number(jet: Jet) -> int:
    return sum(1 << "abc".index(letter) for letter in jet)


def _entries(pair: Pair | None, jets: int, samples: int) -> np.ndarray:
    """Where (jet, sample, jet, sample) has two jets of all samples."""
    assert pair is not None
    first, second = (_number(jet) * samples + np.arange(samples) for jet in pair)
    return (first[:, None] * jets * samples + second).ravel()


@partial(jax.jit, static_argnames=("program", "ends"))
def _influences(
    fixed: Mapping[int, Any],
    normals: Mapping[int, Any],
    at: Any,
    *,
    program: Program,
    ends: tuple[int, ...],
) -> tuple[Any, dict[int, Any]]:
    """(layer, entry, unit); and of layers, by their place, that neurons remember, their own products."""
    own, (jets, *_) = populations(program, ends), next(iter(normals.values())).shape

    def run(weights: Weights) -> UnitJets:
        made = Particles(program, own, weights, {}, {}, dict(fixed))
        return UnitJets(made, jets.bit_length() - 1, normals).run(ends)

    def values(weights: Weights) -> Any:
        made = run(weights)
        return jnp.concatenate([made.metric(end).ravel()[at] for end in ends])

    weights = equal(own, normals)
    _, found = slopes(values, weights)
    rows = scaled(own, found, centred=True)
    remembered = {k: end for k, end in enumerate(ends) if not program.averages_out(((end, 1.0),))}
    made, alone = run(weights) if remembered else None, {}
    for place, end in remembered.items():
        assert made is not None
        population = own.parts[end][0].population
        products = made.own_products(end, at)
        alone[place] = products / math.sqrt(products.shape[-1] * own.units[population])
    return rows.reshape(len(ends), -1, rows.shape[1]), alone
