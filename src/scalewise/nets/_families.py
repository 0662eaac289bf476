"""The families of ensembles: which networks are drawn, what is kept of each, what it costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from scalewise.nets._dntk import Differentials, sample_dntk
from scalewise.nets._ensemble import Kind, NetworkEnsemble, first_activation
from scalewise.nets._networks import traced
from scalewise.nets._ntk import PROBES, mean_ntks, row_numbers
from scalewise.nets._ntk_statistics import Statistics, sample_statistics
from scalewise.nets._program import DrawnProgram, measured_layers, sample_program
from scalewise.nets._random import normals
from scalewise.nets._sampler import draw_layers, draw_numbers, first_factor, metrics, ranks
from scalewise.networks import Network

Builder = Callable[[Any, np.ndarray, dict[str, Kind], str], NetworkEnsemble]


def _layers(net: Network, x: np.ndarray, sums: dict[str, Kind], dtype: str) -> NetworkEnsemble:
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

    return NetworkEnsemble(
        f"layers-{n[0]}", draw, sums, net.activation, (0, *n), floats * np.dtype(dtype).itemsize
    )


def _statistics(net: Network, x: np.ndarray, sums: dict[str, Kind], dtype: str) -> NetworkEnsemble:
    """The whole NTK of what neurons read, from real weights."""
    of = Statistics(net.program, measured_layers(net), len(x), tuple(sums))
    return _weighted(net, x, sums, dtype, of=of, sample=sample_statistics, stream=2)


def _dntk(net: Network, x: np.ndarray, sums: dict[str, Kind], dtype: str) -> NetworkEnsemble:
    """Steps along gradients, from real weights and random signs."""
    of = Differentials(net.program, measured_layers(net), len(x), tuple(sums))
    return _weighted(net, x, sums, dtype, of=of, sample=sample_dntk, stream=3)


def _weighted(
    net: Network,
    x: np.ndarray,
    sums: dict[str, Kind],
    dtype: str,
    *,
    of: Statistics | Differentials,
    sample: Callable[..., dict[str, Any]],
    stream: int,
) -> NetworkEnsemble:
    """Networks with real weights; the draws themselves are kept in float64, and once more while they are summed."""
    inputs, count = x.astype(dtype), of.numbers.count

    def draw(keys: Any) -> dict[str, np.ndarray]:
        found = sample(normals(keys, count=count, dtype=dtype), inputs, of=of)
        return {part: np.asarray(found[part], np.float64) for part in sums}

    kept = 3 * 8 * len(sums) * len(of.layers) * len(x) ** 4
    name = {2: "statistics", 3: "dntk"}[stream]
    size = of.floats() * np.dtype(dtype).itemsize + kept
    widths = net.widths[1:-1]
    return NetworkEnsemble(
        f"{name}-{widths[0]}", draw, sums, first_activation(net), (stream, *widths), size
    )


def _program(net: Network, x: np.ndarray, sums: dict[str, Kind], dtype: str) -> NetworkEnsemble:
    """Metrics and NTKs of the layers of one site of any network, from real weights."""
    drawn = DrawnProgram(net.program, measured_layers(net), "ntk" in sums, len(x), "halves" in sums)
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
    return NetworkEnsemble(
        f"program-{net.width}",
        draw,
        sums,
        sigma,
        (4, net.width),
        drawn.floats(len(x)) * np.dtype(dtype).itemsize,
    )


# In the order in which they are run.
FAMILIES: dict[str, Builder] = {
    "program": _program,
    "layers": _layers,
    "statistics": _statistics,
    "dntk": _dntk,
}


def _upper(values: Any) -> np.ndarray:
    """The pairs of samples a <= b."""
    first, second = np.triu_indices(values.shape[-1])
    return values[..., first, second]
