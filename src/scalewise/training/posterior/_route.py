"""The coefficients of 1/n of posteriors, as rows of the table of outcomes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalewise.gaussian import combined
from scalewise.networks import Network
from scalewise.training._algorithms import Bayes, LastLayer
from scalewise.training._asked import Arrays, Asked, Found, Route
from scalewise.training._generalisation import class_error_nlo
from scalewise.training._spectrum import spectrum
from scalewise.training.posterior._averages import TOLERANCE, scrambles
from scalewise.training.posterior._coefficients import PARTS, OfLayer, by_layer
from scalewise.training.posterior._point import Point, kernels_of

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
_PAIRS = (("ij", "kl"), ("ik", "jl"), ("il", "jk"))
_LEARNED = ("log_evidence_nlo", "feature_change_nlo")


def _obstacle(asked: Asked, name: str) -> str:
    net = asked.plain
    if net is None:
        return "of a posterior order 1/n is known of an `MLP`"
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
    """What is kept of each scramble, by layer and for all of them, and a dozen matrices on the samples."""
    samples, layers = len(asked.task.inputs) + len(asked.tests), asked.net.depth - 1
    kept = (scrambles(samples) * (9 + layers) + 20) * samples**2
    if asked.covariance == "full":
        kept += 3 * scrambles(samples) * (asked.net.output_dim * len(asked.tests)) ** 2
    return 8 * kept / 2**30


def _compute(asked: Asked, names: Sequence[str]) -> Found:
    net, at, K = _expanded(asked, whole="output_covariance_nlo" in names)
    weighted, tails = isinstance(asked.algorithm, Bayes), "test_error_nlo" in names
    # Parts may cancel in what they are parts of.
    tolerance = min(TOLERANCE, 0.5 * (asked.accuracy or 1.0) / _STANDARD_ERRORS)
    found = by_layer(net, K, at, weighted=weighted, tails=tails, tolerance=tolerance)
    layers = list(found)[::-1]
    outcomes = _outcomes(asked, at, layers, net)
    values, errors = {}, {}
    for name in names:
        values[name], error = combined(outcomes[name])
        errors[name] = np.asarray(_STANDARD_ERRORS * error)
    coords: dict[str, Sequence[str] | Sequence[int]] = {}
    if "output_mean_nlo_by_part" in names:
        coords["part"] = list(PARTS)
    if {"output_mean_nlo_by_layer", "feature_change_nlo"} & set(names):
        coords["layer"] = [of.layer for of in layers]
    points = [scrambles(at.T.shape[1]) * of.points for of in layers]
    return Found(values, errors, coords, {"neurons_sampled": points})


def _expanded(asked: Asked, *, whole: bool) -> tuple[Network, Point, np.ndarray]:
    """The network, what is expanded about, and its kernel at every layer."""
    net, task, noise = asked.net, asked.task, asked.algorithm.noise_variance
    K = kernels_of(asked)
    count = len(task.inputs)
    known = spectrum(K[-1, :count, :count], "kernel of the training samples")
    return net, Point.of(K[-1], task.targets, known, noise, whole=whole), K


def _outcomes(asked: Asked, at: Point, layers: list[OfLayer], net: Network) -> Arrays:
    """Everything, with an axis of scrambles in front."""
    by_part = np.sum([of.mean for of in layers], axis=0)
    mean = by_part.sum(axis=1)
    found = {
        "output_mean_nlo": mean,
        "output_mean_nlo_by_part": by_part,
        "output_mean_nlo_by_layer": np.stack([of.mean.sum(axis=1) for of in layers], axis=1),
        "log_evidence_nlo": np.sum([of.evidence for of in layers], axis=0),
    }
    within = np.sum([of.within for of in layers], axis=0)
    between = np.sum([of.between for of in layers], axis=0)
    shared = between
    eye = np.eye(at.u.shape[1])[:, :, None]
    if at.whole:
        whole = between + eye[..., None] * within[:, None, None]
        found["output_covariance_nlo"] = whole
        within, between = (np.einsum("...bb->...b", part) for part in (within, between))
    own = between + eye * within[:, None, None]
    variance = np.einsum("eiib->eib", own)
    shared = np.einsum("eiib->eib", between)
    found["variance_nlo"] = variance
    if asked.task.test_targets is not None and len(asked.tests):
        leading = at.mean - asked.task.test_targets
        found["test_loss_nlo"] = (leading.T * mean + 0.5 * variance).sum(axis=1)
        if layers[0].skew is not None:
            found["test_error_nlo"] = _test_error(asked, at, layers, mean, own)
    if variance.size:
        noise = np.sum([of.noise for of in layers], axis=0)
        # A test input that repeats a training input has no variance to compare with.
        share = (noise + shared.max(axis=1)) / np.where(at.variance > 0, at.variance, np.inf)
        found["learning_parameter"] = share.max(axis=1)
    found["feature_change_nlo"] = _features(layers, net)
    return found


def _test_error(
    asked: Asked, at: Point, layers: list[OfLayer], mean: np.ndarray, own: np.ndarray
) -> np.ndarray:
    """By all four cumulants of a mixture of Gaussians."""
    wanted, eye = asked.task.test_targets, np.eye(at.u.shape[1])
    assert wanted is not None
    skew, square = (
        np.sum([getattr(of, name) for of in layers], axis=0) for name in ("skew", "square")
    )
    placed = [np.einsum(f"e{i}b,{j}{k}->eijkb", skew, eye) for i, j, k in ("ijk", "jik", "kij")]
    third = np.sum(placed, axis=0)
    pairs = np.sum([np.einsum(f"{a},{b}->ijkl", eye, eye) for a, b in _PAIRS], axis=0)
    fourth = np.einsum("ijkl,eb->eijklb", pairs, square)
    return np.array(
        [
            class_error_nlo(at.mean.T, at.variance, wanted.T, cumulants)
            for cumulants in zip(mean, own, third, fourth, strict=True)
        ]
    )


def _features(layers: list[OfLayer], net: Network) -> np.ndarray:
    r"""The change of $\frac1{n_\ell}\sum\sigma\sigma$ of each hidden layer: its neurons' own, and from below."""
    change, found = np.zeros_like(layers[0].learned), []
    for of in layers:
        change = of.learned + of.here.first(change)
        found.append(change / net.C_W[of.layer])
    return np.stack(found, axis=1)


NEURONS = Route(
    "single neurons",
    (Bayes, LastLayer),
    frozenset((*_MEANS, *_SPREADS, *_LEARNED)),
    _obstacle,
    _compute,
)
