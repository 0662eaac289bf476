"""Layers that act entry by entry: activations, with whatever stands for one, and dropout."""

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

Share = Annotated[
    float, Must("a number above 0 and at most 1", lambda share: 0.0 < share <= 1.0, float)
]


@checked
@dataclass(frozen=True)
@readable
class Dropout(Layer):
    r"""Numbers that stay with probability `keep`, divided by it, and are 0 else.

    Independently at every sample, position and channel. The kernel and the NTK are those of networks with the masks
    that they have drawn: a sample has the same masks in both places of a pair, another sample has others.

    Args:
        keep: The probability; PyTorch's ``p`` is one less it.

    Source: Srivastava et al., JMLR 15, 1929; its kernel and NTK, Novak et al., arXiv:1912.02803.

    Example:
        >>> import numpy as np, scalewise as sw
        >>> net = sw.Network(sw.Dense(), "relu", sw.Dropout(0.5), sw.Dense(1), input_shape=2, width=8)
        >>> plain = sw.Network(sw.Dense(), "relu", sw.Dense(1), input_shape=2, width=8)
        >>> x = np.eye(2)
        >>> (sw.predict(net, x).kernel / sw.predict(plain, x).kernel).values[-1].round(3)
        array([[2., 1.],
               [1., 2.]])
    """

    keep: Share

    def into(self, build: Builder, of: Field) -> Field:
        """Add one node."""
        return build.drop(of, self.keep)
