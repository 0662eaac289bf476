r"""The evidence: which networks the data prefer, before any is trained.

Shown: the log evidence against $C_W$ in units of its critical value, for deepening networks; over the two
eigenvalues of the kernel of two inputs of equal norm; and what a finite width adds to it, averaged over real hidden
layers, against $1/n$.
$$\log p(y|\mathcal H)=-\tfrac{n_L}2\log|2\pi\tilde K|-\tfrac12\sum_iy_i\tilde K^{-1}y_i$$
Look for: a peak that closes in on the critical $C_W$ from both sides; the peak at $\mathbb Y/n_L$; straight lines.

Source: PDLT (6.34)-(6.48), section 6.3.1; order 1/n derived.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from scalewise.experiments._form import computed, each, settings
from scalewise.experiments._look import COLORS, INK, Number, attributes, log_axes, panels, points
from scalewise.networks import MLP
from scalewise.tasks import Task
from scalewise.training import Bayes, log_evidence, predict_training

TITLE = "The evidence for criticality"
TEXT = (
    "Log evidence of random targets. Left: the deeper the network, the closer to the critical "
    "C<sub>W</sub> must it be, or its kernel says that targets of order one are impossible. Middle: two "
    "inputs of equal norm; the cross is the peak in closed form. Right: what width n adds, times n; points "
    "average the likelihood over real hidden layers, the line begins at the predicted coefficient."
)


# Small: fewer points and networks.
@settings(depths=(5, 50), count=31, widths=(60, 240), networks=20_000)
class Config:
    r"""Settings.

    Args:
        activations: Scale-invariant: the others lose their kernel at criticality too, if slowly.
        depths: $L$ of the scan over $C_W$.
        count: Points of a curve, and along a side of the map.
        outputs: $n_L$ of the networks of finite width.
        widths: $n$.
        networks: For each width.
        seed: Of the samples and the networks.
    """

    activations: tuple[str, ...] = ("relu", "linear")
    depths: tuple[int, ...] = (5, 20, 50, 100)
    count: int = 61
    outputs: tuple[int, ...] = (1, 2)
    widths: tuple[int, ...] = (40, 80, 160, 320)
    networks: int = 40_000
    seed: int = 0


def run(config: Config) -> xr.Dataset:
    r"""Scan, map and average.

    Returns:
        Over (activation, depth, ratio): ``log_evidence`` at $C_W$ = ratio times the critical one. Over (K0, K2):
        ``pair``, and ``peak`` $\mathbb Y_{[0]},\mathbb Y_{[2]}$. Over outputs: ``coefficient`` of 1/n; over
        (outputs, width): ``added`` $n\log p/p_\infty$ of real hidden layers with ``added_sem``.
    """
    cells = {"activation": list(config.activations), "depth": list(config.depths)}
    ratio = np.exp(np.linspace(-0.7, 0.7, config.count))
    scan = computed(_scan, cells, ratio=ratio, seed=config.seed)
    finite = {"outputs": list(config.outputs), "width": list(config.widths)}
    wide = computed(_finite, finite, config=config)
    y = np.array([1.2, -0.4])  # of two inputs of equal norm
    Y = np.array([(y.sum() / 2) ** 2, (np.diff(y)[0] / 2) ** 2])
    units = np.exp(np.linspace(-2.0, 2.0, config.count))
    K0, K2 = np.meshgrid(Y[0] * units, Y[1] * units, indexing="ij")
    mapped = [log_evidence(_pair(a, b), y[:, None]) for a, b in zip(K0.flat, K2.flat, strict=True)]
    return xr.Dataset(
        {
            "log_evidence": (("activation", "depth", "ratio"), scan.log_evidence.values),
            "pair": (("K0", "K2"), np.reshape(mapped, K0.shape)),
            "peak": ("part", Y),
            "coefficient": ("outputs", wide.coefficient.values[:, 0]),
            "added": (("outputs", "width"), wide.added.values),
            "added_sem": (("outputs", "width"), wide.added_sem.values),
        },
        {**cells, "ratio": ratio, "K0": K0[:, 0], "K2": K2[0], **finite},
        attributes(config),
    )


def _pair(K0: float, K2: float) -> np.ndarray:
    return np.array([[K0 + K2, K0 - K2], [K0 - K2, K0 + K2]])


def _task(outputs: int, seed: int) -> Task:
    """Three inputs with norms of about 1 in every direction, and targets of order 1."""
    rng = np.random.default_rng([seed, 4])
    x = rng.standard_normal((3, 5))
    return Task(
        x * 5**0.5 / np.linalg.norm(x, axis=1, keepdims=True), rng.standard_normal((3, outputs))
    )


def _scan(activation: str, depth: int, *, ratio: np.ndarray, seed: int) -> xr.Dataset:
    net = MLP(depth, 1, activation, input_dim=5, output_dim=1).at_criticality()
    found = []
    for one in ratio:
        moved = net.numbered(C_W=[net.C_W[0], *(c * one for c in net.C_W[1:])])
        with np.errstate(all="ignore"):
            learned = predict_training(moved, _task(1, seed), Bayes(), at="train", covariance=None)
        found.append(float(learned.get("log_evidence", xr.DataArray(np.nan))))
    return xr.Dataset({"log_evidence": ("ratio", found)})


def _finite(outputs: int, width: int, *, config: Config) -> xr.Dataset:
    r"""One hidden layer: given it, outputs are Gaussian, so that $p=\mathbb E\,p(y|z^{(1)})$ is an average."""
    net = MLP(2, width, "tanh", input_dim=5, output_dim=outputs, C_b=0.1, C_W=1.5)
    task = _task(outputs, config.seed)
    theory = predict_training(net, task, Bayes(), observables=["log_evidence", "log_evidence_nlo"])
    rng = np.random.default_rng([config.seed, outputs, width])
    K = net.C_b[0] + net.C_W[0] / 5 * task.inputs @ task.inputs.T
    root = np.linalg.cholesky(K)
    logs = []
    for _ in range(max(1, config.networks // 2000)):
        sigma = net.activation(rng.standard_normal((2000, width, 3)) @ root.T)
        G = net.C_b[1] + net.C_W[1] / width * sigma.transpose(0, 2, 1) @ sigma
        exponent = (
            task.targets * np.linalg.solve(G, np.broadcast_to(task.targets, (2000, 3, outputs)))
        ).sum((1, 2))
        logs.append(-outputs / 2 * np.linalg.slogdet(2 * np.pi * G)[1] - exponent / 2)
    odds = np.exp(np.concatenate(logs) - float(theory.log_evidence))
    mean, sem = odds.mean(), odds.std(ddof=1) / odds.size**0.5
    return xr.Dataset(
        {
            "coefficient": float(theory.log_evidence_nlo),
            "added": width * np.log(mean),
            "added_sem": width * sem / mean,
        }
    )


def numbers(dataset: xr.Dataset) -> list[Number]:
    r"""Where the deepest networks have their peak; the peak of the map; the coefficient, extrapolated."""
    rows = []
    depth = int(dataset.depth[-1])
    for name in map(str, dataset.activation.values):
        curve = dataset.log_evidence.sel(activation=name).isel(depth=-1)
        best = float(dataset.ratio[int(np.nanargmax(curve))])
        step = float(np.log(dataset.ratio[1] / dataset.ratio[0]))
        # K of order 1 is kept within e^±3 for L layers.
        rows.append(
            Number(
                f"log of C_W over critical, {name}, depth {depth}",
                0.0,
                float(np.log(best)),
                0.0,
                step + 3 / depth,
            )
        )
    place = np.unravel_index(np.argmax(dataset.pair.values), dataset.pair.shape)
    for k, side in enumerate((dataset.K0, dataset.K2)):
        found, step = float(side[place[k]]), float(np.log(side[1] / side[0]))
        expected = float(dataset.peak[k])
        rows.append(
            Number(
                f"K[{2 * k}] at the peak: closed form, map", expected, found, 0.0, step * expected
            )
        )
    n = dataset.width.values.astype(float)
    for m, one in each(dataset, "outputs"):
        fit = np.stack([np.ones_like(n), 1 / n], axis=1) / one.added_sem.values[:, None]
        inverse = np.linalg.pinv(fit)
        a = float((inverse @ (one.added / one.added_sem).values)[0])
        sem, last = float(np.linalg.norm(inverse[0])), float(one.added[-1])
        rows.append(
            Number(
                f"coefficient of 1/n, {m} outputs, extrapolated",
                float(one.coefficient),
                a,
                sem,
                abs(a - last) / 4,
            )
        )
    return rows


@panels(3, height=3.6)
def figure(dataset: xr.Dataset, *axes: Axes) -> None:
    """Against C_W, a map, against the width."""
    left, middle, right = axes
    shades = np.linspace(0.35, 1.0, dataset.sizes["depth"])
    for k, name in enumerate(map(str, dataset.activation.values)):
        for shade, depth in zip(shades, map(int, dataset.depth.values), strict=True):
            curve = dataset.log_evidence.sel(activation=name, depth=depth)
            left.plot(
                dataset.ratio, curve, color=COLORS[k], alpha=shade, label=f"{name}, L = {depth}"
            )
    top = float(dataset.log_evidence.max())
    left.axvline(1.0, color=INK, lw=0.7, ls=(0, (2, 2)))
    left.set(
        xlabel="C_W / critical", ylim=(top - 25, top + 9), title="log evidence of random targets"
    )
    left.set_xscale("log")
    left.set_xticks([0.5, 1.0, 2.0], ["0.5", "1", "2"])
    left.xaxis.set_minor_formatter(NullFormatter())
    left.legend(loc="upper center", ncols=2)
    levels = float(dataset.pair.max()) - np.array([8, 5, 3, 2, 1, 0.5, 0.1])
    middle.contour(
        dataset.K0,
        dataset.K2,
        dataset.pair.T,
        levels=levels,
        colors=COLORS[0],
        linewidths=1.0,
        linestyles="solid",
    )
    middle.plot([dataset.peak[0]], [dataset.peak[1]], "+", color=COLORS[1], ms=10, mew=1.6)
    log_axes(middle)
    middle.set(xlabel="K[0]", ylabel="K[2]", title="two inputs of equal norm: log evidence")
    for k, (m, one) in enumerate(each(dataset, "outputs")):
        points(
            right, 1 / one.width, one.added, one.added_sem, color=COLORS[k], label=f"{m} outputs"
        )
        right.axhline(float(one.coefficient), color=COLORS[k], lw=1.0)
    right.set(
        xlabel="1/n", xlim=(0, None), title="n log p/p∞, one hidden layer; lines: coefficient"
    )
    right.legend(loc="best")
