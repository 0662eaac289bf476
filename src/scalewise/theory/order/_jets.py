r"""Jets of a network, and the tensors of the literature as pairs of pairs of them.

A letter $a$ is a random direction $\omega^a$ of the parameters, with the rates of learning for a covariance, and
the jet $z^S=\partial_{\omega^a}\partial_{\omega^b}\cdots z$ takes one derivative along each letter of $S$.
Averages over directions give every kernel that is quadratic in gradients,
$$\widehat H_{12}=\mathbb E_\omega[z^a_1z^a_2],\quad\widehat{\mathrm dH}_{012}=\mathbb E_\omega[z^{ab}_0z^a_1z^b_2],
\quad\widehat{\mathrm{dd_I}H}_{0123}=\mathbb E_\omega[z^{abc}_0z^a_1z^b_2z^c_3],
\quad\widehat{\mathrm{dd_{II}}H}_{1234}=\mathbb E_\omega[z^{ac}_1z^{bc}_2z^a_3z^b_4],$$
and the neurons of a layer are independent given the layer below, jointly normal in all jets. So each tensor of
order $1/n$ is one component of one covariance,
$$V[(S,T),(S',T')]_{1234}=n\,\mathrm{Cov}\big[\Sigma^{S,T}_{12},\Sigma^{S',T'}_{34}\big],$$
of the covariances $\Sigma^{S,T}$ of the jets given what is below. `TENSORS` says which one.

Source: derived; the tensors are those of PDLT ch. 4, 8, 11, ∞.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

Jet = tuple[str, ...]  # letters in their order
Pair = tuple[Jet, Jet]


@dataclass(frozen=True)
class Component:
    """A tensor as a component of the one vertex, or of the one mean shift.

    Args:
        first: Jets at the first two sites.
        second: At the other two; ``None`` for a mean shift.
        printed: From these sites to the printed indices, as `numpy.einsum` is told it.
    """

    first: Pair
    second: Pair | None
    printed: str = "abcd->abcd"

    @property
    def letters(self) -> frozenset[str]:
        """All directions of the component."""
        pairs = (self.first, self.second or ((), ()))
        return frozenset(itertools.chain(*itertools.chain(*pairs)))


_Z: Jet = ()
TENSORS: dict[str, Component] = {
    "V": Component((_Z, _Z), (_Z, _Z)),
    "G1": Component((_Z, _Z), None, "ab->ab"),
    "D": Component((_Z, _Z), (("a",), ("a",))),
    "A": Component((("a",), ("a",)), (("b",), ("b",))),
    "F": Component((_Z, ("a",)), (_Z, ("a",))),
    "B": Component((("a",), ("b",)), (("a",), ("b",))),
    "H1": Component((("a",), ("a",)), None, "ab->ab"),
    "P": Component((("a", "b"), _Z), (("a",), ("b",)), "adbc->abcd"),
    "Q": Component((("a", "b"), ("a",)), (("b",), _Z)),
    "R": Component((("a", "b", "c"), ("a",)), (("b",), ("c",))),
    "S": Component((("a", "c"), ("b", "c")), (("a",), ("b",))),
    "T": Component((("a", "c"), ("a",)), (("b",), ("b", "c"))),
    "U": Component((("a", "c"), ("b",)), (("b", "c"), ("a",))),
}


def charge(pair: Pair) -> frozenset[str]:
    r"""$S\triangle T$: on average only jets of equal letters covary, and only pairs of equal charge."""
    return frozenset(pair[0]) ^ frozenset(pair[1])


def turned(pair: Pair) -> Pair:
    """The pair with its sites exchanged."""
    return pair[1], pair[0]


@dataclass(frozen=True)
class Standard:
    """One component among those that are equal to it by symmetry, and the way back to the one that was asked for.

    Args:
        pairs: The standard component.
        swap: Whether its two pairs are exchanged in the one that was asked for.
        turns: Whether the sites of its first and of its second pair are.
    """

    pairs: tuple[Pair, Pair]
    swap: bool
    turns: tuple[bool, bool]


@cache
def standard(first: Pair, second: Pair, *, ordered: bool = False) -> Standard:
    """The standard component of two pairs: letters have no names, and a covariance has no order.

    Args:
        first: Of one layer.
        second: Of the same layer.
        ordered: Whether it is of another one, so that they may not be exchanged.
    """
    return min((way for _, way in _ways(first, second, ordered=ordered)), key=_key)


@cache
def symmetries(first: Pair, second: Pair) -> tuple[tuple[int, ...], ...]:
    """The orders of four sites in which a covariance of two pairs is the same one.

    Args:
        first: One pair.
        second: Of the same layer.
    """
    ways = list(_ways(first, second))
    own = ways[0][1].pairs
    return tuple(dict.fromkeys(order for order, way in ways if way.pairs == own))


def _ways(
    first: Pair, second: Pair, *, ordered: bool = False
) -> Iterator[tuple[tuple[int, ...], Standard]]:
    """All orders of sites and names of letters, as they are in front."""
    letters = sorted({*first[0], *first[1], *second[0], *second[1]})
    for swap, one, other in itertools.product(
        (False,) if ordered else (False, True), *2 * [(False, True)]
    ):
        sites = ((2, 3), (0, 1)) if swap else ((0, 1), (2, 3))
        turns = (one, other)
        order = tuple(
            itertools.chain(*(x[::-1] if turn else x for turn, x in zip(turns, sites, strict=True)))
        )
        jets = [(*first, *second)[site] for site in order]
        for names in itertools.permutations("abc"[: len(letters)]):
            name = dict(zip(letters, names, strict=True))
            w, x, y, z = (tuple(sorted(name[letter] for letter in jet)) for jet in jets)
            yield order, Standard(((w, x), (y, z)), swap, turns)


@cache
def standard_pair(pair: Pair) -> tuple[Pair, bool]:
    """The standard one of two mean shifts that differ by the names of letters or by the order of sites."""
    found = standard(pair, pair)
    return found.pairs[0], found.turns[0]


def _key(way: Standard) -> tuple[object, ...]:
    # Of two ways to one component the one that turns less: it has False before True.
    return tuple((len(jet), jet) for pair in way.pairs for jet in pair), way.swap, way.turns
