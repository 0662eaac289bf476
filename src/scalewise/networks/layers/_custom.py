"""A layer that is a function of the verbs by which all layers are built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scalewise._checked import checked
from scalewise._readable import readable
from scalewise.networks._builder import Builder, Layer
from scalewise.networks._field import Field


@dataclass(frozen=True)
@readable
class Custom(Layer):
    """A layer that `program` makes of a function.

    Args:
        function: Called with a `Builder` and the `Field` that enters. Two networks are equal if it is the same
            object.
    """

    function: Callable[[Builder, Field], Field]

    def into(self, build: Builder, of: Field) -> Field:
        """The field that the function builds."""
        made = self.function(build, of)
        if not isinstance(made, Field):
            raise TypeError(
                f"{build.name} must return a field, what a verb of its first argument returned; got {made!r}."
            )
        return made

    def _given(self) -> dict[str, Any]:
        return {"function": getattr(self.function, "__name__", repr(self.function))}


@checked
def program(function: Callable[..., Any]) -> Layer:
    """Whatever the verbs of `scalewise.networks.layers.Builder` can say, as a layer; also as a decorator.

    A layer of one's own with numbers is a frozen dataclass that inherits from `scalewise.networks.layers.Layer`,
    with this function as its method `into`; so are all layers of the package.

    Args:
        function: ``function(build, field)`` goes on with the program and returns a field.

    Example:
        >>> import scalewise as sw
        >>> @sw.program
        ... def gated(build, x):
        ...     values, gates = build.draw(x), build.draw(x)
        ...     return build.multiply((values, build.apply(gates, sw.activation("sigmoid"))))
        >>> sw.Network(gated, sw.Dense(1), input_shape=3, width=8).depth
        3
    """
    return Custom(function)
