"""The coefficients of 1/n of posteriors, as rows of the table of outcomes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalewise.gaussian.spi import combined
from scalewise.networks import Network
from scalewise.training._algorithm import Algorithm
from scalewise.training._asked import Asked
from scalewise.training._kernels import SampleKernels
from scalewise.training._route import Route, RouteResult
from scalewise.training.posterior._added import PARTS, outcomes
from scalewise.training.posterior._averages import TOLERANCE, scrambles
from scalewise.training.posterior._coefficients import OfLayer, by_layer
from scalewise.training.posterior._point import Point

_STANDARD_ERRORS = 4.0  # an error is to hold for all entries, as in `predict`
_MEMORY = 8  # GiB
_FORMS = 4_000_000  # tests times samples squared: of every neuron a quadratic form for each test
_MEANS = ("output_mean_nlo", "output_mean_nlo_by_part", "output_mean_nlo_by_layer")
_SPREADS = (
    "output_covariance_nlo",
    "variance_nlo",
    "test_loss_nlo",
    "test_error_nlo",
    "learning_parameter",
)
_LEARNED = ("log_evidence_nlo", "feature_change_nlo")


def _obstacle(asked: Asked, name: str) -> str:
    net = asked.plain
    if net is None:
        return "what hidden layers learn is known of an `MLP`"
    sigma = net.activation
    if net.depth == 1:
        return "a network of depth 1 has no hidden layer, and no correction at any width"
    if not sigma.is_continuous:
        return "the activation jumps, and its derivative is a delta function"
    count, tests = len(asked.task.inputs), len(asked.tests)
    if name == "test_error_nlo" and tests * (count + tests) ** 2 > _FORMS:
        return (
            f"third and fourth cumulants of {tests} tests beside {count} training samples take many minutes; give "
            "fewer tests at a time"
        )
    size = _gibibytes(asked)
    if size > _MEMORY:
        return (
            f"its averages would take {size:.0f} GiB; take fewer samples, or covariance='diagonal'"
        )
    return ""


def _gibibytes(asked: Asked) -> float:
    """Memory of all scrambles, by layer and for all of them, and of a dozen matrices on the samples."""
    samples, layers = len(asked.task.inputs) + len(asked.tests), asked.net.depth - 1
    kept = (scrambles(samples) * (9 + layers) + 20) * samples**2
    if asked.covariance == "full":
        kept += 3 * scrambles(samples) * (asked.net.output_dim * len(asked.tests)) ** 2
    return 8 * kept / 2**30


def _run(kernels: SampleKernels, names: Sequence[str]) -> RouteResult:
    asked, K = kernels.asked, kernels.square()["kernel"]
    net, at = asked.net, point_of(kernels, whole="output_covariance_nlo" in names)
    weighted, tails = asked.algorithm.has_evidence, "test_error_nlo" in names
    # Parts may cancel in what they are parts of.
    tolerance = min(TOLERANCE, 0.5 * (asked.accuracy or 1.0) / _STANDARD_ERRORS)
    each = by_layer(net, K, at, weighted=weighted, tails=tails, tolerance=tolerance)
    layers = list(each)[::-1]
    found = outcomes(asked, at, [of.added for of in layers])
    if "feature_change_nlo" in names:
        found["feature_change_nlo"] = _features(layers, net)
    values, errors = {}, {}
    for name in names:
        values[name], error = combined(found[name])
        errors[name] = np.asarray(_STANDARD_ERRORS * error)
    coords: dict[str, Sequence[str] | Sequence[int]] = {}
    if "output_mean_nlo_by_part" in names:
        coords["part"] = list(PARTS)
    if {"output_mean_nlo_by_layer", "feature_change_nlo"} & set(names):
        coords["layer"] = [of.layer for of in layers]
    points = [scrambles(at.T.shape[1]) * of.points for of in layers]
    return RouteResult(values, errors, coords, {"neurons_sampled": points})


def point_of(kernels: SampleKernels, *, whole: bool) -> Point:
    """The posterior of infinite width that is expanded about.

    Args:
        kernels: Of a call.
        whole: Whether covariances between test samples are wanted.
    """
    asked, K = kernels.asked, kernels.square()["kernel"][-1]
    noise = asked.algorithm.noise_variance
    return Point.of(K, asked.task.targets, kernels.trained, noise, whole=whole)


def _features(layers: list[OfLayer], net: Network) -> np.ndarray:
    r"""The change of $\frac1{n_\ell}\sum\sigma\sigma$ of each hidden layer: its neurons' own, and from below."""
    change, found = np.zeros_like(layers[0].learned), []
    for of in layers:
        change = of.learned + of.here.first(change)
        found.append(change / net.C_W[of.layer])
    return np.stack(found, axis=1)


def conditions_last_layer(algorithm: Algorithm) -> bool:
    """True if what is random given the hidden layers is conditioned on the targets, and nothing else learns."""
    return algorithm.is_posterior and algorithm.learns_with == "kernel"


NEURONS = Route(
    "single neurons",
    conditions_last_layer,
    frozenset((*_MEANS, *_SPREADS, *_LEARNED)),
    _obstacle,
    _run,
    kinds=("kernel",),
)
