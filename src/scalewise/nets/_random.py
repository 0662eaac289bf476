"""The random numbers of an ensemble: a stream for each network, drawn in one go.

Drawing everything that a network needs at once has a reason: compiling the generator takes longer
than compiling all the rest, and this way it happens once.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["network_keys", "normals", "take"]

CHUNK = 2**18


def network_keys(seed: int, stream: tuple[int, ...], indices: np.ndarray) -> Any:
    """A JAX key for each network, from the seed, the stream and the index of the network alone."""
    first, second = np.random.SeedSequence([seed, *stream]).generate_state(2)
    # Threefry is a cipher: keys that differ in one bit give independent numbers.
    words = np.stack([np.full(len(indices), first), second ^ indices.astype(np.uint32)], axis=1)
    return jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")


@partial(jax.jit, static_argnames=("count", "dtype"))
def normals(keys: Any, *, count: int, dtype: str) -> Any:
    """Standard normal numbers, (networks, count)."""
    # The generator makes several passes; done for a few networks at a time, they stay in cache.
    chunks = -(-len(keys) // max(1, CHUNK // count)) if jax.default_backend() == "cpu" else 1
    each = -(-len(keys) // chunks)
    padded = keys[jnp.arange(chunks * each) % len(keys)].reshape(chunks, each)
    draw = jax.vmap(lambda key: jax.random.normal(key, (count,), dtype))
    return jax.lax.map(draw, padded).reshape(-1, count)[: len(keys)]


def take(numbers: Any, offset: Any, *shape: int) -> Any:
    """Some of them, (networks, *shape); the offset may be traced, the shape may not."""
    size = int(np.prod(shape))
    part = jax.lax.dynamic_slice_in_dim(numbers, offset, size, axis=1)
    return part.reshape(len(numbers), *shape)
