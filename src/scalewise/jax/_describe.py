"""From a tree of parameters to a description: names, shapes, axes and ties, and no array."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from scalewise.jax._linen import axes_in_linen
from scalewise.jax._modules import axes_in_module
from scalewise.jax._trees import TreePlace, class_of, places
from scalewise.plan import Kind, ModelDescription, PlanError, TensorDescription

# What computes the weight of the layer that it stands around.
_EQUINOX = _NNX = ("WeightNorm", "SpectralNorm")


@dataclass(frozen=True)
class Described:
    """A tree as the planner sees it.

    Args:
        model: Names, shapes and axes.
        copies: Names of the tensors that start as one array, but are trained one by one.
    """

    model: ModelDescription
    copies: tuple[tuple[str, ...], ...] = ()


def parameters(tree: Any, layout: str) -> list[TreePlace]:
    """The trainable arrays of a tree; of Linen's variables the collection ``params``."""
    if layout == "linen" and isinstance(tree, Mapping) and "params" in tree:
        return places(tree["params"])
    return places(tree)


def traced(init_fn: Callable[..., Any], sizes: Mapping[str, object], layout: str) -> Described:
    """The description of the tree that a function builds, found without building its arrays.

    Args:
        init_fn: Builds the tree.
        sizes: What to call it with.
        layout: ``"plain"`` or ``"linen"``.

    Raises:
        PlanError: If the function cannot be traced, or its tree cannot be described.
    """
    found: list[Described] = []

    def build() -> None:
        # Described while it is traced: only there can one array in two places be told from two.
        found.append(describe(init_fn(**sizes), layout))

    try:
        jax.eval_shape(build)
    except jax.errors.JAXTypeError as error:
        listed = ", ".join(f"{k}={v!r}" for k, v in sizes.items())
        raise PlanError(
            f"`init_fn({listed})` cannot be traced, which is how its shapes are found without building "
            "arrays. It must not look at the values of arrays that it makes. jax says: "
            f"{str(error).splitlines()[0]}"
        ) from error
    return found[0]


def describe(tree: Any, layout: str = "plain") -> Described:
    """Names, shapes, axes and ties of the trainable arrays of a tree.

    Args:
        tree: A tree of arrays, an Equinox module or a Flax NNX module.
        layout: ``"plain"`` or ``"linen"``.

    Raises:
        PlanError: If the tree has no trainable array, or computes one from others.
    """
    found = parameters(tree, layout)
    if not found:
        raise PlanError(
            "The model has no trainable array: `init_fn` must return a tree of floating-point arrays, an "
            "Equinox module, or a Flax NNX module with `nnx.Param`."
        )
    shapes = {p.name: tuple(np.shape(p.value)) for p in found}
    described = {p.name: _tensor(p, shapes, layout) for p in found}
    for p in found:
        described |= _computed(p, described)
    groups: dict[str | int, list[str]] = {}
    for p in found:
        groups.setdefault(p.identity, []).append(p.name)
    tensors = tuple(replace(described[main], aliases=tuple(o)) for main, *o in groups.values())
    others = {n: described[n] for _, *rest in groups.values() for n in rest}
    return Described(ModelDescription(tensors, others), _copies(found))


def _tensor(
    place: TreePlace, shapes: Mapping[str, tuple[int, ...]], layout: str
) -> TensorDescription:
    name, shape = place.name, shapes[place.name]
    axes, module = axes_in_module(place.owner, place.key, shape)
    if axes.kind is Kind.UNKNOWN and layout == "linen":
        axes = axes_in_linen(name, shapes)
    return TensorDescription(
        name, shape, axes.kind, axes.fan_in, axes.fan_out, place.owner_name, module
    )


def _computed(
    place: TreePlace, known: Mapping[str, TensorDescription]
) -> dict[str, TensorDescription]:
    """The parameters from which a module that stands around a layer computes its weight, as what they are to it.

    Raises:
        PlanError: If no size that is planned for its weights would last.
    """
    for path, module in place.chain:
        own, flax = class_of(module, "equinox", _EQUINOX), class_of(module, "flax.nnx", _NNX)
        if flax is not None:
            where = ".".join(path)
            raise PlanError(
                f"`{where or 'the model'}` is a {flax} of Flax NNX, which at every call writes the weight that it "
                "computes over the one that was drawn, so no size that a plan gives it lasts. Divide by the norm "
                "in the layer's own code, with a parameter for the length, or plan the model without it."
            )
        if own == "SpectralNorm":
            raise PlanError(
                f"`{'.'.join(path) or 'the model'}` is a SpectralNorm of Equinox: its largest singular value of 1 "
                "needs a power of the width in the forward pass, and no trace tells whether that is behind this "
                "layer or before the next. Plan the model without it."
            )
        if own is None:
            continue
        weight = ".".join((*path, "layer", module.weight_name))
        if place.name == ".".join((*path, "g")):
            length = known[place.name]
            every = tuple(range(len(length.shape)))
            return {
                place.name: replace(length, kind=Kind.GAIN, fan_in=(), fan_out=every, of=weight)
            }
    return {}


def _copies(found: list[TreePlace]) -> tuple[tuple[str, ...], ...]:
    groups: dict[int, dict[str | int, str]] = {}
    for p in found:
        if isinstance(p.value, jax.Array | np.ndarray):
            groups.setdefault(id(p.value), {}).setdefault(p.identity, p.name)
    return tuple(tuple(names.values()) for names in groups.values() if len(names) > 1)
