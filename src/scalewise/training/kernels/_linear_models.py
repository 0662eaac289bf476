r"""Linear models $z_i=\sum_jW_{ij}\phi_j(x)$, and the same predictions by kernels $k=\phi\cdot\phi$."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from scalewise._checked import NotNegative, Positive, checked
from scalewise.networks.spi import AnyNetwork
from scalewise.training._one_network import GivenWeights, features_of
from scalewise.training._spectrum import refuse_singular, spectrum, untaught

Features = Annotated[Any, Float[np.ndarray, "sample feature"]]
Others = Annotated[Any, Float[np.ndarray, "other feature"]]
Targets = Annotated[Any, Float[np.ndarray, "sample output"]]


@checked
def fit_features(
    features: Features, targets: Targets, *, ridge: NotNegative = 0.0
) -> Float[np.ndarray, "output feature"]:
    r"""The weights that minimise $\frac12\sum(W\phi-y)^2+a\sum W^2$.

    $$W^\star=y^T\phi\,M^{-1},\qquad M=2a+\phi^T\phi.$$

    Args:
        features: $\phi$ (sample, feature); a column of ones for a bias.
        targets: $y$ (sample, output).
        ridge: $a\ge0$; at 0, of all that minimise the loss those of smallest norm, the limit $a\to0^+$.

    Raises:
        ValueError: If there is not a target for each sample.

    Source: PDLT (10.118)-(10.124).

    Example:
        >>> from scalewise.training.kernels import fit_features
        >>> fit_features([[1.0, 0.0], [1.0, 1.0]], [[1.0], [3.0]]).round(12)
        array([[1., 2.]])
    """
    if len(features) != len(targets):
        raise ValueError(
            f"`targets` must have a row for each of {len(features)} samples; got {len(targets)}."
        )
    response, _ = ridge_responses(features, ridge)
    return (response @ targets).T


def ridge_responses(
    features: Float[np.ndarray, "sample feature"], ridge: float
) -> tuple[Float[np.ndarray, "feature sample"], Float[np.ndarray, "sample sample"]]:
    r"""Responses to targets of a linear model's weights, $(2a+\phi^T\phi)^{-1}\phi^T$, and $(2a+\tilde k)^{-1}$.

    From singular values of the features, which have twice the digits of their squares; at $a=0$ pseudoinverses.

    Args:
        features: $\phi$.
        ridge: $a$.

    Source: PDLT (10.124), (10.125).
    """
    U, s, V = np.linalg.svd(features, full_matrices=len(features) > features.shape[1])
    s = np.where(s > max(features.shape) * np.finfo(float).eps * s[0], s, 0.0)
    h = np.zeros(U.shape[1])
    h[: s.size] = s**2
    h = h + 2 * ridge
    gain = np.where(h > 0, 1 / np.where(h > 0, h, 1.0), 0.0)
    own = slice(s.size)
    return (V[own].T * (s * gain[own])) @ U[:, own].T, (U * gain) @ U.T


@checked
def feature_kernel(
    features: Features,
    others: Others,
    *,
    weights: Annotated[Any, Float[np.ndarray, "a b"]] | None = None,
) -> Float[np.ndarray, "sample other"]:
    r"""$k_{\delta_1\delta_2}=\sum c_{jk}\phi_j(x_1)\phi_k(x_2)$.

    Args:
        features: $\phi$ (sample, feature).
        others: The same of other samples.
        weights: $c$, symmetric and positive semidefinite; the identity by default.

    Source: PDLT (10.127), (10.128), (10.136).
    """
    return features @ others.T if weights is None else features @ weights @ others.T


@checked
def gaussian_kernel(
    x: Features, others: Others, *, length: Positive = 1.0
) -> Float[np.ndarray, "sample other"]:
    r"""$\exp\{-|x_1-x_2|^2/2\sigma^2\}$, of infinitely many features.

    Args:
        x: Inputs (sample, feature).
        others: Other inputs.
        length: $\sigma$, in units of inputs.

    Source: PDLT (10.133).
    """
    apart = ((x[:, None] - others) ** 2).sum(axis=-1)
    return np.exp(-apart / (2 * length**2))


@checked
def kernel_machine(
    kernel: Annotated[Any, Float[np.ndarray, "sample sample_1"]],
    kernel_of_tests: Annotated[Any, Float[np.ndarray, "test sample"]],
    targets: Targets,
    *,
    ridge: NotNegative = 0.0,
) -> Float[np.ndarray, "test output"]:
    r"""Prediction of a linear model without its weights, $k_{\dot\beta\tilde\alpha}(\tilde k+2a)^{-1}y$.

    Args:
        kernel: $\tilde k$ of the training samples.
        kernel_of_tests: $k_{\dot\beta\tilde\alpha}$.
        targets: $y$ (sample, output).
        ridge: $a\ge0$ of the weights of features.

    Raises:
        ValueError: If the kernel is not one, or without a ridge singular where targets need it.

    Source: PDLT (10.131), (10.132), (10.125).

    Example:
        >>> from scalewise.training.kernels import kernel_machine
        >>> kernel_machine([[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5]], [[1.0], [3.0]])
        array([[2.]])
    """
    found = spectrum(kernel, "kernel of the training samples")
    if not ridge and untaught(found, targets):
        refuse_singular(kernel, targets, found.rank, "give a `ridge`")
    return kernel_of_tests @ found.solve(targets, 2 * ridge)


@checked
def last_layer_features(
    net: AnyNetwork, weights: GivenWeights, x: Annotated[Any, Float[np.ndarray, "sample *input"]]
) -> Float[np.ndarray, "sample feature"]:
    r"""The random features of a network, of which its last layer is a linear model.

    $\hat\phi_0=\sqrt{C_b}$ and $\hat\phi_j=\sqrt{C_W/n_{L-1}}\,\sigma^{(L-1)}_j$, so that the kernel of these
    features is the network's $\widehat G^{(L)}$ and its mean, at infinite width, $K^{(L)}$. In a network of any
    layers $j$ counts all numbers that enter the last one, positions first, and $n_{L-1}$ is how many.

    Args:
        net: The network.
        weights: Of one network, as `nets.init_weights` gives them.
        x: Inputs (sample, input), with positions between the two.

    Raises:
        ValueError: If the weights are of another network, or it has Dropout or a skip connection around its last
            layer.

    Source: PDLT (10.134), (10.135), (10.137), where the text prints C_W/n_L for C_W/n_{L-1}.
    """
    phi, last = features_of(net, weights, x), net.own(net.depth)
    scale = np.sqrt(last.C_W / phi.shape[1])
    return np.column_stack([np.full(len(phi), np.sqrt(last.C_b)), scale * phi])
