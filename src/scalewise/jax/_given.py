"""Layers in place of modules: what enters such a module and what leaves it, told to whoever walks the trace."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import batching

from scalewise.jax._trees import class_of, is_nnx_module
from scalewise.reading.spi import UnreadError

# The array that a module returned, beside the one that it was called with.
stood_for = Primitive("stood_for")
stood_for.def_impl(lambda x, y, *, name: y)
stood_for.def_abstract_eval(lambda x, y, *, name: y)


def _batched(args: Sequence[Any], axes: Sequence[Any], *, name: str) -> tuple[Any, int]:
    """Samples first in both."""
    size = next(a.shape[k] for a, k in zip(args, axes, strict=True) if k is not None)
    rows = (batching.bdim_at_front(a, k, size) for a, k in zip(args, axes, strict=True))
    return stood_for.bind(*rows, name=name), 0


batching.primitive_batchers[stood_for] = _batched


@contextmanager
def standing_in(model: Any, names: Sequence[str]) -> Iterator[None]:
    """Let modules of some names tell what they are called with and what they return, until the end of the block.

    Args:
        model: What they are in; of Flax Linen its tree, whose modules are met as they are called.
        names: As in the names of their parameters.

    Raises:
        UnreadError: If no module of one of the names was called.
    """
    met: set[str] = set()

    def told(name: str, args: Any, kwargs: Any, out: Any) -> Any:
        arrays = [x for x in jax.tree.leaves((args, kwargs)) if hasattr(x, "shape")]
        leaves, tree = jax.tree.flatten(out)
        if not arrays or not leaves:
            raise UnreadError(
                f"The model's `{name}` is given as layers, but takes or returns no array. Give a module that does."
            )
        met.add(name)
        return jax.tree.unflatten(
            tree, [stood_for.bind(arrays[0], leaves[0], name=name), *leaves[1:]]
        )

    with ExitStack() as stack:
        if names:
            stack.enter_context(_called_objects(model, names, told))
            stack.enter_context(_called_linen(names, told))
        yield
    lost = sorted(set(names) - met)
    if lost:
        raise UnreadError(
            "`given` must be by the names of modules that the model calls as they are, such as 'layers.0'; it "
            f"calls no {lost}."
        )


@contextmanager
def _called_objects(model: Any, names: Sequence[str], told: Any) -> Iterator[None]:
    """Modules that are objects: of NNX and of Equinox."""
    wanted = {id(own): name for name, own in _modules(model, "") if name in names}
    before: dict[type, Any] = {}
    for own in [own for name, own in _modules(model, "") if name in names]:
        cls = type(own)
        if cls in before:
            continue
        before[cls] = cls.__dict__.get("__call__")

        def call(self: Any, *args: Any, _own: Any = cls.__call__, **kwargs: Any) -> Any:
            out = _own(self, *args, **kwargs)
            name = wanted.get(id(self))
            return out if name is None else told(name, args, kwargs, out)

        type.__setattr__(cls, "__call__", call)
    try:
        yield
    finally:
        for cls, own in before.items():
            if own is None:
                type.__delattr__(cls, "__call__")
            else:
                type.__setattr__(cls, "__call__", own)


@contextmanager
def _called_linen(names: Sequence[str], told: Any) -> Iterator[None]:
    """Modules of Flax Linen, which it makes as they are called."""
    linen = sys.modules.get("flax.linen")
    if linen is None:
        yield
        return

    def look(function: Any, args: Any, kwargs: Any, context: Any) -> Any:
        out = function(*args, **kwargs)
        name = ".".join(context.module.path)
        return (
            told(name, args, kwargs, out)
            if context.method_name == "__call__" and name in names
            else out
        )

    with linen.intercept_methods(look):
        yield


def _modules(own: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Modules inside of something, by name."""
    is_module = is_nnx_module(own) or class_of(own, "equinox", ("Module",)) is not None
    if is_module and name:
        yield name, own
    if is_module:
        below: Any = vars(own).items()
    elif isinstance(own, Mapping):
        below = own.items()
    elif isinstance(own, Sequence) and not isinstance(own, str | bytes):
        below = enumerate(own)
    else:
        return
    for key, value in below:
        yield from _modules(value, f"{name}.{key}" if name else str(key))
