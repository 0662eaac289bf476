r"""How the metric of the last layer answers to the metric of an earlier one, to second order.

By Price's theorem $K^{(\ell+1)}_{ab}=C_b+C_W\langle\sigma_a\sigma_b\rangle$ depends on $A=K_{aa}$, $C=K_{ab}$ and
$B=K_{bb}$ of the layer below alone. So the kernel of the last layer is, pair by pair, a function $g(A,C,B)$ of the
kernel of any layer, and its derivatives

$$\alpha=g_A,\quad\beta=g_C,\quad g_{AA},\;g_{AC},\;g_{AB},\;g_{CC}$$

are six matrices ($g_B=\alpha^T$, $g_{BB}=g_{AA}^T$, $g_{BC}=g_{AC}^T$), carried from the last layer down by the chain
rule: whatever the depth, one neuron below is pushed to the top in one step.

Source: PDLT (4.115), (4.119) in the inverse-free form, composed over layers; derived.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scalewise.networks import MLP
from scalewise.theory.flow._layer import Layer

__all__ = ["Response", "Slope", "Step", "responses"]

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
        """What a symmetric change of the metric below makes of the one above, to first order."""
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
        """Of the last layer to itself."""
        none = np.zeros((count, count))
        return cls(none, np.ones((count, count)), none, none, none, none, is_last=True)

    def second(
        self,
        aabb: Float[np.ndarray, "*many sample sample"],
        aaab: Float[np.ndarray, "*many sample sample"],
        abab: Float[np.ndarray, "*many sample sample"],
    ) -> np.ndarray:
        r"""What a covariance $V$ of the metric adds to the mean of that of the last layer, $\frac12g'':V$.

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
class Step:
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


def responses(net: MLP, K: Float[np.ndarray, "layer sample sample"]) -> Iterator[Step]:
    """The hidden layers, the last first.

    Args:
        net: The network.
        K: Its kernel at every layer.
    """
    above = Response.at_the_top(K.shape[1])
    for layer in range(net.depth - 1, 0, -1):
        expected = Layer(net.activation, K[layer - 1])
        C_W = net.C_W[layer]
        whole = _below(above, expected, C_W)
        here = Slope(0.5 * C_W * expected.M(2, 0), C_W * expected.M(1, 1))
        yield Step(layer, expected.M(0, 0), above, here, whole)
        above = whole


def _below(g: Response, here: Layer, C_W: float) -> Response:
    """One layer further down, by the chain rule."""
    M20, M11 = C_W * here.M(2, 0), C_W * here.M(1, 1)
    M40, M31, M22 = C_W * here.M(4, 0), C_W * here.M(3, 1), C_W * here.M(2, 2)
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
