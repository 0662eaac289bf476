"""What an entry of the zoo is, and the losses that several of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Entry", "cross_entropy", "of_itself", "squared"]


@dataclass(frozen=True)
class Entry:
    """A model of a library, as a function of its width.

    Args:
        name: What people call it.
        library: Where it is from.
        build: The library's own classes, as a function of the width.
        batch: Makes what `loss` is given; the same at every call.
        loss: A function of (model, batch).
        everyday: Whether everybody uses it, so that the plan should ask nothing.
        base: The base width; the target is twice it.
        widths: Where it is verified.
        inputs: From the batch, what the model is called with; used where the plan finds nothing itself.
        jax: Whether it is planned by `scalewise.jax`.
        settings: Further arguments of `plan` that belong to the model, such as the name of its width.
    """

    name: str
    library: str
    build: Callable[..., Any]
    batch: Callable[[], Any]
    loss: Callable[[Any, Any], Any]
    everyday: bool = False
    base: int = 64
    widths: tuple[int, ...] = (64, 128, 256)
    inputs: Callable[[Any], Any] | None = None
    jax: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


def of_itself(model: Any, batch: Mapping[str, Any]) -> Any:
    """The loss that a model of `transformers` computes when it is given labels."""
    return model(**batch).loss


def cross_entropy(model: Any, batch: tuple[Any, Any]) -> Any:
    """Of logits, as an image classifier returns them."""
    from torch.nn import functional

    x, y = batch
    return functional.cross_entropy(model(x), y)


def squared(read: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The squared distance of what `read(model, inputs)` returns to targets."""

    def loss(model: Any, batch: tuple[Any, Any]) -> Any:
        inputs, target = batch
        return ((read(model, inputs) - target) ** 2).mean()

    return loss
