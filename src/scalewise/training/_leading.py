"""Networks that squared errors have trained: the leading order by iteration, one factorisation or one spectrum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from scalewise.training._asked import Arrays, Asked
from scalewise.training._evidence import evidence_of, last_slopes
from scalewise.training._filters import Filter
from scalewise.training._iterative import beyond_factorisation, by_iteration
from scalewise.training._kernel import (
    LearnedTask,
    UnseenSamples,
    covariance_of_samples,
    growth,
    mean_of_samples,
    prior_of,
    twins,
    usable,
)
from scalewise.training._kernels import OfTests
from scalewise.training._outcomes import OUTCOMES
from scalewise.training._posteriors import REMEDY
from scalewise.training._results import as_dataset, of_numerics, of_samples, of_tests
from scalewise.training._routes import Prediction, beyond
from scalewise.training._selection import is_named, refuse_outcome
from scalewise.training._spectrum import Spectrum, refuse_singular, untaught

_AT_ONCE = {name for name, row in OUTCOMES.items() if "test" in row.dims} | {"log_evidence"}
_EVIDENCE = ("log_evidence", "log_evidence_slope")
Moments = tuple[np.ndarray, np.ndarray | None]


def iterated(call: Prediction) -> xr.Dataset:
    """Outcomes of more training samples than can be factorised.

    Args:
        call: The call.

    Raises:
        ValueError: As `by_iteration`, or if something else is named.
    """
    left_out = beyond_factorisation(call.asked, call.choice.names)
    if call.refuses and left_out:
        refuse_outcome(*next(iter(left_out.items())))
    names = [name for name in call.choice.names if name not in left_out]
    data, numerics = by_iteration(call.asked, names)
    return _answer(call, numerics, data, left_out)


def is_one_factorisation(call: Prediction) -> bool:
    """True if a posterior is wanted of which nobody asks the spectrum, and whose kernel is regular.

    Args:
        call: The call.
    """
    wanted = call.asked.algorithm.is_posterior and _AT_ONCE.issuperset(call.choice.names)
    return wanted and call.factor is not None


def conditioned(call: Prediction) -> xr.Dataset:
    """Outcomes of a posterior that need no spectrum.

    Args:
        call: The call, of which `is_one_factorisation` holds.
    """
    asked, names, found = call.asked, call.choice.names, call.factor
    assert found is not None
    task = asked.task
    data: Arrays = {"log_evidence": np.array(found.log_evidence)}
    numerics = of_numerics(asked, found.condition, found.rank, found.condition)
    if _is_about("test", names):
        parts = []
        whole = "output_covariance" in names
        for block, learns, _, own in call.kernels.on_tests(whole=whole):
            known = twins(task.inputs, task.test_inputs[block])
            if asked.algorithm.noise_variance:
                known = np.full_like(known, -1)
            parts.append(found.tests(learns, own, known, task.targets))
        mean, spread = (np.concatenate(part, axis=-1)[None] for part in zip(*parts, strict=True))
        data |= of_tests(asked, mean, spread if _takes_spread("test", names) else None)
    return _answer(call, numerics, data, {})


def decomposed(call: Prediction) -> xr.Dataset:
    """Outcomes from one eigendecomposition, at all times.

    Args:
        call: The call.

    Raises:
        ValueError: If training diverges, or the kernel is singular and targets do not fit in.
    """
    asked, names, kernels = call.asked, call.choice.names, call.kernels
    task, algorithm, found = asked.task, asked.algorithm, call.kernels.trained
    learns, starts = kernels.on_samples
    filters = algorithm.filter(found.h, asked.times, targets=task.targets.size)
    if np.isinf(filters.gain).any() and untaught(found, task.targets):
        refuse_singular(learns, task.targets, found.rank, algorithm.remedy)
    prior = prior_of(found, None if algorithm.is_posterior else starts)
    learned = LearnedTask(found, prior, task.targets)
    data, left_out = {"spectrum": found.h}, {}
    if wanted := [name for name in names if name in _EVIDENCE]:
        exists = found.rank == len(learns) or algorithm.noise_variance > 0
        if not exists and is_named(call.observables):
            refuse_singular(learns, task.targets, found.rank, REMEDY)
        if exists:
            data |= _evidence(asked, found)
        else:
            left_out = dict.fromkeys(wanted, "the kernel is singular and there is no noise")
    applied = usable(found, filters)
    numerics = of_numerics(
        asked, *found.with_diagonal(algorithm.diagonal), growth(found, filters), found.h
    )
    if _is_about("train", names):
        data |= of_samples(asked, *_on_samples(learned, applied, names))
    if _is_about("test", names):
        blocks = kernels.on_tests(whole="output_covariance" in names)
        parts = [_on_tests(asked, learned, applied, block, names) for block in blocks]
        means, spreads = zip(*parts, strict=True)
        data |= of_tests(asked, _joined(means), None if spreads[0] is None else _joined(spreads))
    return _answer(call, numerics, data, left_out)


def _answer(
    call: Prediction, numerics: dict[str, object], data: Arrays, left_out: dict[str, str]
) -> xr.Dataset:
    """The leading order with coefficients of 1/n beside it."""
    more, out_of_reach = beyond(call)
    kept = {name: data[name] for name in call.choice.names if name in data}
    why = call.choice.left_out | left_out | out_of_reach
    return as_dataset(call.asked, numerics, kept, more, why)


def _is_about(dim: str, names: Sequence[str]) -> bool:
    return any(dim in OUTCOMES[name].dims for name in names)


def _takes_spread(dim: str, names: Sequence[str]) -> bool:
    return any(dim in OUTCOMES[name].dims and OUTCOMES[name].spread for name in names)


def _evidence(asked: Asked, found: Spectrum) -> Arrays:
    """The evidence and its derivatives by the noise variance and by what the last layer adds to the kernel."""
    y, noise = asked.task.targets, asked.algorithm.noise_variance
    last = asked.net.own(asked.net.depth)
    return {
        "log_evidence": np.array(evidence_of(found, y, noise)),
        "log_evidence_slope": last_slopes(found, y, noise, C_b=last.C_b, C_W=last.C_W),
    }


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """The blocks of test samples as one array; a single block is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)


def _on_samples(learned: LearnedTask, filters: Filter, names: Sequence[str]) -> Moments:
    """Mean and covariance, or variance, of outputs on the training samples at every time."""
    mean = mean_of_samples(learned, filters)
    if not _takes_spread("train", names):
        return mean, None
    diagonal = "train_covariance" not in names
    return mean, covariance_of_samples(learned, filters, diagonal=diagonal)


def _on_tests(
    asked: Asked, learned: LearnedTask, filters: Filter, part: OfTests, names: Sequence[str]
) -> Moments:
    """Mean and covariance, or variance, of outputs on a block of test samples."""
    block, learns, starts, own = part
    again = twins(asked.task.inputs, asked.tests[block])
    tests = UnseenSamples.of(learned, learns.T, starts, own, again)
    spread = _takes_spread("test", names)
    return tests.mean(filters), tests.covariance(filters) if spread else None
