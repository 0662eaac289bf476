r"""Tensors of a test and three training samples, contracted with an algorithm's weights.

In eigendirections $p,q,r$ of $\tilde H$ weights are $z_{pq}$ and $z_{pqr}$. The mean of an output is a polynomial
of the targets; its derivative by them is what the covariance with initial outputs takes, which enter as $z-y$
and are Gaussian. Neurons pair in three ways, $\delta_{i1}\delta_{23}$, $\delta_{i2}\delta_{13}$,
$\delta_{i3}\delta_{12}$, each with a tensor. Of the first, for weights times tensor $w_{\delta pqr}$,
$$m_{i\delta}=-\sum w_{\delta pqr}\big[y_{ip}(\textstyle\sum_jy_{jq}y_{jr}+n_LK_{qr})
  +y_{iq}K_{pr}+y_{ir}K_{pq}\big].$$

Source: PDLT (∞.161)-(∞.165), derived by Wick's theorem from (∞.141) and (∞.154) with the signs put right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scalewise.training.tiles._recursions import Tensors
from scalewise.training.tiles._setting import Setting

__all__ = ["TRAINED_PARTS", "Share"]

Legs = Float[np.ndarray, "test direction direction_1 direction_2"]
Along = Float[np.ndarray, "test train"]
Across = Float[np.ndarray, "test output output_1 train"]


@dataclass
class Share:
    r"""A part of the mean of the outputs, as a function of the targets.

    Args:
        along: $L_{\delta\tilde\alpha}$ with $m_{i\delta}=\sum L_{\delta\tilde\alpha}y_{i\tilde\alpha}$.
        across: $\partial m_{i\delta}/\partial y_{j\tilde\alpha}-\delta_{ij}L_{\delta\tilde\alpha}$, with axes
            $\delta,i,j,\tilde\alpha$; ``None`` if $L$ does not depend on the targets.
    """

    along: Along
    across: Across | None = None


def _directions(tensor: Float[np.ndarray, "test train train_1 train_2"], U: np.ndarray) -> Legs:
    """Training legs in eigendirections."""
    for _ in range(3):
        tensor = np.tensordot(tensor, U, (1, 0))
    return tensor


def _first(setting: Setting, weights: np.ndarray, by: dict[int, np.ndarray]) -> Share:
    r"""From $\widehat{dH}$: $\sum z_{pq}\mathbb E[\widehat{dH}\,e_pe_q]$.

    Args:
        setting: What is trained.
        weights: $z_{pq}$.
        by: Tensors with axes $\delta,1,2$ and the initial output, by the leg whose neuron pairs with it; 0 for
            the test leg.
    """
    U, n = setting.U, setting.outputs
    eigen = {leg: _directions(tensor, U) for leg, tensor in by.items()}
    # The initial output is that of the first error, or of the second.
    on_first = {leg: np.einsum("dpqp->dpq", tensor) for leg, tensor in eigen.items()}
    on_second = {leg: np.einsum("dpqq->dpq", tensor) for leg, tensor in eigen.items()}
    first = on_first[0] + n * on_first[1] + on_first[2]
    second = on_second[0] + on_second[1] + n * on_second[2]
    found = np.einsum("pq,dpq->dq", weights, first) + np.einsum("pq,dpq->dp", weights, second)
    return Share(-found @ U.T)


def _second(setting: Setting, weights: np.ndarray, by: dict[int, np.ndarray]) -> Share:
    r"""From a second differential: $\sum z_{pqr}\mathbb E[\widehat{dd}H]\,\mathbb E[e_pe_qe_r]$.

    Args:
        setting: What is trained.
        weights: $z_{pqr}$.
        by: Tensors with axes $\delta,1,2,3$ by the leg whose neuron is that of the test leg.
    """
    K, y, n = setting.eigen_K, setting.eigen_y, setting.outputs
    pairs = y.T @ y + n * K
    along, across = 0.0, 0.0
    for leg, tensor in by.items():
        # The leg with the neuron of the output in front.
        w = np.moveaxis(_directions(tensor, setting.U) * weights, leg, 1)
        flat = w.reshape(*w.shape[:2], -1)
        along = along + flat @ pairs.ravel()
        along = along + np.einsum("dpqr,pr->dq", w, K, optimize=True)
        along = along + np.einsum("dpqr,pq->dr", w, K, optimize=True)
        own = np.einsum("ip,dpqr->diqr", y, w, optimize=True)
        across = across + np.einsum("diqr,jq->dijr", own, y, optimize=True)
        across = across + np.einsum("diqr,jr->dijq", own, y, optimize=True)
    return Share(-along @ setting.U.T, -across @ setting.U.T)


def _dntk_A(setting: Setting, tensors: Tensors) -> Share:
    P, Q = tensors.last("P", 1, 0, 2, 3), tensors.last("Q", 1, 0, 2, 3)
    return _first(setting, setting.weights.A, {1: P, 2: Q, 0: tensors.last("Q", 1, 2, 0, 3)})


def _dntk_B(setting: Setting, tensors: Tensors) -> Share:
    P, Q = tensors.last("P", 0, 1, 2, 3), tensors.last("Q", 0, 1, 2, 3)
    return _first(setting, setting.weights.B, {0: P, 2: Q, 1: tensors.last("Q", 0, 2, 1, 3)})


def _ddntk_I_A(setting: Setting, tensors: Tensors) -> Share:
    R = (1, 0, 2, 3), (1, 3, 0, 2), (1, 2, 3, 0)
    by = {leg: tensors.last("R", *labels) for leg, labels in enumerate(R, 1)}
    return _second(setting, setting.weights.IA, by)


def _ddntk_I_B(setting: Setting, tensors: Tensors) -> Share:
    R = (0, 1, 2, 3), (0, 2, 3, 1), (0, 3, 1, 2)
    by = {leg: tensors.last("R", *labels) for leg, labels in enumerate(R, 1)}
    return _second(setting, setting.weights.IB, by)


def _ddntk_II_A(setting: Setting, tensors: Tensors) -> Share:
    T, U, S = (
        tensors.last(x, *labels)
        for x, labels in (("T", (1, 0, 3, 2)), ("U", (1, 3, 2, 0)), ("S", (1, 2, 0, 3)))
    )
    return _second(setting, setting.weights.IIA, {1: T, 2: U, 3: S})


def _ddntk_II_B(setting: Setting, tensors: Tensors) -> Share:
    S, T, U = (
        tensors.last(x, *labels)
        for x, labels in (("S", (0, 1, 2, 3)), ("T", (0, 2, 3, 1)), ("U", (0, 3, 1, 2)))
    )
    return _second(setting, setting.weights.IIB, {1: S, 2: T, 3: U})


TRAINED_PARTS: dict[str, Callable[[Setting, Tensors], Share]] = {
    "dntk_A": _dntk_A,
    "dntk_B": _dntk_B,
    "ddntk_I_A": _ddntk_I_A,
    "ddntk_I_B": _ddntk_I_B,
    "ddntk_II_A": _ddntk_II_A,
    "ddntk_II_B": _ddntk_II_B,
}
