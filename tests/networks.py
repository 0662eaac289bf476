"""Small networks and inputs that several tests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import scalewise as sw


def inputs_with_kernel(K: np.ndarray) -> np.ndarray:
    """Inputs whose first-layer kernel is K when C_b = 0 and C_W = 1."""
    value, vector = np.linalg.eigh(np.asarray(K, dtype=float))
    return vector * np.sqrt(np.maximum(value, 0.0)) * np.sqrt(len(value))


def one_input(K: float = 1.0) -> np.ndarray:
    """One input of one feature with first-layer kernel K when C_b = 0 and C_W = 1."""
    return np.array([[np.sqrt(K)]])


def net(
    depth: int, activation: str | sw.Activation, *, features: int, **rest: object
) -> sw.Network:
    """An MLP of width 100 with one output."""
    width = rest.pop("width", 100)
    return sw.MLP(depth, width, activation, input_dim=features, output_dim=1, **rest)


def in_a_row(tree: Any) -> tuple[np.ndarray, Callable[[Any], Any]]:
    """All numbers of a pytree, and it again of such a row; as `ravel_pytree`, which compiles for each shape."""
    leaves, form = jax.tree.flatten(tree)
    ends = np.cumsum([np.size(leaf) for leaf in leaves])

    def back(row: Any) -> Any:
        parts = (
            row[end - np.size(a) : end].reshape(a.shape)
            for a, end in zip(leaves, ends, strict=True)
        )
        return jax.tree.unflatten(form, parts)

    return np.concatenate([np.ravel(leaf) for leaf in leaves]), back


def agrees_at_two_widths(
    net: sw.Network, x: np.ndarray, *, widths: tuple[int, int], seed: int, networks: int = 600
) -> None:
    """Ensembles pass the theory, and do not pass an NTK that is a fifth larger."""
    theory = sw.predict(net, x)
    ensemble = sw.measure(net, x, networks=networks, widths=widths, seed=seed, progress=False)
    assert sw.compare(theory, ensemble).passed
    assert not sw.compare(theory.assign(ntk=1.2 * theory.ntk), ensemble).passed
