"""Mean, covariance, probabilities and errors of networks that any loss has trained, with error bars."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import xarray as xr
from jaxtyping import Float

from scalewise.training._asked import Arrays, Asked
from scalewise.training._kernels import SampleKernels
from scalewise.training._results import as_dataset, of_numerics
from scalewise.training._route import RouteResult
from scalewise.training._routes import Prediction
from scalewise.training._selection import selected
from scalewise.training.cavity._correction import corrected
from scalewise.training.losses._dynamics import coefficients, finite_stops
from scalewise.training.losses._outcomes import LOSS_OUTCOMES
from scalewise.training.losses._prior import REPLICAS, InitialOutputs, start

_TWINS = 16  # outputs on test samples drawn for each network, where the whole law counts
Outputs = Float[np.ndarray, "time draw sample output"]


def predicted(call: Prediction) -> xr.Dataset:
    """The outcomes of training by any loss.

    Args:
        call: The call.

    Raises:
        ValueError: If the algorithm does not descend, training has no end or diverges, or what is named cannot be
            had.
    """
    asked, algorithm = call.asked, call.asked.algorithm
    if not algorithm.descends:
        raise ValueError(
            f"`algorithm` must be GradientFlow or GradientDescent for the loss {asked.task.loss.name!r}; "
            f"{type(algorithm).__name__} is known for the squared error alone."
        )
    names, left_out = selected(
        call.observables,
        LOSS_OUTCOMES,
        lambda name: LOSS_OUTCOMES[name].obstacle(asked),
        default=[name for name, row in LOSS_OUTCOMES.items() if not row.order],
        lenient=call.lenient,
    )
    beyond = [name for name in names if LOSS_OUTCOMES[name].order]
    leading = [name for name in names if name not in beyond]
    kernels = SampleKernels(asked, ("kernel", "ntk"), bool(beyond), max(len(asked.tests), 1))
    K, Theta = (kernels.square()[kind] for kind in ("kernel", "ntk"))
    found = by_any_loss(asked, leading, K[-1], Theta[-1], draws=call.draws, seed=call.seed)
    values, errors, attributes = found.values, found.errors, found.attributes
    if beyond:
        h = kernels.trained.h
        added = corrected(asked.net, asked.task, algorithm, (K, Theta), h, seed=call.seed)
        values = values | {name: added[name].values for name in beyond}
        errors = errors | {name: added[f"{name}_error"].values for name in beyond}
        attributes = attributes | {"route": "cavity"}
    its = kernels.trained.with_diagonal(algorithm.diagonal)
    more = RouteResult(values, errors, attributes=attributes)
    return as_dataset(asked, of_numerics(asked, *its, 0.0), {}, more, left_out, LOSS_OUTCOMES)


def by_any_loss(
    asked: Asked,
    names: Sequence[str],
    K: Float[np.ndarray, "all all"],
    Theta: Float[np.ndarray, "all all"],
    *,
    draws: int,
    seed: int,
) -> RouteResult:
    """Outcomes of leading order, with a time axis if times were asked for.

    Args:
        asked: The call.
        names: Of outcomes.
        K: Kernel of training samples, then test samples.
        Theta: NTK of the same.
        draws: How many networks at least.
        seed: Of their initial outputs.

    Raises:
        ValueError: If training has no end, or diverges.
    """
    task, algorithm = asked.task, asked.algorithm
    times = finite_stops(algorithm, task.loss.name, asked.times)
    count = len(task.inputs)
    begin = start(K, count, task.targets.shape[1], draws, seed)
    c = coefficients(begin.z, Theta[:count, :count], task.targets, task.loss, algorithm, times)
    values: Arrays = {}
    errors: Arrays = {}
    for at, of in (("test", _of_tests), ("train", _of_samples)):
        if not any(at in LOSS_OUTCOMES[name].dims for name in names):
            continue
        f = begin.g if at == "test" else begin.z
        moved = f + np.matmul(Theta[count:, :count] if at == "test" else Theta[:count, :count], c)
        for name, replicas in of(asked, names, begin, moved, seed).items():
            values[name] = replicas.mean(axis=0)
            errors[name] = replicas.std(axis=0, ddof=1) / math.sqrt(REPLICAS)
    if asked.times is None:
        values, errors = ({k: v[0] for k, v in part.items()} for part in (values, errors))
    attributes = {"draws": len(begin.z), "seed": seed, "loss": task.loss.name}
    values, errors = ({name: part[name] for name in names} for part in (values, errors))
    return RouteResult(values, errors, attributes=attributes)


def _split(found: np.ndarray) -> np.ndarray:
    """Draws in groups, as replicas: (time, draw, ...) as (replica, time, draw, ...)."""
    time, draw, *rest = found.shape
    return np.moveaxis(found.reshape(time, REPLICAS, draw // REPLICAS, *rest), 1, 0)


def _of_tests(
    asked: Asked, names: Sequence[str], begin: InitialOutputs, g: Outputs, seed: int
) -> Arrays:
    """Outcomes on test samples, replica by replica."""
    task, loss = asked.task, asked.task.loss
    found = {"output_mean": np.swapaxes(_split(g).mean(axis=2), -1, -2)}
    off = _split(g - g.mean(axis=1, keepdims=True))
    size = off.shape[2]
    own = np.diag(begin.S)
    if "output_covariance" in names:
        square = np.einsum("rtmbi,rtmcj->rtijbc", off, off, optimize=True) / size
        found["output_covariance"] = square + np.eye(g.shape[-1])[:, :, None, None] * begin.S
    if "variance" in names:
        found["variance"] = np.swapaxes((off**2).mean(axis=2), -1, -2) + np.maximum(own, 0.0)
    law = {"class_probability", "test_loss", "test_error"} & set(names)
    sums: Arrays = {}
    rng, noise = np.random.default_rng((seed, 1)), np.zeros(g.shape[1:])
    root = np.sqrt(np.maximum(own, 0.0))[:, None]
    for turn in range(_TWINS if law else 0):
        noise = rng.standard_normal(g.shape[1:]) * root if turn % 2 == 0 else -noise
        z = g + noise
        seen: Arrays = {}
        if "class_probability" in law:
            assert loss.probabilities is not None
            seen["class_probability"] = np.swapaxes(loss.probabilities(z), -1, -2)
        if "test_loss" in law and task.test_targets is not None:
            seen["test_loss"] = loss.values(z, task.test_targets)
        if "test_error" in law and task.test_targets is not None:
            seen["test_error"] = wrong(z, task.test_targets)
        for name, value in seen.items():
            sums[name] = sums.get(name, 0.0) + _split(value).mean(axis=2) / _TWINS
    return {name: value for name, value in (found | sums).items() if name in names}


def _of_samples(
    asked: Asked, names: Sequence[str], begin: InitialOutputs, f: Outputs, seed: int
) -> Arrays:
    """Outcomes on the training samples, replica by replica."""
    off = _split(f - f.mean(axis=1, keepdims=True))
    found = {
        "train_mean": np.swapaxes(_split(f).mean(axis=2), -1, -2),
        "train_variance": np.swapaxes((off**2).mean(axis=2), -1, -2),
        "train_loss": _split(asked.task.loss.values(f, asked.task.targets)).mean(axis=2),
    }
    return {name: value for name, value in found.items() if name in names}


def wrong(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Indicator of samples that outputs (..., sample, output) put into another class than their target."""
    if y.shape[1] == 1:
        return (z[..., 0] * y[:, 0] < 0).astype(float)
    return (z.argmax(axis=-1) != y.argmax(axis=-1)).astype(float)
