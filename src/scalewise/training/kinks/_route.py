"""The route to coefficients of $n^{-1/2}$: one hidden layer, piecewise linear, trained by descent or flow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalewise.gaussian.spi import at_least_usual
from scalewise.training._asked import Arrays, Asked
from scalewise.training._kernels import SampleKernels
from scalewise.training._moved_kinks import HALF, in_words, moved, places
from scalewise.training._route import Route, RouteResult
from scalewise.training.kinks._course import course_of
from scalewise.training.kinks._neurons import Coefficients, Hidden, KinkSetting, coefficients
from scalewise.training.width._course import OutOfRoom
from scalewise.training.width._dense import learning_parameter, too_many_for_parameter

SUFFIX = "_half"
HALVES = frozenset(
    f"{name}{SUFFIX}"
    for name in (
        "output_mean",
        "output_covariance",
        "variance",
        "test_loss",
        "train_mean",
        "train_variance",
        "train_loss",
        "ntk_change",
    )
)
_PARAMETER = "learning_parameter"
_MOST = 256  # training samples: ten minutes
_SCRAMBLES = 8
_DRAWS = 4096  # for all kinks of all samples together, in each scramble
_FEWEST, _USUAL = 32, 512  # for one kink
_ALL = 2**17  # for all kinks, however small an error is asked for
_SAME = 1e-9  # of two inputs whose neurons are at their kinks together


def _obstacle(asked: Asked, name: str) -> str:
    net, way = asked.net, type(asked.algorithm).__name__
    known = name.removesuffix(SUFFIX)
    first = f"the first order of a finite width is 1/n, in '{known}_nlo'"
    if name == _PARAMETER and not moved(net, asked.algorithm):
        return "it is found with the coefficients of 1/n"
    if not places(net):
        return f"the activation has no kink, and {first}"
    if not moved(net, asked.algorithm):
        return f"{way} on this network moves no neuron over a kink, and {first}"
    fitted = "the power is -1/2, and `measure_training` with several `widths` fits the coefficient"
    if not asked.algorithm.is_heavy_ball:
        return f"it is known for GradientFlow and GradientDescent, and not for {way}; {fitted}"
    if net.depth != 2 or asked.plain is None:
        return f"it is known for an `MLP` with one hidden layer; {fitted}"
    if not (asked.plain.activation.is_piecewise_linear and asked.plain.activation.is_continuous):
        return f"it is known for activations that are linear between their kinks; {fitted}"
    if len(asked.task.inputs) > _MOST:
        return f"{len(asked.task.inputs)} training samples take too long; at most {_MOST} do not"
    return too_many_for_parameter(asked) if name == _PARAMETER else ""


def _run(kernels: SampleKernels, names: Sequence[str]) -> RouteResult:
    """The outcomes that are wanted, and the small parameter if it is."""
    asked = kernels.asked
    values: Arrays = {}
    errors: Arrays = {}
    attributes: dict[str, object] = {}
    if _PARAMETER in names:
        size = learning_parameter(kernels)
        times = () if asked.times is None else asked.times.shape
        values[_PARAMETER] = np.full(times, size)
        attributes[_PARAMETER] = size
    halves = [name for name in names if name != _PARAMETER]
    if halves:
        setting = _setting(kernels, joint="output_covariance_half" in halves)
        found = _found(asked, setting, frozenset(halves))
        values, errors = values | found[0], errors | found[1]
        attributes["power"] = HALF
        attributes["ntk_size"] = float(np.abs(setting.Theta).max())
    return RouteResult(values, errors, attributes=attributes)


KINKS = Route("kinks", lambda algorithm: True, HALVES | {_PARAMETER}, _obstacle, _run)


def _found(asked: Asked, setting: KinkSetting, names: frozenset[str]) -> tuple[Arrays, Arrays]:
    """Values and errors, with more draws until an accuracy that is asked for is reached."""
    kinks = setting.hidden.count * len(setting.hidden.kinks)
    draws = int(np.clip(2 ** int(np.log2(max(_DRAWS // kinks, 1))), _FEWEST, _USUAL))
    while True:
        runs = coefficients(setting, draws=draws, scrambles=_SCRAMBLES, seed=0)
        each = [_outcomes(asked, setting, run, names) for run in runs]
        values, errors = {}, {}
        for name in each[0]:
            stack = np.stack([one[name] for one in each])
            values[name] = stack.mean(axis=0)
            sem = stack.std(axis=0, ddof=1) / np.sqrt(_SCRAMBLES)
            errors[name] = at_least_usual(values[name], sem)
        if (
            asked.accuracy is None
            or 4 * draws * kinks > _ALL
            or _share(values, errors) <= asked.accuracy
        ):
            return values, errors
        draws *= 4


def _share(values: Arrays, errors: Arrays) -> float:
    """The largest error of an outcome, relative, root mean squares."""
    pairs = [(np.linalg.norm(errors[name]), np.linalg.norm(values[name])) for name in values]
    return max((float(error / size) for error, size in pairs if size), default=0.0)


def _setting(kernels: SampleKernels, *, joint: bool) -> KinkSetting:
    """The training at infinite width, on different inputs."""
    asked, square, its = kernels.asked, kernels.square(), kernels.trained
    net, task = asked.net, asked.task
    x, count = np.concatenate([task.inputs, asked.tests]) + 0.0, len(task.inputs)
    _, first, places_ = np.unique(x, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)  # as they come: training inputs first
    where = np.argsort(order)[places_.ravel()]
    below, own = (square[kind][0] for kind in ("kernel", "ntk"))
    different = np.ix_(first[order], first[order])
    trained = int(where[:count].max()) + 1
    hidden = Hidden(below[different], own[different], trained, net.activation)
    _refuse_alike(hidden, in_words(net))
    times = [None] if asked.times is None else asked.times.tolist()
    course = course_of(asked.algorithm, its.h[its.h > 0], times, targets=task.targets.size)
    return KinkSetting(
        hidden=hidden,
        places=where,
        y=task.targets.T,
        K=square["kernel"][-1],
        Theta=square["ntk"][-1],
        trained=its,
        course=course,
        C_W=float(net.C_W[-1]),
        joint=joint,
    )


def _refuse_alike(hidden: Hidden, where: str) -> None:
    """Inputs whose neurons meet their kinks together are not known."""
    size = np.sqrt(np.diag(hidden.K))
    if (size == 0).any():
        raise OutOfRoom("an input of zeros without biases keeps all neurons at one place")
    alike = np.abs(hidden.K / np.outer(size, size)) > 1 - _SAME
    pairs = np.argwhere(np.triu(alike[: hidden.count], 1))
    if len(pairs):
        raise OutOfRoom(
            f"inputs that are multiples of one another have kinks {where} together, where there are no biases; "
            "give the first layer a C_b above 0"
        )


def _outcomes(
    asked: Asked, setting: KinkSetting, run: Coefficients, names: frozenset[str]
) -> Arrays:
    """Everything that is wanted, of one estimate; a time axis if times were asked for."""
    task, course = asked.task, setting.course
    count = len(task.inputs)
    train, tests = slice(0, count), slice(count, None)
    # Nothing is left of an error where training is over.
    left = np.array([float(not over or course.ridge > 0) for over in course.over])
    going = left.reshape(-1, 1, 1)
    found = {
        "output_mean": run.mean[..., tests],
        "variance": run.variance[..., tests],
        "train_mean": going * run.mean[..., train],
        "train_variance": going * run.variance[..., train],
        "ntk_change": run.ntk_change,
    }
    if setting.joint:
        found["output_covariance"] = run.covariance
    at_infinity = np.stack([(setting.unlearned(k) @ task.targets).T for k in course.marks])
    if "test_loss_half" in names and task.test_targets is not None:
        bias = at_infinity[..., tests] - task.test_targets.T
        found["test_loss"] = (bias * found["output_mean"] + found["variance"] / 2).sum(axis=1)
    bias = at_infinity[..., train] - task.targets.T
    found["train_loss"] = (bias * found["train_mean"] + found["train_variance"] / 2).sum(axis=1)
    chosen = {f"{name}{SUFFIX}": value for name, value in found.items()}
    plain = asked.times is None
    return {name: v[0] if plain else v for name, v in chosen.items() if name in names}
