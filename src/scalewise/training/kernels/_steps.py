r"""Single steps of one network's parameters: tensorial gradient descent, the leap to the end, weight decay.

All of them are sums over samples and outputs of $\lambda_\mu\frac{dz_{i;\tilde\alpha}}{d\theta_\mu}$ with a
factor: the error $\epsilon_{i;\tilde\alpha}$ for gradient descent, $\tilde\Theta^{-1}\epsilon$ for Newton's method.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from scalewise._checked import NotNegative, checked
from scalewise.networks.spi import AnyNetwork, Parameters
from scalewise.training import _one_network as one
from scalewise.training._curved_network import CurvedNetwork
from scalewise.training._one_network import GivenWeights
from scalewise.training._spectrum import regular

Inputs = Annotated[Any, Float[np.ndarray, "sample *input"]]
Factors = Annotated[Any, Float[np.ndarray, "sample output"]]
Kernel = Annotated[Any, Float[np.ndarray, "a b"]]


@checked
def outputs_of(
    net: AnyNetwork, weights: GivenWeights, x: Inputs
) -> Float[np.ndarray, "sample output"]:
    """Outputs of one network of any layers.

    Args:
        net: The network.
        weights: Its weights and biases.
        x: Inputs (sample, feature), with positions between the two.

    Source: PDLT (2.5).
    """
    return one.outputs_of(net, weights, x)


@checked
def parameter_step(
    net: AnyNetwork, weights: GivenWeights, x: Inputs, factors: Factors
) -> Parameters:
    r"""$\Delta\theta_\mu=-\sum\lambda_\mu\frac{dz_{i;\tilde\alpha}}{d\theta_\mu}\epsilon_{i;\tilde\alpha}$.

    With the error factors $\epsilon=\partial\mathcal L/\partial z$ it is gradient descent at rate 1, for which
    $\Delta\mathcal L=-\eta\,\epsilon\widehat H\epsilon$ and $\Delta z=-\eta\widehat H\epsilon$ up to $\eta^2$.

    Args:
        net: The network, with its rates $\lambda$.
        weights: Where it is.
        x: Training inputs (sample, feature), with positions between the two.
        factors: $\epsilon$, or $\kappa\epsilon$ of a second-order method (sample, output).

    Source: PDLT (7.11), (7.12), (7.19), (7.20); with $\kappa$, (10.19).
    """
    model = CurvedNetwork(net, weights, x)
    return Parameters(*model.shaped(-model.gradients(factors)[0]))


@checked
def giant_leap(
    net: AnyNetwork,
    weights: GivenWeights,
    x: Inputs,
    targets: Factors,
    *,
    ntk: Kernel | None = None,
) -> Parameters:
    r"""Parameters behind a step of Newton's method, $\theta-\lambda\frac{dz}{d\theta}\Theta^{-1}(z-y)$.

    With the NTK of infinite width they are those at the end of its training, and a network of width $n$ misses the
    targets by $O(1/\sqrt n)$, the mean of many by $O(1/n)$.

    Args:
        net: The network, with its rates.
        weights: Where it is.
        x: Training inputs (sample, feature), with positions between the two.
        targets: $y$ (sample, output).
        ntk: $\tilde\Theta$ (sample, sample) at infinite width, as in the text; the network's own NTK if ``None``,
            with which a model that is linear in its parameters has all targets after the step.

    Raises:
        ValueError: If the NTK is singular.

    Source: PDLT (10.25), (10.30), (10.31), (∞.57)-(∞.65), (ε.8).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.nets import init_weights
        >>> from scalewise.training import kernels
        >>> net = sw.MLP(2, 1000, "tanh", input_dim=1, output_dim=1)
        >>> x, y = np.ones((1, 1)), np.full((1, 1), 0.5)
        >>> Theta = sw.predict(net, x, observables=["ntk"]).ntk.values[-1]
        >>> end = kernels.giant_leap(net, init_weights(net), x, y, ntk=Theta)
        >>> bool(abs(kernels.outputs_of(net, end, x) - 0.5) < 0.1)
        True
    """
    z, ntks = one.tangents_of(net, weights, x)
    error = z - targets
    if ntk is None:
        H = ntks.transpose(0, 2, 1, 3).reshape(error.size, error.size)
        flat = regular(H, "NTK of the training samples").solve(error.reshape(-1, 1))
    elif ntk.shape == (len(x), len(x)):
        flat = regular(ntk, "NTK of the training samples").solve(error)
    else:
        raise ValueError(
            f"`ntk` must be about the {len(x)} training samples; got shape {ntk.shape}."
        )
    step = parameter_step(net, weights, x, flat.reshape(error.shape))
    start = one.parameters_of(net, weights)
    ends = (
        tuple(a + d for a, d in zip(part, change, strict=True))
        for part, change in zip(start, step, strict=True)
    )
    return Parameters(*ends)


@checked
def two_step_newton(
    net: AnyNetwork, weights: GivenWeights, x: Inputs, targets: Factors, ntk: Kernel
) -> tuple[Parameters, Parameters]:
    r"""Train by two leaps: with this network's own $\widehat H^{-1}$, then with that of the mean NTK.

    Args:
        net: The network, with its rates.
        weights: Where it is.
        x: Training inputs (sample, feature), with positions between the two.
        targets: $y$ (sample, output).
        ntk: Mean NTK, or $\Theta$, on the training samples.

    Returns:
        Parameters after one leap and after two. The distance to the targets is $O(1/n)$ after the first; after
        the second it is $O(n^{-3/2})$ in one network, whose NTK differs from its mean by $O(1/\sqrt n)$, and in the
        mean over many the $O(1/n^2)$ of the text.

    Raises:
        ValueError: As `giant_leap`.

    Source: PDLT (∞.66)-(∞.78).
    """
    first = giant_leap(net, weights, x, targets)
    return first, giant_leap(net, first, x, targets, ntk=ntk)


@checked
def generalised_loss(
    outputs: Factors, targets: Factors, newton: Annotated[Any, Float[np.ndarray, "sample sample_1"]]
) -> float:
    r"""$\frac12\sum\kappa^{\tilde\alpha_1\tilde\alpha_2}(z-y)_{i;\tilde\alpha_1}(z-y)_{i;\tilde\alpha_2}$.

    Gradient descent on it is the second-order update with the Newton tensor $\kappa$ on the sum of half squares.

    Args:
        outputs: $z$ (sample, output).
        targets: $y$ (sample, output).
        newton: $\kappa$, symmetric; of Newton's method $\tilde\Theta^{-1}/\eta$.

    Source: PDLT (10.18), (10.22), (10.23).
    """
    error = outputs - targets
    return float(0.5 * (error * (newton @ error)).sum())


@checked
def weight_decay_tensor(
    net: AnyNetwork,
    weights: GivenWeights,
    x: Inputs,
    *,
    bias_decay: NotNegative,
    weight_decay: NotNegative,
) -> Float[np.ndarray, "sample output"]:
    r"""How weight decay moves outputs: descending $\mathcal L+\sum a_\mu\theta_\mu^2$ adds $-2\eta\widehat R$.

    $$\widehat R_{i;\delta}=\sum\lambda_\mu a_\mu\theta_\mu\frac{dz_{i;\delta}}{d\theta_\mu},$$
    in fully connected layers
    $$\widehat R^{(\ell+1)}_{i;\delta}=a_b\lambda_bb_i
      +a_W\frac{\lambda_W}{n_\ell}\sum_jW_{ij}\sigma_{j;\delta}
      +\sum_jW_{ij}\sigma'_{j;\delta}\widehat R^{(\ell)}_{j;\delta}.$$

    Args:
        net: The network, with its rates.
        weights: Where it is.
        x: Inputs (sample, feature), with positions between the two.
        bias_decay: $a_b$.
        weight_decay: $a_W$.

    Source: PDLT (10.42), (10.43).
    """
    model = CurvedNetwork(net, weights, x)
    decay = [
        np.full(a.size, rate)
        for part, rate in zip(model.start, (weight_decay, bias_decay), strict=True)
        for a in part
    ]
    theta = np.concatenate([a.ravel() for part in model.start for a in part])
    return model.outputs([model.rates * np.concatenate(decay) * theta])[1]
