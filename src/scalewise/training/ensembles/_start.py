r"""Networks before they are trained: drawn, and looked at once.

Outputs, their covariance given the hidden layers $\delta_{ij}\widehat G$, which the last weights have by
themselves, and the network's own NTK. A joint index holds an output and a sample, samples fastest.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from scalewise.nets.spi import Packed, draw_numbers, spread
from scalewise.networks import Network

Outputs = Float[np.ndarray, "network output sample"]


class Start(NamedTuple):
    r"""Each network of a batch before training.

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


@lru_cache(maxsize=64)
def packed(net: Network) -> Packed:
    """The parameters of a network in a row: the same object each time, so that JAX compiles once."""
    return Packed(net.program)


def rates_of(net: Network, dtype: str) -> Float[np.ndarray, " parameter"]:
    r"""$\lambda_b$ or $\lambda_W$ over the fan-in, of each parameter."""
    return packed(net).rates(dtype)


def draw(net: Network, keys: np.ndarray, dtype: str, *, extra: int = 0) -> tuple[Any, Any]:
    """The parameters of a network for each key, (network, parameter), laid over the devices; and more numbers."""
    own = packed(net)
    numbers = draw_numbers(keys, own.count + extra, dtype)
    return spread(own.drawn(numbers[:, : own.count], dtype)), numbers[:, own.count :]


def look(net: Network, parameters: Any, x: np.ndarray, y: np.ndarray, *, ntk: bool) -> Start:
    """Parameters, outputs and NTKs of each network before training.

    Args:
        net: Its shape and hyperparameters.
        parameters: Of all networks.
        x: All samples, in the precision wanted.
        y: Targets of the training samples, (output, train).
        ntk: Whether their NTKs are wanted.
    """
    z, top = _outputs(parameters, x, own=packed(net))
    outputs = _turned(z)
    s, last = np.asarray(top, np.float64), net.own(net.depth)
    gram = last.C_b + last.C_W / s.shape[2] * s @ s.transpose(0, 2, 1)
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


def outputs_of(net: Network, parameters: Any, x: np.ndarray) -> Outputs:
    """The outputs of each network."""
    return _turned(_outputs(parameters, x, own=packed(net))[0])


def moved_along(net: Network, parameters: Any, numbers: Any, x: np.ndarray) -> Outputs:
    r"""$\sum\sqrt\lambda\,\xi\,dz/d\theta$ of each network: a random function whose covariance is its NTK."""
    steps = numbers * np.sqrt(rates_of(net, str(x.dtype)))
    return _turned(_along(parameters, steps, x, own=packed(net)))


@partial(jax.jit, static_argnames="own")
def _along(parameters: Any, steps: Any, x: Any, *, own: Packed) -> Any:
    def one(p: Any, step: Any) -> Any:
        return jax.jvp(lambda q: own.outputs(q, x)[0], (p,), (step,))[1]

    return jax.vmap(one)(parameters, steps)


def pulled(
    net: Network, parameters: Any, v: Float[np.ndarray, "network output sample"], x: np.ndarray
) -> Any:
    r"""$\theta-\lambda J^Tv$ of each network, (network, parameter): its outputs move by $-\widehat Hv$."""
    rates, turned = rates_of(net, str(x.dtype)), v.transpose(0, 2, 1).astype(x.dtype)
    return _pulled(parameters, turned, x, rates, own=packed(net))


@partial(jax.jit, static_argnames="own")
def _pulled(parameters: Any, v: Any, x: Any, rates: Any, *, own: Packed) -> Any:
    def one(p: Any, t: Any) -> Any:
        return p - rates * jax.vjp(lambda q: own.outputs(q, x)[0], p)[1](t)[0]

    return jax.vmap(one)(parameters, v)


def _turned(z: Any) -> Outputs:
    return np.asarray(z, np.float64).transpose(0, 2, 1)


@partial(jax.jit, static_argnames="own")
def _outputs(parameters: Any, x: Any, *, own: Packed) -> tuple[Any, Any]:
    z, top = jax.vmap(lambda p: own.outputs(p, x))(parameters)
    # Without hidden layers the inputs enter, the same for all networks.
    return z, jnp.broadcast_to(top, (len(z), *top.shape[-2:]))


def ntks(net: Network, parameters: Any, x: np.ndarray) -> Float[np.ndarray, "network joint joint"]:
    """The whole NTK of each network."""
    found = np.asarray(_ntks(parameters, x, own=packed(net)), np.float64)
    return found.reshape(len(found), net.output_dim * len(x), -1)


@partial(jax.jit, static_argnames="own")
def _ntks(parameters: Any, x: Any, *, own: Packed) -> Any:
    return jax.vmap(lambda p: own.ntk(p, x))(parameters)
