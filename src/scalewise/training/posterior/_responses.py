r"""Responses of the metric of the last layer to that of an earlier one, to second order.

By Price's theorem $K^{(\ell+1)}_{ab}=C_b+C_W\langle\sigma_a\sigma_b\rangle$ depends on $A=K_{aa}$, $C=K_{ab}$
and $B=K_{bb}$ of the layer below alone. So the kernel of the last layer is, pair by pair, a function $g(A,C,B)$ of
the kernel of any layer, and its derivatives

$$\alpha=g_A,\quad\beta=g_C,\quad g_{AA},\;g_{AC},\;g_{AB},\;g_{CC}$$

are six matrices ($g_B=\alpha^T$, $g_{BB}=g_{AA}^T$, $g_{BC}=g_{AC}^T$), carried from the last layer down by the
chain rule: whatever the depth, one neuron below is pushed to the top in one step.

Source: PDLT (4.115), (4.119) in the inverse-free form, composed over layers; derived.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.networks import Network
from scalewise.theory.spi import FIRST, SECOND, UnorderedPairs, moments_on_pairs

PAIRS = 1 << 15  # at a time: a series for each of them takes its memory
_BOTH = (((0, 0), *FIRST), SECOND)  # moments that are made together
Matrix = Float[np.ndarray, "sample sample"]


@dataclass(frozen=True)
class Slope:
    r"""First derivatives of one metric by that of a layer below.

    Args:
        alpha: $\alpha$, by the diagonal entry of the first sample.
        beta: $\beta$.
    """

    alpha: Matrix
    beta: Matrix

    def first(self, dK: Float[np.ndarray, "*many sample sample"]) -> np.ndarray:
        """First-order change of the metric above by a symmetric change of the one below."""
        by_diagonal = self.alpha * np.einsum("...aa->...a", dK)[..., :, None]
        return by_diagonal + self.beta * dK + np.swapaxes(by_diagonal, -1, -2)


@dataclass(frozen=True)
class Response(Slope):
    r"""Derivatives of the metric of the last layer by that of another, to second order.

    Args:
        is_last: Whether it is the last layer's own: $\beta=1$ and all else 0.
        AA: $g_{AA}$.
        AC: $g_{AC}$.
        AB: $g_{AB}$.
        CC: $g_{CC}$.
    """

    AA: Matrix
    AC: Matrix
    AB: Matrix
    CC: Matrix
    is_last: bool = False

    @classmethod
    def at_the_top(cls, count: int) -> Response:
        """The response of the last layer to itself."""
        none = np.zeros((count, count))
        return cls(none, np.ones((count, count)), none, none, none, none, is_last=True)

    def second(
        self,
        aabb: Float[np.ndarray, "*many sample sample"],
        aaab: Float[np.ndarray, "*many sample sample"],
        abab: Float[np.ndarray, "*many sample sample"],
    ) -> np.ndarray:
        r"""The mean of the last layer's metric that a covariance $V$ of the metric adds, $\frac12g'':V$.

        Args:
            aabb: $V_{(aa)(bb)}$.
            aaab: $V_{(aa)(ab)}$.
            abab: $V_{(ab)(ab)}$.
        """
        aaaa = np.einsum("...aa->...a", abab)[..., :, None]
        one_sided = 0.5 * self.AA * aaaa + self.AC * aaab
        both = self.AB * aabb + 0.5 * self.CC * abab
        return one_sided + np.swapaxes(one_sided, -1, -2) + both


@dataclass(frozen=True)
class LayerResponse:
    r"""One hidden layer among the responses.

    Args:
        layer: $\ell$.
        means: $\langle\sigma_a\sigma_b\rangle$ of the layer.
        above: Of the last metric to that of layer $\ell+1$.
        here: Of the metric of layer $\ell+1$ to that of $\ell$.
        whole: Of the last metric to that of $\ell$.
    """

    layer: int
    means: Matrix
    above: Response
    here: Slope
    whole: Response


def responses(net: Network, K: Float[np.ndarray, "layer sample sample"]) -> Iterator[LayerResponse]:
    """The hidden layers, the last first.

    Args:
        net: The network.
        K: Its kernel at every layer.
    """
    above = Response.at_the_top(K.shape[1])
    for layer in range(net.depth - 1, 0, -1):
        M, C_W = _moments(net.activation, K[layer - 1], _BOTH), net.C_W[layer]
        whole = _below(above, M, C_W)
        here = Slope(0.5 * C_W * M[2, 0], C_W * M[1, 1])
        yield LayerResponse(layer, M[0, 0], above, here, whole)
        above = whole


def first_moments(sigma: Activation, K: Matrix) -> dict[tuple[int, int], Matrix]:
    r"""$\langle\sigma_a\sigma_b\rangle$ and what its first derivatives are made of, of all pairs."""
    return _moments(sigma, K, (((0, 0), *FIRST),))


def _moments(
    sigma: Activation, K: Matrix, groups: Sequence[Sequence[tuple[int, int]]]
) -> dict[tuple[int, int], Matrix]:
    r"""$\langle\sigma^{(p)}_a\sigma^{(q)}_b\rangle$ of all pairs, some of them at a time."""
    every = UnorderedPairs.of(len(K))
    found = {pq: np.empty_like(K) for orders in groups for pq in orders}
    for start in range(0, every.first.size, PAIRS):
        some = slice(start, start + PAIRS)
        a, b = every.first[some], every.second[some]
        pairs = UnorderedPairs(a, b, every.index)
        for orders in groups:
            made = moments_on_pairs(sigma, K, pairs, orders)
            for p, q in orders:
                # The second transposed where both are there: a pair of equal inputs is in both.
                found[p, q][b, a] = made[q, p].value
                found[p, q][a, b] = made[p, q].value
    return found


def _below(g: Response, M: dict[tuple[int, int], Matrix], C_W: float) -> Response:
    """One layer further down, by the chain rule."""
    M20, M11, M40, M31, M22 = (C_W * M[pq] for pq in ((2, 0), (1, 1), (4, 0), (3, 1), (2, 2)))
    slope = np.diagonal(M20 + M11)
    bend = np.diagonal(0.5 * M40 + 2 * M31 + 1.5 * M22)
    a, b, p = slope[:, None], slope, 0.5 * M20
    return Response(
        g.alpha * a + g.beta * p,
        g.beta * M11,
        g.AA * a**2
        + 2 * g.AC * a * p
        + g.CC * p**2
        + g.alpha * bend[:, None]
        + 0.25 * g.beta * M40,
        (g.AC * a + g.CC * p) * M11 + 0.5 * g.beta * M31,
        g.AB * a * b + g.AC * a * p.T + g.AC.T * b * p + g.CC * p * p.T + 0.25 * g.beta * M22,
        g.CC * M11**2 + g.beta * M22,
    )
