r"""Shifts of the outputs of one network by its dNTK and ddNTKs, without a tensor that has three samples.

While the error falls as a linear model's does, $\epsilon(s)=p(s)e$, parameters are moved by it along a path
$\theta-\varphi+\psi-\chi$ whose parts are of first, second and third order in the network's derivatives,

$$\varphi=W[\Lambda J^T\epsilon],\qquad\psi=W[\Lambda(z''\!\cdot\epsilon)\varphi],$$
$$\chi=W\big[\tfrac12\Lambda(z'''\!\cdot\epsilon)\varphi\varphi
  +\Lambda(z''\!\cdot\epsilon)\psi\big],$$

$W[f](t)=\sum_sw_{ts}f(s)$ what the algorithm makes of gradients. Beside the $-J\varphi$ of the linear model,
outputs along it have $F=J\psi+\frac12z''\varphi\varphi-J\chi-z''\varphi\psi-\frac16z'''\varphi^3$: the six
lines with $\widehat{dH}$, $\widehat{dd_IH}$, $\widehat{dd_{II}H}$ of (∞.135)-(∞.141). On training samples $F$ is an
error that drives the network again, which leaves $F_\delta-\widehat H_{\delta\cdot}\mathcal R[F]$ with the response
$\mathcal R$ of `width._course`; at the end $F_\delta-\widehat H_{\delta\cdot}gF$.

Source: PDLT (∞.55), (∞.131)-(∞.141), (∞.154), at any time, rate, momentum and ridge; along paths, derived.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from scalewise.training._algorithm import Algorithm
from scalewise.training.width._course import Clock, OutOfRoom

ACCURACY = 1e-6  # relative, of sums over times
_ROOM = 2**27  # numbers that all displacements on the way may take
Flat = Float[np.ndarray, " parameter"]


@runtime_checkable
class Curvature(Protocol):
    r"""One model as a function of a flat vector of its parameters, along $\theta+\sum_k\tau^k\theta^{(k)}$."""

    @property
    def parameters(self) -> int:
        """How many there are."""
        ...

    @property
    def obstacle(self) -> str:
        """A clause that says why it has no third derivatives; empty if it has."""
        ...

    def gradients(
        self, errors: Float[np.ndarray, "train output"], path: Sequence[Flat] = ()
    ) -> list[Flat]:
        r"""Terms of $\Lambda\frac{d}{d\theta}\sum\epsilon z$ in powers of $\tau$, from order 0.

        Args:
            errors: $\epsilon$ on the training samples, the first that the model was made for.
            path: $\theta^{(1)},\theta^{(2)}$, or fewer; as many powers are wanted.
        """
        ...

    def outputs(self, path: Sequence[Flat], count: int | None = None) -> list[np.ndarray]:
        r"""Terms of $z$ in powers of $\tau$, from order 0; each (sample, output).

        Args:
            path: $\theta^{(1)}$ to $\theta^{(3)}$.
            count: Of how many samples, from the first; all if ``None``.
        """
        ...


class Moving(NamedTuple):
    r"""A network that is about to be trained, in eigendirections of its own NTK.

    Args:
        curvature: The model.
        h: Eigenvalues of the NTK of the training points.
        U: Eigenvectors, a point being a sample and an output.
        H: The NTK of all points with the training points.
        e: $z-y$ on the training points.
        shape: Training samples and outputs.
    """

    curvature: Curvature
    h: Float[np.ndarray, " direction"]
    U: Float[np.ndarray, "point direction"]
    H: Float[np.ndarray, "every point"]
    e: Float[np.ndarray, " point"]
    shape: tuple[int, int]

    def errors(self, weights: Float[np.ndarray, " direction"]) -> Float[np.ndarray, "train output"]:
        """The error at the start, weighed direction by direction."""
        return (self.U @ (weights * (self.U.T @ self.e))).reshape(self.shape)

    def bent(self, errors: Float[np.ndarray, "train output"], path: Sequence[Flat]) -> list[Flat]:
        """The orders of a gradient behind the first."""
        return self.curvature.gradients(errors, path)[1:]

    def force(self, path: Sequence[Flat], count: int | None = None) -> Float[np.ndarray, "point 2"]:
        """$F$ by the dNTK and by the ddNTKs, points in a row."""
        _, _, second, third = self.curvature.outputs(path, count)
        return np.stack([second.reshape(-1), third.reshape(-1)], axis=1)


def curved_shift(
    at: Moving,
    algorithm: Algorithm,
    time: float | None,
    *,
    room: int = _ROOM,
) -> Float[np.ndarray, "every 2"]:
    """The change that training adds to the outputs of the linear model, in first order of dNTK and of ddNTKs.

    Args:
        at: The network.
        algorithm: How it is trained.
        time: In place of the algorithm's own; a number of steps, of gradient descent.
        room: Numbers that all displacements on the way may take.

    Returns:
        Of all points, one column by the dNTK, one by the ddNTKs, up to products of two such tensors,
        $O(1/n^2)$. At the end of training that takes some tens of gradients, whatever the number of samples and
        steps; on the way, ten for each step, or node of the time.

    Raises:
        OutOfRoom: If all displacements take more memory than there is.
    """
    targets = at.e.size
    clock = algorithm.clock(at.h, time, targets=targets)
    if clock is None:
        F, gain = _at_the_end(at, algorithm)
        back = gain[:, None] * (at.U.T @ F[:targets])
    else:
        F, back = _on_the_way(at, clock, algorithm.ridge, room)
    return F - at.H @ (at.U @ back)


def _at_the_end(at: Moving, algorithm: Algorithm) -> tuple[np.ndarray, np.ndarray]:
    """By the few times whose sums the projectors are; all legs that multiply φ are alike."""
    Z = algorithm.sums_at_the_end(at.h, targets=at.e.size, accuracy=ACCURACY)
    pulled = at.curvature.gradients
    psi = np.zeros(at.curvature.parameters)
    for first, gain in Z.A:
        psi += at.bent(at.errors(first), [pulled(at.errors(gain))[0]])[0]
    chi = np.zeros_like(psi)
    for (
        first,
        gain,
        _,
    ) in Z.IA:  # legs -c p / 2, g, g; half of the third derivative is the term of second order
        phi = pulled(at.errors(gain))[0]
        chi -= 2 * at.bent(at.errors(first), [phi, np.zeros_like(phi)])[1]
    for outer, inner, gain in Z.IIA:
        phi = pulled(at.errors(gain))[0]
        chi -= at.bent(at.errors(outer), at.bent(at.errors(inner), [phi]))[0]
    phi = pulled(at.errors(Z.gain))[0]
    return at.force([-phi, psi, -chi]), Z.gain


def _on_the_way(at: Moving, clock: Clock, ridge: float, room: int) -> tuple[np.ndarray, np.ndarray]:
    """At all times, and the response to what they bring about on the training samples."""
    times, count, rho = clock.weights.size, at.shape[0], np.array(ridge)
    if times * at.curvature.parameters > room:
        raise OutOfRoom(
            f"`algorithm` takes {times} times, at each of which {at.curvature.parameters} parameters are moved, "
            "more than the memory has room for; train to the end, or stop earlier"
        )
    x = at.h + ridge
    on_the_way, end = clock.forward(np.ones((times, at.h.size)), x)
    gains = [*on_the_way, end]
    errors = [at.errors(1 - at.h * g) for g in gains]
    phi = [at.curvature.gradients(at.errors(g))[0] for g in gains]
    sources = [at.bent(e, [f])[0] for e, f in zip(errors[:-1], phi[:-1], strict=True)]
    psi = _added(clock, sources, rho)
    sources = [
        at.bent(e, [-f, p])[1] for e, f, p in zip(errors[:-1], phi[:-1], psi[:-1], strict=True)
    ]
    chi = _added(clock, sources, rho)
    paths = [[-f, p, -c] for f, p, c in zip(phi, psi, chi, strict=True)]
    seen = np.array([at.U.T @ at.force(path, count) for path in paths[:-1]])
    back = [clock.forward(part, x)[1] for part in np.moveaxis(seen, -1, 0)]
    return at.force(paths[-1]), np.stack(back, axis=1)


def _added(clock: Clock, sources: list[Flat], rho: np.ndarray) -> list[Flat]:
    """Displacements of the parameters by gradients at all times, at each of them and at the end."""
    on_the_way, end = clock.forward(np.array(sources), rho)
    return [*on_the_way, end]
