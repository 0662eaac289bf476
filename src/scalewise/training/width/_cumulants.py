r"""Third and fourth cumulants of trained outputs at order 1/n, each on one test sample.

With them, mean and covariance a distribution is known to order 1/n: the fifth cumulant and products of two of them
are of order $1/n^2$. In the notation of `_moments`, what joins three or four outputs is

$$\begin{aligned}
\kappa_{ijk}&=\sum_{\rm perm}\Big\{\tfrac12\mathbb E[\zeta_i\zeta_jM_{k1}]\,y_1
  -\mathbb E[M_{i1}M_{j2}]\,C_{k1}y_2-\mathbb E[\zeta_iZ\widehat{dH}_{k12}]\,(C_{j1}y_2+y_1C_{j2})
  -\mathbb E[Z\widehat{dd}_{k123}]\,(C_{i1}C_{j2}y_3+\dots)\Big\},\\
\kappa_{ijkl}&=V_{ij,kl}+V_{ik,jl}+V_{il,jk}+\sum_{\rm perm}\Big\{
  \tfrac12\mathbb E[M_{i1}M_{j2}]\,C_{k1}C_{l2}-\tfrac12\mathbb E[\zeta_i\zeta_jM_{k1}]\,C_{l1}\\
  &\qquad+\mathbb E[\zeta_iZ\widehat{dH}_{l12}]\,C_{j1}C_{k2}+\mathbb E[Z\widehat{dd}_{l123}]\,C_{i1}C_{j2}C_{k3}
  \Big\},
\end{aligned}$$

with $V$ that of $\zeta$ and sums over all orders of the outputs.

Source: PDLT (4.77), (∞.141), (∞.154) with the corrections of `_moments`; derived.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
from jaxtyping import Float

from scalewise.training.width._contractions import PairTensor
from scalewise.training.width._moments import Moments

_TARGET = "m"  # the neuron of a leg that ends in a target; of others the output at its end
Blocks = tuple[PairTensor, ...]


def third(moments: Moments) -> Float[np.ndarray, "output output output test"]:
    """Coefficient of 1/n of the third cumulant of the outputs on each test sample."""
    total = 0.5 * _joined(moments, _seen(moments), "kmij", "m")
    total = total - _joined(moments, _both(moments), "jikm", "im")
    for blocks in _of_dntk(moments):
        total = total - _joined(moments, blocks, "kjmi", "jm")
        total = total - _joined(moments, blocks, "kmji", "mj")
    for blocks in _of_ddntk(moments):
        for ends in ("ijm", "imj", "mij"):
            total = total - _joined(moments, blocks, f"k{ends}", ends)
    return _in_all_orders(total)


def fourth(moments: Moments) -> Float[np.ndarray, "output output output output test"]:
    """Coefficient of 1/n of the fourth cumulant of the outputs on each test sample."""
    total = 0.5 * _joined(moments, _both(moments), "jikl", "il")
    total = total - 0.5 * _joined(moments, _seen(moments), "klij", "l")
    for blocks in _of_dntk(moments):
        total = total + _joined(moments, blocks, "ljki", "jk")
    for blocks in _of_ddntk(moments):
        total = total + _joined(moments, blocks, "lijk", "ijk")
    four = tuple(b.with_values(_of_one(moments, b.values)) for b in moments.blocks("zzzz"))
    return _in_all_orders(total) + _joined(moments, four, "ijkl", "")


def _joined(moments: Moments, blocks: Blocks, neurons: str, ends: str) -> np.ndarray:
    """Errors put on the legs of a tensor of one test: the part that an output shares with them, or a target."""
    legs = "abc"[: len(ends)]
    operands = [
        (f"{_TARGET}{leg}", moments.y) if end == _TARGET else (f"d{leg}", moments.C)
        for leg, end in zip(legs, ends, strict=True)
    ]
    outputs = "".join(sorted(set(neurons) - {_TARGET}))
    return moments.sum(blocks, (neurons, f"d{legs}"), *operands, out=f"{outputs}d")


def _seen(moments: Moments) -> Blocks:
    r"""$\mathbb E[M_{\delta1}\zeta_\delta\zeta_\delta]$: test, direction."""
    left = moments.frame.left
    return tuple(b.with_values(np.einsum("dadd->da", left(b.values, 2))) for b in moments.initial)


def _both(moments: Moments) -> Blocks:
    r"""$\mathbb E[M_{\delta1}M_{\delta2}]$: test, directions."""
    return tuple(b.with_values(np.einsum("dadb->dab", b.values)) for b in moments.both)


def _of_dntk(moments: Moments) -> list[Blocks]:
    r"""$\mathbb E[Z\widehat{dH}_{\delta12}\zeta_\delta]$: test, directions."""
    left = moments.frame.left
    return [
        tuple(b.with_values(np.einsum("dabd->dab", left(b.values, 3))) for b in blocks)
        for part, blocks in moments.weighed.items()
        if part.startswith("dntk")
    ]


def _of_ddntk(moments: Moments) -> list[Blocks]:
    r"""$\mathbb E[Z\widehat{dd}_{\delta123}]$: test, directions."""
    return [blocks for part, blocks in moments.weighed.items() if part.startswith("ddntk")]


def _of_one(moments: Moments, values: np.ndarray) -> np.ndarray:
    r"""A tensor of $\zeta$ four times, on each test."""
    for axis in range(values.ndim):
        values = moments.frame.left(values, axis)
    return np.einsum("dddd->d", values)


def _in_all_orders(T: np.ndarray) -> np.ndarray:
    """The sum over all orders of the outputs, which come before the test."""
    outputs = range(T.ndim - 1)
    return np.sum([T.transpose(*order, T.ndim - 1) for order in permutations(outputs)], axis=0)
