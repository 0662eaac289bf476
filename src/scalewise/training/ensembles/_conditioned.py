r"""Networks whose last layer is known given the others: trained alone, or drawn from the posterior.

Given the hidden layers outputs are Gaussian with covariance $\delta_{ij}\widehat G$. Training the last layer at
rates
equal to its variances leads to $m=\widehat G_{\cdot\mathcal A}\widehat G_{\mathcal{AA}}^{-1}y$ with what is left of
$\widehat G$ as covariance, and nothing of it has to be drawn. The posterior is a mixture of the same Gaussians, in
which each drawing of the hidden layers counts as much as it finds the targets probable.

Source: PDLT (10.44)-(10.49); (6.57), (6.64) for each network.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from scalewise.nets.spi import (
    DrawnProgram,
    Kind,
    MeanSums,
    NetworkEnsemble,
    draw_layers,
    draw_numbers,
    first_activation,
    first_factor,
    first_layer,
    first_metric,
    metrics,
    ranks,
    sample_program,
    traced,
)
from scalewise.networks import Network
from scalewise.tasks import Task
from scalewise.training._algorithm import Algorithm
from scalewise.training.ensembles._reading import NetworkReading, upper

STREAM = 5
Kernels = Float[np.ndarray, "network sample sample"]


def conditioned_ensemble(
    net: Network,
    task: Task,
    algorithm: Algorithm,
    metric: np.ndarray,
    *,
    weighted: bool,
    dtype: str,
) -> tuple[NetworkReading, NetworkEnsemble, float]:
    """The ensemble of one set of widths, and the log evidence from which weights are counted.

    Args:
        net: The network.
        task: The task.
        algorithm: With a noise variance.
        metric: The mean metric of pilots.
        weighted: Whether a network counts as much as it finds the targets probable.
        dtype: Of the networks.
    """
    count = len(task.inputs)
    mean, _, evidence = _conditioned(metric[None], task.targets, algorithm.noise_variance, dtype)
    R = np.zeros((len(metric), count))
    reading, level = NetworkReading(task, R, mean[0]), float(evidence[0])

    def draw(keys: np.ndarray) -> dict[str, np.ndarray]:
        """Readings of each network, times its weight and the square of it where it has one."""
        mean, spread, evidence = _conditioned(
            _metrics(net, task.all_inputs, keys, dtype),
            task.targets,
            algorithm.noise_variance,
            dtype,
        )
        found = reading.of(mean, spread)
        u = found["output"]
        found["spread"] = upper(u[:, :, None] * u[:, None, :])
        if not weighted:
            return found
        w = np.exp(evidence - level)[:, None]
        squares = {f"{name}~": w**2 * a for name, a in found.items()}
        return {name: w * a for name, a in found.items()} | squares | {"weight": w, "weight~": w**2}

    names = [*reading.names, "spread"]
    if weighted:
        names = [*names, *(f"{name}~" for name in names), "weight", "weight~"]
    n, joint = net.widths[1:-1], len(metric) * net.output_dim
    floats = 6 * len(metric) * sum(n) + 14 * joint**2
    name = f"conditioned-{'-'.join(map(str, n))}"
    sums: dict[str, Kind] = dict.fromkeys(names, MeanSums)
    return (
        reading,
        NetworkEnsemble(name, draw, sums, first_activation(net), (STREAM, *n), 8 * floats),
        level,
    )


def _metrics(net: Network, x: np.ndarray, keys: np.ndarray, dtype: str) -> Kernels:
    """Metrics of the last layer, given hidden layers that are drawn."""
    if not net.is_perceptron:
        drawn = DrawnProgram(net.program, (net.depth,), slopes=False)
        count = sum(math.prod(size) for size in drawn.sizes)
        if not count:
            return np.broadcast_to(first_layer(net, x), (len(keys), len(x), len(x)))
        numbers = draw_numbers(keys, count, dtype)
        found, *_ = sample_program(numbers, x.astype(dtype), drawn=drawn)
        return np.asarray(found[:, 0], np.float64)
    if net.depth == 1:
        return np.broadcast_to(first_metric(net, x), (len(keys), len(x), len(x)))
    sizes = zip(net.widths[1:-1], ranks(net, len(x)), strict=True)
    numbers = draw_numbers(keys, sum(n * rank for n, rank in sizes), dtype)
    layers = draw_layers(net, first_factor(net, x), numbers, sigma=traced(net.activation))
    return metrics(net, layers)[:, -1]


def _conditioned(
    G: Kernels, y: Float[np.ndarray, "train output"], noise: float, dtype: str
) -> tuple[np.ndarray, Kernels, Float[np.ndarray, " network"]]:
    """Mean (network, output, sample), covariance and log evidence of every network."""
    count, outputs = y.shape
    h, U = np.linalg.eigh(G[:, :count, :count])
    h = h + noise
    if (h[:, 0] <= 100 * count * np.finfo(dtype).eps * h[:, -1]).any():
        raise ValueError(
            f"The kernel of the {count} training samples is singular in {dtype} in some network: there are targets "
            "that it does not represent. Use dtype='float64', wider networks or fewer samples, or Bayes with a "
            "`noise_variance`."
        )
    T = G[:, :, :count] @ U
    inside = np.einsum("kad,ai->kdi", U, y)
    mean = np.einsum("kxd,kdi->kix", T, inside / h[:, :, None])
    spread = G - np.einsum("kxd,kyd->kxy", T / h[:, None], T, optimize=True)
    evidence = -0.5 * (inside**2 / h[:, :, None]).sum(axis=(1, 2))
    evidence -= 0.5 * outputs * np.log(2 * np.pi * h).sum(axis=1)
    return mean, spread, evidence
