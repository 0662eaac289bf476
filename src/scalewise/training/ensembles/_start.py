r"""Networks before they are trained: drawn, and looked at once.

Outputs, their covariance given the hidden layers $\delta_{ij}\widehat G$, which the last weights have by
themselves, and the network's own NTK. A joint index holds an output and a sample, samples fastest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from scalewise.nets._networks import Parameters, ntk_of, traced
from scalewise.nets._random import normals
from scalewise.networks import MLP

Sigma = Callable[[Any], Any]
Outputs = Float[np.ndarray, "network output sample"]


class Start(NamedTuple):
    r"""What is known of each network of a batch before training.

    Args:
        parameters: (network, parameter), each layer's weights before its biases.
        outputs: $z$ on all samples, training samples first.
        spread: The covariance of the outputs given all but what makes them random: the last weights.
        ntk: $\widehat H$; ``None`` if nobody wants it.
        offset: What is added to the outputs of a network, before training and after.
        goals: The targets of each network.
    """

    parameters: Any
    outputs: Float[np.ndarray, "network output sample"]
    spread: Float[np.ndarray, "network joint joint"]
    ntk: Float[np.ndarray, "network joint joint"] | None
    offset: Float[np.ndarray, "network output sample"]
    goals: Float[np.ndarray, "network output train"]


def rates_of(net: MLP, dtype: str) -> Float[np.ndarray, " parameter"]:
    r"""$\lambda_b$ or $\lambda_W/n_{\ell-1}$ of each parameter."""
    return _each(net, net.lambda_b, net.lambda_W).astype(dtype)


def draw(net: MLP, keys: np.ndarray, dtype: str, *, extra: int = 0) -> tuple[Any, Any]:
    """The parameters of a network for each key, (network, parameter), laid over the devices; and more numbers."""
    scales = np.sqrt(_each(net, net.C_b, net.C_W)).astype(dtype)
    numbers = normals(keys, count=len(scales) + extra, dtype=dtype)
    return numbers[:, : len(scales)] * scales, numbers[:, len(scales) :]


def _each(net: MLP, of_bias: Sequence[float], of_weight: Sequence[float]) -> np.ndarray:
    """Two numbers of every layer, the second over the width below, as one for each parameter."""
    n, parts = net.widths, []
    for i, (b, W) in enumerate(zip(of_bias, of_weight, strict=True)):
        parts += [np.full(n[i + 1] * n[i], W / n[i]), np.full(n[i + 1], b)]
    return np.concatenate(parts)


def unpacked(packed: Any, widths: tuple[int, ...]) -> Parameters:
    """Weights and biases of one network, from all its parameters in a row."""
    weights, biases, offset = [], [], 0
    for below, n in pairwise(widths):
        weights.append(packed[offset : offset + n * below].reshape(n, below))
        biases.append(packed[offset + n * below : offset + n * (below + 1)])
        offset += n * (below + 1)
    return Parameters(tuple(weights), tuple(biases))


def forward(parameters: Parameters, x: Any, sigma: Sigma) -> tuple[Any, Any]:
    """Outputs (sample, output) of one network, and what enters its last layer."""
    s = x
    for w, b in zip(parameters.weights[:-1], parameters.biases[:-1], strict=True):
        s = sigma(s @ w.T + b)
    return s @ parameters.weights[-1].T + parameters.biases[-1], s


def look(net: MLP, parameters: Any, x: np.ndarray, y: np.ndarray, *, ntk: bool) -> Start:
    """What there is to know of each network.

    Args:
        net: Its shape and hyperparameters.
        parameters: Of all networks.
        x: All samples, in the precision wanted.
        y: Targets of the training samples, (output, train).
        ntk: Whether their NTKs are wanted.
    """
    z, top = _outputs(parameters, x, widths=net.widths, sigma=traced(net.activation))
    outputs = _turned(z)
    s = np.asarray(top, np.float64)
    gram = net.C_b[-1] + net.C_W[-1] / net.widths[-2] * s @ s.transpose(0, 2, 1)
    eye = np.eye(net.output_dim)
    spread = np.einsum("ij,kab->kiajb", eye, gram).reshape(len(s), outputs[0].size, -1)
    return Start(
        parameters,
        outputs,
        spread,
        ntks(net, parameters, x) if ntk else None,
        np.zeros_like(outputs),
        np.broadcast_to(y, (len(s), *y.shape)),
    )


def outputs_of(net: MLP, parameters: Any, x: np.ndarray) -> Outputs:
    """The outputs of each network."""
    z, _ = _outputs(parameters, x, widths=net.widths, sigma=traced(net.activation))
    return _turned(z)


def moved_along(net: MLP, parameters: Any, numbers: Any, x: np.ndarray) -> Outputs:
    r"""$\sum\sqrt\lambda\,\xi\,dz/d\theta$ of each network: a random function whose covariance is its NTK."""
    steps = numbers * np.sqrt(rates_of(net, str(x.dtype)))
    return _turned(_along(parameters, steps, x, widths=net.widths, sigma=traced(net.activation)))


@partial(jax.jit, static_argnames=("widths", "sigma"))
def _along(parameters: Any, steps: Any, x: Any, *, widths: tuple[int, ...], sigma: Sigma) -> Any:
    def one(p: Any, step: Any) -> Any:
        return jax.jvp(lambda q: forward(unpacked(q, widths), x, sigma)[0], (p,), (step,))[1]

    return jax.vmap(one)(parameters, steps)


def pulled(
    net: MLP, parameters: Any, v: Float[np.ndarray, "network output sample"], x: np.ndarray
) -> Any:
    r"""$-\lambda J^Tv$ of each network, (network, parameter): a step that moves its outputs by $-\widehat Hv$."""
    rates, turned = rates_of(net, str(x.dtype)), v.transpose(0, 2, 1).astype(x.dtype)
    return _pulled(parameters, turned, x, rates, widths=net.widths, sigma=traced(net.activation))


@partial(jax.jit, static_argnames=("widths", "sigma"))
def _pulled(
    parameters: Any, v: Any, x: Any, rates: Any, *, widths: tuple[int, ...], sigma: Sigma
) -> Any:
    def one(p: Any, t: Any) -> Any:
        return -rates * jax.vjp(lambda q: forward(unpacked(q, widths), x, sigma)[0], p)[1](t)[0]

    return jax.vmap(one)(parameters, v)


def _turned(z: Any) -> Outputs:
    return np.asarray(z, np.float64).transpose(0, 2, 1)


@partial(jax.jit, static_argnames=("widths", "sigma"))
def _outputs(parameters: Any, x: Any, *, widths: tuple[int, ...], sigma: Sigma) -> tuple[Any, Any]:
    z, top = jax.vmap(lambda p: forward(unpacked(p, widths), x, sigma))(parameters)
    # Without hidden layers the inputs enter, the same for all networks.
    return z, jnp.broadcast_to(top, (len(z), *top.shape[-2:]))


def ntks(net: MLP, parameters: Any, x: np.ndarray) -> Float[np.ndarray, "network joint joint"]:
    """The whole NTK of each network."""
    rates = np.array([net.lambda_b, np.divide(net.lambda_W, net.widths[:-1])], x.dtype)
    found = _ntks(parameters, x, rates, widths=net.widths, sigma=traced(net.activation))
    turned = np.asarray(found, np.float64).transpose(0, 3, 1, 4, 2)
    return turned.reshape(len(turned), net.output_dim * len(x), -1)


@partial(jax.jit, static_argnames=("widths", "sigma"))
def _ntks(parameters: Any, x: Any, rates: Any, *, widths: tuple[int, ...], sigma: Sigma) -> Any:
    return jax.vmap(lambda p: ntk_of(unpacked(p, widths), [x], rates, sigma=sigma))(parameters)
