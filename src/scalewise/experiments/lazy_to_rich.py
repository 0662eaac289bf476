r"""Lazy to rich: networks whose output is multiplied by $\alpha$, from the kernel to the limit of maximal update.

A network $\alpha f$ that is trained at the rate $\eta/\alpha^2$ is one whose last layer has $\alpha^2C_W$ and
$\alpha^2\lambda_W$, and all of whose rates are then divided by $\alpha^2$; and it does to targets $y$ what $f$ at
the rate $\eta$ does to $y/\alpha$, times $\alpha$. Its NTK does not know $\alpha$. At order 1/n
$$\mathbb E[z]=z_\mathrm{kernel}+\frac An+\frac B{n\alpha^2},$$
and the learning parameter has the same two parts. With $\alpha^2=n^{-s}$ this is the meta-principled family, and
$x=1/(n\alpha^2)$ is its $\gamma/L$. At fixed $x$ and $n\to\infty$ one has the limit of maximal update with a
readout of $C_W/x$, in which features move.

Claims: $B$ is the slope at which that limit leaves the kernel. Networks follow order 1/n while the learning
parameter over $n$ is small, and the limit at every $x$, up to $1/n$.

Source: Yaida (3.17)-(3.20), (4.9); Chizat, Oyallon & Bach, *On Lazy Training*; the two parts and the slope derived.
"""

from __future__ import annotations

import warnings
from functools import lru_cache

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.experiments._form import computed, each, settings
from scalewise.experiments._look import COLORS, MUTED, Number, attributes, log_axes, panels, points
from scalewise.limits import SGD, Architecture, Lazy, train
from scalewise.networks import MLP, Network
from scalewise.scaling import mup
from scalewise.tasks import Task
from scalewise.training import ExpansionWarning, GradientDescent, predict_training
from scalewise.training.ensembles import measure_training

TITLE = "From lazy to rich: kernel, order 1/n, limit of maximal update and networks"
TEXT = (
    "Networks with two hidden layers, whose output is multiplied by α at the rate η/α², after some "
    "steps on four samples. Left: a test output against γ/L = 1/(nα²). The kernel does not know α; "
    "order 1/n adds a line; the limit of maximal update leaves the kernel along the same line and bends. "
    "Networks lie on it, up to 1/n. Middle: how far each prediction is from the networks. Right: the "
    "small parameter of order 1/n, which decides nothing above one half."
)
_DEPTH, _INPUTS, _TRAIN = 3, 4, 4
_HALF = 0.5  # of the small parameter: above it order 1/n decides nothing
_SLOPE = (0.002, 0.03, 0.08, 0.16)  # where the slope of the limit is read off


@settings(
    widths=(32,), strengths=(0.03, 0.3, 3.0), networks=100, places=4, replicas=6
)  # small: seconds
class Config:
    r"""Settings.

    Args:
        widths: $n$ of the networks.
        strengths: $x=1/(n\alpha^2)$.
        networks: At each of them.
        particles: Of the limit.
        replicas: Runs of the limit.
        steps: Of gradient descent.
        places: At which the limit is drawn.
        seed: Of networks and particles.
    """

    widths: tuple[int, ...] = (32, 128)
    strengths: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
    networks: int = 200
    particles: int = 4096
    replicas: int = 8
    steps: int = 40
    places: int = 7
    seed: int = 0


@lru_cache(maxsize=1)
def _task() -> Task:
    """Four samples and a test, of one length."""
    x = np.random.default_rng(1).normal(size=(_TRAIN + 1, _INPUTS))
    x *= np.sqrt(_INPUTS) / np.linalg.norm(x, axis=1, keepdims=True)
    y = np.array([0.5, -0.5, 0.5, -0.5])
    return Task(x[:_TRAIN], y, test_inputs=x[_TRAIN:])


def network(width: int, alpha: float) -> Network:
    r"""The network $\alpha f$ with the rate $\eta/\alpha^2$, as one of `MLP`.

    Args:
        width: $n$.
        alpha: $\alpha$.

    Source: derived.
    """
    below = _DEPTH - 1
    return MLP(
        _DEPTH,
        width,
        "tanh",
        input_dim=_INPUTS,
        output_dim=1,
        C_W=(1.0,) * below + (alpha**2,),
        lambda_W=(alpha**-2,) * below + (1.0,),
        lambda_b=0.0,
    )


@lru_cache(maxsize=4)
def _rate() -> float:
    """A fifth of the largest stable rate, which does not know alpha: NTKs that move grow several times."""
    found = predict_training(network(64, 1.0), _task(), GradientDescent())
    return found.attrs["maximal_rate"] / 5


def run(config: Config) -> xr.Dataset:
    r"""Predict, train networks, and train the limit.

    Returns:
        ``kernel``, the test output at infinite width; its ``fixed`` $A$ and ``rich`` $B$, and
        ``parameter_fixed``, ``parameter_rich`` of the learning parameter. Over strength: ``limit`` with
        ``limit_sem``. Over (width, strength): ``trained`` with ``trained_sem``, ``predicted`` to order 1/n, and
        ``small``, the learning parameter over the width. ``slope`` of the limit at the kernel with ``slope_sem``.
        Over check: ``third``, the learning parameter at a third $\alpha$, and ``by_parts`` from A and B;
        ``scaled``, a mean at order 1/n of $f$ on $y/\alpha$, and ``direct`` of the network with $\alpha$.
    """
    data = _theory(config)
    strengths = sorted(
        {*config.strengths, *np.geomspace(0.01, 3.0, config.places).round(4).tolist()}
    )
    limits = computed(_limit, {"strength": strengths}, config=config)
    near = computed(_limit, {"strength": list(_SLOPE)}, config=config)
    cells = {"width": list(config.widths), "measured": list(config.strengths)}
    data = data.merge(limits.drop_vars("each")).merge(computed(_trained, cells, config=config))
    x = data.strength
    n = data.width
    data["predicted"] = data.kernel + data.fixed / n + data.rich * x
    data["small"] = data.parameter_fixed / n + data.parameter_rich * x
    slope, sem = _slope(near)
    data["slope"], data["slope_sem"] = slope, sem
    data.attrs = attributes(config)
    return data


def _predicted(
    alpha: float, config: Config, task: Task | None = None
) -> tuple[float, float, float]:
    """The kernel's test output, its coefficient of 1/n, and the learning parameter."""
    way = GradientDescent(_rate(), steps=config.steps)
    wanted = ["output_mean", "output_mean_nlo", "learning_parameter"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExpansionWarning)
        found = predict_training(network(64, alpha), task or _task(), way, observables=wanted)
    mean, nlo = (float(found[name].squeeze()) for name in wanted[:2])
    return mean, nlo, float(found.learning_parameter)


def _theory(config: Config) -> xr.Dataset:
    kernel, *one = _predicted(1.0, config)
    half, quarter = (_predicted(alpha, config)[1:] for alpha in (0.5, 0.25))
    rich = (np.array(half) - one) / 3
    fixed = np.array(one) - rich
    task = _task()
    larger = Task(task.inputs, task.targets / 0.5, test_inputs=task.test_inputs)
    return xr.Dataset(
        {
            "kernel": kernel,
            "fixed": fixed[0],
            "rich": rich[0],
            "parameter_fixed": fixed[1],
            "parameter_rich": rich[1],
            "direct": ("check", [half[0], quarter[1]]),
            "by_parts": (
                "check",
                [0.5 * _predicted(1.0, config, larger)[1], fixed[1] + 16 * rich[1]],
            ),
        },
        {"check": ["targets over α", "a third α"]},
    )


def _limit(strength: float, *, config: Config) -> xr.Dataset:
    """The limit of maximal update that networks of this strength come to."""
    below, g2 = _DEPTH - 1, 1 / strength
    net = Architecture(
        mup(depth=_DEPTH),
        "tanh",
        C_W=(1 / _INPUTS,) + (1.0,) * (below - 1) + (g2,),
        lambda_W=(strength / _INPUTS,) + (strength,) * (below - 1) + (1.0,),
    )
    on = Lazy(
        config.particles, replicas=config.replicas, seed=config.seed, antithetic=True, spread=True
    )
    # The loss of a limit is a mean over samples, that of a `GradientDescent` a sum.
    sgd = SGD(_rate() * _TRAIN)
    found = train(net, _task(), sgd, steps=config.steps, on=on, every=config.steps).isel(time=-1)
    last = found.isel(sample=-1, output=0)
    means = {"limit": float(last.logits_mean), "limit_sem": float(last.logits_sem)}
    return xr.Dataset(means | {"each": ("replica", last.logits.values)})


def _trained(width: int, measured: float, *, config: Config) -> xr.Dataset:
    """Networks of a width and a strength."""
    net = network(width, (measured * width) ** -0.5)
    way = GradientDescent(_rate(), steps=config.steps)
    found = measure_training(
        net,
        _task(),
        way,
        networks=config.networks,
        seed=config.seed,
        observables=["output_mean"],
        progress=False,
    )
    both = {"trained": found.output_mean, "trained_sem": found.output_mean_sem}
    return xr.Dataset({name: float(value.squeeze()) for name, value in both.items()})


def _slope(near: xr.Dataset) -> tuple[float, float]:
    """At 0, of a polynomial of third degree for each run of the limit: all of it have the same particles."""
    x = near.strength.values
    design = np.stack([np.ones_like(x), x, x**2, x**3], axis=1)
    slopes = np.linalg.solve(design, near["each"].values)[1]
    return float(slopes.mean()), float(slopes.std(ddof=1) / np.sqrt(slopes.size))


def numbers(dataset: xr.Dataset) -> list[Number]:
    """Slopes, checks of the two parts, and which prediction holds where."""
    rows = [Number.of(dataset, "slope at the kernel: order 1/n, limit", "rich", "slope", 0.03)]
    for what, one in each(dataset[["direct", "by_parts"]], "check"):
        wanted = float(one.direct)
        rows.append(
            Number(
                f"α in the network, and by {what}",
                wanted,
                float(one.by_parts),
                0.0,
                1e-3 * abs(wanted),
            )
        )
    for width, x, one in each(dataset.drop_dims(("check", "strength")), "width", "measured"):
        at = dataset.sel(width=width, strength=x)
        small, fixed = float(at.small), abs(float(dataset.fixed)) / width
        if (
            small < _HALF / 2
        ):  # the next order is seen on the limit, but for its part that dies with the width
            bend = abs(float(at.limit - dataset.kernel - dataset.rich * x)) + small * fixed
            rows.append(
                Number.of(
                    one.assign(predicted=at.predicted),
                    f"n = {width}, γ/L = {x:g}: order 1/n",
                    "predicted",
                    "trained",
                    bend,
                )
            )
        away = 2 * fixed + 4 * float(at.limit_sem)
        rows.append(
            Number.of(
                one.assign(limit=at.limit),
                f"n = {width}, γ/L = {x:g}: limit",
                "limit",
                "trained",
                away,
            )
        )
    return rows


@panels(3, height=3.6)
def figure(dataset: xr.Dataset, left: Axes, middle: Axes, right: Axes) -> None:
    """The test output, distances from networks, and the small parameter."""
    x, widths = dataset.strength.values, dataset.width.values.tolist()
    known = dataset.isel(width=-1)
    left.axhline(float(dataset.kernel), color=MUTED, lw=1.0, ls=":", label="kernel")
    inside = known.small.values < _HALF
    left.plot(
        x[inside], known.predicted[inside], color=COLORS[1], label=f"order 1/n, n = {widths[-1]}"
    )
    left.plot(x, known.predicted, color=COLORS[1], lw=1.0, ls=":")
    left.plot(x, dataset.limit, color=COLORS[0], label="limit of maximal update")
    for k, (width, one) in enumerate(each(dataset, "width")):
        points(
            left,
            one.measured,
            one.trained,
            one.trained_sem,
            color=COLORS[2 + k],
            label=f"networks, n = {width}",
        )
    low, high = float(dataset.limit.min()), float(dataset.limit.max())
    left.set(ylim=(low - 0.1 * (high - low), high + 0.15 * (high - low)))
    left.set(xlabel="γ/L = 1/(nα²)", title="a test output after training")
    left.legend(loc="upper left")
    last = dataset.isel(width=-1)
    at = last.sel(strength=dataset.measured)
    ways = {"kernel": dataset.kernel, "order 1/n": at.predicted, "limit": at.limit}
    for (name, value), color in zip(ways.items(), (MUTED, COLORS[1], COLORS[0]), strict=True):
        middle.plot(
            last.measured,
            np.abs(last.trained - value.values),
            "o-",
            ms=3.6,
            color=color,
            label=name,
        )
    middle.plot(
        last.measured, last.trained_sem, color=MUTED, lw=1.0, ls=":", label="standard error"
    )
    middle.set(xlabel="γ/L = 1/(nα²)", title=f"distance from networks, n = {widths[-1]}")
    middle.legend(loc="best")
    for k, (width, one) in enumerate(each(dataset, "width")):
        right.plot(x, one.small, color=COLORS[2 + k], label=f"n = {width}")
    right.axhline(_HALF, color=MUTED, lw=1.0, ls=":")
    right.set(xlabel="γ/L = 1/(nα²)", title="learning parameter over n")
    right.legend(loc="upper left")
    log_axes(left, "x")
    log_axes(middle)
    log_axes(right)
