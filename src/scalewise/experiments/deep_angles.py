r"""Two inputs of equal norm in a deep ReLU network: angles of the kernel and of the NTK.

Shown: $\psi^{(\ell)}$ and $K_{[2]}=\frac12K^\star(1-\cos\psi)$ from several initial angles, with the depth
$\ell_{\rm cross}=3/\rho\psi^{(1)}$ marked, and the angle $\zeta$ of the NTK.
$$\psi^{(\ell)}\to\frac3{\rho\ell},\qquad K_{[2]}\to K^\star\frac9{4\rho^2}\frac1{\ell^2},\qquad
  \cos\zeta\to\tfrac14.$$
Look for: every angle forgets where it began, later the smaller it was; the NTK forgets the inputs.

Source: PDLT (5.162), (5.166)-(5.169), (10.88)-(10.93).
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.activations import activation
from scalewise.experiments._form import settings
from scalewise.experiments._look import COLORS, MUTED, Number, attributes, log_axes, panels
from scalewise.networks import MLP
from scalewise.theory.deep import angle_flow, asymptotics, crossover_depth, deep_ntk_angle

TITLE = "Angles in deep ReLU networks"
TEXT = (
    "Two inputs of equal norm. Their angle falls as 3π/ℓ for ReLU, from a depth 3π/ψ that is larger "
    "the closer they were (vertical marks); the distance K<sub>[2]</sub> therefore as 1/ℓ². The NTK of "
    "any two different inputs ends at cos ζ = ¼, with corrections of order log ℓ/ℓ."
)
_LABELS = ("π/2", "0.5", "0.1", "0.01")


@settings(depth=1_000)  # small: fewer layers
class Config:
    r"""Settings.

    Args:
        activation: Scale-invariant, not linear.
        angles: $\psi^{(1)}$.
        depth: Layers.
    """

    activation: str = "relu"
    angles: tuple[float, ...] = (np.pi / 2, 0.5, 0.1, 0.01)
    depth: int = 20_000


def run(config: Config) -> xr.Dataset:
    r"""Carry the pairs through the layers.

    Returns:
        Over (angle, layer), at layers evenly spaced in the logarithm and all up to ten: ``psi``,
        ``distance`` $K_{[2]}/K^\star$, ``cos_zeta``, ``approach`` $\rho\ell\psi/3$; over angle
        ``crossover``; attributes ``rho`` and ``cos_zeta_limit``.
    """
    sigma = activation(config.activation)
    net = MLP(config.depth, 9, sigma, input_dim=2, output_dim=1).at_criticality()
    psi = np.array(config.angles)
    plus = np.tile([1.0, 0.0], (psi.size, 1))
    flow = angle_flow(net, plus, np.stack([np.cos(psi), np.sin(psi)], axis=1))
    wanted = np.append(np.arange(1, 11), np.geomspace(11, config.depth, 140))
    layers = np.unique(np.append(np.round(wanted), [100.0, 1000.0])).astype(int)
    layers = layers[layers <= config.depth]
    at = layers - 1
    rho = asymptotics(sigma).coefficients["rho"]
    over = ("layer", "angle")
    return xr.Dataset(
        {
            "psi": (over, flow.psi[at]),
            "distance": (over, np.sin(flow.psi[at] / 2) ** 2),
            "cos_zeta": (over, np.cos(flow.zeta[at])),
            "approach": (over, rho * layers[:, None] * flow.psi[at] / 3),
            "crossover": ("angle", [crossover_depth(sigma, float(p)) for p in psi]),
        },
        {"layer": layers, "angle": psi},
        attributes(config, rho=rho, cos_zeta_limit=deep_ntk_angle(sigma)["cos_zeta"]),
    ).transpose("angle", "layer")


def numbers(dataset: xr.Dataset) -> list[Number]:
    """Angles printed for ReLU from a right angle, and the limits, approached logarithmically."""
    right = dataset.isel(angle=0)
    known = {10: 0.545613197126, 100: 0.0853822318201, 1000: 0.00929680591334}
    rows = [
        Number(f"ψ in layer {layer}, from π/2", value, float(right.psi.sel(layer=layer)), 0, 1e-11)
        for layer, value in known.items()
    ]
    last = int(dataset.layer[-1])
    slow = 3 * np.log(last) / last
    rows.append(Number("ρℓψ/3, last layer", 1.0, float(right.approach[-1]), 0.0, slow))
    limit = float(dataset.attrs["cos_zeta_limit"])
    rows.append(Number("cos ζ, last layer", limit, float(right.cos_zeta[-1]), 0.0, slow))
    return rows


@panels(2, 2, height=3.1)
def figure(dataset: xr.Dataset, *axes: Axes) -> None:
    """Angle, distance, NTK angle, and the approach to the common law."""
    rho = dataset.attrs["rho"]
    deep = dataset.layer.values
    for k in range(dataset.angle.size):
        one = dataset.isel(angle=k)
        value = float(one.angle)
        label = "ψ = π/2" if abs(value - np.pi / 2) < 1e-12 else f"ψ = {value:g}"
        for axis, name in zip(axes, ("psi", "distance", "cos_zeta", "approach"), strict=True):
            axis.plot(one.layer, one[name], color=COLORS[k], label=label)
        for axis in axes[:2]:
            axis.axvline(float(one.crossover), color=COLORS[k], lw=0.8, ls=(0, (1, 2)))
    broken = {"color": MUTED, "lw": 1.0, "ls": (0, (4, 2))}
    axes[0].plot(deep, 3 / rho / deep, **broken, label="3/ρℓ")
    axes[1].plot(deep, 9 / 4 / rho**2 / deep**2.0, **broken, label="9/4ρ²ℓ²")
    axes[2].axhline(float(dataset.attrs["cos_zeta_limit"]), **broken)
    axes[3].axhline(1.0, **broken)
    titles = ("angle ψ of two inputs", "distance K₂/K*", "NTK: cos ζ", "approach: ρℓψ/3")
    for k, (axis, title) in enumerate(zip(axes, titles, strict=True)):
        log_axes(axis, "xy" if k < 2 else "x")
        axis.set(title=title, xlabel="layer ℓ")
    axes[0].set_ylim(0.3 * float(dataset.psi.min()), 4.0)
    axes[1].set_ylim(0.3 * float(dataset.distance.min()), 2.0)
    axes[0].legend(loc="lower left")
