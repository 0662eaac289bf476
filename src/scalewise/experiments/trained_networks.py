r"""The end of training at finite width: where networks of width n end, in parts, by algorithm, one by one.

Shown: the shift of the mean output, of its covariance and of the NTK by training, predicted beside networks trained by
gradient descent; the shift in its parts for several algorithms; what two Newton steps leave, and how far single
networks end from what their start says, against the width; the weight of the dNTK over the rate.
$$m_{i;\dot\beta}=m^\infty+\frac{m^{\{1\}}}n,\qquad
  z(\infty)=z-\widehat H\widehat H^{-1}e+[\widehat{dH}](Z_A,Z_B)ee+[\widehat{dd}](Z_{IA},\dots)eee$$
Look for: points on the diagonal; algorithms that agree at infinite width and part at 1/n; powers 0, -1, -3/2 of Newton,
-1 without and -2 with the dNTK; weights that diverge at a rate of 2.

Source: PDLT (∞.66)-(∞.79), (∞.107)-(∞.117), (∞.141)-(∞.167), the latter corrected; covariance derived: plots F∞-4
to F∞-7 for chapter ∞.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scalewise.experiments._descended import Networks, descended, drawn
from scalewise.experiments._look import (
    COLORS,
    MUTED,
    Number,
    attributes,
    house,
    log_axes,
    points,
    power,
    sheet,
)
from scalewise.nets import Parameters
from scalewise.networks import MLP
from scalewise.sweeps import sweep
from scalewise.tasks import Task
from scalewise.training import (
    GradientDescent,
    GradientFlow,
    TwoStepNewton,
    predict_training,
)
from scalewise.training.dynamics import free_theory, trained_outputs
from scalewise.training.dynamics.networks import outputs_of, state_of, two_step_newton
from scalewise.training.ensembles import measure_training

__all__ = ["SOURCE", "TEXT", "TITLE", "Config", "figure", "numbers", "run"]

TITLE = "The end of training at finite width"
SOURCE = "PDLT (∞.66)–(∞.79), (∞.107)–(∞.167)"
TEXT = (
    "What a finite width changes, times n: predicted against networks that were trained, for means, "
    "covariances and the NTK. Then the shift of one mean in its parts: algorithms that agree at infinite "
    "width do not at 1/n. Below, networks one by one: what Newton's steps leave of the error, and how far "
    "descent ends from what the NTK, the dNTK and the ddNTK of the start say; last, the weights of the dNTK."
)
_X = np.array([[1.5, 0.3, -0.4], [-0.2, 1.6, 0.5], [0.4, -0.8, 1.4], [0.9, 1.0, 0.2], [-0.8, 0.7, 1.1]])
_Y, _TRAIN = np.array([[1.0], [-0.6], [0.4]]), 3
_KINDS = ("output_mean", "output_covariance", "ntk_change")
_ORDERS = ("NTK alone", "with dNTK and ddNTK")


@dataclass(frozen=True)
class Config:
    r"""What is trained.

    Args:
        depth: $L$.
        width: $n$ of the ensemble.
        networks: In the ensemble, and as many as half of them of twice the width.
        rate: $\eta h_{\max}$ of descent.
        widths: $n$ of single networks.
        singles: Single networks for each width.
        seed: Same seed, same numbers.
    """

    depth: int = 3
    width: int = 48
    networks: int = 600
    rate: float = 0.8
    widths: tuple[int, ...] = (32, 128, 512)
    singles: int = 12
    seed: int = 0

    @classmethod
    def small(cls) -> Config:
        """Fewer networks."""
        return cls(depth=2, width=64, networks=300, widths=(32, 256), singles=10)


def run(config: Config) -> xr.Dataset:
    r"""Predict and train.

    Args:
        config: What is trained.

    Returns:
        Over entry, with ``kind``: ``predicted`` coefficients of 1/n, ``trained`` n times what networks of width n do
        beyond infinite width, ``trained_sem``, ``neglected``. Over (algorithm, part): ``share`` of the shift of the
        mean of the first test. Over (step, width): ``newton``, the typical error after each step. Over (order, width):
        ``missed``, the typical distance of the end from what the start says. Over (weight, strength): ``dntk_weight``
        $h^2Z$ of one training sample.
    """
    algorithms = {
        "descent": GradientDescent(),
        "flow": GradientFlow(),
        "two-step Newton": TwoStepNewton(),
    }
    parts = sweep(partial(_parts, config=config), {"algorithm": algorithms}, client=0, progress=False)
    singles = sweep(partial(_singles, config=config), {"width": list(config.widths)}, client=0, progress=False)
    # Of one training sample, eta h = x: Z_A = [1 - 1/(2-x)]/h^2, Z_B = [1 - 1/(2-x) + x/2(2-x)]/h^2 = 1/2h^2.
    x = np.linspace(0.0, 1.9, 40)
    data = xr.merge([part.reset_coords(drop=True) for part in (_ensemble(config), parts, singles)])
    data["dntk_weight"] = (("weight", "strength"), [1 - 1 / (2 - x), np.full_like(x, 0.5)])
    data["strength"] = x
    data["weight"] = ["A", "B"]
    data.attrs = attributes(config)
    return data


def _net(config: Config, width: int) -> MLP:
    return MLP(config.depth, width, "tanh", input_dim=3, output_dim=1, C_b=0.1, C_W=1.4, lambda_b=0.3,
               lambda_W=1.0)  # fmt: skip


def _task() -> Task:
    return Task(_X[:_TRAIN], _Y, test_inputs=_X[_TRAIN:])


def _ensemble(config: Config) -> xr.Dataset:
    net, task = _net(config, config.width), _task()
    theory = predict_training(net, task, GradientDescent(), observables="all")
    rate = 0.5 * config.rate * theory.attrs["maximal_rate"]
    theory = predict_training(net, task, GradientDescent(rate), observables="all")
    seen = measure_training(net, task, GradientDescent(rate), networks=config.networks,
                            observables=list(_KINDS), seed=config.seed, progress=False)  # fmt: skip
    n, small = config.width, float(theory.learning_parameter) / config.width
    rows, kinds = [], []
    for name in _KINDS:
        coefficient = theory[f"{name}_nlo"].values
        leading = theory[name].values if name in theory else 0.0
        shift, sem = n * (seen[name].values - leading), n * seen[f"{name}_sem"].values
        keep = np.triu(np.ones(coefficient.shape[-2:], bool)) if name != "output_mean" else np.ones(coefficient.shape, bool)
        keep = np.broadcast_to(keep, coefficient.shape)
        neglected = small * np.abs(coefficient).max()
        for a, b, c in zip(coefficient[keep], shift[keep], sem[keep], strict=True):
            rows.append((a, b, c, neglected))
            kinds.append(name)
    table = np.array(rows)
    names = ("predicted", "trained", "trained_sem", "neglected")
    found = {name: ("entry", table[:, k]) for k, name in enumerate(names)}
    return xr.Dataset({**found, "kind": ("entry", kinds)})


def _parts(algorithm, *, config: Config) -> xr.Dataset:
    found = predict_training(_net(config, config.width), _task(), algorithm,
                             observables=["output_mean_nlo", "output_mean_nlo_by_part"])  # fmt: skip
    return xr.Dataset({"share": found.output_mean_nlo_by_part[:, 0, 0], "shift": found.output_mean_nlo[0, 0]})


def _singles(width: int, *, config: Config) -> xr.Dataset:
    """Typical errors: exponentials of means of logarithms, which no single network rules."""
    net, task = _net(config, width), _task()
    y = _Y[:, 0]
    Theta = predict_training(net, task, GradientFlow()).attrs  # the same task for every width
    rng, missed, newton = np.random.default_rng([config.seed, width]), [], []
    from scalewise.theory import predict

    mean = predict(net, task.inputs, observables=["ntk"], layers=net.depth).ntk.values[0]
    del Theta
    for _ in range(config.singles):
        one = drawn(net, 1, rng)
        parameters = _of_one(one)
        first, second = two_step_newton(net, parameters, task, mean)
        ends = [outputs_of(net, p, task.inputs) - task.targets for p in (parameters, first, second)]
        newton.append([np.sqrt((end**2).mean()) for end in ends])
        start = state_of(net, parameters, task.all_inputs)
        h = np.linalg.eigvalsh(start.ntk[:_TRAIN, :_TRAIN])
        rate, steps = config.rate / h[-1], int(18 / config.rate * h[-1] / h[0])
        z = descended(net, one, task, rate, [steps])[0, 0, :, 0]
        flat = free_theory(start, y, rate).outputs(10**6)
        full = trained_outputs(start, y, partial(_weights(), rate=rate))
        missed.append([np.abs(x - z)[_TRAIN:].mean() for x in (flat, full)])
    typical = [np.exp(np.log(part).mean(axis=0)) for part in (newton, missed)]
    return xr.Dataset(
        {"newton": ("step", typical[0]), "missed": ("order", typical[1])},
        {"step": [0, 1, 2], "order": list(_ORDERS)},
    )
