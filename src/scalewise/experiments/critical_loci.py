r"""Where a single susceptibility of tanh is critical, in the plane of the two variances.

Shown: the curves $\chi_\perp(K^\star)=1$ and $\chi_\parallel(K^\star)=1$ with $K^\star$ as parameter,
$$C_W=\frac1{\langle\sigma'\sigma'\rangle_{K^\star}}\ \text{ or }\ \frac1{g'(K^\star)},\qquad
  C_b=K^\star-C_Wg(K^\star),\qquad g(K)=\langle\sigma\sigma\rangle_K.$$
Look for: they meet at $(C_W,C_b)=(1,0)$ alone, and $\chi_\parallel=1$ needs $C_b<0$ elsewhere.

Source: PDLT figure 5.1 left, (5.71), (5.72), (5.50), (5.56).
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.critical import parallel_locus, perpendicular_locus
from scalewise.experiments._form import settings
from scalewise.experiments._look import COLORS, INK, MUTED, Number, attributes, panels
from scalewise.networks import MLP
from scalewise.theory.single import single_input_flow

TITLE = "Where a susceptibility is critical"
TEXT = (
    "Along the solid curve χ⊥ = 1 at the fixed point of the kernel, along the broken one χ∥ = 1. For "
    "tanh they meet at C<sub>W</sub> = 1, C<sub>b</sub> = 0 and nowhere else: elsewhere the broken "
    "curve needs a negative variance of the biases, which no network has. On the right deep networks "
    "at points of the solid curve: their kernels do settle at the K* that the curve promises."
)


@settings(count=12)  # small: fewer points
class Config:
    r"""Settings.

    Args:
        activation: Continuous, with $g'>0$.
        K: Fixed points that are marked.
        largest: Largest $K^\star$ of the curves.
        count: Points of a curve.
        depth: Layers of the networks whose kernels are followed.
    """

    activation: str = "tanh"
    K: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0)
    largest: float = 3.0
    count: int = 240
    depth: int = 40


def run(config: Config) -> xr.Dataset:
    r"""Follow both curves, and kernels at points of the first.

    Returns:
        ``C_W`` (dimensionless) and ``C_b`` (preactivation²) over (condition, K_star), the same at the
        marked points over (condition, mark), and ``kernel`` over (mark, layer).
    """
    K = np.linspace(0.0, config.largest, config.count)
    marks = np.array(config.K)
    loci = (perpendicular_locus, parallel_locus)
    curves = np.array([locus(config.activation, K) for locus in loci])
    marked = np.array([locus(config.activation, marks) for locus in loci])
    kernels = []
    for C_W, C_b in marked[0].T:
        net = MLP(
            config.depth,
            9,
            config.activation,
            input_dim=1,
            output_dim=1,
            C_W=float(C_W),
            C_b=float(C_b),
        )
        kernels.append(single_input_flow(net, K1=2.5).K[:, 0])
    return xr.Dataset(
        {
            "C_W": (("condition", "K_star"), curves[:, 0]),
            "C_b": (("condition", "K_star"), curves[:, 1]),
            "marked_C_W": (("condition", "mark"), marked[:, 0]),
            "marked_C_b": (("condition", "mark"), marked[:, 1]),
            "kernel": (("mark", "layer"), kernels),
        },
        {
            "condition": ["perpendicular", "parallel"],
            "K_star": K,
            "mark": marks,
            "layer": np.arange(1, config.depth + 1),
        },
        attributes(config),
    )


def numbers(dataset: xr.Dataset) -> list[Number]:
    """The corner where both curves meet, and the kernels that settle."""
    corner = dataset.isel(K_star=0)
    rows = [
        Number(f"C_W where χ{sign} = 1, K* = 0", 1.0, float(corner.C_W[k]), 0.0, 1e-12)
        for k, sign in enumerate("⊥∥")
    ]
    for K in dataset.mark.values[1:]:
        last = float(dataset.kernel.sel(mark=K).isel(layer=-1))
        rows.append(Number(f"kernel of a deep network, K* = {K:g}", float(K), last, 0.0, 2e-3 * K))
    return rows


@panels(2, height=3.8)
def figure(dataset: xr.Dataset, left: Axes, right: Axes) -> None:
    """The plane of the variances, and kernels along the depth."""
    styles = (("-", "χ⊥(K*) = 1"), ((0, (4, 2)), "χ∥(K*) = 1"))
    for k, (style, label) in enumerate(styles):
        one = dataset.isel(condition=k)
        left.plot(one.C_W, one.C_b, ls=style, color=COLORS[k], label=label)
    for k, K in enumerate(dataset.mark.values):
        one = dataset.isel(condition=0).sel(mark=K)
        left.plot(one.marked_C_W, one.marked_C_b, "o", ms=4, color=COLORS[0])
        left.annotate(
            f"K* = {K:g}",
            (float(one.marked_C_W), float(one.marked_C_b)),
            (7, -9) if K > 0.3 else (2, 7),
            textcoords="offset points",
            color=MUTED,
            fontsize=8,
        )
        color = COLORS[k + 2]
        right.plot(dataset.layer, dataset.kernel.sel(mark=K), color=color, label=f"K* = {K:g}")
        right.axhline(float(K), color=color, lw=0.7, ls=(0, (2, 2)))
    left.plot(1.0, 0.0, "o", ms=6, color=INK)
    left.annotate("(1, 0)", (1.0, 0.0), (-6, 8), textcoords="offset points", ha="right")
    top = float(dataset.C_b.max())
    left.axhspan(-1.0, 0.0, color=MUTED, alpha=0.09, lw=0)
    left.text(0.68, -0.5, "C_b < 0: no network", color=MUTED, ha="left")
    left.set(xlim=(0.6, 3.8), ylim=(-0.6, 1.05 * top), xlabel="C_W", ylabel="C_b")
    left.set_title(f"{dataset.attrs['activation']}: criticality of one susceptibility")
    left.legend(loc="upper left")
    right.set(xlabel="layer ℓ", title="kernels at the marked points, from K = 2.5", ylim=(0, None))
    right.legend(loc="center right")
