"""Trees of parameters, whoever made them: their leaves by name, and who owns each.

A name is the path to a leaf with dots between its steps. Flax and Equinox are recognised by the names of
their classes and are never imported: a model of theirs cannot exist without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.plan import Plan, PlanError
from scalewise.plan.spi import bare

# Containers and modules, outermost first, with the paths to them.
Chain = tuple[tuple[tuple[str, ...], Any], ...]


@dataclass(frozen=True)
class TreePlace:
    """A trainable array where it stands in a tree.

    Args:
        path: The steps to it.
        value: The array, or a tracer of one.
        chain: The containers and modules that it stands in, outermost first, with the paths to them.
        cell: The NNX variable inside a module that holds it, which may be written to.
        identity: Equal for places that are one and the same parameter.
    """

    path: tuple[str, ...]
    value: Any
    chain: Chain
    cell: Any
    identity: str | int

    @property
    def name(self) -> str:
        """The path with dots."""
        return ".".join(self.path)

    @property
    def key(self) -> str:
        """The last step of the path."""
        return self.path[-1] if self.path else ""

    @property
    def owner(self) -> Any:
        """The module that it stands in."""
        return self.chain[-1][1] if self.chain else None

    @property
    def owner_name(self) -> str:
        """The path to that."""
        return ".".join(self.chain[-1][0]) if self.chain else ""


def resolved(table: Plan, name: str) -> str:
    """The name by which a plan knows a leaf: without the step into an NNX variable or a collection."""
    ends = (name, name.removesuffix(".value"))
    for candidate in (*ends, *(e.removeprefix("params.") for e in ends)):
        if bare(candidate, table.names) in table.names:
            return candidate
    return name


def class_of(thing: Any, package: str, names: tuple[str, ...] | None = None) -> str | None:
    """Name of the nearest class of an object that a package defines, or of one of those named."""
    for cls in type(thing).__mro__:
        inside = cls.__module__ == package or cls.__module__.startswith(package + ".")
        if inside and (names is None or cls.__name__ in names):
            return cls.__name__
    return None


def is_nnx_module(thing: Any) -> bool:
    """True if this is a module of Flax NNX."""
    return class_of(thing, "flax.nnx", ("Module",)) is not None


def dotted(path: tuple[Any, ...]) -> str:
    """A path of jax as a name; the last step into an NNX variable does not count.

    Example:
        >>> import jax
        >>> from scalewise.jax._trees import dotted
        >>> leaves = jax.tree_util.tree_leaves_with_path({"layers": [{"w": 1.0}]})
        >>> dotted(leaves[0][0])
        'layers.0.w'
    """
    return ".".join(jax.tree_util.keystr((key,), simple=True) for key in path)


def places(tree: Any) -> list[TreePlace]:
    """Every trainable array of a tree, in the tree's order.

    In an NNX module these are the values of `Param`, in an Equinox module the floating-point arrays that
    are not running statistics, in other trees every floating-point array and number.

    Raises:
        PlanError: If an Equinox model shares something that it computes.
    """
    return list(_walk(tree, (), ()))


def rebuilt(tree: Any, change: Callable[[str, Any], Any]) -> Any:
    """A copy of a tree with every array and number outside NNX modules replaced by ``change(name, leaf)``.

    The name of a leaf inside an NNX variable ends in ``.value``.
    """

    def one(path: tuple[Any, ...], leaf: Any) -> Any:
        # Not the gaps that Equinox leaves for what is shared.
        number = isinstance(leaf, jax.Array | np.ndarray | np.generic | float | complex)
        return change(dotted(path), leaf) if number else leaf

    return jax.tree_util.tree_map_with_path(one, tree, is_leaf=is_nnx_module)


def _in_nnx(chain: Chain) -> bool:
    return any(is_nnx_module(node) for _, node in chain)


def _walk(node: Any, path: tuple[str, ...], chain: Chain) -> Iterator[TreePlace]:
    if class_of(node, "flax.nnx", ("Variable",)):
        if class_of(node, "flax.nnx", ("Param",)):
            cell = node if _in_nnx(chain) else None
            yield from (_place(path, value, chain, cell) for value in jax.tree.leaves(node))
        return
    if any(node is above for _, above in chain):
        return
    if class_of(node, "equinox", ("StateIndex", "State")):
        return
    if class_of(node, "equinox", ("Shared",)):
        yield from _shared(node, path, chain)
        return
    # All but the root is a leaf here: what comes back is the children.
    children = jax.tree_util.tree_leaves_with_path(node, is_leaf=lambda x: x is not node)
    if len(children) == 1 and not children[0][0]:
        if _trainable(node, chain):
            yield _place(path, node, chain, None)
        return
    below = (*chain, (path, node))
    for steps, child in children:
        yield from _walk(child, (*path, dotted(steps)), below)


def _shared(node: Any, path: tuple[str, ...], chain: Chain) -> Iterator[TreePlace]:
    """The contents of an Equinox `Shared`, then its gaps filled: one parameter with what fills them."""
    below = (*chain, (path, node))
    inside = (*path, "pytree")
    held = list(_walk(node.pytree, inside, below))
    yield from held
    names, values = {p.name for p in held}, {id(p.value): p for p in held}
    for place in _walk(node(), inside, below):
        if place.name in names:
            continue
        if id(place.value) not in values:
            raise PlanError(
                f"`{place.name}` is computed from other tensors (`eqx.nn.Shared` fills it with something "
                "that is not a leaf of the model), so nothing can be planned for it. Share the array itself "
                "and transpose it where it is used."
            )
        yield replace(place, identity=values[id(place.value)].identity)


def _place(path: tuple[str, ...], value: Any, chain: Chain, cell: Any) -> TreePlace:
    # Leaves of a tree are trained one by one even where they start as one array. Parameters of NNX and
    # what `Shared` puts in several places are one.
    identity = ".".join(path) if cell is None else id(cell)
    return TreePlace(path, value, chain, cell, identity)


def _trainable(leaf: Any, chain: Chain) -> bool:
    if _in_nnx(chain):
        return False
    if isinstance(leaf, jax.Array):
        return jnp.issubdtype(leaf.dtype, jnp.inexact)
    # Equinox holds numbers and NumPy arrays for constants.
    if any(class_of(node, "equinox", ("Module",)) for _, node in chain):
        return False
    return isinstance(leaf, float | complex) or (
        isinstance(leaf, np.ndarray | np.generic) and np.issubdtype(leaf.dtype, np.inexact)
    )
