"""The families of ensembles: which networks are drawn, what is kept of each, what it costs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from scalewise.nets._dntk import PROBES as SIGNS
from scalewise.nets._dntk import sample_dntk
from scalewise.nets._ensemble import Ensemble, Kind
from scalewise.nets._networks import traced
from scalewise.nets._ntk import PROBES, sample_ntk
from scalewise.nets._ntk_statistics import sample_statistics
from scalewise.nets._sampler import first_factor, sample_metrics
from scalewise.network import MLP

__all__ = ["FAMILIES"]

Builder = Callable[[MLP, np.ndarray, dict[str, Kind], str], Ensemble]


def _metric(net: MLP, x: np.ndarray, sums: dict[str, Kind], dtype: str) -> Ensemble:
    """The metrics of every layer, without weights."""
    factor, sigma = first_factor(net, x), traced(net.activation)
    samples, widest = len(x), max(net.widths[1:])
    numbers = sum(n * min(n + 1, samples) for n in net.hidden_widths)
    floats = numbers + widest * samples * 6 + 3 * net.depth * samples**2
    draw = partial(sample_metrics, net, factor, sigma=sigma, dtype=dtype)
    return Ensemble(
        f"metric-{net.hidden_widths[0]}",
        lambda keys: {"metric": _upper(draw(keys))},
        sums,
        (0, *net.hidden_widths),
        floats * np.dtype(dtype).itemsize,
    )


def _ntk(net: MLP, x: np.ndarray, sums: dict[str, Kind], dtype: str) -> Ensemble:
    """The NTK of every layer, from real weights and a few rows."""
    samples, n = len(x), net.widths
    rows = 3 * (net.depth + 3) * samples * PROBES * max(n[1:])
    floats = 2 * _weights(net) + 2 * samples * sum(n) + rows + 4 * net.depth * samples**2
    draw = partial(sample_ntk, net, x, sigma=traced(net.activation), dtype=dtype)
    return Ensemble(
        f"ntk-{net.hidden_widths[0]}",
        lambda keys: {"ntk": _upper(draw(keys))},
        sums,
        (1, *net.hidden_widths),
        floats * np.dtype(dtype).itemsize,
    )


def _statistics(net: MLP, x: np.ndarray, sums: dict[str, Kind], dtype: str) -> Ensemble:
    """The whole NTK of every hidden layer, from real weights."""
    samples, widest = len(x), max(net.hidden_widths)
    matrices = (3 * samples * (samples + 1) // 2 + 2 * samples**2) * widest**2
    floats = 2 * _weights(net) + 3 * samples * sum(net.widths) + matrices
    draw = partial(
        sample_statistics, net, x, parts=tuple(sums), sigma=traced(net.activation), dtype=dtype
    )
    return Ensemble(
        f"statistics-{net.hidden_widths[0]}",
        draw,
        sums,
        (2, *net.hidden_widths),
        floats * np.dtype(dtype).itemsize + _kept(net, samples, len(sums)),
    )


def _dntk(net: MLP, x: np.ndarray, sums: dict[str, Kind], dtype: str) -> Ensemble:
    """Steps along gradients of every hidden layer, from real weights and random signs."""
    samples, n = len(x), net.widths
    second = any(part.startswith("ddntk") for part in sums)
    # Vectors of one layer for each vector of signs: once, by one step, by two steps, in all layers.
    vectors = SIGNS * samples * (1 + 4 * samples + (4 if second else 2) * samples**2)
    floats = 2 * _weights(net) + (vectors + samples**2) * sum(n[:-1])
    quads = 4 * SIGNS * samples**4 * (2 if second else 1)
    draw = partial(
        sample_dntk, net, x, parts=tuple(sums), sigma=traced(net.activation), dtype=dtype
    )
    return Ensemble(
        f"dntk-{net.hidden_widths[0]}",
        draw,
        sums,
        (3, *net.hidden_widths),
        (floats + quads) * np.dtype(dtype).itemsize + _kept(net, samples, len(sums)),
    )


# In the order in which they are run.
FAMILIES: dict[str, Builder] = {
    "metric": _metric,
    "ntk": _ntk,
    "statistics": _statistics,
    "dntk": _dntk,
}


def _weights(net: MLP) -> int:
    """Weights and biases of the hidden layers."""
    n = net.widths
    return sum((n[i] + 1) * n[i + 1] for i in range(net.depth - 1))


def _kept(net: MLP, samples: int, parts: int) -> int:
    """Bytes of the draws themselves, in float64 and once more while they are summed."""
    return 3 * 8 * parts * (net.depth - 1) * samples**4


def _upper(values: Any) -> np.ndarray:
    """The pairs of samples a <= b."""
    first, second = np.triu_indices(values.shape[-1])
    return values[..., first, second]
