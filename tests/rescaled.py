"""An activation in other units: c sigma(s z) / s, the same function to the eye of the theory."""

from __future__ import annotations

import dataclasses

from scalewise.activations import Activation, Kink


def rescaled(sigma: Activation, s: float, c: float = 1.0) -> Activation:
    """c sigma(s z)/s with its derivatives, kinks and Taylor coefficients; closed forms are dropped."""

    def derivative(order: int):
        base, factor = sigma.derivatives[order], c * s ** (order - 1)
        return lambda z: factor * base(s * z)

    return dataclasses.replace(
        sigma,
        name=f"{c:g} {sigma.name}({s:g} z)/{s:g}",
        derivatives=tuple(derivative(order) for order in range(4)),
        traceable=lambda: lambda z: c * sigma.traceable()(s * z) / s,
        kinks=tuple(Kink(k.location / s, c * k.jump / s, c * k.slope_jump) for k in sigma.kinks),
        breaks=tuple(point / s for point in sigma.breaks),
        slopes=None if sigma.slopes is None else tuple(c * slope for slope in sigma.slopes),
        taylor=None
        if sigma.taylor is None
        else tuple(c * s ** (p - 1) * value for p, value in enumerate(sigma.taylor)),
        family="scale_invariant" if sigma.slopes is not None else None,
        parameter=None,
    )
