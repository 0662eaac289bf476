"""Expectations over four of a few samples as whole arrays, each entry as accurate as asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.theory.flow._layer import Family, Layer
from scalewise.theory.flow._trajectory import Part, Parts
from scalewise.training.tiles._conditioned import Conditioned
from scalewise.training.tiles._rules import Accuracy
from scalewise.training.tiles._sums import blocks
from scalewise.training.tiles._tiles import Kept, Tile

Matrix = Float[np.ndarray, "sample sample"]


@dataclass(frozen=True)
class Layers:
    """Makes layers of one accuracy; the same one for the same kernel.

    Args:
        accuracy: Of expectations of three and four samples.
    """

    accuracy: Accuracy
    _made: dict[bytes, Whole] = field(default_factory=dict)

    def __call__(self, sigma: Activation, K: Matrix) -> Whole:
        return self._made.setdefault(K.tobytes(), Whole(sigma, K, self.accuracy))

    @property
    def left_out(self) -> float:
        """At most, relative to a product of four factors: what the accuracy allows, and series that end early."""
        return max((layer.open for layer in self._made.values()), default=0.0)


class Whole(Layer):
    """The expectations of one layer: of three and four samples, given two of them.

    Args:
        sigma: The activation, smooth.
        K: The kernel of the layer.
        accuracy: Of expectations.
    """

    layer = 0

    def __init__(self, sigma: Activation, K: Matrix, accuracy: Accuracy) -> None:
        super().__init__(sigma, K)
        self.given = Conditioned(sigma, K, accuracy)

    @property
    def inner(self) -> int:
        """Nodes of all terms of the series: multiplications for an expectation of four samples."""
        return sum(self.given.rule.nodes)

    @property
    def open(self) -> float:
        """What series leave out that end early, as far as two samples are one, given others."""
        given, every = self.given, np.arange(len(self.K))
        a, b = np.triu_indices(len(every))
        R = np.abs(given.left(a, b, every, every)) * (1 - np.eye(len(every)))
        terms = max(given.rule.terms, given.line.terms)
        return float(np.max(R, initial=0.0) ** terms * max(given.rule.open, given.line.open))

    def of_source(self) -> Parts:
        """Symmetric in the two pairs, of which one was given."""
        pairs = self.pairs
        whole = self.of_family((0, 0, 0, 0))["covariance"].value[:, pairs.first, pairs.second]
        found = whole[:, :, pairs.first, pairs.second]
        found = 0.5 * (found + found.swapaxes(1, 2))
        return {"source": Part(found, np.zeros(found.shape[1:]))}

    def of_family(self, family: Family) -> Parts:
        """Of this kernel, given the last two."""
        if family not in self._families:
            left, right = self.M(*family[:2]), self.M(*family[2:])
            found = self._whole(family) - left[:, :, None, None] * right
            none = np.zeros_like(self.K)
            self._families[family] = {
                "covariance": Part(found[None], np.zeros_like(found)),
                "left": Part(left[None], none),
                "right": Part(right[None], none),
            }
        return self._families[family]

    def _whole(self, family: Family) -> Float[np.ndarray, "sample sample sample sample"]:
        found = np.empty((len(self.K),) * 4)
        for first, second, tile in self._tiles:
            found[:, :, first, second] = tile.four(self, *enumerate(family))
        return found

    @cached_property
    def _tiles(self) -> list[tuple[slice, slice, Tile]]:
        """All samples twice, and every two blocks of them."""
        count = len(self.K)
        every = np.arange(count)
        rows = list(blocks([self], count, count))
        shared: Kept = {}
        kept: list[Kept] = [{} for _ in rows]
        return [
            (
                slice(one[0], one[-1] + 1),
                slice(two[0], two[-1] + 1),
                Tile((every, every, one, two), (shared, kept[i], kept[j])),
            )
            for i, one in enumerate(rows)
            for j, two in enumerate(rows)
        ]
