r"""Generalisation at infinite width: bias and variance across criticality, and what lies between two samples.

Shown: squared bias and variance of networks trained to the end on digits, 3 against 8, against $C_W$ in units of
its critical value, for deepening networks; the test loss beside networks of finite width; then the mean prediction
on the line through two training inputs, less the straight line between their targets.
$$2\,\mathbb E[\mathcal L_{\mathcal B}]=\sum_{\dot\beta}
  \Big[(m^\infty-y)_{\dot\beta}^2+{\rm Cov}_{\dot\beta\dot\beta}\Big],\qquad
  m^\infty(s)=sy_++(1-s)y_--s(1-s)\frac{\delta\delta\Theta_{[0]}}{\Theta_{00}}(y_++y_-)$$
Look for: beyond criticality a variance that grows as $(C_W/C_W^\star)^L$ and a bias that becomes that of knowing
nothing; below, a bias that depth makes larger for ReLU; a bent part a quarter of the printed one.

Source: PDLT (10.50)-(10.56), (10.99)-(10.117), the latter corrected.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from scalewise.data import load_labelled
from scalewise.experiments._descended import descended, drawn
from scalewise.experiments._form import computed, each, settings
from scalewise.experiments._look import COLORS, INK, Number, attributes, log_axes, panels, points
from scalewise.networks import MLP, Network
from scalewise.tasks import Task
from scalewise.theory.single import nearby_inputs_flow
from scalewise.training import GradientDescent, GradientFlow, predict_training
from scalewise.training.kernels import star_polation

TITLE = "Bias, variance and what lies between samples"
TEXT = (
    "Digits 3 against 8 at infinite width. Beyond the critical C<sub>W</sub> the variance grows by its "
    "power L and deep tanh knows nothing of the tests; below, the kernel of deep ReLU networks forgets how "
    "inputs differ. Points: losses of trained networks. Last: how far the mean bends from the straight "
    "line through two samples; lines are exact, crosses the corrected expansion, points networks."
)
_ACTIVATIONS = ("relu", "tanh")
_SHOWN = ("bias", "variance")
_RANGES = {"bias": (0.05, 2), "variance": (1e-4, 1e2), "loss": (0.02, 20)}  # of the axes


# Small: fewer points.
@settings(depths=(3, 20), count=5, train=8, between=("tanh", "gelu"), measured=(1.0,), width=64)
class Config:
    r"""Settings.

    Args:
        depths: $L$.
        count: Values of $C_W$.
        train: Training images; as many more are tests.
        between: Activations between two samples.
        apart: Distance of these two samples, which lie on a sphere of radius $\sqrt3$.
        measured: Values of $C_W$ over the critical one at which networks of `depths[0]` layers are trained.
        steps: Of their training, which theory counts too.
        width: Of them.
        networks: Networks per ensemble.
        seed: Random seed.
    """

    depths: tuple[int, ...] = (3, 10, 30)
    count: int = 25
    train: int = 16
    between: tuple[str, ...] = ("linear", "tanh", "sin", "gelu")
    apart: float = 0.45
    measured: tuple[float, ...] = (0.6, 1.0, 1.6)
    steps: int = 100
    width: int = 128
    networks: int = 100
    seed: int = 0


def run(config: Config) -> xr.Dataset:
    r"""Predict, and train some networks.

    Returns:
        Means over tests, over (activation, depth, ratio): ``bias`` squared, ``variance``, ``loss``. Over
        (activation, measured): ``trained`` losses of networks with ``trained_sem``, ``trained_predicted``. Over
        (between, s): the ``bent`` part of the mean; over (between, place): ``expanded``, ``bent_exact``, and of
        networks ``bent_trained`` with ``_sem``.
    """
    ratio = np.exp(np.linspace(-0.7, 1.1, config.count))
    cells = {"activation": list(_ACTIVATIONS), "depth": list(config.depths), "ratio": ratio}
    task = _digits(config)
    scan = computed(_generalised, cells, task=task)
    places = {"activation": list(_ACTIVATIONS), "measured": list(config.measured)}
    trained = computed(_trained, places, task=task, config=config)
    bent = computed(_bent, {"between": list(config.between)}, config=config)
    data = xr.merge([scan, trained, bent], join="outer")
    data.attrs = attributes(config, measured=list(config.measured))
    return data


def _digits(config: Config) -> Task:
    x, label = load_labelled("digits")
    rows = np.flatnonzero((label == 3) | (label == 8))
    rows = np.random.default_rng([config.seed, 5]).permutation(rows)[: 2 * config.train]
    y = np.where(label[rows] == 3, -1.0, 1.0)[:, None]
    n = config.train
    return Task(x[rows[:n]], y[:n], test_inputs=x[rows[n:]], test_targets=y[n:])


def _net(activation: str, depth: int, ratio: float, width: int = 1) -> Network:
    net = MLP(depth, width, activation, input_dim=64, output_dim=1).at_criticality()
    net = net.with_equivalent_learning_rates()
    return net.numbered(C_W=[c * ratio for c in net.C_W])


def _generalised(activation: str, depth: int, ratio: float, *, task: Task) -> xr.Dataset:
    found = predict_training(
        _net(activation, depth, ratio),
        task,
        GradientFlow(),
        observables=["bias", "variance", "test_loss"],
    )
    return xr.Dataset(
        {
            "bias": float((found.bias**2).mean()),
            "variance": float(found.variance.mean()),
            "loss": float(found.test_loss.mean()),
        }
    )


def _trained(activation: str, measured: float, *, task: Task, config: Config) -> xr.Dataset:
    net = _net(activation, config.depths[0], measured, config.width)
    theory = predict_training(
        net, task, GradientDescent(), times=[config.steps], observables="test_loss"
    )
    rng = np.random.default_rng([config.seed, 6, len(activation), int(100 * measured)])
    start = drawn(net, config.networks, rng)
    z = descended(net, start, task, theory.attrs["rate"], [config.steps])[0, :, len(task.inputs) :]
    losses = ((z - task.test_targets) ** 2).mean(axis=(1, 2)) / 2
    return xr.Dataset(
        {
            "trained": losses.mean(),
            "trained_sem": losses.std(ddof=1) / config.networks**0.5,
            "trained_predicted": float(theory.test_loss.mean()),
        }
    )


def _bent(between: str, *, config: Config) -> xr.Dataset:
    """On the line through two inputs of equal norm; the straight line between their targets is taken off."""
    net = MLP(3, config.width, between, input_dim=3, output_dim=1).at_criticality()
    net = net.with_equivalent_learning_rates()
    middle, across = np.array([1.0, 0.9, 1.0]), np.array([0.5, 0.0, -0.5]) * 2**0.5 * config.apart
    s, place = np.linspace(-1, 2, 61), np.array([-0.6, 0.5, 1.7])
    y = np.array([[1.0 + config.apart], [1.0 - config.apart]])

    def task(at: np.ndarray) -> Task:
        return Task(
            middle + np.array([[0.5], [-0.5]]) * across,
            y,
            test_inputs=middle + (at[:, None] - 0.5) * across,
        )

    def straight(at: np.ndarray) -> np.ndarray:
        return at * y[0, 0] + (1 - at) * y[1, 0]

    algorithm = GradientDescent()
    curve = predict_training(net, task(s), algorithm, observables="output_mean").output_mean.values[
        0
    ]
    theory = predict_training(net, task(place), algorithm, observables="output_mean")
    start = drawn(net, config.networks, np.random.default_rng([config.seed, 7]))
    # Until 1e-3 of the error in the slowest direction is left.
    rate, steps = 0.75 * theory.attrs["maximal_rate"], int(7 * theory.attrs["condition"] / 1.5)
    first, last = descended(net, start, task(place), rate, [0, steps])[..., 0]
    # What a network began with, less its own straight line, is 0 in the mean and hardly moves.
    began = first[:, 2:] - place * first[:, :1] - (1 - place) * first[:, 1:2]
    flow = nearby_inputs_flow(net, middle[None], across[None])
    ends = last[:, 2:] - straight(place) - began
    return xr.Dataset(
        {
            "bent": ("s", curve - straight(s)),
            "bent_exact": ("place", theory.output_mean.values[0] - straight(place)),
            "expanded": ("place", star_polation(flow, place, y[0], y[1])[:, 0] - straight(place)),
            "bent_trained": ("place", ends.mean(axis=0)),
            "bent_trained_sem": ("place", ends.std(axis=0, ddof=1) / len(ends) ** 0.5),
        },
        {"s": s, "place": place},
    )


def numbers(dataset: xr.Dataset) -> list[Number]:
    """Growth of the variance, bias in chaos, losses of networks, bent means."""
    rows = []
    L = dataset.depth.values[[0, -1]]
    at = dataset.isel(ratio=-1).sel(depth=L)
    base = dataset.isel(ratio=int(np.argmin(np.abs(np.log(dataset.ratio.values))))).sel(depth=L)
    grown = np.log(at.variance / base.variance).sel(activation="relu").values
    found = float(np.diff(grown)[0] / np.diff(L)[0])
    expected = float(np.log(at.ratio / base.ratio))
    rows.append(
        Number("growth of ReLU's variance by a layer, largest C_W, log", expected, found, 0.0, 0.01)
    )
    chaos = float(at.bias.sel(activation="tanh").values[-1])
    rows.append(Number("squared bias of the deepest tanh, largest C_W", 1.0, chaos, 0.0, 0.15))
    share = 3 * dataset.attrs["depths"][0] / dataset.attrs["width"]
    for name, r, one in each(dataset, "activation", "measured"):
        what, beyond = f"test loss, {name} at {r:g} critical", share * float(one.trained_predicted)
        rows.append(Number.of(one, what, "trained_predicted", "trained", beyond))
    for name, one in each(dataset, "between"):
        # Odd orders of the distance, which the expansion lacks, cancel in the middle.
        middle, end = one.sel(place=0.5), one.isel(place=-1)
        what = f"bent between samples, {name}: exact, expanded"
        beyond = 0.2 * abs(float(middle.bent_exact)) + 1e-9
        rows.append(Number.of(middle, what, "bent_exact", "expanded", beyond))
        what = f"bent beyond samples, {name}: exact, networks"
        # Their training leaves 1e-3 of what tells the two targets apart; the line through them carries it on.
        left = 1e-3 * 2 * dataset.attrs["apart"] * abs(float(end.place) - 0.5)
        beyond = share * abs(float(end.bent_exact)) + left
        rows.append(Number.of(end, what, "bent_exact", "bent_trained", beyond))
    return rows


@panels(2, 2, height=3.3)
def figure(dataset: xr.Dataset, bias: Axes, variance: Axes, loss: Axes, between: Axes) -> None:
    """Bias, variance, loss, and between samples."""
    shades = np.linspace(0.4, 1.0, dataset.sizes["depth"])
    for axis, name in zip((bias, variance, loss), (*_SHOWN, "loss"), strict=True):
        for k, activation in enumerate(map(str, dataset.activation.values)):
            for shade, depth in zip(shades, map(int, dataset.depth.values), strict=True):
                one = dataset[name].sel(activation=activation, depth=depth)
                axis.plot(
                    one.ratio, one, color=COLORS[k], alpha=shade, label=f"{activation}, L = {depth}"
                )
        axis.axvline(1.0, color=INK, lw=0.7, ls=(0, (2, 2)))
        axis.set_ylim(*_RANGES[name])
        log_axes(axis)
        axis.set_xticks([0.5, 1.0, 2.0], ["0.5", "1", "2"])
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_xlabel("C_W / critical")
    for k, (_, one) in enumerate(each(dataset, "activation")):
        points(loss, one.measured, one.trained, one.trained_sem, color=COLORS[k])
    bias.set_title("squared bias of a test")
    variance.set_title("variance of a test")
    depth, width = dataset.attrs["depths"][0], dataset.attrs["width"]
    loss.set_title(
        f"test loss; points: networks, L = {depth}, n = {width}, {dataset.attrs['steps']} steps"
    )
    variance.legend(loc="upper left")
    for k, (name, one) in enumerate(each(dataset, "between")):
        between.plot(one.s, one.bent, color=COLORS[k], label=name)
        between.plot(one.place[1:2], one.expanded[1:2], "x", color=COLORS[k], ms=6)
        points(between, one.place, one.bent_trained, one.bent_trained_sem, color=COLORS[k])
    between.set(xlabel="s: 1 and 0 are the samples", title="mean prediction less the straight line")
    between.legend(loc="best")
