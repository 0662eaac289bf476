"""Networks of fully connected layers by their numbers, with and without skip connections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from scalewise._checked import Count, Must, checked
from scalewise.activations import Activation
from scalewise.activations.spi import ActivationLike
from scalewise.networks._layers import ByLayer, NotNegatives, Positives, Widths, per_layer
from scalewise.networks._network import Network
from scalewise.networks._nodes import HYPERPARAMETERS
from scalewise.networks.layers._stack import stacked


@checked
def MLP(
    depth: Count,
    width: Widths,
    activation: ActivationLike,
    *,
    input_dim: Count,
    output_dim: Count,
    C_b: NotNegatives = 0.0,
    C_W: Positives = 1.0,
    lambda_b: NotNegatives = 1.0,
    lambda_W: NotNegatives = 1.0,
) -> Network:
    r"""A multilayer perceptron at initialisation, in PDLT's parametrisation.

    $$z^{(1)}=b^{(1)}+W^{(1)}x,\qquad z^{(\ell+1)}=b^{(\ell+1)}+W^{(\ell+1)}\sigma(z^{(\ell)}),
    \qquad f(x)=z^{(L)},$$
    $$b^{(\ell)}_i\sim N(0,C_b^{(\ell)}),\qquad W^{(\ell)}_{ij}\sim N(0,C_W^{(\ell)}/n_{\ell-1}),$$
    and learning rates $\lambda_b^{(\ell)}$ for biases, $\lambda_W^{(\ell)}/n_{\ell-1}$ for weights.

    It is the `Network` of layers `Dense`, with the activation between them, and equal to one that is written so.

    Args:
        depth: $L$, the number of weight layers, at least 1.
        width: Width of every hidden layer, or the $L-1$ hidden widths. Ignored for depth 1.
        activation: Name, callable or `Activation`.
        input_dim: $n_0$.
        output_dim: $n_L$.
        C_b: Bias variance, one number or one per layer; at least 0.
        C_W: Rescaled weight variance, one number or one per layer; positive.
        lambda_b: Learning-rate factor of the biases; at least 0.
        lambda_W: Learning-rate factor of the weights; at least 0.

    Returns:
        The network; its numbers are those of the first layer wherever others do not differ.

    Raises:
        ValueError: If a size is below 1, a variance or rate is negative or not finite, or a list
            has the wrong length. The message names the argument and the value.

    Source: PDLT (2.5), (2.19)-(2.20), (8.6).

    Example:
        >>> import scalewise as sw
        >>> net = sw.MLP(4, 128, "tanh", input_dim=64, output_dim=10)
        >>> net.widths
        (64, 128, 128, 128, 10)
        >>> net == sw.Network(*[sw.Dense(), "tanh"] * 3, sw.Dense(10), input_shape=64, width=128)
        True
    """
    numbers = {"C_b": C_b, "C_W": C_W, "lambda_b": lambda_b, "lambda_W": lambda_W}
    widths = _widths(depth, width, input_dim, output_dim)
    return _made(widths, activation, numbers, (0.0,) * depth)


@checked
def ResidualMLP(
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
) -> Network:
    r"""A multilayer perceptron with skip connections: every layer adds $\gamma_\ell$ times the one below.

    $$z^{(\ell)}=b^{(\ell)}+W^{(\ell)}\sigma(z^{(\ell-1)})+\gamma_\ell z^{(\ell-1)}$$
    The rest is as in `MLP`; the factor $\xi$ of PDLT (B.3) is absorbed in $C_b$ and $C_W$. It is the `Network`
    of `Dense` and `Skip(activation, Dense(), factor=gamma)`.

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

    Returns:
        The network; its `skips` are the $\gamma_\ell$.

    Raises:
        ValueError: As for `MLP`; if a $\gamma$ is negative or not finite, their number is wrong, the first is
            not 0, or a layer with a skip connection is not as wide as the one below it.

    Source: PDLT (B.3)-(B.6), (B.9).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.networks import ResidualMLP
        >>> net = ResidualMLP(4, 64, "relu", gamma=0.6, input_dim=2, output_dim=1).at_criticality()
        >>> net.skips
        (0.0, 0.6, 0.6, 0.0)
        >>> sw.predict(net, np.eye(2)).four_point_vertex.values[:, 0, 0, 0, 0].round(2)
        array([ 0.  ,  2.97,  7.27, 15.54])
    """
    numbers = {"C_b": C_b, "C_W": C_W, "lambda_b": lambda_b, "lambda_W": lambda_W}
    widths = _widths(depth, width, input_dim, output_dim)
    return _made(widths, activation, numbers, _skips(gamma, widths))


def _widths(depth: int, width: Widths, input_dim: int, output_dim: int) -> tuple[int, ...]:
    hidden = per_layer("width", width, depth - 1, what="hidden layers")
    return (input_dim, *hidden, output_dim)


def _made(
    widths: tuple[int, ...],
    sigma: Activation,
    numbers: dict[str, Any],
    skips: tuple[float, ...],
) -> Network:
    depth = len(skips)
    own = {k: tuple(map(float, per_layer(k, v, depth))) for k, v in numbers.items()}
    ordered = (own[k] for k in HYPERPARAMETERS)
    by_layer = ByLayer(widths, (sigma,) if depth > 1 else (), *ordered, skips=skips)
    return Network.known(*stacked(by_layer), by_layer=by_layer)


def _skips(gamma: NotNegatives, widths: tuple[int, ...]) -> tuple[float, ...]:
    """The skip of every layer, checked against the widths."""
    depth = len(widths) - 1
    if isinstance(gamma, Sequence):
        skips = tuple(map(float, per_layer("gamma", gamma, depth)))
    else:
        skips = (0.0, *(float(gamma),) * (depth - 2), 0.0)[:depth]
    if skips[0]:
        raise ValueError(
            f"`gamma` must be 0 in the first layer, which has nothing to skip; got {gamma}. One "
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


Plain = Annotated[
    Network,
    Must(
        "a network of fully connected layers of one activation without skip connections, such as scalewise.MLP",
        lambda net: net.is_plain,
    ),
]
AnyPerceptron = Annotated[
    Network,
    Must(
        "a network of fully connected layers of one activation, such as scalewise.MLP",
        lambda net: net.is_perceptron,
    ),
]
