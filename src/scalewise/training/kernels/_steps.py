r"""Single steps of one network's parameters: tensorial gradient descent, the leap to the end, weight decay.

All of them are sums over samples and outputs of $\lambda_\mu\frac{dz_{i;\tilde\alpha}}{d\theta_\mu}$ with a
factor: the error $\epsilon_{i;\tilde\alpha}$ for gradient descent, $\tilde\Theta^{-1}\epsilon$ for Newton's method.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy.linalg
from jaxtyping import Float

from scalewise._checked import NotNegative, checked
from scalewise.networks._network import AnyNetwork
from scalewise.training._one_mlp import MLPWeights, layers_of, tangents_of

__all__ = ["Step", "generalised_loss", "giant_leap", "parameter_step", "weight_decay_tensor"]

Inputs = Annotated[Any, Float[np.ndarray, "sample feature"]]
Factors = Annotated[Any, Float[np.ndarray, "sample output"]]


class Step(NamedTuple):
    """What is added to parameters, or what they are afterwards: `weights` (n_l, n_{l-1}), `biases` (n_l,)."""

    weights: tuple[Float[np.ndarray, "after before"], ...]
    biases: tuple[Float[np.ndarray, " after"], ...]


@checked
def parameter_step(net: AnyNetwork, weights: MLPWeights, x: Inputs, factors: Factors) -> Step:
    r"""$\Delta\theta_\mu=-\sum\lambda_\mu\frac{dz_{i;\tilde\alpha}}{d\theta_\mu}\epsilon_{i;\tilde\alpha}$.

    With the error factors $\epsilon=\partial\mathcal L/\partial z$ it is gradient descent at rate 1, for which
    $\Delta\mathcal L=-\eta\,\epsilon\widehat H\epsilon$ and $\Delta z=-\eta\widehat H\epsilon$ up to $\eta^2$.

    Args:
        net: The network, with its rates $\lambda$.
        weights: Where it is.
        x: Training inputs (sample, feature).
        factors: $\epsilon$, or $\kappa\epsilon$ of a second-order method (sample, output).

    Source: PDLT (7.11), (7.12), (7.19), (7.20); with $\kappa$, (10.19).
    """
    found = layers_of(net, weights, x)
    back, Ws, bs = factors, [], []
    for layer in reversed(range(net.depth)):
        Ws.append(-net.lambda_W[layer] / net.widths[layer] * back.T @ found.entering[layer])
        bs.append(-net.lambda_b[layer] * back.sum(axis=0))
        if layer:
            back = (back @ found.weights[layer]) * found.slopes[layer - 1]
    return Step(tuple(Ws[::-1]), tuple(bs[::-1]))


@checked
def giant_leap(
    net: AnyNetwork, weights: MLPWeights, x: Inputs, targets: Factors, *, ntk: Any = None
) -> Step:
    r"""Parameters behind a step of Newton's method, $\theta-\lambda\frac{dz}{d\theta}\Theta^{-1}(z-y)$.

    Args:
        net: The network, with its rates.
        weights: Where it is.
        x: Training inputs (sample, feature).
        targets: $y$ (sample, output).
        ntk: $\tilde\Theta$ (sample, sample) at infinite width, as in the text; the network's own NTK if ``None``,
            with which a model that is linear in its parameters has all targets after the step.

    Raises:
        ValueError: If the NTK is singular.

    Source: PDLT (10.25), (10.30), (10.31).
    """
    z, H = tangents_of(net, weights, x)
    full = H if ntk is None else np.einsum("ab,ij->abij", ntk, np.eye(z.shape[1]))
    flat = full.transpose(0, 2, 1, 3).reshape(z.size, z.size)
    try:
        factor = scipy.linalg.solve(flat, (z - targets).ravel(), assume_a="pos").reshape(z.shape)
    except scipy.linalg.LinAlgError as error:
        raise ValueError(
            "The NTK of the training samples is singular, so no step reaches all targets. Drop repeated samples."
        ) from error
    step = parameter_step(net, weights, x, factor)
    moved = layers_of(net, weights, x)
    return Step(
        tuple(W + d for W, d in zip(moved.weights, step.weights, strict=True)),
        tuple(b + d for b, d in zip(moved.biases, step.biases, strict=True)),
    )


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
    weights: MLPWeights,
    x: Inputs,
    *,
    bias_decay: NotNegative,
    weight_decay: NotNegative,
) -> Float[np.ndarray, "sample output"]:
    r"""How weight decay moves outputs: descending $\mathcal L+\sum a_\mu\theta_\mu^2$ adds $-2\eta\widehat R$.

    $$\widehat R_{i;\delta}=\sum\lambda_\mu a_\mu\theta_\mu\frac{dz_{i;\delta}}{d\theta_\mu},\qquad
      \widehat R^{(\ell+1)}_{i;\delta}=a_b\lambda_bb_i+a_W\frac{\lambda_W}{n_\ell}\sum_jW_{ij}\sigma_{j;\delta}
      +\sum_jW_{ij}\sigma'_{j;\delta}\widehat R^{(\ell)}_{j;\delta}.$$

    Args:
        net: The network, with its rates.
        weights: Where it is.
        x: Inputs (sample, feature).
        bias_decay: $a_b$.
        weight_decay: $a_W$.

    Source: PDLT (10.42), (10.43).
    """
    found = layers_of(net, weights, x)
    R = np.zeros((len(x), net.widths[1]))
    for layer in range(net.depth):
        W = found.weights[layer]
        own = bias_decay * net.lambda_b[layer] * found.biases[layer]
        own = (
            own
            + weight_decay * net.lambda_W[layer] / net.widths[layer] * found.entering[layer] @ W.T
        )
        R = own + (R * found.slopes[layer - 1]) @ W.T if layer else own
    return R
