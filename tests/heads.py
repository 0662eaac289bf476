"""Attention of one kind between dense layers, and the NTK of one such network by its formula."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import scalewise as sw
from architectures import RATES
from scalewise.nets import empirical_ntk, init_weights
from scalewise.networks._builder import Layer
from scalewise.training._one_network import tangents_of

X = np.random.default_rng(17).normal(size=(3, 5, 2))
TAIL = "tanh", sw.GlobalAvgPool(), sw.Dense(1)
Attending = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]


def network(attention: Layer, width: int, shape: tuple[int, int] = (5, 2)) -> sw.Network:
    """Attention between a dense layer and a tail."""
    return sw.Network(sw.Dense(), attention, *TAIL, input_shape=shape, width=width, **RATES)


def has_the_ntk_of_its_formula(net: sw.Network, attend: Attending) -> None:
    """Both ways to the NTK of one network, against autodiff of a pass that is written here.

    Args:
        net: Of `network`, with heads of four channels.
        attend: From queries, keys and values, (sample, position, head, channel), to what heads return.
    """
    parameters = init_weights(net, 1, dtype="float64")

    def outputs(p):
        def dense(k, z):
            return z @ p.weights[k].T + p.biases[k]

        z = dense(0, X)
        made = attend(*(dense(1 + i, z).reshape(3, 5, -1, 4) for i in range(3))).reshape(3, 5, -1)
        return dense(5, jnp.tanh(dense(4, made)).mean(axis=1))[:, 0]

    with jax.enable_x64(True):
        J = jax.jit(jax.jacrev(outputs))(parameters)
    ntk = 0.0
    for W, b in zip(*J, strict=True):
        W, b = (np.asarray(a).reshape(3, *a.shape[1:]) for a in (W, b))
        by_W, by_b = np.einsum("sij,tij->st", W, W) / W.shape[-1], b @ b.T
        ntk = ntk + RATES["lambda_W"] * by_W + RATES["lambda_b"] * by_b
    for found in (empirical_ntk(net, parameters, X), tangents_of(net, parameters, X)[1]):
        np.testing.assert_allclose(np.squeeze(found), ntk, rtol=1e-9)
