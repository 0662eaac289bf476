"""The naming of Flax Linen, read only where the user says that a tree follows it.

A dictionary of a layer holds ``kernel`` (..., inputs, outputs), ``embedding`` (words, features), ``scale`` and
``bias``. What has several output axes shows it by its bias.
"""

from __future__ import annotations

from collections.abc import Mapping

from scalewise.jax._modules import UNKNOWN
from scalewise.plan import Kind
from scalewise.plan.spi import Axes

_INWARD = ("query", "key", "value")
Shapes = Mapping[str, tuple[int, ...]]


def axes_in_linen(name: str, shapes: Shapes) -> Axes:
    """Kind and axes of a parameter by its name.

    Args:
        name: Its name.
        shapes: Shapes of all parameters by name.
    """
    owner, _, key = name.rpartition(".")
    shape = shapes[name]
    everything = tuple(range(len(shape)))
    kernel, bias = _of(owner, "kernel", shapes), _of(owner, "bias", shapes)
    if key == "scale" or (key == "bias" and kernel is None):
        return Axes(Kind.GAIN, (), everything)
    if key == "bias":
        return Axes(Kind.BIAS, (), everything)
    if key == "embedding" and len(shape) == 2:
        return Axes(Kind.LOOKUP, (0,), (1,))
    if key != "kernel" or len(shape) < 2:
        return UNKNOWN
    outputs = _outputs(owner, shape, bias, shapes)
    if outputs is None:
        return UNKNOWN
    return Axes(Kind.MATRIX, everything[:-outputs], everything[-outputs:])


def _outputs(
    owner: str, shape: tuple[int, ...], bias: tuple[int, ...] | None, shapes: Shapes
) -> int | None:
    """How many of a kernel's axes, from the last, number its outputs."""
    if bias is not None:
        fits = 0 < len(bias) < len(shape) and shape[-len(bias) :] == bias
        return len(bias) if fits else None
    above, _, own = owner.rpartition(".")
    if len(shape) == 2 or own.startswith("Conv"):
        return 1
    if _attends(above, shapes):
        return 2 if own in _INWARD else 1
    # A convolution without bias, or a layer with several output axes: no name tells.
    return None


def _attends(owner: str, shapes: Shapes) -> bool:
    return all(len(shapes.get(f"{owner}.{k}.kernel", ())) == 3 for k in (*_INWARD, "out"))


def _of(owner: str, key: str, shapes: Shapes) -> tuple[int, ...] | None:
    return shapes.get(f"{owner}.{key}" if owner else key)
