"""Derivatives of the outputs of a JAX function by some of its parameters, for some samples and read-outs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.training.spi import Kept, Ntk, RowBlock

SEVERAL = 2**26  # bytes of derivatives that one call of a compiled function gives
CACHE = 2**22  # bytes of float64 at a time: more are written to memory and read again
_LOOSE = 1e3  # roundings by which outputs of a sample alone and among others may differ

Found = list[
    tuple[np.ndarray, Any]
]  # derivatives (sample, read, entry) by each tensor, and its rates


class TangentRows:
    """Derivatives of one function, block by block.

    Args:
        columns: Of parameters and inputs, to (samples, outputs).
        params: Where they are.
        inputs: All samples.
        outputs: On these.
        R: Read-outs (read, output).
        rates: Of every leaf.
    """

    def __init__(
        self,
        columns: Callable[[Any, Any], Any],
        params: Any,
        inputs: Any,
        outputs: np.ndarray,
        R: np.ndarray,
        rates: Sequence[Any],
    ) -> None:
        self._leaves, self._tree = jax.tree.flatten(params)
        self._columns, self._x, self._R = columns, inputs, R
        self._rates = [np.asarray(rate, np.float64) for rate in rates]
        self._runs: dict[tuple[int, ...], Any] = {}
        self._alone = reads_alone(columns, params, inputs, outputs)
        self.kept = [Kept(0, leaf.size * leaf.dtype.itemsize) for leaf in self._leaves]

    def of(self, block: RowBlock, tensors: tuple[int, ...]) -> Found:
        """Derivatives of a block of rows by some leaves."""
        R = self._R[block.reads]
        each = len(R) * sum(self.kept[k].row for k in tensors)
        count = block.samples.stop - block.samples.start
        several = max(1, min(count, SEVERAL // each))
        run = self._run(tensors)
        found = [
            np.empty((count, len(R), self._leaves[k].size), self._leaves[k].dtype) for k in tensors
        ]
        own = [self._leaves[k] for k in tensors]
        for start in range(0, count, several):
            # The last call repeats samples, so that nothing is compiled for fewer.
            first = min(start, count - several)
            at = np.arange(first, first + several) + block.samples.start
            for whole, part in zip(found, run(own, at, R), strict=True):
                whole[first : first + several] = np.asarray(part).reshape(several, len(R), -1)
        return [(g, self._rates[k]) for g, k in zip(found, tensors, strict=True)]

    def _run(self, tensors: tuple[int, ...]) -> Any:
        """Compiled once for all blocks of a shape."""
        if tensors not in self._runs:
            way = self._alone_at if self._alone else self._among_all
            self._runs[tensors] = jax.jit(partial(way, tensors))
        return self._runs[tensors]

    def _with(self, tensors: tuple[int, ...], own: Any) -> Any:
        leaves = list(self._leaves)
        for k, leaf in zip(tensors, own, strict=True):
            leaves[k] = leaf
        return jax.tree.unflatten(self._tree, leaves)

    def _alone_at(self, tensors: tuple[int, ...], own: Any, at: Any, R: Any) -> Any:
        def single(x: Any) -> Any:
            z, back = jax.vjp(lambda p: self._columns(self._with(tensors, p), x[None])[0], own)
            return jax.vmap(lambda read: back(read)[0])(R.astype(z.dtype))

        return jax.vmap(single)(self._x[at])

    def _among_all(self, tensors: tuple[int, ...], own: Any, at: Any, R: Any) -> Any:
        z, back = jax.vjp(lambda p: self._columns(self._with(tensors, p), self._x), own)

        def single(place: Any, read: Any) -> Any:
            return back(jnp.zeros_like(z).at[place].set(read))[0]

        return jax.vmap(jax.vmap(single, (None, 0)), (0, None))(at, R.astype(z.dtype))

    def products(self, one: Found, other: Found, *, mean: bool) -> Ntk:
        """Sums over entries, in float64; rates stand on one side."""
        total: Any = 0.0
        for (a, rate), (b, _) in zip(one, other, strict=True):
            total = total + _product(a, b, rate, same=one is other, mean=mean)
        return total


def _product(a: np.ndarray, b: np.ndarray, rate: np.ndarray, *, same: bool, mean: bool) -> Ntk:
    (n, k, entries), (n2, k2, _) = a.shape, b.shape
    rows = (n, n2) if mean else (n * k, n2 * k2)
    wide = CACHE // (8 * max(n * k, n2 * k2))
    flat, total = rate.ravel(), np.zeros(rows)
    for start in range(0, entries, max(1, wide)):
        cut = slice(start, start + max(1, wide))
        # The root of the rates on both sides: the product of a matrix with itself takes half the time.
        root = np.sqrt(flat[cut] if rate.ndim else flat)
        left = (a[..., cut] * root).reshape(rows[0], -1)
        right = left if same else (b[..., cut] * root).reshape(rows[1], -1)
        total += left @ right.T
    return total[..., None, None] if mean else total.reshape(n, k, n2, k2).transpose(0, 2, 1, 3)


def columns_of(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The function, compiled, with an axis of outputs whether it has one or not."""

    @jax.jit
    def columns(params: Any, inputs: Any) -> Any:
        z = function(params, inputs)
        return z[:, None] if z.ndim == 1 else z

    return columns


def placed(inputs: Any) -> Any:
    """Inputs on the device, for which nothing is compiled."""
    return jax.device_put(inputs if isinstance(inputs, jax.Array) else np.asarray(inputs))


def reads_alone(
    columns: Callable[[Any, Any], Any], params: Any, inputs: Any, outputs: np.ndarray
) -> bool:
    """True if the first and the last sample have the same outputs alone, at any place of theirs."""
    for some in (slice(0, 1), slice(-1, None)):
        try:
            z = np.asarray(columns(params, inputs[some]))
        except (TypeError, ValueError):
            return False
        if z.shape != (1, outputs.shape[1]):
            return False
        apart = np.abs(z - outputs[some]).max()
        if not apart <= _LOOSE * np.finfo(z.dtype).eps * np.abs(outputs).max():
            return False
    return True
