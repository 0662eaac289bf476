"""The families of ensembles: which networks are drawn, what is kept of each, what it costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from scalewise.nets._dntk import PROBES as SIGNS
from scalewise.nets._dntk import SECOND, sample_dntk
from scalewise.nets._ensemble import Ensemble, Kind, first_activation
from scalewise.nets._networks import traced
from scalewise.nets._ntk import PROBES, mean_ntks, row_numbers
from scalewise.nets._ntk_statistics import sample_statistics
from scalewise.nets._program import Drawn, measured_layers, sample_program
from scalewise.nets._random import normals
from scalewise.nets._sampler import draw_layers, draw_numbers, first_factor, metrics, ranks
from scalewise.networks import Network
from scalewise.networks._perceptron import Perceptron

Builder = Callable[[Any, np.ndarray, dict[str, Kind], str], Ensemble]


def _layers(net: Perceptron, x: np.ndarray, sums: dict[str, Kind], dtype: str) -> Ensemble:
    """Metrics and NTKs of every layer, without weights."""
    widths = zip(net.hidden_widths, net.skips[1:], strict=True)
    if "halves" in sums and any(skip and width == 1 for width, skip in widths):
        raise ValueError(
            "`net` has a skip connection from a layer of one neuron, and 'four_point_vertex' is a "
            "covariance of two. Use hidden widths of at least 2, or leave it out of `observables`."
        )
    factor, sigma = first_factor(net, x), traced(net.activation)
    samples, n, slopes = len(x), net.hidden_widths, "ntk" in sums
    sizes = [width * rank for width, rank in zip(n, ranks(net, samples), strict=True)]
    if slopes:
        sizes += [int(np.prod(shape)) for shape in row_numbers(net, samples)]
    kept = ((3 if slopes else 1) + any(net.skips)) * samples * sum(n)
    work = 6 * (1 + PROBES * slopes) * samples * max(n, default=0)
    floats = sum(sizes) + kept + work + 4 * net.depth * samples**2

    def draw(keys: Any) -> dict[str, np.ndarray]:
        numbers = draw_numbers(keys, sum(sizes), dtype)
        layers = draw_layers(net, factor, numbers, sigma=sigma, slopes=slopes)
        found = {"metric": _upper(metrics(net, layers))} if "metric" in sums else {}
        if "halves" in sums:
            halves = [metrics(net, layers, neurons=slice(k, None, 2)) for k in (0, 1)]
            found["halves"] = np.concatenate(list(map(_upper, halves)), axis=-1)
        if slopes:
            rest = numbers[:, sum(sizes[: len(n)]) :]
            found["ntk"] = _upper(mean_ntks(net, x, layers, rest))
        return found

    return Ensemble(
        f"layers-{n[0]}", draw, sums, net.activation, (0, *n), floats * np.dtype(dtype).itemsize
    )


def _statistics(net: Perceptron, x: np.ndarray, sums: dict[str, Kind], dtype: str) -> Ensemble:
    """The whole NTK of every hidden layer, from real weights."""
    samples, widest = len(x), max(net.hidden_widths)
    matrices = (3 * samples * (samples + 1) // 2 + 2 * samples**2) * widest**2
    floats = 2 * _weights(net) + 3 * samples * sum(net.widths) + matrices
    return _weighted(net, x, sums, dtype, name="statistics", stream=2, sample=sample_statistics,
                     floats=floats)  # fmt: skip


def _dntk(net: Perceptron, x: np.ndarray, sums: dict[str, Kind], dtype: str) -> Ensemble:
    """Steps along gradients of every hidden layer, from real weights and random signs."""
    samples, n = len(x), net.widths
    second = not SECOND.isdisjoint(sums)
    # Vectors of one layer for each vector of signs: once, by one step, by two steps, in all layers.
    vectors = SIGNS * samples * (1 + 4 * samples + (4 if second else 2) * samples**2)
    floats = 2 * _weights(net) + (vectors + samples**2) * sum(n[:-1])
    quads = 4 * SIGNS * samples**4 * (2 if second else 1)
    return _weighted(net, x, sums, dtype, name="dntk", stream=3, sample=sample_dntk,
                     floats=floats + quads)  # fmt: skip


def _weighted(
    net: Perceptron, x: np.ndarray, sums: dict[str, Kind], dtype: str, *, name: str, stream: int,
    sample: Callable[..., dict[str, np.ndarray]], floats: int,
) -> Ensemble:  # fmt: skip
    """Networks with real weights; the draws themselves are kept in float64, and once more while they are summed."""
    draw = partial(sample, net, x, parts=tuple(sums), sigma=traced(net.activation), dtype=dtype)
    kept = 3 * 8 * len(sums) * (net.depth - 1) * len(x) ** 4
    size = floats * np.dtype(dtype).itemsize + kept
    first = net.hidden_widths[0]
    return Ensemble(
        f"{name}-{first}", draw, sums, net.activation, (stream, *net.hidden_widths), size
    )


def _program(net: Network, x: np.ndarray, sums: dict[str, Kind], dtype: str) -> Ensemble:
    """Metrics and NTKs of the layers of one site of any network, from real weights."""
    drawn = Drawn(net.program, measured_layers(net), "ntk" in sums, len(x), "halves" in sums)
    count = sum(math.prod(size) for size in drawn.sizes)
    inputs = x.astype(dtype)

    def draw(keys: Any) -> dict[str, np.ndarray]:
        found = sample_program(normals(keys, count=count, dtype=dtype), inputs, drawn=drawn)
        every: dict[str, Any] = {"metric": found[0], "ntk": found[1], "halves": found[2]}
        upper = {part: _upper(np.asarray(every[part], np.float64)) for part in sums}
        if "halves" in upper:
            upper["halves"] = np.concatenate(list(upper["halves"]), axis=-1)
        return upper

    sigma = first_activation(net)
    return Ensemble(
        f"program-{net.width}", draw, sums, sigma, (4, net.width), drawn.floats(len(x)) * np.dtype(dtype).itemsize
    )  # fmt: skip


# In the order in which they are run.
FAMILIES: dict[str, Builder] = {
    "program": _program,
    "layers": _layers,
    "statistics": _statistics,
    "dntk": _dntk,
}


def _weights(net: Perceptron) -> int:
    """Weights and biases of the hidden layers."""
    n = net.widths
    return sum((n[i] + 1) * n[i + 1] for i in range(net.depth - 1))


def _upper(values: Any) -> np.ndarray:
    """The pairs of samples a <= b."""
    first, second = np.triu_indices(values.shape[-1])
    return values[..., first, second]
