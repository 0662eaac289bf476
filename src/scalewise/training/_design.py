"""The verb `design`: a task and a number of parameters in, the network with the smallest predicted loss out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import xarray as xr

from scalewise._checked import Count, Index, Must, NotNegative, Positive, checked
from scalewise._labelled import dataset
from scalewise._readable import Rows, readable
from scalewise.activations import Activation, activation
from scalewise.critical import criticality
from scalewise.networks import MLP, Network
from scalewise.sweeps import sweep
from scalewise.tasks import Task
from scalewise.training._algorithm import Algorithm
from scalewise.training._algorithms import Bayes, GradientFlow
from scalewise.training._asked import Asked
from scalewise.training._expansion import without_warning
from scalewise.training._outcomes import LARGE
from scalewise.training._predict import predict_training, with_order_one
from scalewise.training._task import check_fit

_TO_THE_END = GradientFlow()
_DECISIVE = 5.0  # nat, odds of 150 to 1
_NAMES = ("depth", "activation", "weight_scale", "bias_variance")
_MEASURES = ("width", "parameters", "test_loss", "log_evidence")
_AT_WIDTH = ("test_loss_nlo", "learning_parameter")
_UNITS = {
    "width": ("Width of the hidden layers", "neurons"),
    "parameters": ("Number of parameters", "parameters"),
    "test_loss": ("Mean over the test samples of the loss at infinite width", "preactivation²"),
    "log_evidence": ("Log evidence of the training targets at infinite width", "nat"),
    "test_loss_nlo": (
        "Coefficient of 1/n of the mean test loss; NaN if not computed",
        "preactivation²",
    ),
    "learning_parameter": (
        "Small parameter of the expansion times n; NaN if not computed",
        "dimensionless",
    ),
    "predicted_loss": (
        "Mean test loss at the width: with its 1/n term where that is small",
        "preactivation²",
    ),
    "stated_error": (
        "Size of what the predicted loss neglects; NaN if not known",
        "preactivation²",
    ),
    "log_bayes_factor": ("Log evidence less the largest among the candidates", "nat"),
    "trusted": (
        "Whether the 1/n term was computed and the expansion is small there",
        "dimensionless",
    ),
}
Activations = Annotated[Sequence[str | Activation], Must("a list of activations", bool)]
Family = Callable[[int, Activation], Network]
_STEPS = 64  # the smallest width of a network is looked for among so many


@checked
@dataclass(frozen=True)
@readable
class Design:
    """The recommendation of `design`, and everything that it looked at.

    Args:
        net: The network.
        algorithm: How to train it.
        table: All candidates over ``candidate``, the best first.
        caveat: What the recommendation does not rest on; empty if there is nothing to say.
    """

    net: Network
    algorithm: Algorithm
    table: xr.Dataset
    caveat: str = field(default="", compare=False)

    def _told(self) -> list[str | Rows]:
        best = self.table.isel(candidate=0)
        told = [
            f"{self.net}",
            f"parameters: {int(best.parameters)}; predicted test loss {float(best.predicted_loss):.4g}",
            f"candidates: {self.table.sizes['candidate']}",
        ]
        return [*told, *([self.caveat] if self.caveat else [])]


@checked
def design(
    task: Task,
    budget: Count,
    algorithm: Algorithm = _TO_THE_END,
    *,
    family: Family | None = None,
    depths: Sequence[Count] = (2, 3, 4),
    activations: Activations = ("tanh", "gelu", "sin", "relu"),
    weight_scales: Sequence[Positive] = (0.5, 1.0, 2.0),
    bias_variances: Sequence[NotNegative] = (0.0, 0.1),
    by: Literal["test_loss", "log_evidence"] = "test_loss",
    noise_variance: NotNegative = 0.0,
    refine: Index = 6,
    client: Any = None,
) -> Design:
    r"""Choose depth, width, activation and variances of a network for a task, without training one.

    Every candidate is as wide as `budget` allows. All are ordered by the loss that networks of infinite width
    have, or by their evidence; of the first `refine` of them the loss is predicted at their width,
    $\mathcal L(n)=\mathcal L_0+\mathcal L_1/n$, and the smallest is recommended of those where the 1/n term is
    small.

    The loss chooses by the test samples of the task, so what is left of the data should be kept apart to judge the
    choice; the evidence needs training samples alone.

    Args:
        task: What is to be learned; its test samples have targets.
        budget: The largest number of parameters.
        algorithm: How the network will be trained.
        family: From a depth and an activation to a network of these and of any layers, for inputs of the task; its
            width, $C_b$ and $C_W$ are chosen here, where layers do not say their own. An `MLP` for ``None``.
        depths: Numbers of weight layers; of a `family` whatever it makes of them.
        activations: Names of activations, or `Activation`.
        weight_scales: $C_W$ in units of the activation's critical one, and of 1 where there is none.
        bias_variances: $C_b$, added to the activation's critical one.
        by: Order candidates by the expected ``"test_loss"`` or by the ``"log_evidence"``.
        noise_variance: Of the targets, for the evidence.
        refine: How many of the first candidates are predicted at their width, which takes most of the time.
        client: Where candidates are computed; as in `sweep`.

    Returns:
        The recommendation with its table: dimensions ``candidate``; ``depth``, ``activation``, ``weight_scale``,
        ``bias_variance``, ``C_b``, ``C_W``, and what was predicted. A candidate for which the order 1/n cannot be
        had, or where it is not small, keeps its loss at infinite width and is not ``trusted``; ``caveat`` says so
        if it is the one recommended, and if the evidence speaks decisively for another.

    Raises:
        ValueError: If the task has no test targets, no candidate fits the budget, or a network of the `family` does
            not fit the task.
        TypeError: If what `family` gives is not a network.

    Source: PDLT (10.52), (6.34), (∞.170)-(∞.172); derived.

    Example:
        >>> import numpy as np, scalewise as sw
        >>> def family(depth, sigma):
        ...     layers = (sw.Conv(3), sigma) * (depth - 1)
        ...     return sw.Network(*layers, sw.GlobalAvgPool(), sw.Dense(1), input_shape=(6, 1), width=1)
        >>> x = np.sin(np.arange(24.0).reshape(4, 6, 1))
        >>> task = sw.Task(x[:3], [1.0, 2.0, 3.0], test_inputs=x[3:], test_targets=[2.0])
        >>> sw.design(task, 200, family=family, depths=[2, 3], activations=["relu"]).net.parameters
        190
    """
    if task.test_targets is None or not len(task.test_inputs):
        raise ValueError(
            "`task` must have test inputs with targets: by them networks are compared. Set some samples apart."
        )
    made = [activation(one) if isinstance(one, str) else one for one in activations]
    chosen = {known.name: known for known in made}
    ends = {"input_dim": task.inputs.shape[1], "output_dim": task.targets.shape[1]}
    made = partial(_perceptron, **ends) if family is None else family
    for depth, sigma in itertools.product(depths, chosen.values()) if family else ():
        _check_made(made(depth, sigma), task, algorithm)
    found = sweep(
        partial(
            _candidate, made, task=task, budget=budget, algorithm=algorithm, noise=noise_variance
        ),
        {
            "depth": list(depths),
            "activation": chosen,
            "weight_scale": list(weight_scales),
            "bias_variance": list(bias_variances),
        },
        client=client,
        progress=False,
    )
    flat = found.reset_coords(drop=True).stack(candidate=_NAMES).reset_index("candidate")
    flat = flat.reset_coords(list(_NAMES)).isel(candidate=flat.width.values >= 1)
    if not flat.sizes["candidate"]:
        raise ValueError(
            f"`budget` of {budget} parameters is too small for a network of {math.prod(task.inputs.shape[1:])} "
            f"inputs and {task.targets.shape[1]} outputs at any of these depths. Give more, or fewer layers."
        )
    score = flat.test_loss if by == "test_loss" else -flat.log_evidence
    flat = flat.isel(candidate=np.argsort(score.values, kind="stable"))
    net_of = partial(_net, made, chosen)
    table = _refined(flat, task, algorithm, net_of, refine)
    if by == "test_loss":
        table = table.isel(
            candidate=np.lexsort((table.predicted_loss.values, ~table.trusted.values))
        )
    net = net_of(table.isel(candidate=0))
    caveats = _caveat_of_width(table), _caveat_of_evidence(table)
    return Design(net, algorithm, table, " ".join(filter(None, caveats)))


def _candidate(
    family: Family,
    depth: int,
    activation: Activation,
    weight_scale: float,
    bias_variance: float,
    *,
    task: Task,
    budget: int,
    algorithm: Algorithm,
    noise: float,
) -> xr.Dataset:
    """One candidate at infinite width; a width of 0 if it does not fit the budget."""
    point = criticality(activation)
    C_b, C_W = (point.C_b or 0.0) + bias_variance, (point.C_W or 1.0) * weight_scale
    width = _widest(family(depth, activation), budget)
    known = {"width": float(width), "C_b": C_b, "C_W": C_W}
    numbers = dict.fromkeys(("parameters", "test_loss", "log_evidence"), np.nan)
    if width:
        net = _at(family(depth, activation), width, C_b, C_W)
        numbers["parameters"] = float(net.parameters)
        losses = predict_training(net, task, algorithm, observables=["test_loss"])
        numbers["test_loss"] = float(losses.test_loss.mean())
        prior = predict_training(net, task, Bayes(noise), at="train", covariance=None)
        if "log_evidence" in prior:
            numbers["log_evidence"] = float(prior.log_evidence)
    return dataset(known | numbers)


def _widest(net: Network, budget: int) -> int:
    """The largest width with so many parameters, 0 if there is none."""
    step = _smallest(net)  # its multiples divide into as many groups and heads
    counts = [net.at_width(k * step).parameters for k in (1, 2)]
    if counts[0] > budget or counts[0] == counts[1]:
        return step if counts[0] <= budget else 0
    low, high = 1, 2
    while net.at_width(high * step).parameters <= budget:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        fits = net.at_width(middle * step).parameters <= budget
        low, high = (middle, high) if fits else (low, middle)
    return low * step


def _check_made(net: Any, task: Task, algorithm: Algorithm) -> None:
    """Refuse what a family gives before all candidates are computed."""
    if not isinstance(net, Network):
        raise TypeError(f"`family` must give networks such as scalewise.Network; got {net!r}.")
    check_fit(Asked(net, task, algorithm))
    _smallest(net)


def _smallest(net: Network) -> int:
    """The smallest width that its layers accept."""
    for width in range(1, _STEPS):
        try:
            net.at_width(width)
        except ValueError:
            continue
        return width
    net.at_width(_STEPS)  # or what it says of this one
    return _STEPS


def _perceptron(depth: int, activation: Activation, **ends: int) -> Network:
    return MLP(depth, 1, activation, **ends)


def _at(net: Network, width: int, C_b: float, C_W: float) -> Network:
    """The network at this width, with these variances where layers do not say their own."""
    wide = net.at_width(width)
    usual: dict[str, Any] = vars(wide.usual) | {"C_b": C_b, "C_W": C_W}
    return Network(*wide.layers, input_shape=wide.input_shape, width=wide.width, **usual)


def _net(family: Family, chosen: dict[str, Activation], row: xr.Dataset) -> Network:
    made = family(int(row.depth), chosen[str(row.activation.values)])
    return _at(made, int(row.width), float(row.C_b), float(row.C_W))


def _refined(
    flat: xr.Dataset,
    task: Task,
    algorithm: Algorithm,
    net_of: Callable[[xr.Dataset], Network],
    refine: int,
) -> xr.Dataset:
    """The candidates with the loss at their width, of the first so many."""
    count = flat.sizes["candidate"]
    more = {name: np.full(count, np.nan) for name in _AT_WIDTH}
    reasons = np.full(count, "", np.dtypes.StringDType())
    for place in range(min(refine, count)):
        net = net_of(flat.isel(candidate=place))
        with without_warning():  # the table tells where the expansion ends
            asked = Asked(net, task, algorithm)
            found, reasons[place] = with_order_one(asked, ("test_loss",), _AT_WIDTH)
        for name in _AT_WIDTH if not reasons[place] else ():
            more[name][place] = float(found[name].mean())
    n = flat.width.values
    small = more["learning_parameter"] / n
    trusted = small <= LARGE  # NaN is not
    change = more["test_loss_nlo"] / n
    told = {
        **more,
        "predicted_loss": np.where(trusted, flat.test_loss.values + change, flat.test_loss.values),
        "stated_error": np.where(trusted, np.abs(change) * small, np.abs(change)),
        "trusted": trusted,
        "why_not": reasons,
    }
    table = flat.assign({name: ("candidate", values) for name, values in told.items()})
    table["log_bayes_factor"] = table.log_evidence - table.log_evidence.max()
    for name, (meaning, units) in _UNITS.items():
        table[name].attrs = {"long_name": meaning, "units": units}
    return table


def _caveat_of_evidence(table: xr.Dataset) -> str:
    """A network that is chosen by its loss, though the targets speak decisively for another."""
    factor = float(table.log_bayes_factor[0])
    if not factor < -_DECISIVE:
        return ""
    other = table.isel(candidate=int(np.nanargmax(table.log_evidence.values)))
    named = ", ".join(
        f"{name} {value if isinstance(value, str) else f'{value:g}'}"
        for name in _NAMES
        for value in [other[name].item()]
    )
    return (
        f"The targets are e^{factor:.0f} times as probable under it as under the candidate of the largest evidence "
        f'({named}): the test samples may be too few to choose by. `by="log_evidence"` ranks by the evidence.'
    )


def _caveat_of_width(table: xr.Dataset) -> str:
    best = table.isel(candidate=0)
    if bool(best.trusted):
        return ""
    if np.isfinite(float(best.learning_parameter)):
        small = float(best.learning_parameter) / float(best.width)
        return (
            f"The loss is that of infinite width: at width {int(best.width)} the learning parameter is "
            f"{small:.2g}, above {LARGE}, where the order 1/n says nothing. A larger budget, early stopping or "
            "a ridge lower it."
        )
    why = str(best.why_not.values)
    return (
        f"The loss is that of infinite width. {why}"
        if why
        else "The loss is that of infinite width."
    )
