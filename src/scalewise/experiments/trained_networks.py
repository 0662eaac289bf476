r"""The end of training at finite width: where networks of width n end, in parts, by algorithm, one by one.

Shown: the shift of the mean output, of its covariance and of the NTK by training, predicted beside networks trained
by gradient descent; the shift in its parts for several algorithms; what two Newton steps leave, and how far single
networks end from what their start says, against the width; what each tensor does over the rate.
$$m_{i;\dot\beta}=m^\infty+\frac{m^{\{1\}}}n,\qquad
  z(\infty)=z-\widehat H\widehat H^{-1}e+[\widehat{dH}](Z_A,Z_B)ee+[\widehat{dd}](Z_{IA},\dots)eee$$
Look for: points on the diagonal; algorithms that agree at infinite width and part at 1/n; powers 0, -1, -3/2 of
Newton, -1 without and -2 with the dNTK; responses that diverge at a rate of 2.

Source: PDLT (∞.66)-(∞.79), (∞.107)-(∞.117), (∞.141)-(∞.167), the latter corrected; covariance derived: plots F∞-4
to F∞-7 for chapter ∞.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.experiments._descended import descended, drawn
from scalewise.experiments._form import computed, each, power, settings
from scalewise.experiments._look import COLORS, MUTED, Number, attributes, log_axes, panels, points
from scalewise.nets import Parameters
from scalewise.networks import MLP, Network
from scalewise.tasks import Task
from scalewise.theory import predict
from scalewise.training import (
    GradientDescent,
    GradientFlow,
    TwoStepNewton,
    predict_training,
)
from scalewise.training.dynamics import (
    NetworkState,
    effective_dynamics,
    free_theory,
    trained_outputs,
)
from scalewise.training.dynamics.networks import state_of
from scalewise.training.ensembles import measure_training
from scalewise.training.kernels import outputs_of, two_step_newton
from scalewise.training.spi import converged

TITLE = "The end of training at finite width"
TEXT = (
    "What a finite width changes, times n: predicted against networks that were trained, for means, "
    "covariances and the NTK. Then the shift of one mean in its parts: algorithms that agree at infinite "
    "width do not at 1/n. Below, networks one by one: what Newton's steps leave of the error, and how far "
    "descent ends from what the NTK, the dNTK and the ddNTK of the start say; last, what each of them does "
    "to a test, against the rate."
)
_X = np.array(
    [[1.5, 0.3, -0.4], [-0.2, 1.6, 0.5], [0.4, -0.8, 1.4], [0.9, 1.0, 0.2], [-0.8, 0.7, 1.1]]
)
_Y, _TRAIN = np.array([[1.0], [-0.6], [0.4]]), 3
_KINDS = ("output_mean", "output_covariance", "ntk_change")
_ORDERS = ("by the NTK alone", "with dNTK and ddNTK")


@settings(depth=2, width=64, networks=300, widths=(32, 256), singles=10)  # small: fewer networks
class Config:
    r"""Settings.

    Args:
        depth: $L$.
        width: $n$ of the ensemble.
        networks: In the ensemble.
        rate: $\eta h_{\max}$ of descent.
        widths: $n$ of single networks.
        singles: Single networks for each width.
        seed: Random seed.
    """

    depth: int = 3
    width: int = 48
    networks: int = 600
    rate: float = 0.8
    widths: tuple[int, ...] = (32, 128, 512)
    singles: int = 12
    seed: int = 0


def run(config: Config) -> xr.Dataset:
    r"""Predict and train.

    Returns:
        Over entry, with ``kind``: ``predicted`` coefficients of 1/n, ``trained`` n times what networks of width n
        do beyond infinite width, ``trained_sem``, ``neglected``. Over (algorithm, part): ``share`` of the shift of
        the mean of the first test. Over (step, width): ``newton``, the typical error after each step. Over (order,
        width): ``missed``, the typical distance of the end from what the start says. Over (tensor, strength):
        ``response`` of a test output to each tensor, one training sample, and over (tensor, tried)
        ``response_seen`` step by step.
    """
    algorithms = {
        "descent": GradientDescent(),
        "flow": GradientFlow(),
        "two-step Newton": TwoStepNewton(),
    }
    shares = computed(_parts, {"algorithm": algorithms}, config=config)
    singles = computed(_singles, {"width": list(config.widths)}, config=config)
    data = xr.merge([_ensemble(config), shares, singles, _responses()])
    data.attrs = attributes(config)
    return data


def _net(config: Config, width: int) -> Network:
    return MLP(
        config.depth,
        width,
        "tanh",
        input_dim=3,
        output_dim=1,
        C_b=0.1,
        C_W=1.4,
        lambda_b=0.3,
        lambda_W=1.0,
    )


def _task() -> Task:
    return Task(_X[:_TRAIN], _Y, test_inputs=_X[_TRAIN:])


def _ensemble(config: Config) -> xr.Dataset:
    net, task = _net(config, config.width), _task()
    theory = predict_training(net, task, GradientDescent(), observables="all")
    rate = 0.5 * config.rate * theory.attrs["maximal_rate"]
    theory = predict_training(net, task, GradientDescent(rate), observables="all")
    seen = measure_training(
        net,
        task,
        GradientDescent(rate),
        networks=config.networks,
        observables=list(_KINDS),
        seed=config.seed,
        progress=False,
    )
    n, small = config.width, float(theory.learning_parameter) / config.width
    rows, kinds = [], []
    for name in _KINDS:
        leading = theory[name].values if name in theory else 0.0
        expected = theory[f"{name}_nlo"].values
        found, sem = n * (seen[name].values - leading), n * seen[f"{name}_sem"].values
        once = np.ones(expected.shape[-2:], dtype=bool)
        keep = np.broadcast_to(once if name == "output_mean" else np.triu(once), expected.shape)
        left = np.full(keep.sum(), small * np.abs(expected).max())
        rows.append(np.stack([expected[keep], found[keep], sem[keep], left], axis=1))
        kinds += [name] * len(left)
    table = np.concatenate(rows)
    names = ("predicted", "trained", "trained_sem", "neglected")
    found = {name: ("entry", table[:, k]) for k, name in enumerate(names)}
    return xr.Dataset({**found, "kind": ("entry", kinds)})


def _parts(algorithm, *, config: Config) -> xr.Dataset:
    found = predict_training(
        _net(config, config.width),
        _task(),
        algorithm,
        observables=["output_mean_nlo", "output_mean_nlo_by_part"],
    )
    return xr.Dataset(
        {"share": found.output_mean_nlo_by_part[:, 0, 0], "shift": found.output_mean_nlo[0, 0]}
    )


def _singles(width: int, *, config: Config) -> xr.Dataset:
    """Typical errors: exponentials of means of logarithms, which no single network rules."""
    net, task, y = _net(config, width), _task(), _Y[:, 0]
    rng, missed, newton = np.random.default_rng([config.seed, width]), [], []
    mean = predict(net, task.inputs, observables=["ntk"], layers=net.depth).ntk.values[0]
    for _ in range(config.singles):
        one = drawn(net, 1, rng)
        parameters = Parameters(tuple(W[0] for W in one[0]), tuple(b[0, 0] for b in one[1]))
        first, second = two_step_newton(net, parameters, task.inputs, task.targets, mean)
        ends = [outputs_of(net, p, task.inputs) - task.targets for p in (parameters, first, second)]
        newton.append([np.sqrt((end**2).mean()) for end in ends])
        start = state_of(net, parameters, task.all_inputs)
        h = np.linalg.eigvalsh(start.ntk[:_TRAIN, :_TRAIN])
        rate, steps = config.rate / h[-1], int(18 / config.rate * h[-1] / h[0])
        z = descended(net, one, task, rate, [steps])[0, 0, :, 0]
        flat = free_theory(start, y, rate).outputs(10**6)
        full = trained_outputs(start, y, partial(converged, rate=rate))
        missed.append([np.abs(x - z)[_TRAIN:].mean() for x in (flat, full)])
    typical = [np.exp(np.log(part).mean(axis=0)) for part in (newton, missed)]
    return xr.Dataset(
        {"newton": ("step", typical[0]), "missed": ("order", typical[1])},
        {"step": [0, 1, 2], "order": list(_ORDERS)},
    )


def _responses() -> xr.Dataset:
    """Responses of a test output to dNTK and ddNTKs of size 1, one training sample whose NTK is 1, error 1."""
    strength, tried, h = np.linspace(0.05, 1.9, 38), np.array([0.2, 0.8, 1.4, 1.8]), 1e-4
    tensors = {"dNTK": 3, "first ddNTK": 4, "second ddNTK": 4}

    def state(name: str, size: float) -> NetworkState:
        # As an activation would: the training sample pulls the test a little, and itself.
        parts = [np.zeros((2,) * rank) for rank in tensors.values()]
        pulls = np.array([0.4, 1.0])
        first = np.outer(pulls, pulls) if name == "second ddNTK" else pulls[:, None]
        parts[list(tensors).index(name)] += size * first.reshape(
            *first.shape, *(1,) * (tensors[name] - 2)
        )
        return NetworkState(np.array([1.0, 0.0]), np.array([[1.0, 0.5], [0.5, 1.0]]), *parts)

    def slope(ends) -> float:
        return float((ends(h) - ends(-h)) / (2 * h))

    y, lines, seen = np.zeros(1), [], []
    for name in tensors:
        lines.append(
            [
                slope(
                    lambda size, eta=eta, name=name: trained_outputs(
                        state(name, size), y, partial(converged, rate=eta)
                    )[1]
                )
                for eta in strength
            ]
        )
        seen.append(
            [
                slope(
                    lambda size, eta=eta, name=name: list(
                        effective_dynamics(state(name, size), y, eta, 150)
                    )[-1].outputs[1]
                )
                for eta in tried
            ]
        )
    data = {
        "response": (("tensor", "strength"), lines),
        "response_seen": (("tensor", "tried"), seen),
    }
    return xr.Dataset(data, {"tensor": list(tensors), "strength": strength, "tried": tried})


def numbers(dataset: xr.Dataset) -> list[Number]:
    """The largest shift of each kind; powers of the width; responses."""
    rows = []
    called = {"output_mean": "mean", "output_covariance": "covariance", "ntk_change": "NTK"}
    for name, words in called.items():
        one = dataset.isel(entry=np.flatnonzero(dataset.kind.values == name))
        one = one.isel(entry=int(np.argmax(np.abs(one.predicted.values))))
        what = f"largest shift of the {words} by width, times n"
        rows.append(Number.of(one, what, "predicted", "trained", float(one.neglected)))
    for step, expected in zip(dataset.step.values, (0.0, -1.0, -1.5), strict=True):
        slope, _ = power(dataset.width, dataset.newton.sel(step=step))
        what = f"power of the width, error after {step} Newton steps"
        rows.append(Number(what, expected, slope, 0.0, 0.35))
    for order, expected in zip(map(str, dataset.order.values), (-1.0, -2.0), strict=True):
        slope, _ = power(dataset.width, dataset.missed.sel(order=order))
        rows.append(Number(f"power of the width, missed {order}", expected, slope, 0.0, 0.4))
    for name, one in each(dataset, "tensor"):
        expected = float(np.interp(0.8, dataset.strength, one.response))
        rows.append(
            Number(
                f"response to the {name} at ηh = 0.8",
                expected,
                float(one.response_seen[1]),
                0.0,
                2e-3 * max(1, abs(expected)),
            )
        )
    return rows


@panels(3, 2, height=3.3)
def figure(dataset: xr.Dataset, *axes: Axes) -> None:
    """Predicted beside trained, parts, single networks."""
    agreement, ntk, parts, newton, missed, weights = axes
    _diagonal(agreement, dataset, _KINDS[:2])
    agreement.set_title("n × shift of means and covariances by width")
    _diagonal(ntk, dataset, _KINDS[2:])
    ntk.set_title("n × change of the NTK by training")
    bottom = np.arange(dataset.sizes["algorithm"])
    for k, part in enumerate(map(str, dataset.part.values)):
        height = dataset.share.sel(part=part).values
        parts.bar(
            bottom + 0.1 * (k - 3.5),
            height,
            width=0.09,
            color=COLORS[k % 6],
            alpha=1 if k < 6 else 0.5,
            label=part.replace("_", " "),
        )
    parts.plot(bottom, dataset["shift"], "_", color=MUTED, ms=30, mew=1.5, label="all")
    parts.set_xticks(bottom, [str(name) for name in dataset.algorithm.values])
    parts.set(xlabel="algorithm", title="n × shift of the mean of a test, in parts")
    parts.legend(loc="best", ncols=2, fontsize=7.5)
    for k, step in enumerate(map(int, dataset.step.values)):
        newton.plot(
            dataset.width,
            dataset.newton.sel(step=step),
            "o-",
            ms=3.6,
            color=COLORS[k],
            label=f"{step} steps",
        )
    log_axes(newton)
    newton.set(xlabel="width n", title="typical error after Newton steps")
    for k, order in enumerate(map(str, dataset.order.values)):
        missed.plot(
            dataset.width,
            dataset.missed.sel(order=order),
            "o-",
            ms=3.6,
            color=COLORS[k],
            label=order,
        )
    log_axes(missed)
    missed.set(xlabel="width n", title="how far networks end from what their start says")
    for k, name in enumerate(map(str, dataset.tensor.values)):
        weights.plot(
            dataset.strength, dataset.response.sel(tensor=name), color=COLORS[k], label=name
        )
        points(weights, dataset.tried, dataset.response_seen.sel(tensor=name), color=COLORS[k])
    weights.set(
        xlabel="η h of the one training sample",
        title="response to each tensor; points: step by step",
    )
    for axis in (newton, missed, weights):
        axis.legend(loc="best")


def _diagonal(axis: Axes, dataset: xr.Dataset, kinds: tuple[str, ...]) -> None:
    shown = dataset.isel(entry=np.flatnonzero(np.isin(dataset.kind.values, kinds)))
    ends = np.array([float(shown.predicted.min()), float(shown.predicted.max())])
    axis.plot(ends, ends, color=MUTED, lw=0.8)
    for k, name in enumerate(kinds):
        one = shown.isel(entry=np.flatnonzero(shown.kind.values == name))
        points(
            axis,
            one.predicted,
            one.trained,
            one.trained_sem,
            color=COLORS[k],
            label=name.replace("_", " "),
        )
    axis.set(xlabel=f"predicted; networks: width {dataset.attrs['width']}")
    axis.legend(loc="upper left")
