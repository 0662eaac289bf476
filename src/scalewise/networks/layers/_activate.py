"""An activation as a layer, and what else stands for one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from scalewise._checked import Must, checked
from scalewise._readable import readable
from scalewise.activations import Activation, activation
from scalewise.activations.spi import ActivationLike
from scalewise.networks._builder import Builder, Layer
from scalewise.networks._field import Field


@checked
@dataclass(frozen=True)
@readable
class Activate(Layer):
    r"""An activation, entry by entry; in a network its name or the function itself stands for it.

    Args:
        sigma: Name, callable or `Activation`.

    Example:
        >>> from scalewise.networks.layers import Activate
        >>> Activate("tanh").sigma.name
        'tanh'
    """

    sigma: ActivationLike

    def into(self, build: Builder, of: Field) -> Field:
        """Add one node."""
        return build.apply(of, self.sigma)

    def _given(self) -> dict[str, Any]:
        return {"sigma": self.sigma.name}


def layer_of(given: Any) -> Layer:
    """A layer, or the activation that is given in place of one."""
    if isinstance(given, Layer):
        return given
    if isinstance(given, type) and issubclass(given, Layer):
        raise TypeError
    if isinstance(given, str | Activation) or callable(given):
        return Activate(activation(given))
    raise TypeError


LayerLike = Annotated[
    Any, Must("a layer such as scalewise.Dense(10), or an activation such as 'tanh'", to=layer_of)
]
