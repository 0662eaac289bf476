r"""The end of training as a function of what a network is at its start: its own NTK, dNTK and ddNTKs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from scalewise.training._spectrum import Spectrum, regular
from scalewise.training.dynamics._state import NetworkState, error_of

Points = Float[np.ndarray, " point"]


@runtime_checkable
class TensorWeights(Protocol):
    r"""Weights of the tensors by an algorithm, in eigendirections of the NTK of the training points.

    Args:
        gain: $g$; $1/h$ after training to the end.
        A: Of $\widehat{dH}_{1\delta2}$.
        B: Of $\widehat{dH}_{\delta12}$.
        IA: Of $\widehat{dd_IH}_{1\delta23}$.
        IB: Of $\widehat{dd_IH}_{\delta123}$.
        IIA: Of $\widehat{dd_{II}H}_{12\delta3}$.
        IIB: Of $\widehat{dd_{II}H}_{\delta123}$.
    """

    @property
    def gain(self) -> np.ndarray: ...
    @property
    def A(self) -> np.ndarray: ...
    @property
    def B(self) -> np.ndarray: ...
    @property
    def IA(self) -> np.ndarray: ...
    @property
    def IB(self) -> np.ndarray: ...
    @property
    def IIA(self) -> np.ndarray: ...
    @property
    def IIB(self) -> np.ndarray: ...


Algorithm = Callable[[Float[np.ndarray, " direction"]], TensorWeights]


def trained_outputs(state: NetworkState, targets: np.ndarray, algorithm: Algorithm) -> Points:
    r"""Outputs of one network at the end of its training.

    $$z_I(T)=z_I-\widehat H_{IJ}v_J+F_I-\widehat H_{IJ}(\widehat H^{-1}F)_J,\qquad v=\widehat H^{-1}e$$

    with $F$ of `force_sum`. Nothing is expanded in the fluctuation of the NTK, whose lines have the wrong sign in
    print, and the projectors too are those of this network's own NTK.

    Args:
        state: The network at its start.
        targets: $y$ of the training points, which come first.
        algorithm: From eigenvalues of the NTK of the training points to the projectors.

    Returns:
        On all points, up to the $O(1/n^2)$ of terms quadratic in the dNTK.

    Raises:
        ValueError: If the NTK of the training points is not positive, or there are too many targets.

    Source: PDLT (∞.55), (∞.141), (∞.154), the two lines with $\widehat{\Delta H}$ corrected.
    """
    error, carried, _ = _parts(state, targets, algorithm)
    F = force_sum(state, targets, algorithm)
    A = slice(len(targets))
    return state.outputs - carried @ (error + F[A]) + F


def force_sum(state: NetworkState, targets: np.ndarray, algorithm: Algorithm) -> Points:
    r"""The change of outputs by dNTK and ddNTKs over the whole training, before training points are pulled back.

    $$\begin{aligned}F_\delta={}&\widehat{dH}_{1\delta2}Z_Aee+\widehat{dH}_{\delta12}Z_Bee
      +\widehat{dd_IH}_{1\delta23}Z_{IA}eee+\widehat{dd_IH}_{\delta123}Z_{IB}eee\\
      &+\widehat{dd_{II}H}_{12\delta3}Z_{IIA}eee+\widehat{dd_{II}H}_{\delta123}Z_{IIB}eee\end{aligned}$$

    Args:
        state: As of `trained_outputs`.
        targets: Likewise.
        algorithm: Likewise.

    Returns:
        For gradient descent $\eta\sum_{s=0}^\infty\mathbb F(s)$ of `damping_force`, on all points.

    Raises:
        ValueError: As `trained_outputs` does.

    Source: PDLT (∞.131)-(∞.141).
    """
    error, _, (modes, Z) = _parts(state, targets, algorithm)
    A, x, turned = slice(len(targets)), modes.U.T @ error, modes.on_samples
    two, three = np.multiply.outer(x, x), np.multiply.outer(np.multiply.outer(x, x), x)

    dH, first, second = state.dntk, state.dd_first, state.dd_second
    F = np.einsum("adb,ab->d", dH[A, :, A], turned(Z.A * two))
    F += np.einsum("dab,ab->d", dH[:, A, A], turned(Z.B * two))
    F += np.einsum("adbc,abc->d", first[A, :, A, A], turned(Z.IA * three))
    F += np.einsum("dabc,abc->d", first[:, A, A, A], turned(Z.IB * three))
    F += np.einsum("abdc,abc->d", second[A, A, :, A], turned(Z.IIA * three))
    return F + np.einsum("dabc,abc->d", second[:, A, A, A], turned(Z.IIB * three))


def trained_ntk(
    state: NetworkState, targets: np.ndarray, algorithm: Algorithm
) -> Float[np.ndarray, "point train"]:
    r"""$H^\sharp=\widehat H+\mathbb H$, with which kernel regression predicts what training does.

    $$\mathbb H_{IJ}(\widehat H^{-1}e)_J=-F_I,\qquad
      z_I(T)=z_I-H^\sharp_{IJ}\big((\tilde H^\sharp)^{-1}e\big)_J$$

    It is not unique; this one differs from $\widehat H$ by a matrix of rank one, the smallest.

    Args:
        state: As of `trained_outputs`.
        targets: Likewise.
        algorithm: Likewise.

    Returns:
        Between all points and the training points.

    Raises:
        ValueError: As `trained_outputs` does, or if there is no error to train away.

    Source: PDLT (∞.155)-(∞.159).
    """
    error, _, (modes, Z) = _parts(state, targets, algorithm)
    v = modes.U @ (Z.gain * (modes.U.T @ error))
    if not v.any():
        raise ValueError("`targets` must differ from the outputs; there is nothing to train here.")
    F = force_sum(state, targets, algorithm)
    return state.ntk[:, : len(targets)] - np.multiply.outer(F, v) / (v @ v)


def _parts(
    state: NetworkState, targets: np.ndarray, algorithm: Algorithm
) -> tuple[np.ndarray, np.ndarray, tuple[Spectrum, TensorWeights]]:
    """The error, H(all, train) times the inverse, and eigendirections with the projectors."""
    error, A = error_of(state, targets), slice(len(targets))
    modes = regular(state.ntk[A, A], "NTK of the training points")
    Z = algorithm(modes.h)
    return error, (state.ntk[:, A] @ modes.U * Z.gain) @ modes.U.T, (modes, Z)
