r"""Every observable in a deep network: universality classes and their leading forms.

The class is decided from the function alone: slopes make it scale-invariant, the first Taylor
coefficients decide about $K^\star=0$, and a root beyond zero is half-stable. Infinite width comes
first, then depth; one input, hyperparameters at criticality.

Source: PDLT §5.2-5.4, §9.2-9.3, §11.2.3, §∞.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scalewise._arrays import float_array
from scalewise._checked import checked
from scalewise._readable import readable
from scalewise.activations import Activation, activation
from scalewise.critical import criticality
from scalewise.critical.spi import WithFrozenTables
from scalewise.theory.deep import _half_stable as half_stable
from scalewise.theory.deep import _power_laws as power_laws
from scalewise.theory.deep import _scale_invariant as scale_invariant
from scalewise.theory.deep import _vanishing_kernel as vanishing_kernel
from scalewise.theory.deep._power_laws import PowerLaw
from scalewise.theory.deep._scale_invariant import Layers

Forms = dict[str, np.ndarray]


@dataclass(frozen=True)
@readable
class Asymptotics(WithFrozenTables):
    r"""The universality class of an activation at its critical hyperparameters.

    The coefficients: ``A_2``, ``A_4``, ``rho``, ``nu`` (scale-invariant); ``sigma_1``, ``sigma_4``, ``a_1``,
    ``a_2``, ``b_1``, ``p_perp``, ``nu`` ($K^\star=0$), with a kink at 0 ``power``, ``a``, ``p_perp``, ``A_2``,
    ``A_4``, ``nu``; ``atilde_1``, ``btilde_1``, ``p_perp``, ``vertex_source`` (half-stable; that of $V$ over
    $K^{\star2}$). ``nu`` is the slope in $V/(nK^2)\simeq\nu\,\ell/n$.

    Args:
        activation: The activation.
        universality: ``"scale-invariant"``, ``"K*=0"``, ``"half-stable"`` or ``"none"``.
        C_b: Critical bias variance; ``None`` in no class.
        C_W: Critical weight variance; ``None`` in no class.
        K_star: Fixed point of the kernel; ``None`` in no class and on the line of fixed points.
        coefficients: The numbers of the class by name.
        exponents: $p_{\mathcal O}$ by observable, as `single_input_flow` names them, with learning
            rates by the equivalence principle; ``"parallel"``, ``"perp"`` and ``"psi"`` are those of
            the distance of two inputs, along, across and as an angle. ``"K"`` of a half-stable
            class is that of $K-K^\star$.
        reason: Why there is no class; empty where there is one.
    """

    activation: Activation
    universality: str
    C_b: float | None
    C_W: float | None
    K_star: float | None
    coefficients: Mapping[str, float]
    exponents: Mapping[str, float]
    reason: str = ""


@checked
def asymptotics(source: str | Activation | Callable[[Any], Any]) -> Asymptotics:
    r"""The universality class of an activation, its coefficients and critical exponents.

    Args:
        source: Name, callable or `Activation`.

    Returns:
        The record. Coefficients of the first two classes are exact; those of a half-stable point
        to 1e-9.

    Raises:
        ValueError: If the name is unknown or a callable is refused; if kernels fall to $K^\star=0$
            but neither $a_1$ nor $a_2$ decides how fast, or, with a kink there, neither $K^{3/2}$ nor
            $K^2$; if $\tilde a_1=0$ at $K^\star>0$.

    Source: PDLT (5.61), (5.86)-(5.88), (5.102), (5.114), (5.163); exponents §5.4, (9.53), (9.72),
    (11.100), (∞.33). Half-stable, $a_1=0$ and kinks at 0: derived.

    Example:
        >>> from scalewise.theory.deep import asymptotics
        >>> record = asymptotics("tanh")
        >>> record.universality, record.coefficients["a_1"], record.exponents["V"]
        ('K*=0', -2.0, 1.0)
        >>> asymptotics("relu").coefficients["nu"]
        5.0
    """
    sigma = activation(source)
    point = criticality(sigma)
    if sigma.slopes is not None:
        universality = "scale-invariant"
        coefficients = scale_invariant.coefficients(sigma)
        exponents = scale_invariant.exponents(sigma)
    elif point.K_star is None or point.C_W is None:
        universality, coefficients, exponents = "none", {}, {}
    elif point.K_star == 0:
        universality, smooth = "K*=0", sigma.taylor is not None
        kinked = vanishing_kernel.kinked_coefficients
        coefficients = vanishing_kernel.coefficients(sigma) if smooth else kinked(point)
        exponents = power_laws.exponents(PowerLaw.of(coefficients))
    else:
        universality = "half-stable"
        here = half_stable.half_stable(sigma, point.K_star, point.C_W)
        coefficients = {"atilde_1": here.a, "btilde_1": here.b, "p_perp": here.p}
        coefficients |= dict.fromkeys(("vertex_source", "nu"), here.vertex_source)
        exponents = half_stable.exponents(here)
    return Asymptotics(
        sigma,
        universality,
        point.C_b,
        point.C_W,
        point.K_star,
        coefficients,
        exponents,
        point.reason,
    )


@checked
def leading_forms(
    record: Asymptotics,
    layer: Layers,
    *,
    kernel: float | None = None,
    lambda_b: float = 1.0,
    lambda_W: float = 1.0,
    depth: int | None = None,
) -> Forms:
    r"""The deep form of every observable of one input, with rates by the equivalence principle.

    Scale-invariant: exact at every layer, with $\lambda_b=\tilde\lambda_b/L$,
    $\lambda_W=\tilde\lambda_W/L$. $K^\star=0$: leading in $1/\ell$, with
    $\lambda_b^{(\ell)}=\tilde\lambda_b\ell^{-p_\perp}L^{p_\perp-1}$,
    $\lambda_W^{(\ell)}=\tilde\lambda_W\ell^{p_0-p_\perp}L^{p_\perp-1}$ and $K\sim\ell^{-p_0}$ ($p_0=1$ but for
    $a_1=0$ and kinks at 0). Half-stable: leading, with the same rates for $p_0=0$, so that
    $K-K^\star=1/(-\tilde a_1)\ell$ and $\Theta\sim\ell^{1-p_\perp}$.

    Args:
        record: From `asymptotics`.
        layer: $\ell$, one or many.
        kernel: $K^\star$ of the input, needed on the line of fixed points only; preactivation².
        lambda_b: $\tilde\lambda_b$.
        lambda_W: $\tilde\lambda_W$.
        depth: $L$; without it the factors of $L$ are left out: uniform rates in the
            scale-invariant class, PDLT (9.70) at $K^\star=0$.

    Returns:
        By observable, named and normalised as in `single_input_flow`, each with the shape of
        `layer`. What has no universal form is left out, and so is what leaves the range of float64: at a
        half-stable point with a large $|p_\perp|$ give `depth` and layers close to it.

    Raises:
        ValueError: If the activation is in no class, `layer` is below 1, or `kernel` is missing or
            given where it is not wanted.

    Source: PDLT §5.2-5.4, §9.2-9.3, §11.2.3, §∞.1, and derived. A half-stable point is approached at
    $\ell\gg\max(1,|p_\perp|)/|\tilde a_1|K^\star$, for GELU beyond 10⁵ layers; before, it looks scale-invariant.

    Example:
        >>> from scalewise.theory.deep import asymptotics, leading_forms
        >>> forms = leading_forms(asymptotics("tanh"), 1000)
        >>> print(f"{forms['K']:.6f} {forms['Theta']:.2f}")
        0.000500 1.50
    """
    ell = float_array("`layer`", layer)
    if not np.all(ell >= 1):
        raise ValueError(f"`layer` counts from 1; got {np.min(ell):g}.")
    if record.universality == "none":
        raise ValueError(
            f"{record.activation.name!r} is in no universality class: {record.reason} Choose another "
            "activation."
        )
    if (kernel is None) == (record.universality == "scale-invariant"):
        raise ValueError(
            "`kernel` is K* of the input: give it for a scale-invariant activation, where every K is "
            f"a fixed point, and for no other; {record.activation.name!r} is of class "
            f"{record.universality!r}."
        )
    if record.universality == "scale-invariant":
        assert kernel is not None
        share = 1 if depth is None else depth
        rates = {"lambda_b": lambda_b / share, "lambda_W": lambda_W / share}
        return scale_invariant.critical_forms(record.activation, ell, kernel=kernel, **rates)
    rates = {"lambda_b": lambda_b, "lambda_W": lambda_W, "depth": float(depth or 1)}
    with np.errstate(over="ignore", invalid="ignore"):
        if record.universality == "K*=0":
            found = power_laws.forms(PowerLaw.of(record.coefficients), ell, **rates)
        else:
            assert record.K_star is not None
            assert record.C_W is not None
            here = half_stable.half_stable(record.activation, record.K_star, record.C_W)
            found = half_stable.forms(here, ell, **rates)
    return {name: value for name, value in found.items() if np.all(np.isfinite(value))}
