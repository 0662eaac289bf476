r"""The ratio of the susceptibilities, which must be 1 at a critical point whatever the variances.

Shown, for each activation,
$$\frac{\chi_\perp}{\chi_\parallel}
  =\frac{2K^2\langle\sigma'\sigma'\rangle_K}{\langle\sigma\sigma(z^2-K)\rangle_K}.$$
Look for: tanh and sin reach 1 only as $K\to0$; so does the sigmoid, but there $C_b=-4$; softplus never
does; SWISH and GELU cross it at 14.32 and 3.56.

Source: PDLT figures 5.1 right, 5.2 and 5.3, (5.73).
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.critical import criticality, susceptibility_ratio
from scalewise.experiments._form import settings
from scalewise.experiments._look import COLORS, INK, MUTED, Number, attributes, log_axes, panels

TITLE = "The ratio that must be 1"
TEXT = (
    "A critical point needs χ⊥/χ∥ = 1 at its kernel, whatever the variances. Tanh reaches 1 as K → 0 "
    "and is critical there. So does the sigmoid, but with a bias variance of −4; softplus never does. "
    "SWISH and GELU cross 1 at 14.32 and 3.56 (dots) and are critical there, within 10% on the way."
)
_PRINTED = {"swish": 14.32017362, "gelu": (3 + 17**0.5) / 2}  # PDLT (5.101), (5.105)


@settings(count=10)  # small: fewer kernels
class Config:
    """Settings.

    Args:
        activations: Names, each continuous.
        smallest: Smallest kernel.
        largest: Largest kernel.
        count: Kernels of a curve, spaced evenly in the logarithm.
    """

    activations: tuple[str, ...] = ("tanh", "sigmoid", "softplus", "swish", "gelu")
    smallest: float = 0.01
    largest: float = 50.0
    count: int = 120


def run(config: Config) -> xr.Dataset:
    """Evaluate the ratio, and look up where it is 1.

    Returns:
        ``ratio`` over (activation, K), ``limit`` at $K=0$ over activation, and ``critical_K``, the
        positive kernel of the critical point; nan where there is none.
    """
    K = np.geomspace(config.smallest, config.largest, config.count)
    names = config.activations
    found = [criticality(name).K_star for name in names]
    return xr.Dataset(
        {
            "ratio": (("activation", "K"), [susceptibility_ratio(name, K) for name in names]),
            "limit": ("activation", [float(susceptibility_ratio(name, 0.0)) for name in names]),
            "critical_K": ("activation", [K if K else np.nan for K in found]),
        },
        {"activation": list(names), "K": K},
        attributes(config),
    )


def numbers(dataset: xr.Dataset) -> list[Number]:
    r"""The limit at $K=0$ of those that reach 1, and the crossings."""
    rows = [
        Number(f"{name}, limit K → 0", 1.0, float(dataset.limit.sel(activation=name)), 0.0, 1e-10)
        for name in ("tanh", "sigmoid", "swish", "gelu")
    ]
    for name, printed in _PRINTED.items():
        found = float(dataset.critical_K.sel(activation=name))
        rows.append(Number(f"{name}, crossing K*", printed, found, 0.0, 1e-7))
    return rows


@panels(3)
def figure(dataset: xr.Dataset, *axes: Axes) -> None:
    """Panels as in the book: tanh; sigmoid and softplus; SWISH and GELU."""
    groups = (("tanh",), ("sigmoid", "softplus"), ("swish", "gelu"))
    for axis, group in zip(axes, groups, strict=True):
        axis.axhline(1.0, color=MUTED, lw=0.9, ls=(0, (4, 2)))
        for k, name in enumerate(group):
            one = dataset.sel(activation=name)
            axis.plot(one.K, one.ratio, color=COLORS[k], label=name)
            if np.isfinite(one.critical_K):
                axis.plot(float(one.critical_K), 1.0, "o", color=INK, ms=5)
        log_axes(axis, "x")
        axis.set(xlabel="K", title="χ⊥/χ∥, " + " and ".join(group))
        axis.legend(loc="best" if group[0] != "tanh" else "upper left")
    axes[0].set_ylim(0.0, 16.0)
    axes[0].set_xlim(0.01, 10.0)
    axes[1].set_ylim(0.0, 4.0)
    axes[1].set_xlim(0.01, 10.0)
