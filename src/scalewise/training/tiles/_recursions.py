r"""Every tensor of order 1/n of the next layer, on labels of a tile.

Each function is one recursion of `scalewise.theory.flow`, where the formulas are, in the same letters, its
arguments the indices in the same printed order: labels, which may be equal. With

$$X^0_{xy}=\lambda_W\langle\sigma''_x\sigma_y\rangle+C_W\langle\sigma'''_x\sigma'_y\rangle\Theta_{xy},\qquad
  X^1_{xy}=\lambda_W\langle\sigma'_x\sigma'_y\rangle+C_W\langle\sigma''_x\sigma''_y\rangle\Theta_{xy}$$

for the derivatives of $X_{xy}=\lambda_W\sigma'_x\sigma_y+C_W\Theta_{xy}\sigma''_x\sigma'_y$ by $z_x$ and $z_y$.

Source: PDLT (4.119), (4.115), (8.77), (8.97), (8.79), (8.89), (11.49), (11.52), (∞.177), (∞.179)-(∞.181), as
    `scalewise.theory.flow` has them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from scalewise.training.tiles._sites import Site
from scalewise.training.tiles._tiles import Labels, Tile, Value, Vertex

Factor = Value | float | None
Term = tuple[Factor, ...]


class Tensors:
    """The tensors of all layers on one tile.

    Args:
        stack: The hidden layers, from the first.
        tile: The labels.
        sources: The layers whose width is finite; all if ``None``.
        wide: Tensors on a tile of which this one has the first samples of the second label.
        own: Letters of tensors that are not wanted there; others, and expectations, are parts of what is there.
    """

    def __init__(
        self,
        stack: Sequence[Site],
        tile: Tile,
        *,
        sources: frozenset[int] | None = None,
        wide: Tensors | None = None,
        own: frozenset[str] = frozenset(),
    ) -> None:
        self.stack, self.tile, self.sources = stack, tile, sources
        self._wide, self._letters = wide, own

    def at(self, letter: str, layer: int, *labels: int) -> Value | None:
        """A tensor of a layer on four labels; ``None`` if it is 0."""
        if layer == 1:
            return None
        if self._wide is not None and letter not in self._letters:
            return self._narrowed(self._wide.at(letter, layer, *labels))

        def make(*names: int) -> Value | None:
            return _total(RECURSIONS[letter](_Below(self, layer - 1), *names))

        return self.tile.known((letter, layer), labels, make)

    def four(self, site: Site, *vertices: Vertex) -> Value:
        """An expectation of a layer."""
        if self._wide is None:
            return self.tile.four(site, *vertices)
        found = self._narrowed(self._wide.four(site, *vertices))
        assert found is not None
        return found

    def last(self, letter: str, *labels: int) -> np.ndarray:
        """A tensor of the outputs at its full size, with an axis for each of the first labels that it has."""
        found = self.at(letter, len(self.stack) + 1, *labels)
        shape = tuple(len(row) for row in self.tile.rows[: len(labels)])
        if found is not None and found.shape != shape:
            found = np.broadcast_to(found.reshape(found.shape[: len(labels)]), shape)
        return np.zeros(shape) if found is None else found

    def _narrowed(self, found: np.ndarray | None) -> np.ndarray | None:
        return found if found is None else found[:, : len(self.tile.rows[1])]


class _Below:
    """The layer that a recursion starts from, and what it asks of it."""

    def __init__(self, tensors: Tensors, layer: int) -> None:
        self._tensors, self._site = tensors, tensors.stack[layer - 1]
        self.C, self.lam, self.r = self._site.C_W, self._site.lambda_W, self._site.r
        self._finite = tensors.sources is None or layer in tensors.sources

    def M(self, p: int, q: int, x: int, y: int) -> Value:
        return self._tensors.tile.edge(self._site.M(p, q), x, y)

    def Theta(self, x: int, y: int) -> Value:
        return self._tensors.tile.edge(self._site.Theta, x, y)

    def X(self, by: int, x: int, y: int) -> Value:
        p = 2 - by
        bent = self.M(p + 1, by + 1, x, y) * self.Theta(x, y)
        return self.lam * self.M(p, by, x, y) + self.C * bent

    def pushes(self, p: int, x: int, y: int) -> tuple[tuple[Value, Labels], ...]:
        r"""Derivatives of $M_{pp}$ by the kernel, and of which of its entries."""
        return (
            (0.5 * self.M(p + 2, p, x, y), (x, x)),
            (self.M(p + 1, p + 1, x, y), (x, y)),
            (0.5 * self.M(p, p + 2, x, y), (y, y)),
        )

    def omega_pushes(self, x: int, y: int) -> list[tuple[Value, Labels]]:
        r"""Those of $\langle\widehat\Omega_{xy}\rangle$."""
        rate, both = (
            self.C * self.Theta(x, y),
            zip(self.pushes(0, x, y), self.pushes(1, x, y), strict=True),
        )
        return [(self.lam * value + rate * slope, place) for (value, place), (slope, _) in both]

    def covariance(self, p: int, a: int, b: int, q: int, c: int, d: int) -> Value | None:
        r"""$\mathrm{Cov}[\sigma^{(p)}_a\sigma^{(p)}_b,\sigma^{(q)}_c\sigma^{(q)}_d]$."""
        found = self.four((a, p), (b, p), (c, q), (d, q))
        return None if found is None else found - self.M(p, p, a, b) * self.M(q, q, c, d)

    def four(self, *vertices: Vertex) -> Value | None:
        return self._tensors.four(self._site, *vertices) if self._finite else None

    def old(self, letter: str, *labels: int) -> Value | None:
        return self._tensors.at(letter, self._site.layer, *labels)

    def new(self, letter: str, *labels: int) -> Value | None:
        return self._tensors.at(letter, self._site.layer + 1, *labels)


def _V(at: _Below, a: int, b: int, c: int, d: int) -> Iterator[Term]:
    yield at.C**2, at.covariance(0, a, b, 0, c, d)
    for f, ab in at.pushes(0, a, b):
        for g, cd in at.pushes(0, c, d):
            yield at.C**2 * at.r, f, g, at.old("V", *ab, *cd)


def _D(at: _Below, a: int, b: int, c: int, d: int) -> Iterator[Term]:
    yield at.C * at.lam, at.covariance(0, a, b, 0, c, d)
    yield at.C**2, at.Theta(c, d), at.covariance(0, a, b, 1, c, d)
    for f, ab in at.pushes(0, a, b):
        for g, cd in at.omega_pushes(c, d):
            yield at.C * at.r, f, g, at.old("V", *ab, *cd)
        yield at.C**2 * at.r, f, at.M(1, 1, c, d), at.old("D", *ab, c, d)


def _A(at: _Below, a: int, b: int, c: int, d: int) -> Iterator[Term]:
    one, two = at.C * at.Theta(a, b), at.C * at.Theta(c, d)
    yield at.lam**2, at.covariance(0, a, b, 0, c, d)
    yield at.lam, two, at.covariance(0, a, b, 1, c, d)
    yield at.lam, one, at.covariance(1, a, b, 0, c, d)
    yield one, two, at.covariance(1, a, b, 1, c, d)
    slopes = at.C * at.M(1, 1, a, b), at.C * at.M(1, 1, c, d)
    for f, ab in at.omega_pushes(a, b):
        for g, cd in at.omega_pushes(c, d):
            yield at.r, f, g, at.old("V", *ab, *cd)
        yield at.r, f, slopes[1], at.old("D", *ab, c, d)
    for g, cd in at.omega_pushes(c, d):
        yield at.r, slopes[0], g, at.old("D", *cd, a, b)
    yield at.r, *slopes, at.old("A", a, b, c, d)


def _bent(at: _Below, p: int, a: int, b: int) -> Iterator[Term]:
    r"""What a correction of the kernel and its fluctuations do to $M_{pp}$."""
    for f, ab in at.pushes(p, a, b):
        yield f, at.old("G1", *ab)
    for x, s, t in ((a, 4, 0), (b, 0, 4)):
        yield 0.125, at.M(p + s, p + t, a, b), at.old("V", x, x, x, x)
    yield 0.5, at.M(p + 2, p + 2, a, b), at.old("V", a, b, a, b)
    yield 0.25, at.M(p + 2, p + 2, a, b), at.old("V", a, a, b, b)
    for x, s, t in ((a, 3, 1), (b, 1, 3)):
        yield 0.5, at.M(p + s, p + t, a, b), at.old("V", x, x, a, b)


def _G1(at: _Below, a: int, b: int) -> Iterator[Term]:
    for term in _bent(at, 0, a, b):
        yield at.C * at.r, *term


def _H1(at: _Below, a: int, b: int) -> Iterator[Term]:
    rate = at.C * at.r
    yield rate, at.M(1, 1, a, b), at.old("H1", a, b)
    for term in _bent(at, 0, a, b):
        yield at.lam * at.r, *term
    for term in _bent(at, 1, a, b):
        yield rate, at.Theta(a, b), *term
    for f, ab in at.pushes(1, a, b):
        yield rate, f, at.old("D", *ab, a, b)
    for x, s in ((a, (3, 1)), (b, (2, 2))):
        yield rate, at.M(*s, a, b), at.old("F", x, a, a, b)
    for x, s in ((a, (2, 2)), (b, (1, 3))):
        yield rate, at.M(*s, a, b), at.old("F", x, a, b, b)


def _F(at: _Below, a: int, c: int, b: int, d: int) -> Iterator[Term]:
    """Stored in the order 1, 3, 2, 4 = a, c, b, d."""
    yield at.C**2, at.four((a, 0), (b, 0), (c, 1), (d, 1)), at.Theta(c, d)
    for gamma, first in ((a, at.M(1, 1, a, c)), (c, at.M(0, 2, a, c))):
        for delta, second in ((b, at.M(1, 1, b, d)), (d, at.M(0, 2, b, d))):
            yield at.C**2 * at.r, first, second, at.old("F", gamma, c, delta, d)


def _B(at: _Below, a: int, c: int, b: int, d: int) -> Iterator[Term]:
    """Stored in the order 1, 3, 2, 4 = a, c, b, d."""
    yield at.C**2, at.four((a, 1), (b, 1), (c, 1), (d, 1)), at.Theta(a, b), at.Theta(c, d)
    yield at.C**2 * at.r, at.M(1, 1, a, c), at.M(1, 1, b, d), at.old("B", a, c, b, d)


def _curvature(at: _Below, a: int, b: int, c: int, d: int) -> Term:
    return at.C**2, at.four((a, 2), (b, 1), (c, 1), (d, 0)), at.Theta(a, b), at.Theta(a, c)


def _P(at: _Below, a: int, b: int, c: int, d: int) -> Iterator[Term]:
    """Stored in the order 0, 1, 2, 3 = a, b, c, d."""
    yield _curvature(at, a, b, c, d)
    rate, slope, bent = at.C**2 * at.r, at.M(1, 1, b, c), at.M(2, 0, a, d)
    yield rate, slope, bent, at.old("P", a, b, c, a)
    yield rate, slope, bent, at.old("B", a, a, b, c)
    yield rate, slope, at.M(1, 1, a, d), at.old("P", a, b, c, d)


def _Q(at: _Below, a: int, b: int, c: int, d: int) -> Iterator[Term]:
    """Stored in the order 0, 1, 2, 3 = a, b, c, d."""
    yield _curvature(at, a, b, c, d)
    yield at.lam / at.C, at.new("F", b, a, d, c)
    rate, slope = at.C**2 * at.r, at.M(1, 1, a, b)
    both = ((c, at.M(2, 0, c, d)), (d, at.M(1, 1, c, d)))
    for delta, second in both:
        yield rate, slope, second, at.old("Q", a, b, c, delta)
        for gamma, first in ((a, at.M(3, 1, a, b)), (b, at.M(2, 2, a, b))):
            yield rate, at.Theta(a, b), first, second, at.old("F", gamma, a, delta, c)


def _R(at: _Below, a: int, b: int, c: int, d: int) -> Iterator[Term]:
    """Stored in the order 0, 1, 2, 3 = a, b, c, d."""
    legs = at.Theta(a, c), at.Theta(a, d)
    yield at.lam * at.C, at.four((a, 2), (b, 0), (c, 1), (d, 1)), *legs
    yield at.C**2, at.four((a, 3), (b, 1), (c, 1), (d, 1)), at.Theta(a, b), *legs
    rate, slope = at.C * at.r, at.M(1, 1, c, d)
    yield rate, slope, at.X(0, a, b), at.old("B", a, a, c, d)
    yield rate, slope, at.X(0, a, b), at.old("P", a, c, d, a)
    yield rate, slope, at.X(1, a, b), at.old("P", a, c, d, b)
    yield rate * at.C, slope, at.M(1, 1, a, b), at.old("R", a, b, c, d)


def _kappa(at: _Below, a: int, b: int, c: int, d: int) -> Term:
    """Of 1, 2, 3, 4 = a, b, c, d."""
    legs = at.Theta(a, b), at.Theta(a, c), at.Theta(b, d)
    return at.C**2, at.four((a, 2), (b, 2), (c, 1), (d, 1)), *legs


def _S(at: _Below, a: int, b: int, c: int, d: int) -> Iterator[Term]:
    """Stored in the order 1, 2, 3, 4 = a, b, c, d."""
    source = at.four((a, 1), (b, 1), (c, 1), (d, 1))
    yield at.C * at.lam, source, at.Theta(a, c), at.Theta(b, d)
    yield _kappa(at, a, b, c, d)
    rate, slope = at.C * at.r, at.M(1, 1, c, d)
    yield rate, slope, at.X(1, a, b), at.old("B", a, b, c, d)
    yield rate * at.C, slope, at.M(1, 1, a, b), at.old("S", a, b, c, d)


def _T(at: _Below, a: int, c: int, d: int, b: int) -> Iterator[Term]:
    """Stored in the order 1, 3, 4, 2 = a, c, d, b."""
    yield at.lam**2, at.four((a, 1), (b, 1), (c, 0), (d, 0)), at.Theta(a, b)
    yield _kappa(at, a, b, c, d)
    for gamma, first in ((a, at.X(0, a, c)), (c, at.X(1, a, c))):
        for delta, second in ((b, at.X(0, b, d)), (d, at.X(1, b, d))):
            yield at.r, first, second, at.old("F", gamma, a, delta, b)
    for one, two, three, four in ((a, b, c, d), (b, a, d, c)):
        source = at.four((one, 1), (two, 2), (three, 0), (four, 1))
        yield at.C * at.lam, source, at.Theta(one, two), at.Theta(two, four)
        rate, slope = at.C * at.r, at.M(1, 1, two, four)
        yield rate, slope, at.X(0, one, three), at.old("Q", two, four, one, one)
        yield rate, slope, at.X(1, one, three), at.old("Q", two, four, one, three)
    yield at.C**2 * at.r, at.M(1, 1, a, c), at.M(1, 1, b, d), at.old("T", a, c, d, b)


def _U(at: _Below, a: int, d: int, b: int, c: int) -> Iterator[Term]:
    """Stored in the order 1, 4, 2, 3 = a, d, b, c."""
    yield _kappa(at, a, b, c, d)
    yield at.C**2 * at.r, at.M(1, 1, a, d), at.M(1, 1, b, c), at.old("U", a, d, b, c)


RECURSIONS: dict[str, Callable[..., Iterator[Term]]] = {
    "V": _V,
    "D": _D,
    "A": _A,
    "G1": _G1,
    "H1": _H1,
    "F": _F,
    "B": _B,
    "P": _P,
    "Q": _Q,
    "R": _R,
    "S": _S,
    "T": _T,
    "U": _U,
}


def _total(terms: Iterator[Term]) -> Value | None:
    """The sum of products, without those that have a factor 0; whole arrays are passed over as seldom as can be."""
    out: np.ndarray | None = None
    for term in terms:
        if any(factor is None for factor in term):
            continue
        found = _product([factor for factor in term if factor is not None])
        if out is None:
            out = found
        elif out.shape == np.broadcast_shapes(out.shape, found.shape):
            out += found
        else:
            out = out + found
    return out


def _product(factors: Sequence[np.ndarray | float]) -> np.ndarray:
    """A new array; small factors are multiplied with each other first."""
    number = math.prod(factor for factor in factors if not isinstance(factor, np.ndarray))
    arrays = sorted((f for f in factors if isinstance(f, np.ndarray)), key=np.size)
    parts: list[np.ndarray] = [arrays[0] * number]
    for factor in arrays[1:]:
        if sum(n > 1 for n in np.broadcast_shapes(parts[-1].shape, factor.shape)) < 4:
            parts[-1] = parts[-1] * factor
        else:
            parts.append(factor)
    if len(parts) == 1:
        return parts[0]
    out = parts[-1] * parts[-2]
    for part in parts[:-2]:
        out *= part
    return out
