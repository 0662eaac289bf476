r"""Tangents of attention in heads of a fixed size, whose units are heads.

With logits $l(s,t)=d^{-\alpha}q(s)\cdot k(t)$, $o(s)=\sum_tp(s,t)v(t)$, $W_c(s,t)=\partial o_c(s)/\partial l(s,t)$,
$$o^a_c(s)=\sum_{c'}\Big[\sum_tW_c(s,t)d^{-\alpha}k_{c'}(t)\Big]q^a_{c'}(s)
  +\sum_tW_c(s,t)\,d^{-\alpha}q(s)\cdot k^a(t)+\sum_tp(s,t)v^a_c(t),$$
and tangents of different channels of a head are independent, with one covariance over labels.

Source: derived.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from scalewise.networks.spi import Attend, logits_of, seen, slopes_of_logits
from scalewise.networks.spi_jax import traced
from scalewise.theory.order._particles import Particles


def of_heads(made: Particles, tangents: Callable[[int, int], Any], here: int) -> Any:
    """The average of the product of two tangents over heads and their channels, (label, label).

    Args:
        made: The program on weighted units.
        tangents: Covariances of the tangents of two fields.
        here: A node of heads.
    """
    node, program = made.program.nodes[here], made.program
    assert isinstance(node, Attend)
    given = node.of[:3]
    if not all(program.apart(*pair) for pair in itertools.combinations(given, 2)):
        raise ValueError(
            f"Node [{here}] of this network, {node.said}, has queries, keys or values that share weights, and "
            "order 1/n of the NTK is not known of it. Give each weights of its own."
        )
    q, k, v = (
        jnp.moveaxis(x.reshape(len(x), -1, x.shape[-1] // node.size, node.size), 2, 0)
        for x in (made.fields[i] for i in given)
    )  # (head, sample, position, channel)
    if node.group > 1:  # tangents of heads that share a key are averaged head by head, all the same
        k, v = (jnp.repeat(x, node.group, axis=0) for x in (k, v))
    scale = node.size**-node.power
    logits = logits_of(node, jnp.swapaxes(q, 0, 1), jnp.swapaxes(k, 0, 1), jnp)
    p, W = _weights(made, node, jnp.swapaxes(logits, 0, 1), v)
    w = made.shares(here).reshape(len(q), node.size).sum(axis=1)
    T = [tangents(k, k).reshape(*q.shape[1:3], *q.shape[1:3]) for k in given]
    share = w / node.size
    if node.is_plain:
        J, q = scale * jnp.einsum("hasci,haie->hasce", W, k), scale * q
        square = jnp.einsum("hase,hbte->hasbt", q, q) * share[:, None, None, None, None]
        second = jnp.einsum("hasbt,hasci,aibj,hbtcj->asbt", square, W, T[1], W, optimize=True)
    else:
        by_query, by_key = slopes_of_logits(node, q, k, jnp)
        J = jnp.einsum("hasci,hasie->hasce", W, by_query)
        U = W[..., None] * by_key[:, :, :, None]
        second = jnp.einsum("hascie,aibj,hbtcje,h->asbt", U, T[1], U, share, optimize=True)
    first = jnp.einsum("hasce,hbtce,h->asbt", J, J, share) * T[0]
    third = jnp.einsum("hasi,aibj,hbtj,h->asbt", p, T[2], p, w, optimize=True)
    return (first + second + third).reshape(made.labels(here), -1)


def _weights(made: Particles, node: Attend, logits: Any, v: Any) -> tuple[Any, Any]:
    """$p$ (head, sample, position, other) and $W$ (head, sample, position, channel, other)."""
    p = jax.vmap(lambda own: made.attention(node, own))(logits)
    values = jnp.swapaxes(v, -1, -2)[:, :, None]  # (head, sample, 1, channel, other)
    if node.sigma is None:
        out = (p[..., None, :] * values).sum(axis=-1, keepdims=True)
        return p, p[..., None, :] * (values - out)
    slope = jax.jvp(traced(node.sigma), (logits,), (jnp.ones_like(logits),))[1]
    mask = None
    if len(node.of) > 3:
        mask = made.fields[node.of[3]].reshape(made.inputs, 1, -1)
    slope = jnp.where(seen(node, logits.shape[-2:], mask), slope, 0.0)
    return p, slope[..., None, :] * values
