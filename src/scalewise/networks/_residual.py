"""The multilayer perceptron with skip connections: shape and hyperparameters, no weights."""

from __future__ import annotations

from dataclasses import dataclass, fields

from scalewise._checked import Count, checked
from scalewise._readable import readable
from scalewise.activations._catalogue import ActivationLike
from scalewise.networks._layers import NotNegatives, Positives, Repeated, Widths, per_layer
from scalewise.networks._mlp import MLP
from scalewise.networks._perceptron import Perceptron


@checked
@dataclass(frozen=True, init=False)
@readable
class ResidualMLP(Perceptron):
    r"""A multilayer perceptron with skip connections: every layer adds $\gamma_\ell$ times the one below.

    $$z^{(\ell)}=b^{(\ell)}+W^{(\ell)}\sigma(z^{(\ell-1)})+\gamma_\ell z^{(\ell-1)}$$
    The rest is as in `MLP`; the factor $\xi$ of PDLT (B.3) is absorbed in $C_b$ and $C_W$. It is a value, and
    ``dataclasses.replace(net, depth=8)`` repeats a $\gamma$ that was given once.

    Args:
        depth: $L$, the number of weight layers, at least 1.
        width: Width of every hidden layer, or the $L-1$ hidden widths.
        activation: Name, callable or `Activation`.
        gamma: $\gamma$ of every layer from the second to the last hidden one; or
            $\gamma_1,\dots,\gamma_L$ with $\gamma_1=0$, if the trunk is to reach the output or $\gamma$ to vary.
            A layer with a skip connection is as wide as the one below.
        input_dim: $n_0$.
        output_dim: $n_L$.
        C_b: Bias variance, one number or one per layer; at least 0.
        C_W: Rescaled weight variance, one number or one per layer; positive.
        lambda_b: Learning-rate factor of the biases; at least 0.
        lambda_W: Learning-rate factor of the weights; at least 0.

    Raises:
        ValueError: As for `MLP`; if a $\gamma$ is negative or not finite, their number is wrong, the first is
            not 0, or a layer with a skip connection is not as wide as the one below it.

    Source: PDLT (B.3)-(B.6), (B.9).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.networks import ResidualMLP
        >>> net = ResidualMLP(4, 64, "relu", gamma=0.6, input_dim=2, output_dim=1).at_criticality()
        >>> net.gamma
        (0.0, 0.6, 0.6, 0.0)
        >>> sw.predict(net, np.eye(2)).four_point_vertex.values[:, 0, 0, 0, 0].round(2)
        array([ 0.  ,  2.97,  7.27, 15.54])
    """

    gamma: tuple[float, ...]

    def __init__(
        self,
        depth: Count,
        width: Widths,
        activation: ActivationLike,
        *,
        gamma: NotNegatives,
        input_dim: Count,
        output_dim: Count,
        C_b: NotNegatives = 0.0,
        C_W: Positives = 1.0,
        lambda_b: NotNegatives = 1.0,
        lambda_W: NotNegatives = 1.0,
    ) -> None:
        super().__init__(
            depth,
            width,
            activation,
            input_dim=input_dim,
            output_dim=output_dim,
            C_b=C_b,
            C_W=C_W,
            lambda_b=lambda_b,
            lambda_W=lambda_W,
        )
        object.__setattr__(self, "gamma", _skips(gamma, self.widths))

    @property
    def skips(self) -> tuple[float, ...]:
        r"""$\gamma_1,\dots,\gamma_L$."""
        return self.gamma

    @property
    def branch(self) -> MLP:
        """The network without its skip connections."""
        own = {field.name: getattr(self, field.name) for field in fields(MLP)}
        return MLP(**own)


def _skips(gamma: NotNegatives, widths: tuple[int, ...]) -> tuple[float, ...]:
    """The skip of every layer, checked against the widths."""
    depth = len(widths) - 1
    if isinstance(gamma, float | int):
        skips = Repeated.over(depth, 0.0, float(gamma), 0.0)
    else:
        skips = Repeated.by(float, per_layer("ResidualMLP.gamma", gamma, depth))
    if skips[0]:
        raise ValueError(
            f"`ResidualMLP.gamma` must be 0 in the first layer, which has nothing to skip; got {gamma}. One "
            "number stands for the hidden layers."
        )
    for layer in range(2, depth + 1):
        wide, below = widths[layer], widths[layer - 1]
        if skips[layer - 1] and wide != below:
            raise ValueError(
                f"A layer with a skip connection must be as wide as the one below; layer {layer} "
                f"has width {wide} over {below}. Use equal widths, or gamma = 0 there."
            )
    return skips
