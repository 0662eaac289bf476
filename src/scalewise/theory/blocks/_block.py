r"""A block of layers as a map of covariances: two inputs enter as Gaussian fields, and leave as such.

The program of a block begins with a field of any covariance: a random layer of $C_b=0$, $C_W=1$ whose inputs are a
root of it. Its tangents have a covariance of their own, by a random layer of $C_W=0$, $\lambda_W=1$. All other
learning rates are 0. Then the interpreter of infinite width takes tangents through the block by
$$T'_{(as)(bt)}=\sum_{uv}\frac{\partial C'_{(as)(bt)}}{\partial C_{(au)(bv)}}T_{(au)(bv)},\qquad a\ne b,$$
where the covariance of each input with itself stays. At equal inputs this is what becomes of small differences
between them, kinks included, and nothing is subtracted to find it.

Source: PDLT (5.50); for layers with positions and heads derived.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from scalewise.networks.spi import (
    Builder,
    Draw,
    Field,
    Hyperparameters,
    Layer,
    Max,
    Normalise,
    PositionMap,
    Program,
    columns,
)
from scalewise.theory.flow._fields import Fields
from scalewise.theory.flow._positions import Crossed, crossings

_AGREE, _AGREE_DRAWN = 1e-4, 0.05  # of sizes at different positions; eps of norms keeps some apart

# Over pairs of positions, or over positions where each meets itself alone.
Pairs = Float[np.ndarray, "..."]


class BlockStep(NamedTuple):
    """Covariances that leave a block.

    Args:
        K: Of an input with itself.
        C: Of two inputs; that of one, if there is no other.
        T: What has become of a small change of the covariance between two inputs; C if there is none.
    """

    K: Pairs
    C: Pairs
    T: Pairs


@dataclass(frozen=True)
class Block:
    """The program of a block behind a field of any covariance.

    Args:
        program: The nodes.
        last: What leaves it.
        mixes: Whether positions mix, so that all pairs of them are carried.
    """

    program: Program
    last: int
    mixes: bool

    @classmethod
    def of(
        cls, layers: Sequence[Layer], input_shape: tuple[int, ...], usual: Hyperparameters
    ) -> Block:
        """Build a block, or say why its layers are none."""
        entry, out, build = _built(layers, input_shape, usual)
        _check_shape(layers, input_shape, usual, out)
        mixes = _mixes(build.program())
        if not mixes:  # then positions need nothing of each other, and a root is two numbers
            entry, out, build = _built(layers, input_shape, usual, features=(2, 1))
        program = build.program()
        nodes = [
            replace(node, own=replace(node.own, lambda_b=0.0, lambda_W=0.0))
            if isinstance(node, Draw) and here > entry.node
            else node
            for here, node in enumerate(program.nodes)
        ]
        program = replace(program, nodes=tuple(nodes))
        jumping = [sigma.name for sigma in program.activations if not sigma.is_continuous]
        if jumping:
            raise ValueError(
                f"{jumping[0]!r} jumps, so small differences between signals grow without bound. Use an activation "
                "that is continuous."
            )
        if not (out.gaussian or _by_covariance(program, entry.node)):
            raise ValueError(
                f"This block ends with {layers[-1]!r}, whose channels are not Gaussian, and begins with layers "
                "that need to know more of them than their covariance. Move the activation from the end of the "
                "block to its beginning."
            )
        return cls(program, out.node, mixes)

    @property
    def positions(self) -> tuple[int, ...]:
        """Along each axis."""
        return self.program.positions[0]

    @property
    def places(self) -> int:
        """The number of positions."""
        return math.prod(self.positions)

    @property
    def drawn(self) -> bool:
        """True if averages of it are estimated from drawn channels or heads."""
        return bool(self.program.estimated)

    def alike(self, correlation: float) -> Pairs:
        """Correlations of an input with itself: the same between any two positions; 1 where they do not mix."""
        if not self.mixes:
            return np.ones(self.places)
        own = np.full((self.places,) * 2, float(correlation))
        np.fill_diagonal(own, 1.0)
        return own

    def own(self, pairs: Pairs) -> Float[np.ndarray, " place"]:
        """Covariances of each position with itself."""
        return np.diagonal(pairs) if self.mixes else pairs

    def through(
        self,
        K: float | Float[np.ndarray, " place"],
        R: Pairs,
        C: Pairs | None = None,
        T: Pairs | None = None,
        *,
        scramble: int = 0,
    ) -> BlockStep:
        """Take an input through the block, or two that have the same size and the same correlations.

        Args:
            K: Size, one number or one for each position.
            R: Correlations of an input with itself.
            C: Of the first with the second; without it there is one input.
            T: A small change of their covariance, if its own is wanted.
            scramble: Which draws, where averages are estimated.
        """
        sizes = np.sqrt(np.broadcast_to(np.asarray(K, dtype=float), (self.places,)))[:, None]
        count = 1 if C is None else 2
        halves = [self._root((R + s * (R if C is None else C)) / 2) for s in (1, -1)]
        # What is left of 1 by rounding, or by correlations that cannot be, is a size.
        sizes = sizes / np.linalg.norm(np.hstack(halves), axis=1, keepdims=True)
        own = [sizes * np.hstack([halves[0], s * halves[1]]) for s in (1, -1)[:count]]
        tangent = self._root(np.zeros_like(R) if T is None else T)
        x = [np.hstack([math.sqrt(part.shape[1]) * part for part in (a, tangent)]) for a in own]
        inputs = np.reshape(x, (count, *self.positions, -1))
        fields = Fields(self.program, inputs, T is not None, self._crossed, scramble=scramble)
        every, pair = slice(0, count), None
        for here, found in fields.along(every, every, self.last):
            if here == self.last:
                pair = found.each(self._laid_out)
        assert pair is not None
        averages = [(pair.C[0, 0] + pair.C[-1, -1]) / 2]
        averages += [
            averages[0] if A is None else (A[0, -1] + A[-1, 0]) / 2 for A in (pair.C, pair.T)
        ]
        return BlockStep(*averages)

    def evenly(self, K: Pairs) -> float:
        """The size that all positions have, or a sentence why they differ."""
        own = self.own(K)
        low, high = float(own.min()), float(own.max())
        if high - low > (_AGREE_DRAWN if self.drawn else _AGREE) * high:
            here, there = (
                np.unravel_index(k, self.positions) for k in (own.argmin(), own.argmax())
            )
            raise ValueError(
                f"This block leaves {low:.6g} at position {tuple(map(int, here))} and {high:.6g} at "
                f"{tuple(map(int, there))} of signals that have the same size everywhere, so it has no "
                "susceptibility of its own: something in it sees the ends, or weighs positions differently. Use "
                "padding='circular', or a norm at the end of the block."
            )
        return float(own.mean())

    def _root(self, pairs: Pairs) -> Float[np.ndarray, "place feature"]:
        if not self.mixes:
            return np.sqrt(np.maximum(pairs, 0.0))[:, None]
        values, vectors = np.linalg.eigh(pairs)
        return vectors * np.sqrt(np.maximum(values, 0.0))

    @cached_property
    def _crossed(self) -> list[Crossed]:
        return crossings(self.program, [self.last] if self.mixes else [])

    def _laid_out(self, A: np.ndarray) -> np.ndarray:
        """(input, input, place, place), or without the last axis where positions do not mix."""
        inputs = A.shape[:2]
        if not all(self._crossed[self.last]) or not self.positions:
            return A.reshape(*inputs, -1).copy()
        whole = A.reshape(*inputs, self.places, self.places)
        return whole.copy() if self.mixes else np.einsum("abpp->abp", whole).copy()


def _built(
    layers: Sequence[Layer],
    input_shape: tuple[int, ...],
    usual: Hyperparameters,
    features: tuple[int, int] | None = None,
) -> tuple[Field, Field, Builder]:
    """The entry of a block, its end, and the program so far."""
    build = Builder(input_shape[-1], usual)
    places = math.prod(input_shape[:-1])
    features = features or (2 * places, places)
    source = build.source((*input_shape[:-1], sum(features)))
    parts = [
        build.read(source, columns, size, given=(start, start + size), said="root of a covariance")
        for start, size in zip((0, features[0]), features, strict=True)
    ]
    rates = Hyperparameters(0.0, 1.0, 0.0, 0.0), Hyperparameters(0.0, 0.0, 0.0, 1.0)
    drawn = [build.draw(part, own=own) for part, own in zip(parts, rates, strict=True)]
    entry = build.add((drawn[0], drawn[1]), (1.0, 1.0))
    return entry, build.run(layers, entry), build


def _check_shape(
    layers: Sequence[Layer], input_shape: tuple[int, ...], usual: Hyperparameters, out: Field
) -> None:
    """Refuse layers that cannot follow themselves, and name the last one that changes their shape."""

    def shape(field: Field) -> tuple[object, ...]:
        return (*field.positions, field.channels, field.flat)

    wanted = (*input_shape, False)
    if shape(out) == wanted:
        return
    after = [wanted] + [
        shape(_built(layers[:k], input_shape, usual)[1]) for k in range(1, len(layers) + 1)
    ]
    last = max(k for k in range(1, len(after)) if after[k] != after[k - 1])
    told = "one site of all positions" if out.flat else " x ".join(map(str, after[-1][:-1]))
    raise ValueError(
        f"A block that is repeated gives what it takes, here {' x '.join(map(str, input_shape))} (positions, then "
        f"channels), and layer {last}, {layers[last - 1]!r}, leaves {told}. Leave it out, or let the block end as "
        "it begins."
    )


def _mixes(program: Program) -> bool:
    """True if something takes different positions of one field to the same."""
    paired = crossings(replace(program, estimated=frozenset()))
    return any(isinstance(node, Max) for node in program.nodes) or any(
        each and size > 1
        for own, sizes in zip(paired, program.positions, strict=True)
        for each, size in zip(own, sizes, strict=True)
    )


def _by_covariance(program: Program, entry: int) -> bool:
    """True if all that reads a field needs its covariance alone."""
    fields = {entry}
    for here, node in enumerate(program.nodes):
        if fields.isdisjoint(node.of) or isinstance(node, Draw):
            continue
        if not (
            isinstance(node, PositionMap) or (isinstance(node, Normalise) and not node.centred)
        ):
            return False
        fields.add(here)
    return True
