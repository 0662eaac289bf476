r"""Expectations over four of a few samples as whole arrays, each entry as accurate as asked.

Entries of up to three different samples are given two of them and need no series. Of four different ones any two
may be given, and the series is short if they leave little that the other two share. That is not so where the given
ones are nearly one direction and the others in a plane with it; other two are given then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

import numpy as np
from jaxtyping import Float, Int

from scalewise.activations import Activation
from scalewise.theory.spi import Family, LayerEstimates, LayerExpectations, Parts
from scalewise.training.tiles._conditioned import Conditioned
from scalewise.training.tiles._rules import TERMS, Accuracy, Orders, tails
from scalewise.training.tiles._series import Given, chunks, summed, with_rest

Matrix = Float[np.ndarray, "sample sample"]
OfPairs = Float[np.ndarray, "pair sample sample_1"]
_SLOW = 0.6  # of a term of the series to the one before, from which another pair is looked for
_BETTER = 0.7  # of that, which makes another pair worth it
_SCALES = 17  # standard deviations of which it is known what the series leaves out
_CHUNK = 4_000_000  # numbers of an array of entries that are found one by one


@dataclass(frozen=True)
class Layers:
    """Makes layers of one accuracy; the same one for the same kernel.

    Args:
        accuracy: Of expectations of three and four samples.
    """

    accuracy: Accuracy
    _made: dict[tuple[Activation, bytes], Whole] = field(default_factory=dict)

    def __call__(self, sigma: Activation, K: Matrix) -> Whole:
        key = sigma, K.tobytes()
        if key not in self._made:
            self._made[key] = Whole(sigma, K, self.accuracy)
        return self._made[key]


@dataclass(frozen=True)
class _Regiven:
    """Entries of four different samples for which two others are given than the last.

    Args:
        samples: Those of each entry, in its order.
        given: Places of the given two in an entry.
        left: Places of the others.
    """

    samples: Int[np.ndarray, "4 entry"]
    given: tuple[int, int]
    left: tuple[int, int]


class Whole(LayerExpectations):
    """The expectations of one layer: of three and four samples, given two of them.

    Args:
        sigma: The activation, smooth.
        K: The kernel of the layer.
        accuracy: Of expectations.
    """

    def __init__(self, sigma: Activation, K: Matrix, accuracy: Accuracy) -> None:
        super().__init__(sigma, K)
        self.given = Conditioned(sigma, K, accuracy)
        self._values: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._threes: dict[tuple[Orders, int, int], np.ndarray] = {}

    @property
    def inner(self) -> int:
        """Nodes of all terms of the series: multiplications for an expectation of four samples."""
        return sum(self.given.rule.nodes)

    def of_source(self) -> Parts:
        """Symmetric in the two pairs, of which one was given."""
        pairs = self.pairs
        part = self.of_family((0, 0, 0, 0))["covariance"]
        found, error = (
            x[pairs.first, pairs.second][:, pairs.first, pairs.second]
            for x in (part.value[0], part.error)
        )
        return {"source": LayerEstimates(0.5 * (found + found.T)[None], np.maximum(error, error.T))}

    def of_family(self, family: Family) -> Parts:
        """Parts at this kernel, given the last two or those that tell most."""
        if family not in self._families:
            left, right = self.M(*family[:2]), self.M(*family[2:])
            found = self._whole(family) - left[:, :, None, None] * right
            none = np.zeros_like(self.K)
            self._families[family] = {
                "covariance": LayerEstimates(found[None], self._left_out(family)),
                "left": LayerEstimates(left[None], none),
                "right": LayerEstimates(right[None], none),
            }
        return self._families[family]

    def _whole(self, family: Family) -> Float[np.ndarray, "sample sample sample sample"]:
        p, q, r, s = family
        c, d = self.pairs.first, self.pairs.second
        found = np.empty((len(self.K),) * 4)
        found[:, :, c, d] = np.moveaxis(self._given_last(family), 0, 2)
        other = found if r == s else np.empty_like(found)
        if r != s:
            other[:, :, c, d] = np.moveaxis(self._given_last((p, q, s, r)), 0, 2)
        found[:, :, d, c] = other[:, :, c, d]
        every = np.arange(len(self.K))
        for i, j in combinations(range(4), 2):
            k, m = (place for place in range(4) if place not in (i, j))
            alike = np.moveaxis(found, (i, j, k, m), range(4))
            alike[every, every] = self._three((family[i], family[j]), family[k], family[m])
        for entries in self._regiven:
            found[tuple(entries.samples)] = self._one_by_one(entries, family)
        return found

    def _given_last(self, family: Family) -> OfPairs:
        """Expectations given the last two, for all their unordered pairs."""
        p, q, r, s = family
        rule, every = self.given.rule, np.arange(len(self.K))
        weight = rule.w * self._at(r)[0] * self._at(s)[1]
        seen, lasts = (self._seen, self._seen), list[np.ndarray]()
        (out,) = summed(weight, rule, [(p, q)], seen, self._shared, lasts)
        same = self._three((p, q), r, s)[:, self.pairs.first, self.pairs.second].T
        end = same - out[:, every, every], lasts[0]
        return with_rest(out, (end, end), self._shared, rule.needed[p, q])

    def _three(
        self, first: Orders, second: int, third: int
    ) -> Float[np.ndarray, "one other third"]:
        """Expectations of three samples, of which the first has two factors, given it and the one less like it."""
        if (first, second, third) not in self._threes:
            size = np.abs(self.given.rho)
            nearer = size[:, :, None] <= size[:, None]
            one, other = (
                self._given_one(first, second, third),
                self._given_one(first, third, second),
            )
            self._threes[first, second, third] = np.where(nearer, one, other.swapaxes(1, 2))
        return self._threes[first, second, third]

    def _given_one(
        self, first: Orders, second: int, third: int
    ) -> Float[np.ndarray, "one other third"]:
        """Expectations of three samples, given the first two."""
        one, other = self.pairs.first, self.pairs.second
        found = np.empty((len(self.K),) * 3)
        size = np.sqrt(float(np.prod(np.arange(1, third + 1)))) / self._seen.v**third
        for turned, places in ((0, (one, other)), (1, (other, one))):
            weight = self.given.rule.w * self._at(second)[1 - turned]
            for p in first:
                weight = weight * self._at(p)[turned]
            found[places] = size * np.einsum("pn,pns->ps", weight, self._seen.of[third])
        return found

    def _at(self, order: int) -> tuple[np.ndarray, np.ndarray]:
        """A derivative at the nodes of each pair: of one, and of the other."""
        if order not in self._values:
            ends = self.given.ends(self.given.rule, self.pairs.first, self.pairs.second)
            one, other = (self.sigma.derivative(z, order) for z in ends)
            self._values[order] = one, other
        return self._values[order]

    @cached_property
    def _seen(self) -> Given:
        """Coefficients of all samples, given each unordered pair."""
        given, every = self.given, np.arange(len(self.K))
        return given.coefficients(given.rule, self.pairs.first, self.pairs.second, every)

    @cached_property
    def _shared(self) -> OfPairs:
        """Correlations of what each unordered pair leaves of others."""
        every = np.arange(len(self.K))
        return self.given.left(self.pairs.first, self.pairs.second, every, every)

    @cached_property
    def _regiven(self) -> list[_Regiven]:
        """For the entries of which the series is slow; of the last two, those in one order and in the other."""
        count = len(self.K)
        samples = np.indices((count,) * 4).reshape(4, -1)
        different = [samples[i] != samples[j] for i, j in combinations(range(4), 2)]
        samples = samples[:, np.all(different, axis=0)]
        samples = samples[
            :, self._ratio[self._pair(samples, (2, 3)), samples[0], samples[1]] > _SLOW
        ]
        ways = [(2, 3), (0, 1), (0, 2), (0, 3), (1, 2), (1, 3)]
        others = [tuple(k for k in range(4) if k not in way) for way in ways]
        ratios = np.array(
            [
                self._ratio[self._pair(samples, way), samples[left[0]], samples[left[1]]]
                for way, left in zip(ways, others, strict=True)
            ]
        )
        ratios[1:] /= _BETTER
        best = ratios.argmin(axis=0) if samples.size else np.zeros(0, int)
        return [
            _Regiven(samples[:, best == k], ways[k], (others[k][0], others[k][1]))
            for k in range(1, len(ways))
            if np.any(best == k)
        ]

    @cached_property
    def _ratio(self) -> OfPairs:
        """About, of a term of the series to the one before, given each unordered pair."""
        first, second = self.pairs.first, self.pairs.second
        *_, rest = self.given.along(first, second, np.arange(len(self.K)))
        v = rest * self.given.sd / self.sigma.scale
        falls = v / np.sqrt(1 + v**2)
        return np.abs(self._shared) * falls[:, :, None] * falls[:, None]

    def _pair(self, samples: np.ndarray, places: tuple[int, int]) -> np.ndarray:
        """The number of the unordered pair at two places."""
        return self.pairs.index[samples[places[0]], samples[places[1]]]

    def _one_by_one(self, entries: _Regiven, family: Family) -> Float[np.ndarray, " entry"]:
        """Without what is known of entries of which two are one."""
        (i, j), (k, m) = entries.given, entries.left
        rule, seen, found = self.given.rule, self._seen, []
        orders = family[k], family[m]
        for some in chunks(len(entries.samples[0]), rule.w.size * rule.terms, _CHUNK):
            samples = entries.samples[:, some]
            pair = self._pair(samples, (i, j))
            turned = (samples[i] > samples[j])[:, None]
            weight = rule.w * np.where(
                turned, self._at(family[i])[1][pair], self._at(family[i])[0][pair]
            )
            weight = weight * np.where(
                turned, self._at(family[j])[0][pair], self._at(family[j])[1][pair]
            )
            one, other = seen.one_by_one(pair, samples[k]), seen.one_by_one(pair, samples[m])
            left = self._shared[pair, samples[k], samples[m]][:, None, None]
            found.append(summed(weight, rule, [orders], (one, other), left)[0][:, 0, 0])
        return np.concatenate(found)

    def _left_out(self, family: Family) -> Float[np.ndarray, "sample sample sample sample"]:
        """At most, of a series that ends because there are never more terms, in all accuracies alike."""
        out = np.zeros((len(self.K),) * 4)
        if not self.given.rule.open:
            return out
        samples = np.indices(out.shape).reshape(4, -1)
        out[tuple(samples)] = self._open(_Regiven(samples, (2, 3), (0, 1)), family)
        every = np.arange(len(out))
        out[every, every] = 0.0
        out[:, :, every, every] = 0.0
        for entries in self._regiven:
            out[tuple(entries.samples)] = self._open(entries, family)
        return out

    def _open(self, entries: _Regiven, family: Family) -> Float[np.ndarray, " entry"]:
        """The rest of the series of both that are left, times the sizes of all four factors."""
        (k, m), samples = entries.left, entries.samples
        if self.given.rule.needed[family[k], family[m]] < TERMS:
            return np.zeros(samples.shape[1])
        pair, every = self._pair(samples, entries.given), np.arange(len(self.K))
        found = np.abs(self._shared[pair, samples[k], samples[m]]) ** TERMS
        for place, p in enumerate(family):
            found *= np.sqrt(self.given.alone(every, (p, p)))[samples[place]]
            if place in entries.left:
                found *= self._tails[p][pair, samples[place]]
        return found

    @cached_property
    def _tails(self) -> list[Float[np.ndarray, "pair sample"]]:
        """The rest of each derivative after all terms, by what is left of a sample."""
        *_, rest = self.given.along(self.pairs.first, self.pairs.second, np.arange(len(self.K)))
        v = rest * self.given.sd
        scales = np.linspace(0.0, v.max(), _SCALES)
        known = np.array([[tail[-1] for tail in tails(self.sigma, scale)] for scale in scales])
        return [known[np.searchsorted(scales, v), p] for p in range(known.shape[1])]
