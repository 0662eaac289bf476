r"""Second order in what single units move: products of two changes on average, and what a unit does to itself.

With $a=\delta K_{ss}$, $b=\delta K_{tt}$, $c=\delta K_{st}$ the average $\langle\sigma_s\sigma_t\rangle$ moves by
$$\tfrac18(a^2M_{40}+b^2M_{04})+\tfrac12M_{22}(c^2+\tfrac12ab)+\tfrac12c(aM_{31}+bM_{13})$$
and $\langle\sigma'_s\sigma'_ty_sy_t\rangle$ by $\Theta$ times the same with both orders one higher, and
$$\delta\Theta(\tfrac12aM_{31}+cM_{22}+\tfrac12bM_{13})
+M_{31}X_{ss}X_{st}+M_{22}(X_{ss}X_{tt}+X_{ts}X_{st})+M_{13}X_{ts}X_{tt}.$$
Along a stream the unit whose earlier values move a law is drawn from it later, too.

Source: derived; PDLT (4.115), (8.59) are its values for fully connected layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from scalewise.theory.order._layout import Hop
from scalewise.theory.order._strips import Moments
from scalewise.theory.order._unit_responses import (
    Alone,
    Block,
    FreshUnits,
    Labels,
    UnitChange,
    UnitScene,
)

Square = Float[np.ndarray, "_row _column"]
BEYOND = ((2, 2), (3, 1), (1, 3), (4, 0), (0, 4))
OF_NTK = ((3, 3), (4, 2), (2, 4), (5, 1), (1, 5))


@dataclass(frozen=True)
class Products:
    """Averages over units of products of two changes, on pairs of labels.

    Args:
        variances: Of the first labels, of the second ones, and of one with the other.
        K: Of variances at the first and at the second label, and of the covariance, with the covariance.
        Theta: Of the same with that of tangents; nothing where the NTK is not wanted.
        X: What goes with $M_{31}$, $M_{22}$ and $M_{13}$ of products of a field and a tangent.
    """

    variances: tuple[np.ndarray, np.ndarray, Square]
    K: tuple[Square, ...]
    Theta: tuple[Square, ...] | None = None
    X: tuple[Square, ...] | None = None

    @staticmethod
    def of(change: UnitChange, first: Alone, second: Alone) -> Products:
        """Sums over some units."""
        a, b, c = first.K, second.K, change.K
        variances = np.einsum("pn,pn->p", a, a), np.einsum("qn,qn->q", b, b), a @ b.T
        K = _with(a, b, c, c)
        T, X, Y = change.Theta, change.X, change.Y
        if T is None or X is None or Y is None:
            return Products(variances, K)
        assert first.X is not None
        assert second.X is not None
        mixed = (
            np.einsum("pn,pqn->pq", first.X, X),
            first.X @ second.X.T + np.einsum("pqn,pqn->pq", Y, X),
            np.einsum("pqn,qn->pq", Y, second.X),
        )
        return Products(variances, K, _with(a, b, c, T), mixed)

    def bent(self, M: Moments, p: int) -> Square:
        r"""The second order of $\langle\sigma^{(p)}\sigma^{(p)}\rangle$."""
        (aa, bb, ab), (ac, bc, cc) = self.variances, self.K
        found = 0.125 * (aa[:, None] * M[4 + p, p] + bb * M[p, 4 + p])
        found += 0.5 * M[2 + p, 2 + p] * (cc + 0.5 * ab)
        return found + 0.5 * (M[3 + p, 1 + p] * ac + M[1 + p, 3 + p] * bc)

    def bent_ntk(self, M: Moments, Theta: Square) -> Square:
        """The second order of averages of derivatives and tangents."""
        total = Theta * self.bent(M, 1)
        assert self.Theta is not None
        assert self.X is not None
        for pq, half, T, X in zip(
            ((3, 1), (1, 3), (2, 2)), (0.5, 0.5, 1.0), self.Theta, self._by_order(), strict=True
        ):
            total += M[pq] * (half * T + X)
        return total

    def _by_order(self) -> tuple[Square, Square, Square]:
        assert self.X is not None
        first, middle, second = self.X
        return first, second, middle


def _with(a: Labels, b: Labels, c: Block, other: Block) -> tuple[Square, Square, Square]:
    return (
        np.einsum("pn,pqn->pq", a, other),
        np.einsum("qn,pqn->pq", b, other),
        np.einsum("pqn,pqn->pq", c, other),
    )


@dataclass
class ProductSums:
    """Answers of layers at second order, on average over units.

    Args:
        K: Of averages of products of activations, by layer.
        Theta: Of those of their derivatives and tangents.
    """

    K: dict[int, Square] = field(default_factory=dict)
    Theta: dict[int, Square] = field(default_factory=dict)

    @staticmethod
    def beside(parts: Sequence[ProductSums]) -> ProductSums:
        """Those of more labels behind those of some."""
        found = ProductSums()
        for name in ("K", "Theta"):
            values = [getattr(part, name) for part in parts]
            for draw in values[0]:
                getattr(found, name)[draw] = np.concatenate([own[draw] for own in values], axis=1)
        return found

    def add(self, at: UnitScene, hop: Hop, products: Products, factor: float) -> None:
        """Products of changes."""
        M = at.moments[hop.draw]
        _put(self.K, hop, factor * products.bent(M, 0))
        if products.Theta is not None:
            _put(self.Theta, hop, factor * products.bent_ntk(M, at.Theta[hop.draw]))

    def remember(
        self,
        at: UnitScene,
        hop: Hop,
        change: UnitChange,
        alone: tuple[Alone, Alone],
        units: FreshUnits,
        factor: float,
    ) -> None:
        """Add the past of units themselves, where they have moved the law that they are drawn from."""
        size, (first, second) = len(hop.at), alone
        here = units.read(hop, at.known.layout.inputs)
        s, t = here.only(at.rows(size)), here.only(at.columns(size))
        a, b, c = first.K, second.K, change.K
        _put(self.K, hop, factor * _moved(s.s[:3], t.s[:3], a, b, c))
        T, X, Y = change.Theta, change.X, change.Y
        if T is None or X is None or Y is None or s.y is None or t.y is None:
            return
        assert first.X is not None
        assert second.X is not None
        total = at.Theta[hop.draw] * _moved(s.s[1:], t.s[1:], a, b, c)
        total += np.einsum("pn,qn,pqn->pq", s.s[1], t.s[1], T)
        total += (s.s[2] * first.X) @ (t.s[1] * t.y).T
        total += np.einsum("pn,qn,pqn->pq", s.s[1], t.s[2] * t.y, Y)
        total += np.einsum("pn,qn,pqn->pq", s.s[2] * s.y, t.s[1], X)
        total += (s.s[1] * s.y) @ (t.s[2] * second.X).T
        _put(self.Theta, hop, factor * total)


def _moved(s: tuple[Labels, ...], t: tuple[Labels, ...], a: Labels, b: Labels, c: Block) -> Square:
    """The change of an average of a product at fixed values of a unit."""
    found = 0.5 * (s[2] * a) @ t[0].T + 0.5 * s[0] @ (t[2] * b).T
    return found + np.einsum("pn,qn,pqn->pq", s[1], t[1], c)


def _put(sums: dict[int, Square], hop: Hop, values: Square) -> None:
    known = sums.get(hop.draw)
    sums[hop.draw] = values if known is None else known + values
