"""A model of jax taken apart into what is trained, further arrays and the rest, and put together inside a trace."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from scalewise.jax._describe import parameters
from scalewise.jax._trees import dotted, is_nnx_module, resolved
from scalewise.plan import Plan


@dataclass(frozen=True)
class Parts:
    """A model in parts.

    Args:
        params: The tree that an optimiser is given.
        others: Further arrays: running statistics, random keys.
        join: Makes a model of both.
    """

    params: Any
    others: Any
    join: Callable[[Any, Any], Any]


def parted(model: Any, layout: str) -> Parts:
    """The parts of a model.

    Args:
        model: A module of Flax NNX or Equinox, a tree, or Linen's variables.
        layout: As for `scalewise.jax.plan`.
    """
    if is_nnx_module(model):
        nnx = sys.modules["flax.nnx"]  # whoever has a module of it has imported it
        graph, params, others = nnx.split(model, nnx.Param, ...)
        return Parts(params, others, lambda p, o: nnx.merge(graph, p, o, copy=True))
    if layout == "linen" and isinstance(model, Mapping) and "params" in model:
        inner = parted(model["params"], "plain")
        rest = {k: v for k, v in model.items() if k != "params"}
        return Parts(
            inner.params,
            (rest, inner.others),
            lambda p, o: {**o[0], "params": inner.join(p, o[1])},
        )
    trained = {p.name for p in parameters(model, layout)}
    pairs, tree = jax.tree_util.tree_flatten_with_path(model)
    leaves = [leaf for _, leaf in pairs]
    mine = [i for i, (path, _) in enumerate(pairs) if dotted(path) in trained]
    arrays = [i for i, x in enumerate(leaves) if isinstance(x, jax.Array | np.ndarray)]
    further = [i for i in arrays if i not in mine]

    def join(params: Any, others: Any, /) -> Any:
        whole = list(leaves)
        found = jax.tree.leaves(params)
        for i, value in zip([*mine, *further], [*found, *others], strict=True):
            whole[i] = value
        return jax.tree.unflatten(tree, whole)

    inside = set(mine)
    kept = [jax.device_put(x) if i in inside else None for i, x in enumerate(leaves)]
    return Parts(jax.tree.unflatten(tree, kept), [leaves[i] for i in further], join)


def named(table: Plan, params: Any) -> dict[str, Any]:
    """The trained arrays by the plan's names."""
    pairs = jax.tree_util.tree_leaves_with_path(params)
    return {table[resolved(table, dotted(path))].name: leaf for path, leaf in pairs}


def renamed(table: Plan, params: Any, values: Mapping[str, Any]) -> Any:
    """The tree with other arrays, by the plan's names."""
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: values[table[resolved(table, dotted(path))].name], params
    )
