"""The verb `predict_training`: a network, a task and an algorithm in, what trained networks do out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import xarray as xr
from jaxtyping import Float

from scalewise._checked import checked
from scalewise.networks._network import AnyNetwork
from scalewise.tasks import Task
from scalewise.theory import predict
from scalewise.training._algorithms import Algorithm, GradientDescent, GradientFlow
from scalewise.training._asked import Arrays, Asked
from scalewise.training._evidence import REMEDY, evidence_of, last_slopes
from scalewise.training._filters import Filter
from scalewise.training._kernel import (
    Learned,
    Unseen,
    covariance_of_samples,
    mean_of_samples,
    prior_of,
    usable,
)
from scalewise.training._outcomes import OUTCOMES
from scalewise.training._results import as_dataset, of_samples, of_tests
from scalewise.training._routes import beyond, chosen
from scalewise.training._spectrum import Spectrum, refuse_singular, spectrum, untaught
from scalewise.training._task import check_task

__all__ = ["predict_training"]

BLOCK = 1024  # test samples at a time where only variances are kept; no fewer than there are training samples
EVIDENCE = ("log_evidence", "log_evidence_slope")
_TO_THE_END = GradientFlow()
_CALLED = {"ntk": "NTK", "kernel": "kernel"}
Moments = tuple[np.ndarray, np.ndarray | None]


class _Kernels(NamedTuple):
    """The kernel that learns and the one that outputs start with, on training samples and a block of tests."""

    learns: np.ndarray
    starts: np.ndarray
    block: slice


@checked
def predict_training(
    net: AnyNetwork,
    task: Task,
    algorithm: Algorithm = _TO_THE_END,
    *,
    observables: Sequence[str] | str | None = None,
    times: Annotated[Any, Float[np.ndarray, " time"]] | None = None,
    covariance: Literal["full", "diagonal"] | None = "full",
    at: Literal["test", "train", "both"] = "both",
) -> xr.Dataset:
    r"""What networks will have learned, at leading order in 1/n: their mean, their spread, their errors.

    $$m_{i;\dot\beta}=\sum R_{\dot\beta\tilde\alpha}y_{i;\tilde\alpha},\qquad
      {\rm Cov}=K-RK-KR^T+RKR^T,\qquad R=\Theta_{\mathcal{BA}}\,g(\tilde\Theta),$$

    with $g(h)=(1-e^{-ht})/h$ for gradient flow, $(1-(1-\eta h)^t)/h$ for gradient descent, $1/h$ at the end.

    Args:
        net: The network; its widths play no part at this order.
        task: Training samples with targets, and test samples; its loss is ``"mse"``, and all samples teach at
            every step. The loss is summed or averaged as the algorithm says, see `GradientDescent`.
        algorithm: `GradientFlow`, `GradientDescent`, `Bayes`, `LastLayer` or `NTKGP`.
        observables: Names of what is wanted. ``None`` for all of leading order that can be had, ``"all"`` for every
            coefficient of 1/n besides.
        times: Times, or numbers of steps, in place of the algorithm's own: adds a dimension ``time``. All come from
            one eigendecomposition.
        covariance: Between all samples, of each alone, or none. Without the first, memory grows with the number of
            training samples alone.
        at: Where outputs are wanted: on test samples, training samples or both.

    Returns:
        A Dataset, float64, over ``output``, ``test``, ``test_1``, ``train``, ``train_1``, ``direction`` and
        ``time``: ``output_mean``, ``output_covariance`` (of one output; outputs are independent),
        ``variance``, ``bias``, ``test_loss`` and ``test_error`` of each test sample, ``train_mean``,
        ``train_covariance``, ``train_variance``, ``train_loss``, ``spectrum`` and, of Bayes, ``log_evidence`` and
        ``log_evidence_slope``. Exact at infinite width, to the kernels' 1e-10 times what the condition makes of it.
        Attributes tell ``condition`` and ``rank`` of the kernel that learns, ``jitter`` (always 0),
        ``noise_variance``, ``rate`` and ``maximal_rate``, and what was left out and why.

    Raises:
        ValueError: If the task does not fit the network, its loss is not the squared error, it has batches, a
            rate is too large, the kernel is singular and the targets do not fit in, or what is named cannot be
            had.

    Source: PDLT (10.33), (10.39)-(10.41) with its sample indices put right, (10.50)-(10.56), (6.34), (6.57),
        (6.64); in time, (∞.88), (∞.89).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> net = sw.MLP(1, (), "linear", input_dim=2, output_dim=1)
        >>> task = sw.Task(np.eye(2), [1.0, -1.0], test_inputs=[[1.0, 1.0]], test_targets=[0.0])
        >>> found = sw.predict_training(net, task)
        >>> found.output_mean.values.round(12).ravel(), found.variance.values.round(12)
        (array([0.]), array([0.16]))
    """
    asked = Asked(net, task, algorithm, covariance, at, times)
    _check(asked)
    choice = chosen(observables, asked)
    names, left_out = choice.names, choice.left_out
    blocks = _kernels(asked, whole="output_covariance" in names)
    first, count = next(blocks), len(task.inputs)
    H = first.learns[:count, :count]
    found = spectrum(H, f"{_CALLED[algorithm.learns_with]} of the training samples")
    filters = algorithm.filter(found.h, times, targets=task.targets.size)
    if np.isinf(filters.gain).any() and untaught(found, task.targets):
        refuse_singular(H, task.targets, found.rank, _remedy(algorithm))
    prior = prior_of(found, None if algorithm.is_posterior else first.starts[:count, :count])
    learned = Learned(found, prior, task.targets)
    data = {"spectrum": found.h}
    if wanted := [name for name in names if name in EVIDENCE]:
        exists = found.rank == count or algorithm.noise_variance > 0
        if not exists and observables not in (None, "all"):
            refuse_singular(H, task.targets, found.rank, REMEDY)
        if exists:
            data |= _evidence(asked, found)
        else:
            left_out.update(dict.fromkeys(wanted, "the kernel is singular and there is no noise"))
    if _is_about("train", names):
        data |= of_samples(asked, *_on_samples(learned, filters, names))
    if _is_about("test", names):
        parts = [_on_tests(learned, filters, k, task, names) for k in (first, *blocks)]
        mean = np.concatenate([part[0] for part in parts], axis=-1)
        spread = [part[1] for part in parts if part[1] is not None]
        data |= of_tests(asked, mean, np.concatenate(spread, axis=-1) if spread else None)
    kept = {name: data[name] for name in names if name in data}
    return as_dataset(asked, found, kept, beyond(asked, choice), left_out)


def _check(asked: Asked) -> None:
    check_task(asked)
    times = asked.times
    if times is not None and (not times.size or times.min() < 0):
        raise ValueError("`times` must hold at least one time, and none below 0.")


def _remedy(algorithm: Algorithm) -> str:
    if isinstance(algorithm, GradientFlow | GradientDescent):
        return "stop training at a time, or give a `ridge`"
    return REMEDY


def _is_about(dim: str, names: Sequence[str]) -> bool:
    return any(dim in OUTCOMES[name].dims for name in names)


def _takes_spread(dim: str, names: Sequence[str]) -> bool:
    return any(dim in OUTCOMES[name].dims and OUTCOMES[name].spread for name in names)


def _kernels(asked: Asked, *, whole: bool) -> Iterator[_Kernels]:
    """Block by block; all test samples at once where the covariance between them is wanted."""
    net, task, algorithm = asked.net, asked.task, asked.algorithm
    count = len(task.test_inputs) if asked.at != "train" else 0
    size = max(count if whole else max(BLOCK, len(task.inputs)), 1)
    names = sorted({algorithm.learns_with, algorithm.starts_with})
    for start in range(0, max(count, 1), size):
        block = slice(start, min(start + size, count))
        # Kernels of the different inputs, so that those of repeated ones agree to the last bit.
        x = np.concatenate([task.inputs, task.test_inputs[block]]) + 0.0
        different, places = np.unique(x, axis=0, return_inverse=True)
        found = predict(net, different, observables=names, layers=net.depth)
        both = np.ix_(places, places)
        learns, starts = (
            found[name].values[0][both] for name in (algorithm.learns_with, algorithm.starts_with)
        )
        yield _Kernels(learns, starts, block)


def _evidence(asked: Asked, found: Spectrum) -> Arrays:
    """The evidence and its derivatives by the noise variance and by what the last layer adds to the kernel."""
    net, y, noise = asked.net, asked.task.targets, asked.algorithm.noise_variance
    return {
        "log_evidence": np.array(evidence_of(found, y, noise)),
        "log_evidence_slope": last_slopes(found, y, noise, C_b=net.C_b[-1], C_W=net.C_W[-1]),
    }


def _on_samples(learned: Learned, filters: Filter, names: Sequence[str]) -> Moments:
    """Mean and covariance, or variance, of outputs on the training samples at every time."""
    spread, diagonal = _takes_spread("train", names), "train_covariance" not in names
    means, squares = [], []
    for _, left in usable(learned.spectrum, filters):
        means.append(mean_of_samples(learned, left))
        if spread:
            squares.append(covariance_of_samples(learned, left, diagonal=diagonal))
    return np.array(means), np.array(squares) if spread else None


def _on_tests(
    learned: Learned, filters: Filter, kernels: _Kernels, task: Task, names: Sequence[str]
) -> Moments:
    """The same on a block of test samples."""
    spread, count = _takes_spread("test", names), len(learned.y)
    own = kernels.starts[count:, count:]
    tests = Unseen.of(
        learned,
        kernels.learns[count:, :count],
        kernels.starts[:count, count:],
        own if "output_covariance" in names else np.diag(own).copy(),
        _twins(task.inputs, task.test_inputs[kernels.block]),
    )
    means, squares = [], []
    for gain, left in usable(learned.spectrum, filters):
        means.append(tests.mean(gain, left))
        if spread:
            squares.append(tests.covariance(gain, left))
    return np.array(means), np.array(squares) if spread else None


def _twins(inputs: np.ndarray, tests: np.ndarray) -> np.ndarray:
    """For each test input the training input that it repeats, or -1."""
    places = {row.tobytes(): place for place, row in enumerate(inputs + 0.0)}
    return np.array([places.get(row.tobytes(), -1) for row in tests + 0.0], dtype=np.int64)
