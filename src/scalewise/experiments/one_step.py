r"""One step of gradient descent: how much the NTK moves, for smooth activations and for ReLU.

Shown: the mean of $|\Delta\widehat H|/\widehat H$ on the input trained on, after one step of size
$\eta=\frac12/\Theta$ at an error of 1, against the width, and against the depth at fixed width.
$$d\theta=-\eta\lambda\,\epsilon\,\frac{dz}{d\theta},\qquad
  \widehat H=\sum_\ell\Big[\lambda_b+\frac{\lambda_W}{n_{\ell-1}}\sum_j\sigma_j^2\Big]
  \sum_i\Big(\frac{dz}{dz^{(\ell)}_i}\Big)^2$$
Look for: slope $-1$ of smooth activations. Of ReLU $-\frac12$: a step turns off the neurons within
$n^{-1/2}$ of the kink, a share of $n^{-1/2}$ of all, and on the input trained on none turn on, since
what is off does not learn. The Taylor series in $\eta$ does not know.

Source: PDLT section ∞.1 on (∞.41)-(∞.44), where the law of ReLU is stated without a figure.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.experiments._descended import drawn
from scalewise.experiments._form import each, power, settings
from scalewise.experiments._look import COLORS, MUTED, Number, attributes, log_axes, panels, points
from scalewise.networks import MLP, Network

TITLE = "One step of gradient descent"
TEXT = (
    "Relative change of the NTK in one step on a single input. Smooth activations move it by 1/n, as "
    "the dNTK and ddNTK say. ReLU moves it by 1/√n: a step of size n<sup>−1/2</sup> for each neuron "
    "switches off that share of them, which no expansion in the step size sees. The right panel shows "
    "the dependence on the depth, which becomes linear for both."
)
_KINDS = ("width", "depth")


# Small: narrower networks of two activations.
@settings(activations=("relu", "tanh"), widths=(32, 96, 288), depths=(2, 4), width=64, networks=100)
class Config:
    r"""Settings.

    Args:
        activations: With a critical initialisation; ReLU and smooth ones.
        widths: $n$, at `depth`.
        depth: $L$ of the scan over widths.
        depths: $L$, at `width`.
        width: $n$ of the scan over depths.
        networks: Networks per ensemble.
        seed: Random seed.
    """

    activations: tuple[str, ...] = ("relu", "tanh", "gelu")
    widths: tuple[int, ...] = (32, 64, 128, 256, 512, 1024)
    depth: int = 3
    depths: tuple[int, ...] = (2, 3, 4, 6, 8, 12)
    width: int = 256
    networks: int = 150
    seed: int = 0


def run(config: Config) -> xr.Dataset:
    r"""Draw networks and take a step with each.

    Returns:
        ``change`` $\mathbb E|\Delta\widehat H|/\widehat H$ with ``change_sem`` over (activation,
        width), ``deep_change`` with ``_sem`` over (activation, depth), and over activation ``slope``
        with ``slope_sem`` of the first in logarithms.
    """
    wide = [
        [_change(config, name, config.depth, n) for n in config.widths]
        for name in config.activations
    ]
    deep = [
        [_change(config, name, L, config.width) for L in config.depths]
        for name in config.activations
    ]
    across, along = np.array(wide), np.array(deep)
    slopes = np.array([power(config.widths, row[:, 0], row[:, 1]) for row in across])
    return xr.Dataset(
        {
            "change": (("activation", "width"), across[..., 0]),
            "change_sem": (("activation", "width"), across[..., 1]),
            "deep_change": (("activation", "depth"), along[..., 0]),
            "deep_change_sem": (("activation", "depth"), along[..., 1]),
            "slope": ("activation", slopes[:, 0]),
            "slope_sem": ("activation", slopes[:, 1]),
        },
        {
            "activation": list(config.activations),
            "width": list(config.widths),
            "depth": list(config.depths),
        },
        {**attributes(config), "fixed_depth": config.depth, "fixed_width": config.width},
    )


def _change(config: Config, name: str, depth: int, width: int) -> tuple[float, float]:
    net = MLP(depth, width, name, input_dim=1, output_dim=1).at_criticality()
    net = net.with_equivalent_learning_rates()
    rng = np.random.default_rng([config.seed, len(name), depth, width])
    x = np.full(1, net.C_W[0] ** -0.5)
    found = []
    for _ in range(config.networks):
        drawn_W, drawn_b = drawn(net, 1, rng)
        W, b = [one[0] for one in drawn_W], [one[0, 0] for one in drawn_b]
        before, gradients = _sweep(net, W, b, x)
        _step(net, W, b, gradients, 0.5 / before)
        after, _ = _sweep(net, W, b, x)
        found.append(abs(after - before) / before)
    return float(np.mean(found)), float(np.std(found, ddof=1) / len(found) ** 0.5)


def _step(
    net: Network,
    W: list[np.ndarray],
    b: list[np.ndarray],
    gradients: list[tuple[np.ndarray, np.ndarray]],
    eta: float,
) -> None:
    """One step at an error of 1, in place."""
    for k, (row, entering) in enumerate(gradients):
        W[k] -= eta * net.lambda_W[k] / net.widths[k] * np.outer(row, entering)
        b[k] -= eta * net.lambda_b[k] * row


def _sweep(
    net: Network, W: list[np.ndarray], b: list[np.ndarray], x: np.ndarray
) -> tuple[float, list[tuple[np.ndarray, np.ndarray]]]:
    r"""$\widehat H$ of one network on one input, and by layer $dz/dz^{(\ell)}$ and what enters it."""
    entering, z = [x], W[0] @ x + b[0]
    slopes = []
    for k in range(1, net.depth):
        slopes.append(net.activation.derivative(z, 1))
        entering.append(net.activation(z))
        z = W[k] @ entering[-1] + b[k]
    rows = [np.ones(1)]
    for k in range(net.depth - 1, 0, -1):
        rows.append((rows[-1] @ W[k]) * slopes[k - 1])
    rows.reverse()
    H = sum(
        (net.lambda_b[k] + net.lambda_W[k] * np.mean(entering[k] ** 2)) * (rows[k] @ rows[k])
        for k in range(net.depth)
    )
    return float(H), list(zip(rows, entering, strict=True))


def numbers(dataset: xr.Dataset) -> list[Number]:
    """Slopes against the width; corrections of relative order n^(-1/2) bend both laws."""
    bend = 0.5 / float(dataset.width.min()) ** 0.5
    return [
        Number.of(
            one, f"power of the width, {name}", -0.5 if name == "relu" else -1.0, "slope", bend
        )
        for name, one in each(dataset, "activation")
    ]


@panels(2, height=3.7)
def figure(dataset: xr.Dataset, left: Axes, right: Axes) -> None:
    """Against the width and against the depth."""
    for k, (name, one) in enumerate(each(dataset, "activation")):
        label = f"{name}, slope {float(one.slope):.2f} ± {float(one.slope_sem):.2f}"
        points(
            left,
            one.width,
            one.change,
            one.change_sem,
            color=COLORS[k],
            label=label.replace("-", "−"),
        )
        law = -0.5 if name == "relu" else -1.0
        middle = np.exp(np.mean(np.log(one.change / one.width**law)))
        left.plot(one.width, float(middle) * one.width**law, color=COLORS[k], lw=1.0)
        points(right, one.depth, one.deep_change, one.deep_change_sem, color=COLORS[k], label=name)
        top = float(one.deep_change[-1] / one.depth[-1])
        right.plot(one.depth, top * one.depth, color=COLORS[k], lw=0.8, ls=(0, (3, 2)))
    log_axes(left)
    left.set(
        xlabel="width n",
        title=f"|ΔH|/H after one step, depth {dataset.attrs['fixed_depth']}; lines: 1/√n and 1/n",
    )
    left.legend(loc="lower left")
    log_axes(right)
    right.set(xlabel="depth L")
    right.set_title(f"width {dataset.attrs['fixed_width']}; broken lines: proportional to L")
    right.legend(loc="best")
    right.tick_params(axis="x", color=MUTED)
