"""An ensemble in batches: as many networks at once as the memory allows, summed as they come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from scalewise.nets._moments import CovarianceSums, MeanSums, restore, state
from scalewise.nets._networks import precision, traced
from scalewise.nets._ntk import PROBES, sample_ntk
from scalewise.nets._progress import Reporter
from scalewise.nets._random import network_keys
from scalewise.nets._sampler import first_factor, sample_metrics
from scalewise.nets._store import Store
from scalewise.network import MLP

__all__ = ["Ensemble", "metric_ensemble", "ntk_ensemble", "run"]

Sums = MeanSums | CovarianceSums

CACHE = 48 * 2**20  # bytes a processor works on at once: larger batches are slower, not faster
LARGEST_BATCH = 4096


@dataclass(frozen=True)
class Ensemble:
    """Networks of one shape, and what is summed over them.

    Args:
        name: Under which it is stored.
        draw: From keys to (networks, L-1, samples, samples).
        sums: The accumulator.
        stream: Keeps the random numbers of different ensembles apart.
        bytes_per_network: Estimate of the working memory.
    """

    name: str
    draw: Callable[[Any], np.ndarray]
    sums: type[MeanSums] | type[CovarianceSums]
    stream: tuple[int, ...]
    bytes_per_network: int


def metric_ensemble(net: MLP, x: np.ndarray, *, covariance: bool, dtype: str) -> Ensemble:
    """The metrics of every layer, without weights."""
    factor, sigma = first_factor(net, x), traced(net.activation)
    samples, widest = len(x), max(net.widths[1:])
    numbers = sum(n * min(n + 1, samples) for n in net.hidden_widths)
    floats = numbers + widest * samples * 6 + 3 * net.depth * samples**2
    return Ensemble(
        f"metric-{net.hidden_widths[0]}",
        lambda keys: sample_metrics(net, factor, keys, sigma=sigma, dtype=dtype),
        CovarianceSums if covariance else MeanSums,
        (0, *net.hidden_widths),
        floats * np.dtype(dtype).itemsize,
    )


def ntk_ensemble(net: MLP, x: np.ndarray, *, dtype: str) -> Ensemble:
    """The NTK of every layer, from real weights."""
    sigma = traced(net.activation)
    samples, n = len(x), net.widths
    weights = sum((n[i] + 1) * n[i + 1] for i in range(net.depth - 1))
    rows = 3 * (net.depth + 3) * samples * PROBES * max(n[1:])
    floats = 2 * weights + 2 * samples * sum(n) + rows + 4 * net.depth * samples**2
    return Ensemble(
        f"ntk-{net.hidden_widths[0]}",
        lambda keys: sample_ntk(net, x, keys, sigma=sigma, dtype=dtype),
        MeanSums,
        (1, *net.hidden_widths),
        floats * np.dtype(dtype).itemsize,
    )


def batch_size(ensemble: Ensemble, networks: int, memory: int) -> int:
    """Networks per batch: within the budget, and all batches nearly equal."""
    budget = min(memory, CACHE) if jax.default_backend() == "cpu" else memory
    largest = max(1, min(networks, LARGEST_BATCH, budget // ensemble.bytes_per_network))
    return -(-networks // -(-networks // largest))


def run(
    ensemble: Ensemble,
    networks: int,
    *,
    seed: int,
    memory: int,
    dtype: str,
    store: Store | None,
    report: Reporter,
) -> Sums:
    """Draw what is missing of the ensemble and return the sums over all of it.

    The random numbers of a network depend on the seed and on its index only, not on its batch.
    """
    size = batch_size(ensemble, networks, memory)
    following, sums = 0, None
    if store is not None and (found := store.load(ensemble.name)) is not None:
        following, sums = found[0], restore(ensemble.sums, found[1])
        report.add(following)
    while following < networks:
        used = min(size, networks - following)
        # The last batch is filled up and cut: a new size would be compiled anew.
        indices = np.arange(following, following + size, dtype=np.uint32)
        with precision(dtype):
            keys = network_keys(seed, ensemble.stream, indices)
            values = _pairs(ensemble.draw(keys)[:used], dtype)
        if sums is None:
            sums = ensemble.sums.empty(values.mean(axis=0))
        sums = sums.add(values)
        following += used
        if store is not None:
            store.save(ensemble.name, following, state(sums))
        report.add(used)
    assert sums is not None
    return sums


def _pairs(values: np.ndarray, dtype: str) -> np.ndarray:
    """The upper triangle, refused if it is not finite."""
    first, second = np.triu_indices(values.shape[-1])
    pairs = values[..., first, second]
    if not np.all(np.isfinite(pairs)):
        layer = int(np.argwhere(~np.isfinite(pairs))[0][1]) + 2
        remedy = "dtype='float64' or a smaller C_W" if dtype == "float32" else "a smaller C_W"
        raise ValueError(
            f"`net` grows beyond {dtype} in layer {layer}: the preactivations of some network "
            f"overflow. Choose {remedy}, or a critical initialisation."
        )
    return pairs
