r"""Gaussian expectations of one layer over all inputs, each computed once.

Tensors stand on samples in the printed order of their indices, with an axis of estimates in front: one,
or the scrambles of a sample. The operators below hand a tensor of layer $\ell$ on to layer $\ell+1$; none
needs an inverse kernel, because by Price's theorem $\langle\sigma^{(p)}_a\sigma^{(q)}_b\rangle$ depends on
$K_{aa}$, $K_{ab}$, $K_{bb}$ only.

Every expectation has an error, and a recursion is a sum of products of them in which some of it cancels.
How much is left of it is seen by running the recursion again with all expectations moved by their errors,
up or down at random: `Shaken`.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Hashable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.gaussian import four_point_covariances
from scalewise.gaussian.spi import JointRule, combined, joint_rule, shaken
from scalewise.theory.flow._pairs import (
    FIRST,
    SECOND,
    THIRD,
    UnorderedPairs,
    moments_on_pairs,
    pair_sources,
)
from scalewise.theory.flow._trajectory import LayerEstimates, Parts, along

# Fewer than for V: the nodes have little left to tell.
POINTS, SCRAMBLES = 1 << 11, 8
# To be contracted, few inputs get more: as many as take the time of sixteen inputs at the most.
_MOST_POINTS, _WORK = 1 << 13, (1 << 13) * 136**2
Family = tuple[int, int, int, int]
Matrix = Float[np.ndarray, "sample sample"]
Tensor = Float[np.ndarray, "_estimate sample sample sample sample"]
_OF_V = (0, 0, 0, 0)
# What is asked for is made together with what shares its work, always the same: so it is the same number
# whatever else is asked for. Families by how far beyond the NTK they go; moments by the order of a derivative.
_FAMILIES: tuple[tuple[Family, ...], ...] = (
    ((0, 0, 1, 1), (1, 1, 1, 1)),
    ((2, 0, 1, 1),),
    ((2, 2, 1, 1), (3, 1, 1, 1)),
)
_MOMENTS = (FIRST, SECOND, THIRD)


class Expectations(abc.ABC):
    """Expectations over the preactivations of one layer, and what the recursions do with them."""

    def __init__(self, sigma: Activation, K: Matrix) -> None:
        self.sigma = sigma
        self.K = K

    @abc.abstractmethod
    def M(self, p: int, q: int) -> Matrix:
        r"""$M_{pq}=\langle\sigma^{(p)}_a\sigma^{(q)}_b\rangle$ in the sense of distributions."""

    @property
    @abc.abstractmethod
    def source(self) -> Float[np.ndarray, "_estimate pair pair"]:
        r"""$\mathrm{Cov}[\sigma_a\sigma_b,\sigma_c\sigma_d]$ on unordered pairs: the source of $V$."""

    @abc.abstractmethod
    def four(self, family: Family) -> Tensor:
        r"""$\langle\sigma^{(p)}_a\sigma^{(q)}_b\sigma^{(r)}_c\sigma^{(s)}_d\rangle$, indices in that order."""

    @abc.abstractmethod
    def covariance(self, family: Family) -> Tensor:
        r"""$\mathrm{Cov}[\sigma^{(p)}_a\sigma^{(q)}_b,\sigma^{(r)}_c\sigma^{(s)}_d]$, no difference of means."""

    @cached_property
    def pairs(self) -> UnorderedPairs:
        """Pairs of the inputs."""
        return UnorderedPairs.of(len(self.K))

    def on_pairs(
        self, *orders: tuple[int, int]
    ) -> dict[tuple[int, int], Float[np.ndarray, " pair"]]:
        r"""$M_{pq}$ on unordered pairs, by $(p,q)$."""
        return {pq: self.M(*pq)[self.pairs.first, self.pairs.second] for pq in orders}


class Evaluated(Expectations):
    """Expectations with errors, each in its parts."""

    alike = False  # whether all entries of what nodes tell are wrong alike

    @abc.abstractmethod
    def of_moment(self, p: int, q: int) -> Parts:
        r"""$M_{pq}$, $p\ge q$, one part."""

    @abc.abstractmethod
    def of_source(self) -> Parts:
        """The source of $V$, one part."""

    @abc.abstractmethod
    def of_family(self, family: Family) -> Parts:
        r"""``covariance``, and the means of the two features, ``left`` and ``right``."""

    def moment(self, p: int, q: int) -> tuple[Matrix, Matrix]:
        """$M_{pq}$ and its error."""
        if p < q:
            value, error = self.moment(q, p)
            return value.T, error.T
        (part,) = self.of_moment(p, q).values()
        return part.value[0], part.error

    def M(self, p: int, q: int) -> Matrix:
        return self.moment(p, q)[0]

    @property
    def source(self) -> np.ndarray:
        (part,) = self.of_source().values()
        return part.value

    def four(self, family: Family) -> Tensor:
        return self.covariance(family) + self.means(family)

    def means(self, family: Family) -> Float[np.ndarray, "sample sample sample sample"]:
        r"""$\langle\sigma^{(p)}_a\sigma^{(q)}_b\rangle\langle\sigma^{(r)}_c\sigma^{(s)}_d\rangle$."""
        parts = self.of_family(family)
        return parts["left"].value[0][:, :, None, None] * parts["right"].value[0]

    def covariance(self, family: Family) -> Tensor:
        if family == _OF_V:
            return self.pairs.four_legs(as_many(self.source))
        return self.of_family(family)["covariance"].value


class LayerExpectations(Evaluated):
    r"""Expectations at one kernel, made as they are asked for.

    Args:
        sigma: The activation.
        K: The kernel of the layer.
        alike: Whether all entries of what nodes tell are to be wrong alike.
    """

    def __init__(self, sigma: Activation, K: Matrix, *, alike: bool = False) -> None:
        super().__init__(sigma, K)
        self.alike = alike
        self._moments: dict[tuple[int, int], Parts] = {}
        self._families: dict[Family, Parts] = {}

    def of_moment(self, p: int, q: int) -> Parts:
        """A moment at this kernel, made with those of its order."""
        if (p, q) not in self._moments:
            if self.sigma.parity and (p + q) % 2:
                none = np.zeros_like(self.K)
                return {"M": LayerEstimates(none[None], none)}
            self._moments |= self._made(
                next((g for g in _MOMENTS if (p, q) in g), ((p, q), (q, p)))
            )
        return self._moments[p, q]

    def of_source(self) -> Parts:
        return self._source

    def of_family(self, family: Family) -> Parts:
        """A family at this kernel, made with those that share its work."""
        if family not in self._families:
            together = next((group for group in _FAMILIES if family in group), (family,))
            rule = self._rule(points=self._points, scrambles=SCRAMBLES)
            split = self.M if self.sigma.is_smooth else None
            made = four_point_covariances(self.sigma, self.K, rule, together, split, self._sides)
            for key, found in made.items():
                self._families[key] = {
                    "covariance": LayerEstimates(found.covariance, found.error),
                    "left": LayerEstimates(found.left[None], np.zeros_like(found.left)),
                    "right": LayerEstimates(found.right[None], np.zeros_like(found.right)),
                }
        return self._families[family]

    @property
    def _sides(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The labels of the first two factors and of the others, where not all stand on all."""
        return None

    @property
    def _points(self) -> int:
        """Points of each scramble for a family."""
        if not self.alike:
            return POINTS
        affordable = 1 << int(np.log2(_WORK / self.pairs.first.size**2))
        return int(np.clip(affordable, POINTS, _MOST_POINTS))

    def _rule(self, **size: int) -> JointRule:
        return joint_rule(self.K, smooth=self.sigma.is_smooth, alike=self.alike, **size)

    @cached_property
    def _source(self) -> Parts:
        first = self.on_pairs(*FIRST)
        return {
            "source": LayerEstimates(
                *pair_sources(self.sigma, self.K, self.pairs, self._rule(), first)
            )
        }

    def _made(self, orders: tuple[tuple[int, int], ...]) -> dict[tuple[int, int], Parts]:
        """Moments on unordered pairs, put in their places."""
        a, b = self.pairs.first, self.pairs.second
        found = moments_on_pairs(self.sigma, self.K, self.pairs, orders)
        out = {}
        for p, q in orders:
            value, error = np.empty_like(self.K), np.empty_like(self.K)
            # The second transposed where both are there: a pair of equal inputs is in both.
            value[b, a], error[b, a] = found[q, p].value, found[q, p].error
            value[a, b], error[a, b] = found[p, q].value, found[p, q].error
            out[p, q] = {"M": LayerEstimates(value[None], error)}
        return out


class Between(LayerExpectations):
    """Expectations of products of two factors on some of the labels with two on others.

    Args:
        whole: Those over all labels, whose moments these are.
        first: Labels of the first two factors.
        second: Those of the others.
    """

    def __init__(self, whole: Evaluated, first: np.ndarray, second: np.ndarray) -> None:
        some = np.union1d(first, second)
        super().__init__(whole.sigma, whole.K[np.ix_(some, some)], alike=whole.alike)
        self._whole, self._some = whole, some
        self._first, self._second = (np.searchsorted(some, own) for own in (first, second))

    def of_moment(self, p: int, q: int) -> Parts:
        """Moments of all labels."""
        (part,) = self._whole.of_moment(p, q).values()
        at = np.ix_(self._some, self._some)
        return {"M": LayerEstimates(part.value[:, *at], part.error[at])}

    @property
    def _sides(self) -> tuple[np.ndarray, np.ndarray] | None:
        return self._first, self._second

    def _rule(self, **size: int) -> JointRule:
        """Samples: what a product rule of four labels tells is less."""
        return super()._rule(**size).samples.of_size(size["points"], size["scrambles"])


class _Followed(Evaluated):
    """The expectations of one layer among others, each followed through the layers by itself."""

    def __init__(
        self, sigma: Activation, K: Matrix, ask: Callable[[str, tuple[Any, ...]], Parts]
    ) -> None:
        super().__init__(sigma, K)
        self._ask = ask

    def of_moment(self, p: int, q: int) -> Parts:
        return self._ask("of_moment", (p, q))

    def of_source(self) -> Parts:
        return self._ask("of_source", ())

    def of_family(self, family: Family) -> Parts:
        return self._ask("of_family", (family,))


def layers_of(
    sigma: Activation,
    K: Float[np.ndarray, "layer sample sample"],
    make: Callable[[Activation, Matrix], LayerExpectations] = LayerExpectations,
) -> Iterator[Evaluated]:
    """The expectations of each layer: evaluated at its kernel, or interpolated where that does.

    Args:
        sigma: The activation.
        K: The kernel of every layer.
        make: The expectations of one layer.
    """
    evaluated: dict[int, LayerExpectations] = {}
    followed: dict[Hashable, Iterator[tuple[int, Parts]]] = {}

    def evaluate(key: tuple[Any, ...], layer: int) -> Parts:
        name, arguments = key
        here = evaluated.setdefault(layer, make(sigma, K[layer]))
        return getattr(here, name)(*arguments)

    for index, kernel in enumerate(K):
        known: dict[Hashable, Parts] = {}

        def ask(*key, index=index, known=known) -> Parts:
            if key not in known:
                if key not in followed:
                    followed[key] = enumerate(along(K, lambda layer: evaluate(key, layer)))
                known[key] = next(parts for layer, parts in followed[key] if layer == index)
            return known[key]

        yield _Followed(sigma, kernel, ask)
        evaluated.pop(index, None)


class Shaken(Expectations):
    """The expectations of a layer, its estimates combined, each moved by its error, up or down by the seed."""

    def __init__(self, layer: Evaluated, seed: int) -> None:
        super().__init__(layer.sigma, layer.K)
        self._layer, self._seed = layer, seed
        self._pair: dict[tuple[int, int], np.ndarray] = {}

    @property
    def source(self) -> np.ndarray:
        return self._source

    @cached_property
    def _source(self) -> np.ndarray:
        (part,) = self._layer.of_source().values()
        return self._moved(combined(part.value)[0], part.error, ())[None]

    def four(self, family: Family) -> Tensor:
        part = self._layer.of_family(family)["covariance"]
        value = combined(part.value)[0] + self._layer.means(family)
        return self._moved(value, part.error, (*family, 0))[None]

    def covariance(self, family: Family) -> Tensor:
        if family == _OF_V:
            return self.pairs.four_legs(self.source)
        part = self._layer.of_family(family)["covariance"]
        return self._moved(combined(part.value)[0], part.error, (*family, 1))[None]

    def M(self, p: int, q: int) -> Matrix:
        if (p, q) not in self._pair:
            self._pair[p, q] = self._moment(p, q)
        return self._pair[p, q]

    def _moment(self, p: int, q: int) -> Matrix:
        if p < q:
            return self.M(q, p).T
        moved = self._moved(*self._layer.moment(p, q), (p, q))
        return np.triu(moved) + np.triu(moved, 1).T if p == q else moved

    def _moved(self, value: np.ndarray, error: np.ndarray, key: tuple[int, ...]) -> np.ndarray:
        return shaken(value, error, (self._seed, *key))


def as_many(estimates: Float[np.ndarray, "_estimate ..."]) -> Float[np.ndarray, "_estimate ..."]:
    """Independent estimates of $V$ and its source, as many as there are of the others: means of a few."""
    if len(estimates) <= SCRAMBLES:
        return estimates
    return estimates.reshape(SCRAMBLES, -1, *estimates.shape[1:]).mean(axis=1)
