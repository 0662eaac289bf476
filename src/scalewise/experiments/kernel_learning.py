r"""Training as kernel regression: what an ensemble answers between its training samples, and on the way there.

Shown: mean and twice the standard deviation of networks on a circle, trained by gradient descent and by the last
layer alone, with the infinite-width prediction; the losses step by step; what one step leaves out.
$$z_{i;\delta}\leftarrow z_{i;\delta}-\eta\sum\widehat H_{ij;\delta\tilde\alpha}\epsilon_{j;\tilde\alpha}
  +\tfrac{\eta^2}2\sum\widehat{dH}\,\epsilon\,\epsilon+\dots$$
Look for: no spread on the training samples; more of it by the whole network than by the last layer; powers 2 and 3
of the rate.

Source: PDLT (7.11)-(7.20), (10.33)-(10.41), (10.44)-(10.49), (11.9).
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.comparison import at_width
from scalewise.experiments._descended import descended, drawn, outputs_of
from scalewise.experiments._form import computed, each, power, settings
from scalewise.experiments._look import COLORS, MUTED, Number, attributes, log_axes, panels, points
from scalewise.nets import Parameters
from scalewise.networks import MLP, Network
from scalewise.tasks import Task
from scalewise.training import GradientDescent, LastLayer, predict_training
from scalewise.training.dynamics.networks import state_of
from scalewise.training.ensembles import measure_training

TITLE = "Training as kernel regression"
TEXT = (
    "Networks on a circle, trained on three angles. Bands are mean and twice the standard deviation at "
    "infinite width, points are ensembles. Gradient descent on all layers is kernel regression with the "
    "NTK; the last layer alone is a Gaussian process. Below: the losses step by step, and what one step "
    "leaves out: η² of the NTK alone, η³ with the dNTK, in one network."
)
_ANGLES, _TARGETS = (0.3, 2.3, 4.6), (1.0, -0.6, -1.0)
_WAYS = {"all layers": GradientDescent(), "last layer": LastLayer()}


# Small: fewer and narrower networks.
@settings(width=48, networks=200, steps=(0, 2, 4, 10, 40), angles=5, rates=(0.2, 0.1, 0.05))
class Config:
    r"""Settings.

    Args:
        activation: Smooth.
        depth: $L$.
        width: $n$.
        networks: Networks per ensemble.
        steps: After which losses are recorded; the last is the end.
        angles: Of the tests, evenly spread.
        rates: $\eta h_{\max}$ of the single steps.
        seed: Random seed.
    """

    activation: str = "tanh"
    depth: int = 3
    width: int = 64
    networks: int = 300
    steps: tuple[int, ...] = (0, 1, 2, 3, 4, 6, 10, 20, 40)
    angles: int = 10
    rates: tuple[float, ...] = (0.4, 0.2, 0.1, 0.05, 0.025)
    seed: int = 0


def run(config: Config) -> xr.Dataset:
    r"""Predict, train, and take single steps.

    Returns:
        Over (algorithm, angle): ``mean``, ``variance`` at infinite width; over (algorithm, test): both to
        order 1/n ``_at_width`` with ``_bias``, and ``measured_mean``, ``measured_variance`` with ``_sem``. Over
        (part, step): ``loss``, the mean over samples and networks of $\frac12(z-y)^2$, with ``loss_measured`` and
        ``_sem``. Over (order, rate): ``left``, the largest distance of outputs after a step from
        $-\eta\widehat H\epsilon$ and from the next order.
    """
    learned = computed(_learned, {"algorithm": _WAYS}, config=config)
    data = xr.merge([learned, _on_the_way(config), _single_steps(config)])
    data.attrs = {**attributes(config), "train": list(_ANGLES), "targets": list(_TARGETS)}
    return data


def _net(config: Config) -> Network:
    return MLP(
        config.depth,
        config.width,
        config.activation,
        input_dim=2,
        output_dim=1,
        C_b=0.1,
        C_W=1.4,
        lambda_b=0.3,
        lambda_W=1.0,
    )


def _task(angles: np.ndarray) -> Task:
    def on_circle(t: np.ndarray) -> np.ndarray:
        return 1.5 * np.stack([np.cos(t), np.sin(t)], axis=1)

    wanted = np.interp(angles, _ANGLES, _TARGETS, period=2 * np.pi)
    return Task(
        on_circle(np.array(_ANGLES)),
        np.array(_TARGETS),
        test_inputs=on_circle(angles),
        test_targets=wanted,
    )


def _wanted(task: Task) -> np.ndarray:
    assert task.test_targets is not None
    return task.test_targets


def _tests(config: Config) -> np.ndarray:
    return 2 * np.pi * (np.arange(config.angles) + 0.25) / config.angles


def _learned(algorithm: GradientDescent | LastLayer, *, config: Config) -> xr.Dataset:
    net, tests = _net(config), _tests(config)
    angles = np.linspace(0, 2 * np.pi, 121)
    wanted = ["output_mean", "variance"]
    curve = predict_training(net, _task(angles), algorithm, observables=wanted)
    names = [*wanted, "output_mean_nlo", "variance_nlo", "learning_parameter"]
    theory = predict_training(net, _task(tests), algorithm, observables=names)
    there = at_width(theory)
    if isinstance(algorithm, LastLayer):
        seen = measure_training(
            net,
            _task(tests),
            algorithm,
            networks=config.networks,
            seed=config.seed,
            observables=wanted,
            progress=False,
        )
        measured = [seen[name].values[0] for one in wanted for name in (one, f"{one}_sem")]
    else:
        measured = _descended(config, theory.attrs["rate"])
    data = {
        "mean": ("angle", curve.output_mean.values[0]),
        "variance": ("angle", curve.variance.values),
    }
    for k, (name, short) in enumerate(zip(wanted, ("mean", "variance"), strict=True)):
        data[f"{short}_at_width"] = ("test", there[name].values[0])
        bias = np.broadcast_to(there[f"{name}_bias"], there[name].shape)
        data[f"{short}_bias"] = ("test", bias[0])
        data[f"measured_{short}"] = ("test", measured[2 * k])
        data[f"measured_{short}_sem"] = ("test", measured[2 * k + 1])
    return xr.Dataset(data, {"angle": angles, "test": tests})


def _descended(config: Config, rate: float) -> list[np.ndarray]:
    """Mean and variance of tests at the end, each with its standard error."""
    net, task, N = _net(config), _task(_tests(config)), config.networks
    start = drawn(net, N, np.random.default_rng([config.seed, 0]))
    z = descended(net, start, task, rate, config.steps[-1:])[0, :, len(task.inputs) :, 0]
    squares = (z - z.mean(axis=0)) ** 2 * N / (N - 1)
    return [
        both / N**k for x in (z, squares) for both, k in ((x.mean(axis=0), 0), (x.std(axis=0), 0.5))
    ]


def _on_the_way(config: Config) -> xr.Dataset:
    """Losses of training samples and tests after some steps, networks beside infinite width."""
    net, task = _net(config), _task(_tests(config))
    how = GradientDescent()
    losses = ["train_loss", "test_loss"]
    theory = predict_training(net, task, how, times=config.steps, observables=losses)
    rng = np.random.default_rng([config.seed, 1])
    z = descended(net, drawn(net, config.networks, rng), task, theory.attrs["rate"], config.steps)
    y = np.concatenate([task.targets, _wanted(task)])
    half = ((z - y) ** 2).sum(axis=-1) / 2
    count = len(task.targets)
    each = [half[..., :count].mean(axis=-1), half[..., count:].mean(axis=-1)]
    return xr.Dataset(
        {
            "loss": (("part", "step"), [theory[name].values.mean(axis=-1) for name in losses]),
            "loss_measured": (("part", "step"), [part.mean(axis=1) for part in each]),
            "loss_measured_sem": (
                ("part", "step"),
                [part.std(axis=1, ddof=1) / config.networks**0.5 for part in each],
            ),
        },
        {"part": ["training samples", "tests"], "step": list(config.steps)},
    )


def _single_steps(config: Config) -> xr.Dataset:
    r"""The rest of a step beyond $-\eta\widehat H\epsilon$; $\frac{\eta^2}2\widehat{dH}\epsilon\epsilon$."""
    net, task = _net(config), _task(_tests(config)[:2])
    one = drawn(net, 1, np.random.default_rng([config.seed, 2]))
    parameters = Parameters(tuple(W[0] for W in one[0]), tuple(b[0, 0] for b in one[1]))
    start, count = state_of(net, parameters, task.all_inputs), len(task.inputs)
    error = start.outputs[:count] - task.targets[:, 0]
    first = -start.ntk[:, :count] @ error
    second = start.dntk[:, :count, :count] @ error @ error / 2
    largest = np.linalg.eigvalsh(start.ntk[:count, :count])[-1]
    left = []
    for share in config.rates:
        eta = share / largest
        moved = ([W.copy() for W in one[0]], [b.copy() for b in one[1]])
        after = descended(net, moved, task, eta, [1])[0, 0, :, 0]
        gap = after - outputs_of(net, one, task.all_inputs)[0, :, 0] - eta * first
        left.append([np.abs(gap).max(), np.abs(gap - eta**2 * second).max()])
    return xr.Dataset(
        {"left": (("order", "rate"), np.transpose(left))},
        {"order": ["NTK", "NTK and dNTK"], "rate": list(config.rates)},
    )


def numbers(dataset: xr.Dataset) -> list[Number]:
    """Where the spread is largest; the end of training; powers of the rate."""
    rows = []
    for name, one in each(dataset, "algorithm"):
        one = one.isel(test=int(np.argmax(one.variance_at_width.values)))
        for short in ("mean", "variance"):
            what, bias = f"{short} at {float(one.test):.2f}, {name}", float(one[f"{short}_bias"])
            rows.append(Number.of(one, what, f"{short}_at_width", f"measured_{short}", bias))
    for part, one in each(dataset.isel(step=0), "part"):
        beyond = 2 * dataset.attrs["depth"] * (1 / dataset.attrs["width"]) * float(one.loss)
        rows.append(
            Number.of(one, f"loss before training, {part}", "loss", "loss_measured", beyond)
        )
    for expected, order in zip((2.0, 3.0), map(str, dataset.order.values), strict=True):
        slope, _ = power(dataset.rate[-2:], dataset.left.sel(order=order)[-2:])
        bend = 3 * float(dataset.rate[-2])
        rows.append(Number(f"power of the rate left by {order}", expected, slope, 0.0, bend))
    return rows


@panels(2, 2, height=3.3)
def figure(dataset: xr.Dataset, whole: Axes, last: Axes, losses: Axes, steps: Axes) -> None:
    """Two bands on the circle, losses, single steps."""
    for k, (axis, name) in enumerate(
        zip((whole, last), map(str, dataset.algorithm.values), strict=True)
    ):
        _band(axis, dataset.sel(algorithm=name), COLORS[2 * k])
        axis.plot(
            dataset.attrs["train"],
            dataset.attrs["targets"],
            "s",
            color=MUTED,
            ms=5,
            label="targets",
        )
        axis.set(
            xlabel="angle",
            title=f"{name}: mean and 2σ; points: {dataset.attrs['networks']} networks",
        )
        axis.set_ylim(-2.4, 2.4)
        axis.legend(loc="upper right", ncols=3)
    for k, (part, one) in enumerate(each(dataset, "part")):
        losses.plot(one.step, one.loss, color=COLORS[k], label=part)
        points(losses, one.step, one.loss_measured, one.loss_measured_sem, color=COLORS[k])
    losses.set_xscale("symlog", linthresh=1)
    losses.set_xticks([0, 1, 10, 100], ["0", "1", "10", "100"])
    losses.set_ylim(1e-4, 2)
    log_axes(losses, "y")
    losses.set(
        xlabel="steps of gradient descent", title="mean loss of a sample; lines: infinite width"
    )
    losses.legend(loc="lower left")
    for k, order in enumerate(map(str, dataset.order.values)):
        one = dataset.left.sel(order=order)
        label = f"left by {order}: power {power(dataset.rate[-2:], one[-2:])[0]:.2f}"
        steps.plot(dataset.rate, one, "o-", ms=3.6, color=COLORS[k], label=label)
    log_axes(steps)
    steps.set(xlabel="η times the largest eigenvalue", title="one step of one network")
    steps.legend(loc="lower right")


def _band(axis: Axes, one: xr.Dataset, color: str) -> None:
    spread = 2 * np.sqrt(one.variance)
    axis.fill_between(
        one.angle, one["mean"] - spread, one["mean"] + spread, color=color, alpha=0.15, lw=0
    )
    axis.plot(one.angle, one["mean"], color=color, label="infinite width")
    points(
        axis,
        one.test,
        one.measured_mean,
        2 * np.sqrt(one.measured_variance),
        color=COLORS[1],
        label="networks",
    )
