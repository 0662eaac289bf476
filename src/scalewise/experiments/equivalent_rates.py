r"""Learning rates that let every layer take part: contributions to the NTK, and its depth.

Shown: what biases and weights of each layer add to $\Theta^{(L)}$, with uniform rates and with the
equivalent ones; and $\Theta^{(L)}$ against $L$.
$$\lambda_b^{(\ell)}=\tilde\lambda_b\,\ell^{-p_\perp}L^{p_\perp-1},\quad
  \lambda_W^{(\ell)}=\tilde\lambda_W(L/\ell)^{p_\perp-1}\ (K^\star=0),\qquad
  \lambda^{(\ell)}=\tilde\lambda/L\ \text{(scale-invariant)}$$
Look for: flat contributions, and an NTK of the output that does not depend on the depth; off criticality
no rates help, since contributions fall or grow exponentially.

Source: PDLT (9.28)-(9.30), (9.87)-(9.96).
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.experiments._form import settings
from scalewise.experiments._look import COLORS, MUTED, Number, attributes, log_axes, panels
from scalewise.networks import MLP
from scalewise.theory.single import ntk_layer_contributions

TITLE = "Learning rates that are equal across depth"
TEXT = (
    "With one rate for all layers of a tanh network the biases near the output do most of the "
    "learning; with equivalent rates (solid) all layers contribute alike. The NTK of the output is "
    "then the same at every depth: 3/2 for ReLU exactly, and for tanh in the limit. Off criticality "
    "contributions change exponentially from layer to layer."
)
_CASES = ("relu", "tanh", "tanh, C_W = 0.8")


@settings(depth=12, depths=(2, 10, 200))  # small: fewer depths
class Config:
    """Settings.

    Args:
        depth: $L$ of the contributions.
        depths: $L$ of the NTK of the output.
        C_W: Of the network off criticality.
    """

    depth: int = 50
    depths: tuple[int, ...] = (2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
    C_W: float = 0.8


def run(config: Config) -> xr.Dataset:
    r"""Contributions of the layers, and their sums.

    Returns:
        Over (case, rates, layer): ``bias`` and ``weight``, in units of $\eta$-free NTK; over (case,
        rates, depth): ``ntk`` $\Theta^{(L)}$, from $K^{(1)}=1$.
    """
    kinds = ("uniform", "equivalent")
    parts = [[_parts(config, c, kind, config.depth) for kind in kinds] for c in _CASES]
    sums = [
        [[sum(map(np.sum, _parts(config, c, kind, L))) for L in config.depths] for kind in kinds]
        for c in _CASES
    ]
    table = np.array(parts)
    return xr.Dataset(
        {
            "bias": (("case", "rates", "layer"), table[:, :, 0]),
            "weight": (("case", "rates", "layer"), table[:, :, 1]),
            "ntk": (("case", "rates", "depth"), np.array(sums, dtype=float)),
        },
        {
            "case": list(_CASES),
            "rates": list(kinds),
            "layer": np.arange(1, config.depth + 1),
            "depth": list(config.depths),
        },
        attributes(config),
    )


def _parts(config: Config, case: str, kind: str, depth: int) -> list[np.ndarray]:
    name = case.partition(",")[0]
    net = MLP(depth, 9, name, input_dim=1, output_dim=1).at_criticality()
    if kind == "equivalent":
        net = net.with_equivalent_learning_rates()
    if "," in case:
        net = MLP(
            depth,
            9,
            name,
            input_dim=1,
            output_dim=1,
            C_W=config.C_W,
            lambda_b=net.lambda_b,
            lambda_W=net.lambda_W,
        )
    return [part[:, 0] for part in ntk_layer_contributions(net, K1=1.0)]


def numbers(dataset: xr.Dataset) -> list[Number]:
    r"""$\Theta^{(L)}$ at the largest depth: $\tilde\lambda_b+\tilde\lambda_WK/C_W$ and its equal."""
    deep = dataset.isel(depth=-1).sel(rates="equivalent")
    slow = 2 * np.log(float(deep.depth)) / float(deep.depth)
    return [
        Number("Θ of ReLU, deepest", 1.5, float(deep.ntk.sel(case="relu")), 0.0, 1e-10),
        Number("Θ of tanh, deepest", 1.5, float(deep.ntk.sel(case="tanh")), 0.0, slow),
    ]


@panels(4, height=3.4)
def figure(dataset: xr.Dataset, *axes: Axes) -> None:
    """Contributions by layer above, the NTK against the depth below."""
    for axis, case in zip(axes, _CASES, strict=False):
        for kind, style in (("uniform", (0, (3, 2))), ("equivalent", "-")):
            one = dataset.sel(case=case, rates=kind)
            total = float(one.bias.sum() + one.weight.sum())
            for color, part in zip(COLORS, ("bias", "weight"), strict=False):
                share = one[part] / total * dataset.layer.size
                axis.plot(one.layer, share, color=color, ls=style, label=f"{part}, {kind}")
        axis.set(title=case, xlabel="layer ℓ")
    axes[0].set_ylabel("share of Θ, times L")
    log_axes(axes[2], "y")
    axes[0].set_ylim(0, 1.6)
    axes[1].legend(loc="upper center")
    axes[1].set_ylim(0, 1.6 * axes[1].get_ylim()[1])
    right = axes[3]
    for color, case in zip(COLORS[:2], ("relu", "tanh"), strict=True):
        for kind, style in (("uniform", (0, (3, 2))), ("equivalent", "-")):
            one = dataset.sel(case=case, rates=kind)
            right.plot(one.depth, one.ntk, ls=style, color=color, label=f"{case}, {kind}")
    right.axhline(1.5, color=MUTED, lw=0.7)
    log_axes(right)
    right.set(xlabel="depth L", title="NTK of the output")
    right.legend(loc="upper left")
