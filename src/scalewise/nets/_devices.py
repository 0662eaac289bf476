"""Where networks are drawn: a batch lies on all devices, each network whole on one of them.

A batch is cut along its first axis, that of the networks. Networks know nothing of each other, so every compiled
step runs on its part alone, and nothing is sent from device to device before the draws are read.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

HOSTS = frozenset({"cpu"})  # platforms on whose devices NumPy computes as well


def devices() -> tuple[Any, ...]:
    """All devices of this process of the kind that JAX prefers, or those of `jax.default_device`."""
    settings: Any = jax.config
    chosen = settings.jax_default_device
    if chosen is None or isinstance(chosen, str):
        return tuple(jax.local_devices(backend=chosen))
    return (chosen,)


def on_host() -> bool:
    """True if NumPy draws the numbers and does the small algebra, since the devices are processors."""
    return devices()[0].platform in HOSTS


def generator() -> str:
    """Which generator the devices call for: other numbers, and so another ensemble for the same seed.

    Philox and Threefry are ciphers: keys that differ in one bit give independent numbers. On a CPU
    NumPy's ziggurat takes a third of the time that JAX needs to invert a distribution function, and
    nothing is compiled; on an accelerator the numbers are made where they are used. So an ensemble
    repeats bit for bit on the same kind of device, and within its standard errors on another.
    """
    return "philox" if on_host() else "threefry"


def filled(networks: int) -> int:
    """The number of networks with which every device has equally many."""
    count = len(devices())
    return -(-networks // count) * count


def spread(array: np.ndarray) -> Any:
    """An array of JAX whose first axis, as long as `filled` says, is cut evenly over the devices."""
    return jax.device_put(array, _layout(devices()))


@lru_cache(maxsize=8)
def _layout(where: tuple[Any, ...]) -> NamedSharding:
    return NamedSharding(Mesh(np.array(where), ("network",)), PartitionSpec("network"))
