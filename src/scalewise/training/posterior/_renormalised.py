"""The verb `renormalised_posterior`: Bayes where samples are as many as neurons, and 1/n ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import scipy.optimize
import xarray as xr
from jaxtyping import Float
from scipy.special import gammaln, stdtrit

from scalewise._checked import NotNegative, checked
from scalewise._labelled import dataset, variable
from scalewise._threads import blas_threads_for
from scalewise.gaussian.spi import combined
from scalewise.networks.spi import Plain
from scalewise.tasks import Task
from scalewise.training._algorithms import Bayes
from scalewise.training._asked import Arrays, Asked
from scalewise.training._outcomes import OUTCOMES
from scalewise.training._posteriors import REMEDY
from scalewise.training._spectrum import refuse_singular, spectrum
from scalewise.training._task import check_asked
from scalewise.training.posterior._point import kernels_of
from scalewise.training.posterior._scales import OneLayer, Scales, SeveralLayers, log_prior

SCRAMBLES, POINTS = (
    8,
    {True: 256, False: 64},
)  # of scales, by whether one decomposition serves them all
_WIDER = 1.1  # than the posterior's own Gaussian
# Degrees of freedom of Student's law: what is drawn from must have the longer tails, and those of a posterior of
# logarithms of scales are exponential.
_FREEDOM = 5
_STANDARD_ERRORS = 4.0
_STEP = 1e-3
Coordinates = Float[np.ndarray, " coordinate"]


@checked
def renormalised_posterior(
    net: Plain, task: Task, *, noise_variance: NotNegative = 0.0
) -> xr.Dataset:
    r"""Predict the posterior at the network's own width, for as many samples as neurons.

    Hidden layers of finite width are random scales $Q$ of their kernels, of which the targets tell: a number for
    each hidden layer, or a matrix between outputs. It keeps all powers of $N_{\mathcal A}/n$ and leaves out what
    features learn along single directions. So it is a second opinion on variances and evidence; it hardly moves the
    mean, and where coefficients of 1/n are small beside n, those of `predict_training` are exact and it is not.

    Args:
        net: The network: one hidden layer and any number of outputs, or more layers and one output.
        task: Training samples with targets, and test samples.
        noise_variance: $\sigma_\varepsilon^2$ of every target, a variance.

    Returns:
        A Dataset at the network's width with ``output_mean`` (output, test), ``output_covariance`` (output,
        output_1, test, test_1), ``variance`` (output, test), ``test_loss`` (test) if there are test targets,
        ``log_evidence``, and ``scale``, the mean of $Q$: (output, output_1) of one hidden layer, (layer) of
        several. ``<name>_error`` is the numerical error of the integral over scales. Exact for linear networks
        with $C_b=0$ behind the first layer. How far off it is of others, ``benchmarks/posterior.py`` measures.

    Raises:
        ValueError: If the network has several outputs and several hidden layers, or none, or fewer neurons than
            outputs; if the task does not fit it; or the kernel is singular without noise.

    Source: Pacelli et al. (2023), Baglioni et al. (2024), derived anew; PDLT (6.34), (6.57), (6.64) given scales.

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.training import renormalised_posterior
        >>> net = sw.MLP(2, 4, "linear", input_dim=3, output_dim=1)
        >>> task = sw.Task(np.eye(3)[:2], [1.0, -1.0], test_inputs=[[0.0, 0.0, 1.0]])
        >>> found = renormalised_posterior(net, task)
        >>> found.variance.values.round(2)  # of infinite width 0.33
        array([[0.54]])
    """
    asked = Asked(net, task, Bayes(noise_variance))
    check_asked(asked)
    _refuse(asked)
    first = kernels_of(asked, layers=[1])[0]
    kind = OneLayer.of if net.depth == 2 else SeveralLayers
    with blas_threads_for(first.size):
        scales = kind(net, first, task.targets, float(noise_variance))
        runs = [_averaged(some, scales) for some in _draws(scales)]
    shares = [run.pop("share") for run in runs]
    data = {name: np.array([run[name] for run in runs]) for name in runs[0]}
    if task.test_targets is not None:
        off = data["output_mean"] - task.test_targets.T
        data["test_loss"] = 0.5 * (off**2 + data["variance"]).sum(axis=1)
    return _dataset(asked, data, float(np.mean(shares)))


def _refuse(asked: Asked) -> None:
    net, task = asked.net, asked.task
    if net.depth == 1:
        raise ValueError(
            "`net` must have a hidden layer; one of depth 1 is a Gaussian process at every width, see "
            "`predict_training`."
        )
    if net.depth > 2 and net.output_dim > 1:
        raise ValueError(
            "`net` must have one hidden layer or one output: how scales of several layers mix several outputs is "
            f"not known. Got depth {net.depth} and {net.output_dim} outputs."
        )
    if net.output_dim > net.widths[1]:
        raise ValueError(
            f"`net` must have as many hidden neurons as outputs; got {net.widths[1]} and {net.output_dim}."
        )
    K = kernels_of(replace(asked, at="train"), layers=[net.depth])[0]
    found = spectrum(K, "kernel of the training samples")
    if found.rank < len(K) and not asked.algorithm.noise_variance:
        refuse_singular(K, task.targets, found.rank, REMEDY)


def _draws(scales: Scales) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Coordinates around the likeliest, and the logarithm of the weight of each, scramble by scramble."""
    from scipy.stats import qmc  # here, because its import takes as long as many a prediction

    count = len(scales.degrees)

    def action(t: Coordinates) -> float:
        return -log_prior(scales, t) - scales.log_likelihood(t)

    best = scipy.optimize.minimize(action, np.zeros(count), method="BFGS").x
    root = _WIDER * np.linalg.inv(np.linalg.cholesky(_curvature(action, best))).T
    law = gammaln(0.5 * (_FREEDOM + 1)) - gammaln(0.5 * _FREEDOM) - 0.5 * np.log(np.pi * _FREEDOM)
    log_volume = np.linalg.slogdet(root)[1] - count * law
    for seed in range(SCRAMBLES):
        sobol = qmc.Sobol(count, rng=np.random.default_rng(seed))
        uniform = sobol.random(POINTS[isinstance(scales, OneLayer)])
        drawn = stdtrit(_FREEDOM, np.clip(uniform, 1e-16, 1 - 1e-16))
        rarer = 0.5 * (_FREEDOM + 1) * np.log1p(drawn**2 / _FREEDOM)
        yield best + drawn @ root.T, log_volume + rarer.sum(axis=1)


def _curvature(
    action: Callable[[Coordinates], float], best: Coordinates
) -> Float[np.ndarray, "coordinate coordinate_1"]:
    """Second differences, made positive."""
    count = len(best)
    step = _STEP * np.eye(count)
    found = np.empty((count, count))
    for i in range(count):
        for j in range(i, count):
            a, b = step[i], step[j]
            ends = action(best + a + b) - action(best + a - b) - action(best - a + b)
            found[i, j] = found[j, i] = (ends + action(best - a - b)) / (4 * _STEP**2)
    h, V = np.linalg.eigh(found)
    return (V * np.maximum(h, 1e-3 * h[-1])) @ V.T


def _averaged(drawn: tuple[np.ndarray, np.ndarray], scales: Scales) -> Arrays:
    """Means over one scramble of scales."""
    t, log_volume = drawn
    logs, means, covariances, Q = map(np.array, zip(*(scales.given(one) for one in t), strict=True))
    log = logs + [log_prior(scales, one) for one in t]
    log += log_volume
    weight = np.exp(log - log.max())
    w = weight / weight.sum()
    mean = np.einsum("k,kib->ib", w, means)
    off = means - mean
    within = np.tensordot(w, covariances, 1)
    covariance = within + np.einsum("k,kib,kjc->ijbc", w, off, off, optimize=True)
    return {
        "output_mean": mean,
        "output_covariance": covariance,
        "variance": np.einsum("iibb->ib", covariance),
        "log_evidence": np.array(log.max() + np.log(weight.mean())),
        "scale": np.tensordot(w, Q, 1),
        "share": np.array(1 / (len(w) * (w**2).sum())),
    }


def _dataset(asked: Asked, data: Arrays, share: float) -> xr.Dataset:
    net, variables = asked.net, {}
    for name, runs in data.items():
        value, error = combined(runs)
        if name == "scale":
            dims = ("output", "output_1") if net.depth == 2 else ("layer",)
            attrs = {"symbol": "Q", "units": "dimensionless", "order": 0}
        else:
            row = OUTCOMES[name]
            dims, attrs = row.at_width or row.dims, {"symbol": row.symbol, "units": row.units}
        variables[name] = variable(dims, value, attrs)
        told = {"long_name": "Numerical error of the prediction", "units": attrs["units"]}
        variables[f"{name}_error"] = variable(dims, _STANDARD_ERRORS * error, told)
    attrs = {
        "kind": "training theory at width",
        **net.attributes(),
        "algorithm": repr(asked.algorithm),
        "route": "renormalised kernel",
        "noise_variance": asked.algorithm.noise_variance,
        "share_of_scales": share,
    }
    coords = {} if net.depth == 2 else {"layer": list(range(1, net.depth))}
    return dataset(variables, coords, attrs)
