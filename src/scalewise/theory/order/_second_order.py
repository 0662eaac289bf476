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

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from scalewise.theory.order._layout import Hop
from scalewise.theory.order._unit_responses import Alone, Block, Change, Fresh, Labels, Scene

Square = Float[np.ndarray, "_row _column"]
BEYOND = ((2, 2), (3, 1), (1, 3), (4, 0), (0, 4))
OF_NTK = ((3, 3), (4, 2), (2, 4), (5, 1), (1, 5))


@dataclass
class Sums:
    """What one layer answers with at second order, summed over units.

    Args:
        K: Of averages of products of activations.
        Theta: Of those of their derivatives and tangents.
    """

    K: dict[int, Square] = field(default_factory=dict)
    Theta: dict[int, Square] = field(default_factory=dict)

    def add(self, at: Scene, hop: Hop, change: Change, first: Alone, second: Alone) -> None:
        """Products of changes."""
        M, a, b, c = at.moments[hop.draw], first.K, second.K, change.K
        aa, bb = np.einsum("pn,pn->p", a, a), np.einsum("qn,qn->q", b, b)
        ab, cc = a @ b.T, np.einsum("pqn,pqn->pq", c, c)
        ac, bc = np.einsum("pn,pqn->pq", a, c), np.einsum("qn,pqn->pq", b, c)

        def bent(p: int) -> Square:
            found = 0.125 * (aa[:, None] * M[4 + p, p] + bb * M[p, 4 + p])
            found += 0.5 * M[2 + p, 2 + p] * (cc + 0.5 * ab)
            return found + 0.5 * (M[3 + p, 1 + p] * ac + M[1 + p, 3 + p] * bc)

        _put(self.K, hop, bent(0))
        T, X, Y = change.Theta, change.X, change.Y
        if T is None or X is None or Y is None:
            return
        assert first.X is not None
        assert second.X is not None
        total = at.Theta[hop.draw] * bent(1)
        total += 0.5 * M[3, 1] * np.einsum("pn,pqn->pq", a, T)
        total += M[2, 2] * np.einsum("pqn,pqn->pq", c, T)
        total += 0.5 * M[1, 3] * np.einsum("qn,pqn->pq", b, T)
        total += M[3, 1] * np.einsum("pn,pqn->pq", first.X, X)
        total += M[2, 2] * (first.X @ second.X.T + np.einsum("pqn,pqn->pq", Y, X))
        total += M[1, 3] * np.einsum("pqn,qn->pq", Y, second.X)
        _put(self.Theta, hop, total)

    def remember(
        self, at: Scene, hop: Hop, change: Change, alone: tuple[Alone, Alone], units: Fresh
    ) -> None:
        """What units do to themselves, where they have moved the law that they are drawn from."""
        size, (first, second) = len(hop.at), alone
        here = units.read(hop, at.known.layout.inputs)
        s, t = here.only(at.rows(size)), here.only(at.columns(size))
        a, b, c = first.K, second.K, change.K
        _put(self.K, hop, _moved(s.s[:3], t.s[:3], a, b, c))
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
        _put(self.Theta, hop, total)


def _moved(s: tuple[Labels, ...], t: tuple[Labels, ...], a: Labels, b: Labels, c: Block) -> Square:
    """The change of an average of a product at fixed values of a unit."""
    found = 0.5 * (s[2] * a) @ t[0].T + 0.5 * s[0] @ (t[2] * b).T
    return found + np.einsum("pn,qn,pqn->pq", s[1], t[1], c)


def _put(sums: dict[int, Square], hop: Hop, values: Square) -> None:
    known = sums.get(hop.draw)
    sums[hop.draw] = values if known is None else known + values
