"""Attention for jax written in several ways, and small models around it; shared by the tests of scalewise.jax."""

import math
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp

from jax_models import drawn

WORDS = 20


def tree(width, *, layers=1):
    """Arrays of a small transformer: an embedding, queries, keys and values in one matrix, a readout."""
    return {
        "embed": drawn(None, (WORDS, width)),
        "mix": [drawn(None, (width, 3 * width)) for _ in range(layers)],
        "head": drawn(None, (width, WORDS)),
    }


ROLES = {"embed": "input", "mix.*": "hidden", "head": "output"}


def attends(write, heads):
    """Its forward pass, with a number of heads for each width."""

    def apply(params, tokens, width):
        x = params["embed"][tokens]
        for mix in params["mix"]:
            q, k, v = jnp.moveaxis((x @ mix).reshape(*x.shape[:2], 3, heads(width), -1), 2, 0)
            x = x + write(q, k, v).reshape(x.shape)
        return jnp.tanh(x) @ params["head"]

    return apply


def masked(q, k, v):
    logits = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
    n = q.shape[1]
    logits = jnp.where(jnp.tril(jnp.ones((n, n), bool)), logits, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(logits.astype(jnp.float32)), v)


def rooted(q, k, v):
    root = jnp.sqrt(jnp.sqrt(jnp.asarray(q.shape[-1], q.dtype)))
    logits = jnp.einsum("bqhd,bkhd->bhqk", q / root, k / root)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(logits), v)


def fused(q, k, v):
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def over_d(q, k, v):
    return jax.nn.dot_product_attention(q, k, v, scale=8 / q.shape[-1])


def by_vmap(q, k, v):
    def one(q, k, v):
        return jax.nn.softmax(q @ k.T * q.shape[-1] ** -0.5) @ v

    return jax.vmap(jax.vmap(one, 1, 1))(q, k, v)


def by_entries(q, k, v):
    logits = (q[:, :, None] * k[:, None]).sum(-1)
    weights = jnp.exp(logits - logits.max(2, keepdims=True))
    return jnp.einsum("bqkh,bkhd->bqhd", weights / weights.sum(2, keepdims=True), v)


def capped(q, k, v):
    logits = 20 * jnp.tanh(jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5 / 20)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(logits), v)


def cosine(q, k, v):
    q = q / jnp.linalg.norm(q, axis=-1, keepdims=True)
    k = k * jax.lax.rsqrt(jnp.sum(k**2, -1, keepdims=True) + 1e-6)
    return jnp.einsum(
        "bhqk,bkhd->bqhd", jax.nn.softmax(10 * jnp.einsum("bqhd,bkhd->bhqk", q, k)), v
    )


def in_pieces(q, k, v):
    """A softmax that runs over keys one by one, as memory-efficient attention does."""

    def step(carry, key):
        above, total, found = carry
        k, v = key
        logits = jnp.einsum("bqhd,bhd->bqh", q, k) / math.sqrt(q.shape[-1])
        new = jnp.maximum(above, logits)
        old, one = jnp.exp(above - new), jnp.exp(logits - new)
        return (new, total * old + one, found * old[..., None] + one[..., None] * v[:, None]), None

    start = jnp.full(q.shape[:3], -jnp.inf), jnp.zeros(q.shape[:3]), jnp.zeros(q.shape)
    (_, total, found), _ = jax.lax.scan(step, start, (jnp.moveaxis(k, 1, 0), jnp.moveaxis(v, 1, 0)))
    return found / total[..., None]


def checkpointed(q, k, v):
    return jax.checkpoint(jax.jit(masked))(q, k, v)


@jax.custom_vjp
def own_rule(q, k, v):
    return masked(q, k, v)


own_rule.defvjp(lambda q, k, v: (own_rule(q, k, v), (q, k, v)), lambda kept, g: kept)


def chosen(q, k, v):
    return jax.lax.cond(q.sum() > 0, masked, partial(masked), q, k, v)


def linear(q, k, v):
    return jnp.einsum(
        "bhqk,bkhd->bqhd", jnp.einsum("bqhd,bkhd->bhqk", jax.nn.relu(q), jax.nn.relu(k)), v
    )


class PerExample(eqx.Module):
    """One sequence at a time, layers stacked on an axis and run by `scan`, as Equinox has it."""

    embed: eqx.nn.Embedding
    blocks: eqx.nn.MultiheadAttention
    norm: eqx.nn.RMSNorm
    head: eqx.nn.Linear

    def __init__(self, width, heads, depth=2):
        k = jax.random.split(jax.random.key(0), 3)
        self.embed = eqx.nn.Embedding(WORDS, width, key=k[0])
        layers = [eqx.nn.MultiheadAttention(heads, width, key=k[1]) for _ in range(depth)]
        self.blocks = jax.tree.map(lambda *w: jnp.stack(w) if eqx.is_array(w[0]) else w[0], *layers)
        self.norm = eqx.nn.RMSNorm(width)
        self.head = eqx.nn.Linear(width, WORDS, key=k[2])

    def __call__(self, tokens, *, key):
        del key
        dynamic, static = eqx.partition(self.blocks, eqx.is_array)

        def block(x, arrays):
            h = jax.vmap(self.norm)(x)
            return x + eqx.combine(arrays, static)(h, h, h), None

        x, _ = jax.lax.scan(block, jax.vmap(self.embed)(tokens), dynamic)
        return jax.vmap(self.head)(jax.vmap(self.norm)(x))


def scaled(powers, *, by=lambda width: 1.0):
    """A forward pass that multiplies the embedding, the hidden layer and the readout by powers of the width."""

    def apply(params, tokens, width):
        a, b, c = (width**p for p in powers)
        x = params["embed"][tokens] * a
        x = x + by(width) * jnp.tanh(b * (normed(x) @ params["mix"][0]))
        return normed(x) * c @ params["head"]

    return apply


def normed(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-6)


def plain(width):
    """Arrays for `scaled`."""
    return {
        "embed": drawn(None, (WORDS, width)),
        "mix": [drawn(None, (width, width))],
        "head": drawn(None, (width, WORDS)),
    }
