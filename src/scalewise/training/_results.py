"""From moments of the outputs to what a result holds, and the Dataset it goes into."""

from __future__ import annotations

import numpy as np
import xarray as xr
from jaxtyping import Float

from scalewise._version import __version__
from scalewise.networks._inputs import digest_of
from scalewise.training._algorithms import GradientDescent
from scalewise.training._asked import Arrays, Asked, Found
from scalewise.training._described import described
from scalewise.training._generalisation import class_error, expected_loss, true_classes
from scalewise.training._outcomes import OUTCOMES
from scalewise.training._spectrum import Spectrum

__all__ = ["as_dataset", "of_samples", "of_tests"]

Means = Float[np.ndarray, "time output sample"]
Spread = Float[np.ndarray, "time *spread"]


def of_samples(asked: Asked, mean: Means, spread: Spread | None) -> Arrays:
    """What is known of the training samples, from the mean and the covariance or variance of their outputs."""
    found = {"train_mean": mean}
    if spread is None:
        return found
    found |= _both("train_covariance", "train_variance", spread)
    found["train_loss"] = expected_loss(mean, found["train_variance"], asked.task.targets.T)
    return found


def of_tests(asked: Asked, mean: Means, spread: Spread | None) -> Arrays:
    """What is known of the test samples, likewise."""
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
    found: Spectrum,
    data: Arrays,
    more: Found,
    left_out: dict[str, str],
) -> xr.Dataset:
    """All of it with names, dimensions and attributes.

    Args:
        asked: The call.
        found: The spectrum.
        data: Outcomes of leading order.
        more: Coefficients of 1/n.
        left_out: What is not there, and why.
    """
    timed = asked.times is not None
    # The leading order has a time axis always.
    plain = {
        k: v if timed or not OUTCOMES[k].in_time else v[0] for k, v in data.items()
    } | more.values
    variables = {}
    for name, row in OUTCOMES.items():
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
            variables[f"{name}_error"] = xr.Variable(variables[name].dims, more.errors[name], attrs)
    coords: dict[str, object] = {dim: list(names) for dim, names in more.coords.items()}
    if asked.times is not None:
        coords["time"] = asked.times
    if "log_evidence_slope" in variables:
        coords["hyperparameter"] = np.array(["noise_variance", "C_b", "C_W"])
    return xr.Dataset(variables, coords, _attributes(asked, found, left_out) | more.attributes)


def _both(covariance: str, variance: str, spread: np.ndarray) -> Arrays:
    if spread.ndim == 2:
        return {variance: spread}
    return {covariance: spread, variance: np.einsum("tbb->tb", spread)}


def _attributes(asked: Asked, found: Spectrum, left_out: dict[str, str]) -> dict[str, object]:
    algorithm, task = asked.algorithm, asked.task
    rates: dict[str, object] = {}
    if isinstance(algorithm, GradientDescent):
        rates["rate"] = algorithm.rate_used(found.h, targets=task.targets.size)
        rates["maximal_rate"] = algorithm.maximal_rate(found.h, targets=task.targets.size)
    return {
        "kind": "training theory",
        **asked.net.attributes(),
        **described(algorithm),
        **rates,
        "condition": found.condition,
        "rank": found.rank,
        "jitter": 0.0,
        "noise_variance": algorithm.noise_variance,
        "inputs": digest_of(task.inputs),
        "targets": digest_of(task.targets),
        "test_inputs": digest_of(task.test_inputs),
        "left_out": list(left_out),
        "left_out_because": list(left_out.values()),
        "scalewise": __version__,
    }
