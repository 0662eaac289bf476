r"""Bayesian learning at finite width: neurons that know of each other, wiring between outputs, features that move.

Shown: the variance of a neuron given what another of its layer says; how the posterior mean of one output follows
the target of another; how far the posterior moves the mean square of the activations of every hidden layer. Points
are real hidden layers, weighted by the likelihood that they give the targets; lines are order 1/n.
$$\mathbb E[z_2^2|z_1]=G+\tfrac12(z_1^2-G)\frac V{nG^2},\qquad
  \overline{d\mathcal O}=\mathbb E\Big[\frac{p(y|z^{(L-1)})}{p(y)}\mathcal O\Big]-\mathbb E[\mathcal O]$$
Look for: parabolas; a slope where infinite width has none; deeper layers that move as much as the last hidden one,
where the text says $O(1/n^2)$.

Source: PDLT (6.78)-(6.108), footnote 35 corrected.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from numpy.random import Generator

from scalewise.experiments._form import computed, each, settings
from scalewise.experiments._look import COLORS, MUTED, Number, attributes, panels, points
from scalewise.networks import MLP, Network
from scalewise.tasks import Task
from scalewise.theory import predict
from scalewise.theory.information import conditional_variance
from scalewise.training import Bayes, predict_training

TITLE = "What a posterior of finite width knows"
TEXT = (
    "Left: a neuron that fires strongly announces a large kernel, so that the others of its layer vary "
    "more. Middle: the target of output 1 changes what output 0 is expected to say, by 1/n, and not at "
    "all at infinite width. Right: the posterior moves the activations of every hidden layer by 1/n; the "
    "text lets only the last one move. Points: real hidden layers, weighted by their likelihood."
)
_BATCH = 2_000
_NAMES = ["kernel", "metric_nlo", "four_point_vertex"]
_X = np.array([[1.0, 0.4, -0.3], [-0.5, 1.1, 0.6], [0.6, 0.2, 0.5]])
_Y = np.array([[1.2, -0.3], [-0.8, 0.9]])


@settings(widths=(8,), depth=3, targets=(-3.0, 0.0, 3.0), networks=20_000)  # small: fewer networks
class Config:
    r"""Settings.

    Args:
        activation: Of all networks.
        widths: $n$ of the neurons that know of each other.
        depth: $L$ of the networks whose features move; the others have one hidden layer more or less, see `run`.
        width: $n$ of the posteriors.
        targets: $y_1$ of the first sample.
        networks: For each panel.
        seed: Random seed.
    """

    activation: str = "tanh"
    widths: tuple[int, ...] = (8, 32)
    depth: int = 4
    width: int = 64
    targets: tuple[float, ...] = (-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0)
    networks: int = 60_000
    seed: int = 0


def run(config: Config) -> xr.Dataset:
    r"""Draw hidden layers and weight them.

    Returns:
        Over (neurons, bin), in units of $G$: ``square`` $z_1^2$, ``measured`` with ``measured_sem``, ``predicted``
        $\mathbb E[z_2^2|z_1]$ in the third layer. Over target: ``mean`` at infinite width, ``mean_at_width``,
        ``mean_measured`` with ``_sem``, of the test output 0 of networks with one hidden layer. Over layer:
        ``moved`` with ``moved_sem``, ``moved_predicted``, times n.
    """
    known = computed(_knowing, {"neurons": list(config.widths)}, config=config)
    wired = computed(_wired, {"target": list(config.targets)}, config=config)
    data = xr.merge([known, wired, _moved(config)])
    data.attrs = attributes(config)
    return data


def _net(config: Config, depth: int, width: int) -> Network:
    return MLP(depth, width, config.activation, input_dim=3, output_dim=2, C_b=0.1, C_W=1.5)


def _hidden(net: Network, x: np.ndarray, count: int, rng: Generator) -> list[np.ndarray]:
    """Activations of every hidden layer (network, neuron, sample), each layer Gaussian given the one below."""
    G = net.C_b[0] + net.C_W[0] / net.input_dim * x @ x.T
    kernels, found = np.broadcast_to(G, (count, *G.shape)), []
    for k in range(1, net.depth):
        n = net.widths[k]
        z = rng.standard_normal((count, n, len(x))) @ np.linalg.cholesky(kernels).transpose(0, 2, 1)
        found.append(net.activation(z))
        kernels = net.C_b[k] + net.C_W[k] / n * found[-1].transpose(0, 2, 1) @ found[-1]
    return [*found, kernels]


def _log_likelihood(G: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Log-likelihoods of targets (sample, output) given the kernel of the last layer, network by network."""
    solved = np.linalg.solve(G, np.broadcast_to(y, (len(G), *y.shape)))
    return -y.shape[1] / 2 * np.linalg.slogdet(G)[1] - (y * solved).sum((1, 2)) / 2


def _weighted(values: np.ndarray, logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means of values (network, ...) under the posterior, and their standard errors."""
    w = np.exp(logs - logs.max())
    w /= w.sum()
    mean = np.tensordot(w, values, 1)
    spread = np.sqrt(np.tensordot(w**2, (values - mean) ** 2, 1))
    return np.asarray(mean), np.asarray(spread)


def _knowing(neurons: int, *, config: Config) -> xr.Dataset:
    net, rng = _net(config, 3, neurons), np.random.default_rng([config.seed, 1, neurons])
    x = _X[:1]
    G = np.concatenate(
        [_hidden(net, x, _BATCH, rng)[-1][:, 0, 0] for _ in range(config.networks // _BATCH)]
    )
    z1 = np.sqrt(G) * rng.standard_normal(G.size)
    theory = predict(net, x, observables=_NAMES).isel(layer=-1)
    K, G1, V = (theory[name].item() for name in _NAMES)
    mean = K + G1 / neurons
    edges = np.quantile(z1**2, [0, 0.3, 0.55, 0.75, 0.88, 0.96, 1.0])
    rows = []
    for low, high in pairwise(edges):
        inside = (z1**2 >= low) & (z1**2 < high)
        square = float(np.mean(z1[inside] ** 2))
        # Given the layer below the other neuron is Gaussian, of variance G.
        own = conditional_variance(mean, V / neurons / mean**2, square**0.5)
        rows.append((square, own, G[inside].mean(), G[inside].std(ddof=1) / inside.sum() ** 0.5))
    names = ("square", "predicted", "measured", "measured_sem")
    return xr.Dataset({name: ("bin", np.array(rows)[:, k] / mean) for k, name in enumerate(names)})


def _wired(target: float, *, config: Config) -> xr.Dataset:
    net, rng = _net(config, 2, config.width), np.random.default_rng([config.seed, 2])
    y = _Y + np.array([[0.0, target - _Y[0, 1]], [0.0, 0.0]])
    names = ["output_mean", "output_mean_nlo"]
    theory = predict_training(net, Task(_X[:2], y, test_inputs=_X[2:]), Bayes(), observables=names)
    G = np.concatenate(
        [_hidden(net, _X, _BATCH, rng)[-1] for _ in range(config.networks // _BATCH)]
    )
    A = G[:, :2, :2]
    each = (
        G[:, 2, :2] * np.linalg.solve(A, np.broadcast_to(y[:, :1], (len(A), 2, 1)))[..., 0]
    ).sum(-1)
    mean, sem = _weighted(each, _log_likelihood(A, y))
    leading, next_order = (float(theory[name][0, 0]) for name in names)
    return xr.Dataset(
        {
            "mean": leading,
            "mean_at_width": leading + next_order / config.width,
            "mean_measured": float(mean),
            "mean_measured_sem": float(sem),
        }
    )


def _moved(config: Config) -> xr.Dataset:
    """Two widths, so that the next order can be taken off."""
    net = _net(config, config.depth, config.width)
    task, layers = Task(_X[:2], _Y), np.arange(1, config.depth)
    theory = predict_training(
        net, task, Bayes(), observables="feature_change_nlo"
    ).feature_change_nlo
    parts = []
    for n in (config.width, 2 * config.width):
        rng = np.random.default_rng([config.seed, 3, n])
        norms, logs = [], []
        for _ in range(config.networks // _BATCH):
            *hidden, G = _hidden(_net(config, config.depth, n), _X[:2], _BATCH, rng)
            norms.append(np.stack([(s[:, :, 0] ** 2).mean(axis=1) for s in hidden], axis=1))
            logs.append(_log_likelihood(G, _Y))
        drawn = np.concatenate(norms)
        # The prior mean is of the same networks, so that most of the noise is of both.
        parts.append(
            [n * part for part in _weighted(drawn - drawn.mean(axis=0), np.concatenate(logs))]
        )
    (first, first_sem), (second, second_sem) = parts
    return xr.Dataset(
        {
            "moved": ("layer", 2 * second - first),
            "moved_sem": ("layer", np.hypot(2 * second_sem, first_sem)),
            "moved_predicted": ("layer", theory.values[:, 0, 0]),
            "moved_bend": ("layer", np.abs(second - first)),
        },
        {"layer": layers},
    )


def numbers(dataset: xr.Dataset) -> list[Number]:
    """The loudest neurons; the wiring; every layer."""
    rows = []
    for n, one in each(dataset.isel(bin=-1), "neurons"):
        away = abs(float(one.predicted) - 1)
        what = f"E[z₂²|z₁]/G of the loudest neurons, n = {n}"
        rows.append(Number.of(one, what, "predicted", "measured", 2 * away**2))
    flat = float(np.ptp(dataset["mean"].values))
    rows.append(Number("how output 0 follows the target of output 1, n = ∞", 0.0, flat, 0.0, 1e-12))
    for end in (0, -1):
        one = dataset.isel(target=end)
        what = f"output 0 where that target is {float(one.target):g}, finite width"
        shift = abs(float(one.mean_at_width - one["mean"]))
        rows.append(Number.of(one, what, "mean_at_width", "mean_measured", shift / 4))
    for layer, one in each(dataset, "layer"):
        what, bend = f"n times what the posterior moves, layer {layer}", float(one.moved_bend)
        rows.append(Number.of(one, what, "moved_predicted", "moved", 0.5 * bend))
    return rows


@panels(3, height=3.6)
def figure(dataset: xr.Dataset, left: Axes, middle: Axes, right: Axes) -> None:
    """Neurons, outputs, layers."""
    for k, (n, one) in enumerate(each(dataset, "neurons")):
        points(left, one.square, one.measured, one.measured_sem, color=COLORS[k], label=f"n = {n}")
        left.plot(one.square, one.predicted, color=COLORS[k])
    left.set(xlabel="z₁² / G", title="E[z₂² | z₁] / G in layer 3; lines: (6.78)")
    left.legend(loc="upper left")
    middle.plot(
        dataset.target, dataset["mean"], color=MUTED, ls=(0, (4, 2)), label="infinite width"
    )
    middle.plot(dataset.target, dataset.mean_at_width, color=COLORS[0], label="with order 1/n")
    points(
        middle,
        dataset.target,
        dataset.mean_measured,
        dataset.mean_measured_sem,
        color=COLORS[1],
        label=f"hidden layers of {dataset.attrs['width']}",
    )
    middle.set(xlabel="target of output 1", title="posterior mean of output 0 on a test input")
    middle.legend(loc="best")
    right.plot(
        dataset.layer,
        dataset.moved_predicted,
        "_",
        color=COLORS[0],
        ms=22,
        mew=1.6,
        label="order 1/n",
    )
    printed = [*[0.0] * (dataset.sizes["layer"] - 1), float(dataset.moved_predicted[-1])]
    right.plot(dataset.layer, printed, "_", color=COLORS[2], ms=12, mew=1.6, label="as printed")
    points(
        right, dataset.layer, dataset.moved, dataset.moved_sem, color=COLORS[1], label="networks"
    )
    right.set(xlabel="hidden layer", xlim=(0.5, dataset.attrs["depth"] - 0.5))
    right.set_xticks(dataset.layer.values)
    right.set(
        title="n × change of the mean σ² by the data",
        ylim=(min(0, float(dataset.moved.min())) * 1.4, None),
    )
    right.legend(loc="best")
