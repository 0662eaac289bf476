r"""Critical exponents: fitted to a sequence over layers, compared, classified.

$$\mathcal O^{(\ell)}=\ell^{-p_{\mathcal O}}\Big[c_{0,0}+c_{1,1}\frac{\log\ell}\ell+c_{1,0}\frac1\ell
  +c_{2,2}\frac{\log^2\ell}{\ell^2}+\dots\Big]$$

Source: PDLT (5.93), (9.22), (11.61).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from scalewise._arrays import float_array
from scalewise._checked import FiniteNumber, Must, checked
from scalewise._readable import readable
from scalewise.observables import OBSERVABLES


@dataclass(frozen=True)
@readable
class ScalingFit:
    r"""A fit of the scaling ansatz.

    Args:
        exponent: $p_{\mathcal O}$; positive where the observable falls.
        exponent_error: How much it moves when the last order of the fit is left out.
        amplitude: $c_{0,0}$, in units of the observable.
        amplitude_error: How much that moves.
        corrections: $c_{s,q}/c_{0,0}$ of the first order, by $(s,q)$: dimensionless.
        residual: Largest relative deviation of the fit from the sequence.
    """

    exponent: float
    exponent_error: float
    amplitude: float
    amplitude_error: float
    corrections: dict[tuple[int, int], float]
    residual: float


def _series(values: Any) -> np.ndarray:
    found = float_array("`values`", values)
    if not found.ndim:
        raise TypeError
    return found


# What comes before the first layer that is fitted may be anything, 0/0 for example.
Series = Annotated[Any, Must("numbers, one for each layer", to=_series)]


@checked
def fit_scaling(
    values: Series,
    layers: Float[np.ndarray, " layer"] | None = None,
    *,
    first: int = 100,
    orders: int = 2,
    exponent: float | None = None,
) -> ScalingFit:
    r"""Exponent, amplitude and first corrections of a sequence over layers, logarithms included.

    $$\log|\mathcal O|=\log|c_{0,0}|-p\log\ell+\sum_{s=1}^{S}\sum_{q=0}^{s}d_{s,q}
      \frac{\log^q\ell}{\ell^s}$$
    is linear in what is sought; $d_{1,q}=c_{1,q}/c_{0,0}$.

    Args:
        values: The observable at every layer from the first on, or at `layers`.
        layers: Layer numbers; $1,2,\dots$ if ``None``.
        first: Layers before this one are left out. At most 400 layers, evenly spaced in
            $\log\ell$, are used.
        orders: $S$, from 1 to 3.
        exponent: $p$, where it is known and only amplitudes are sought.

    Returns:
        The fit. The errors compare $S$ with $S-1$ orders; they are of numerical origin, there is no
        noise.

    Raises:
        ValueError: If a value is not finite, the sequence changes sign or vanishes, or too few layers
            are left.

    Source: PDLT (9.22), (11.61).

    Example:
        >>> import numpy as np
        >>> from scalewise.theory.deep import fit_scaling
        >>> l = np.arange(1.0, 20001)
        >>> fit = fit_scaling(3 / l * (1 + np.log(l) / l))
        >>> print(f"{fit.exponent:.4f} {fit.amplitude:.3f} {fit.corrections[1, 1]:.2f}")
        1.0000 3.000 1.00
    """
    number = np.arange(1.0, len(values) + 1) if layers is None else layers
    if orders not in (1, 2, 3):
        raise ValueError(f"`orders` must be 1, 2 or 3; got {orders}.")
    keep = number >= first
    ell, observed = number[keep], values[keep]
    if ell.size < 40:
        raise ValueError(
            f"`fit_scaling` needs at least 40 layers from `first` = {first} on; got {ell.size}. "
            "Iterate to more layers or lower `first`."
        )
    if not np.all(np.isfinite(observed)) or np.any(observed * observed[0] <= 0):
        raise ValueError(
            "`values` must be finite and of one sign from `first` on, or they have no exponent; "
            "raise `first`, or fit the absolute value of what is left after the limit."
        )
    wanted = np.geomspace(ell[0], ell[-1], 400)
    places = np.unique(np.searchsorted(ell, wanted).clip(0, ell.size - 1))
    ell, observed = ell[places], observed[places]
    best, residual = _least_squares(ell, observed, orders, exponent)
    lower, _ = _least_squares(ell, observed, orders - 1, exponent)
    sign = float(np.sign(observed[0]))
    amplitude = sign * float(np.exp(best[0]))
    return ScalingFit(
        exponent=float(best[1]),
        exponent_error=abs(float(best[1] - lower[1])),
        amplitude=amplitude,
        amplitude_error=abs(amplitude - sign * float(np.exp(lower[0]))),
        corrections={(1, 1): float(best[2]), (1, 0): float(best[3])},
        residual=residual,
    )


def _least_squares(
    ell: np.ndarray, values: np.ndarray, orders: int, exponent: float | None
) -> tuple[np.ndarray, float]:
    """Coefficients (log amplitude, p, d_11, d_10, ...) and the largest deviation."""
    log = np.log(ell)
    columns = [np.ones_like(ell), -log]
    columns += [log**q / ell**s for s in range(1, orders + 1) for q in range(s, -1, -1)]
    target = np.log(np.abs(values))
    free = columns
    if exponent is not None:
        target, free = target + exponent * log, columns[:1] + columns[2:]
    design = np.stack(free, axis=1)
    scale = np.max(np.abs(design), axis=0)
    solution = np.linalg.lstsq(design / scale, target, rcond=1e-15)[0] / scale
    residual = float(np.max(np.abs(np.expm1(design @ solution - target))))
    if exponent is not None:
        solution = np.insert(solution, 1, exponent)
    return solution, residual


def dimensions() -> dict[str, tuple[int, int]]:
    """Powers of kernel and NTK in the denominator of each dimensionless ratio, by the letter of the tensor."""
    return {row.letter: row.dimension for row in OBSERVABLES.values() if row.order}


@checked
def normalised_exponents(exponents: Mapping[str, float]) -> dict[str, float]:
    r"""Exponents of the dimensionless ratios that the $1/n$ expansion is made of.

    $$\frac V{nK^2},\ \frac{G^{\{1\}}}{nK},\ \frac{H^{\{1\}}}{n\Theta},\ \frac{D,F}{nK\Theta},\
      \frac{A,B,P,Q}{n\Theta^2},\ \frac{R,S,T,U\;K}{n\Theta^3}\ \sim\ \frac1n\ell^{-p}$$

    Args:
        exponents: $p_{\mathcal O}$ by observable, with ``"K"`` and ``"Theta"`` among them as far as
            they are needed.

    Returns:
        The exponent of each ratio whose parts are given. The scaling laws say $-1$ for nearly all:
        every effect of finite width grows as $\ell/n$.

    Source: PDLT (5.128)-(5.129), (5.137), (9.23)-(9.27), (11.62)-(11.65), (∞.19)-(∞.22), (∞.38).

    Example:
        >>> from scalewise.theory.deep import normalised_exponents
        >>> normalised_exponents({"K": 1.0, "V": 1.0})
        {'V': -1.0}
    """
    out = {}
    for name, (kernels, ntks) in dimensions().items():
        needed = {name} | ({"K"} if kernels else set()) | ({"Theta"} if ntks else set())
        if needed <= set(exponents):
            powers = (kernels, "K"), (ntks, "Theta")
            out[name] = exponents[name] - sum(n * exponents[k] for n, k in powers if n)
    return out


@checked
def relevance(exponent: FiniteNumber, *, tolerance: float = 1e-9) -> str:
    r"""Growth of an effect with depth, in the language of the RG flow: relevant, marginal or irrelevant.

    Args:
        exponent: $p$ of a normalised observable $\sim\ell^{-p}$.
        tolerance: Below it in size the exponent counts as 0; for a fitted one, its error.

    Returns:
        ``"relevant"`` ($p<0$, grows), ``"irrelevant"`` ($p>0$) or ``"marginal"``.

    Source: PDLT §4.6.

    Example:
        >>> from scalewise.theory.deep import relevance
        >>> relevance(-1.0), relevance(0.0)
        ('relevant', 'marginal')
    """
    if abs(exponent) <= tolerance:
        return "marginal"
    return "relevant" if exponent < 0 else "irrelevant"
