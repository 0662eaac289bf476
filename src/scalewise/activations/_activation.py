r"""An activation function with all that the theory needs of it: derivatives, kinks, units.

An `Activation` is data: derivatives that run on NumPy arrays (the theory needs no tracing), a
JAX-traceable version of the function itself (networks are differentiated), and the facts that decide
which Gaussian engine may be used: where it has kinks, its parity, whether it is scale-invariant.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from scalewise._arrays import real_array
from scalewise._checked import FiniteNumber, Must, checked
from scalewise._readable import readable
from scalewise.activations._scale import scale_of, size_of

# Generic arguments, none at a kink; the first 33 are where most preactivations are.
_FAR = np.geomspace(4.1, 97.0, 16)
_FINGERPRINT = np.concatenate([np.linspace(-4.0, 4.0, 33) + 0.0123, _FAR, -_FAR[:-1]])

Derivative = Callable[[Float[np.ndarray, "..."]], Float[np.ndarray, "..."]]


@checked
@dataclass(frozen=True)
@readable
class Kink:
    r"""A point where $\sigma$ or $\sigma'$ jumps.

    Args:
        location: Where, in units of the preactivation.
        jump: $\sigma(\kappa^+)-\sigma(\kappa^-)$.
        slope_jump: $\sigma'(\kappa^+)-\sigma'(\kappa^-)$.
    """

    location: FiniteNumber
    jump: FiniteNumber = 0.0
    slope_jump: FiniteNumber = 0.0


Order = Annotated[int, Must("0, 1, 2 or 3", lambda k: 0 <= k <= 3)]


@checked
@dataclass(frozen=True)
@readable
class Activation:
    r"""An activation function $\sigma$ and what is known of it.

    Make one with `scalewise.activation`; the constructor is for the catalogue.

    Attributes:
        name: As the user wrote it, parameters included: ``"leaky_relu(0.1)"``.
        derivatives: $\sigma,\sigma',\sigma'',\sigma'''$ on float64 arrays of any shape; at a kink
            the derivative is taken almost everywhere (no delta function).
        traceable: Returns $\sigma$ as a JAX function. A thunk, so that the theory of a built-in
            activation never imports JAX.
        kinks: Where $\sigma$ or its first derivative jumps, in increasing order.
        breaks: Where a higher derivative jumps: quadrature splits there, no delta function arises.
        slopes: $(a_-,a_+)$ if $\sigma(z)=a_\pm z$ on either side of 0, else ``None``.
        parity: $+1$ even, $-1$ odd, $0$ neither or unknown.
        taylor: $\sigma_0,\dots,\sigma_5$ with $\sigma(z)=\sum_p\sigma_pz^p/p!$, or ``None`` where
            $\sigma$ has a kink at 0.
        family: Key of the closed forms in ``scalewise.gaussian`` (``None``: there are none).
        parameter: The parameter of the family (slope of ``leaky_relu``, power of ``monomial``).
        domain: Between which $z$ a callable can be computed with its derivatives. Beyond, they overflow or do not
            exist and are not numbers, and what needs them there is refused.
        unbounded: Kinks and breaks of a callable where the third derivative grows without bound; what takes it
            is refused.

    Source: PDLT (2.9)-(2.17), (5.80).
    """

    name: str
    derivatives: tuple[Derivative, Derivative, Derivative, Derivative] = field(repr=False)
    traceable: Callable[[], Callable[[Any], Any]] = field(repr=False)
    kinks: tuple[Kink, ...] = ()
    breaks: tuple[float, ...] = ()
    slopes: tuple[float, float] | None = None
    parity: Annotated[int, Must("1, -1 or 0", lambda sign: abs(sign) <= 1)] = 0
    taylor: tuple[float, ...] | None = None
    family: str | None = None
    parameter: float | None = None
    domain: tuple[float, float] = (-math.inf, math.inf)
    unbounded: tuple[float, ...] = ()

    def __call__(self, z: Any) -> Float[np.ndarray, "*_"]:
        r"""$\sigma(z)$ in float64."""
        return self.derivative(z, 0)

    @checked
    def derivative(self, z: Any, order: Order = 1) -> Float[np.ndarray, "*_"]:
        r"""$\sigma^{(k)}(z)$, $k\le3$, almost everywhere.

        Args:
            z: Preactivations, any shape.
            order: $k$, from 0 to 3.
        """
        array = real_array("`z`", z).astype(np.float64, copy=False)
        # NumPy would turn an array without dimensions into a scalar on the way.
        return np.reshape(self.derivatives[order](array.reshape(-1)), array.shape)

    def digest(self) -> str:
        """A fingerprint of the function, so that two of one name can be told apart.

        Returns:
            16 hexadecimal digits of the values, to nine digits of their size, at 64 arguments of the domain
            up to 100.
        """
        return self._digest

    @cached_property
    def _digest(self) -> str:
        with np.errstate(all="ignore"):
            reach = min(1.0, 0.01 * min(-self.domain[0], self.domain[1]))
            values = self(reach * _FINGERPRINT)
            size = np.max(np.abs(values[:33])) or 1.0
            text = " ".join(f"{v:.9g}" for v in [size, *(np.round(values / size, 9) + 0.0)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def beyond(self) -> str:
        """Advice where a question leaves the `domain`, in words; empty where the domain has no end."""
        low, high = self.domain
        if max(-low, high) == math.inf == min(-low, high):
            return ""
        return (
            f"{self.name!r} can be computed in float64 from {low:.4g} to {high:.4g} only: beyond, it or one of its "
            "first three derivatives overflows or does not exist. Write it so that none does, with the functions "
            "of jax.nn, jax.numpy.logaddexp or jax.numpy.where, or make C_b, C_W or the inputs smaller."
        )

    @property
    def split_points(self) -> tuple[float, ...]:
        """Points where a quadrature rule must be split: kinks and breaks, in increasing order."""
        return tuple(sorted({k.location for k in self.kinks} | set(self.breaks)))

    @cached_property
    def scale(self) -> float:
        r"""The preactivation at which $\sigma$ bends, a power of two; 1 where it has no scale.

        Found from the function; grids and tolerances are taken in its units.
        """
        return scale_of(self.derivatives[1], self.split_points)

    @cached_property
    def size(self) -> float:
        r"""Change of $\sigma$ on its `scale`, a power of two, in units of $\sigma$."""
        return size_of(self.derivatives[0], self.scale)

    @property
    def is_smooth(self) -> bool:
        """True if the Hermite series may be used: no kink and no break."""
        return not self.split_points

    @property
    def is_continuous(self) -> bool:
        r"""True if $\sigma$ itself has no jump."""
        return all(kink.jump == 0.0 for kink in self.kinks)

    @property
    def is_scale_invariant(self) -> bool:
        r"""True if $\sigma(\lambda z)=\lambda\sigma(z)$ for every $\lambda>0$, PDLT (2.13)."""
        return self.slopes is not None

    @property
    def is_piecewise_linear(self) -> bool:
        r"""True if it has kinks, and $\sigma''=0$ between them: then they are all the curvature there is."""
        if self.is_smooth:
            return False
        points = np.concatenate([np.linspace(-9.7, 9.7, 389), [-60.1, 60.1]])
        return not np.any(self.derivative(points, 2))

    def __repr__(self) -> str:
        return f"activation({self.name!r})"

    def __str__(self) -> str:
        return self.name
