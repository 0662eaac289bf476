"""From moments of the outputs to what a result holds, and the Dataset it goes into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from jaxtyping import Float

from scalewise._labelled import dataset, variable
from scalewise._version import __version__
from scalewise.networks.spi import digest_of
from scalewise.training._algorithm import described
from scalewise.training._asked import Arrays, Asked
from scalewise.training._expansion import VARIANCES, warn_of_signs
from scalewise.training._generalisation import class_error, expected_loss, true_classes
from scalewise.training._outcomes import OUTCOMES, Outcome
from scalewise.training._route import RouteResult
from scalewise.training._spectrum import tell_of_kernel_error

Means = Float[np.ndarray, "time output sample"]
Spread = Float[np.ndarray, "time *spread"]


def of_samples(asked: Asked, mean: Means, spread: Spread | None) -> Arrays:
    """Outcomes on the training samples, from the mean and the covariance or variance of their outputs."""
    found = {"train_mean": mean}
    if spread is None:
        return found
    found |= _both("train_covariance", "train_variance", spread)
    found["train_loss"] = expected_loss(mean, found["train_variance"], asked.task.targets.T)
    return found


def of_tests(asked: Asked, mean: Means, spread: Spread | None) -> Arrays:
    """Outcomes on the test samples, from the mean and the covariance or variance of their outputs."""
    found, wanted = {"output_mean": mean}, asked.task.test_targets
    if spread is not None:
        found |= _both("output_covariance", "variance", spread)
    if wanted is None:
        return found
    found["bias"] = mean - wanted.T
    if spread is not None:
        found["test_loss"] = expected_loss(mean, found["variance"], wanted.T)
        if true_classes(asked.task.targets, wanted):
            found["test_error"] = class_error(mean, found["variance"], wanted.T)
    return found


def as_dataset(
    asked: Asked,
    numerics: dict[str, object],
    data: Arrays,
    more: RouteResult,
    left_out: dict[str, str],
    rows: Mapping[str, Outcome] = OUTCOMES,
) -> xr.Dataset:
    """All of it with names, dimensions and attributes.

    Args:
        asked: The call.
        numerics: What they were computed with: `of_numerics`.
        data: Outcomes of leading order.
        more: Coefficients of 1/n.
        left_out: What is not there, and why.
        rows: The table that all of it stands in.
    """
    timed = asked.times is not None
    # The leading order has a time axis always.
    plain = {
        k: v if timed or not OUTCOMES[k].in_time else v[0] for k, v in data.items()
    } | more.values
    variables = {}
    for name, row in rows.items():
        if name not in plain:
            continue
        if not np.all(np.isfinite(plain[name])):
            raise FloatingPointError(
                f"The prediction of {name!r} is not finite; please report this network: {asked.net}."
            )
        leading = ("time",) if timed and row.in_time else ()
        variables[name] = row.variable(plain[name], leading=leading)
        if name in more.errors:
            attrs = {"long_name": "Numerical error of the prediction", "units": row.units}
            variables[f"{name}_error"] = variable(variables[name].dims, more.errors[name], attrs)
    for name in VARIANCES & variables.keys():
        own = f"{name}_nlo"
        if own in variables and asked.net.depth > 1:
            error = variables.get(f"{own}_error", 0.0)
            warn_of_signs(variables[name], variables[own], error, asked.width)
    coords = {dim: _labels(names) for dim, names in more.coords.items()}
    if asked.times is not None:
        coords["time"] = asked.times
    if "log_evidence_slope" in variables:
        coords["hyperparameter"] = _labels(["noise_variance", "C_b", "C_W"])
    return dataset(variables, coords, _attributes(asked, numerics, left_out) | more.attributes)


def _labels(names: Sequence[str] | Sequence[int]) -> np.ndarray:
    """As an array that every store can keep."""
    texts = any(isinstance(name, str) for name in names)
    return np.array(names, dtype=np.dtypes.StringDType() if texts else None)


def _both(covariance: str, variance: str, spread: np.ndarray) -> Arrays:
    if spread.ndim == 2:
        return {variance: spread}
    return {covariance: spread, variance: np.einsum("tbb->tb", spread)}


def of_numerics(
    asked: Asked, condition: float, rank: int, growth: float, h: np.ndarray | None = None
) -> dict[str, object]:
    """Attributes that tell what an answer was computed with, and a warning if the kernels' error grows too much.

    Args:
        asked: The call.
        condition: Of the kernel that learns, with noise or ridge on its diagonal.
        rank: Of the same.
        growth: The factor by which a relative error of that kernel may grow in the outputs.
        h: Its eigenvalues, if they are known.
    """
    algorithm, targets = asked.algorithm, asked.task.targets.size
    pace = None if h is None else algorithm.pace(h, targets=targets)
    return {
        **(pace._asdict() if pace else {}),
        "condition": condition,
        "rank": rank,
        "kernel_error": tell_of_kernel_error(growth, drawn=bool(asked.net.program.estimated)),
    }


def _attributes(
    asked: Asked, numerics: dict[str, object], left_out: dict[str, str]
) -> dict[str, object]:
    task = asked.task
    return {
        "kind": "training theory",
        **asked.net.attributes(),
        **described(asked.algorithm),
        **numerics,
        "jitter": 0.0,
        "noise_variance": asked.algorithm.noise_variance,
        "inputs": digest_of(task.inputs),
        "targets": digest_of(task.targets),
        "test_inputs": digest_of(task.test_inputs),
        "left_out": list(left_out),
        "left_out_because": list(left_out.values()),
        "scalewise": __version__,
    }
