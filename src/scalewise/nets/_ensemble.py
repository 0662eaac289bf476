"""An ensemble in batches: as many networks at once as the memory allows, summed as they come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from scalewise.activations import Activation, activation
from scalewise.nets._devices import filled, on_host
from scalewise.nets._moments import CovarianceSums, MeanSums, restore, state
from scalewise.nets._networks import precision
from scalewise.nets._random import network_keys
from scalewise.networks import Network
from scalewise.sweeps.spi import Reporter, Store, resumable

Sums = MeanSums | CovarianceSums
Kind = type[MeanSums] | type[CovarianceSums]

CACHE = 48 * 2**20  # bytes a processor works on at once: larger batches are slower, not faster
LARGEST_BATCH = 4096
LOST = "lost"  # a part in which networks of whom nothing else counts have an entry that is not 0


@dataclass(frozen=True)
class NetworkEnsemble:
    """Networks of one shape, and what is summed over them.

    Args:
        name: Under which it is stored.
        draw: From keys to the parts, (networks, L-1, entries) each.
        sums: The accumulator of each part.
        activation: Of the networks.
        stream: Keeps the random numbers of different ensembles apart.
        bytes_per_network: Estimate of the working memory.
        most: Networks at once, whatever the memory: a batch is as slow as its slowest network.
    """

    name: str
    draw: Callable[[Any], dict[str, np.ndarray]]
    sums: dict[str, Kind]
    activation: Activation
    stream: tuple[int, ...]
    bytes_per_network: int
    most: int = LARGEST_BATCH


def first_activation(net: Network) -> Activation:
    """The activation that a message of overflow names."""
    return next(iter(net.activations), activation("linear"))


def batch_size(ensemble: NetworkEnsemble, networks: int, memory: int) -> int:
    """Networks per batch: within the budget, and all batches nearly equal.

    How many devices share one does not count, so that a run is resumed, and added up, alike on any number.
    """
    budget = min(memory, CACHE) if on_host() else memory
    largest = max(1, min(networks, ensemble.most, budget // ensemble.bytes_per_network))
    return -(-networks // -(-networks // largest))


def run(
    ensemble: NetworkEnsemble,
    networks: int,
    *,
    seed: int,
    memory: int,
    dtype: str,
    record: Store | None,
    report: Reporter,
) -> dict[str, Sums]:
    """Draw what is missing of the ensemble and return the sums over all of it, part by part.

    The random numbers of a network depend on the seed and on its index only, not on its batch.
    """
    size = batch_size(ensemble, networks, memory)

    def batch(index: int, written: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        sums = _restored(ensemble, written)
        # Batches are filled up, for the devices and so that the last is not compiled anew, and then cut.
        indices = np.arange(index * size, index * size + filled(size), dtype=np.uint32)
        with precision(dtype), np.errstate(over="ignore", invalid="ignore"):
            drawn = ensemble.draw(network_keys(seed, ensemble.stream, indices))
        here = slice(min(size, networks - index * size))
        lost = drawn[LOST][here].any(axis=1) if LOST in ensemble.sums else None
        for part, kind in ensemble.sums.items():
            values = drawn[part][here]
            if lost is not None and part != LOST:
                values = values[~lost]
            if not np.all(np.isfinite(values)):
                layer = int(np.argwhere(~np.isfinite(values))[0][1]) + 2
                refuse_overflow(ensemble.activation, dtype, f" in layer {layer}")
            if part not in sums:
                pilot = values.mean(axis=0) if len(values) else np.zeros(values.shape[1:])
                sums[part] = kind.empty(pilot)
            sums[part] = sums[part].add(values)
        return {f"{p}.{key}": a for p, s in sums.items() for key, a in state(s).items()}

    before, batches = report.done, -(-networks // size)

    def told(done: int, of: int) -> None:
        report.add(before + min(done * size, networks) - report.done)

    written = resumable(batch, {}, batches, record=record, name=ensemble.name, told=told)
    return _restored(ensemble, written)


def _restored(ensemble: NetworkEnsemble, written: dict[str, np.ndarray]) -> dict[str, Sums]:
    """The sums of every part, from arrays named part.field; none before the first batch."""
    return {
        part: restore(
            kind, {k[len(part) + 1 :]: a for k, a in written.items() if k.startswith(f"{part}.")}
        )
        for part, kind in ensemble.sums.items()
        if written
    }


def refuse_overflow(activation: Activation, dtype: str, where: str = "") -> NoReturn:
    """Networks whose preactivations, or their activation, are not numbers."""
    remedy = "dtype='float64' or a smaller C_W" if dtype == "float32" else "a smaller C_W"
    raise ValueError(
        f"`net` grows beyond {dtype}{where}: the preactivations of some network overflow, or its activation "
        f"does. Choose {remedy}, or a critical initialisation. {activation.beyond}".rstrip()
    )
