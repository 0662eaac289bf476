"""The random numbers of an ensemble: a stream for each network, drawn in one go."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np

from scalewise.nets._devices import on_host, spread


def network_keys(seed: int, stream: tuple[int, ...], indices: np.ndarray) -> np.ndarray:
    """A key (two words of 64 bits) for each network: seed, stream and index of the network alone."""
    first = np.random.SeedSequence([seed, *stream]).generate_state(1, np.uint64)
    return np.stack([np.broadcast_to(first, indices.shape), indices.astype(np.uint64)], axis=1)


def normals(keys: np.ndarray, *, count: int, dtype: str) -> Any:
    """Standard normal numbers, (networks, count), spread over the devices."""
    if on_host():
        return spread(philox(keys, count=count, dtype=dtype))
    words = np.stack([keys[:, 0] & 0xFFFFFFFF, keys[:, 1] ^ (keys[:, 0] >> 32)], axis=1)
    return _threefry(spread(words.astype(np.uint32)), count=count, dtype=dtype)


def philox(keys: np.ndarray, *, count: int, dtype: str) -> np.ndarray:
    """Normal numbers of each network, drawn on the host."""
    out = np.empty((len(keys), count), dtype)
    for row, key in zip(out, keys, strict=True):
        np.random.Generator(np.random.Philox(key=key)).standard_normal(dtype=row.dtype, out=row)
    return out


@partial(jax.jit, static_argnames=("count", "dtype"))
def _threefry(words: Any, *, count: int, dtype: str) -> Any:
    keys = jax.random.wrap_key_data(words, impl="threefry2x32")
    return jax.vmap(lambda key: jax.random.normal(key, (count,), dtype))(keys)


def take(numbers: Any, offset: Any, *shape: int) -> Any:
    """Some of them, (networks, *shape); the offset may be traced, the shape may not."""
    size = int(np.prod(shape))
    if isinstance(numbers, np.ndarray):
        return numbers[:, offset : offset + size].reshape(len(numbers), *shape)
    part = jax.lax.dynamic_slice_in_dim(numbers, offset, size, axis=1)
    return part.reshape(len(numbers), *shape)
