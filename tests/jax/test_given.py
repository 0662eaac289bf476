"""Golden and refusals: layers in place of modules of jax, and attention whose heads share keys or have slopes."""

import equinox as eqx
import flax.linen as linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import scalewise as sw
from scalewise.networks._nodes import Attend
from scalewise.plan import PlanError

RNG = np.random.default_rng(4)
POINTS = RNG.normal(size=(3, 5)).astype(np.float32)
STEPS = RNG.normal(size=(2, 4, 3)).astype(np.float32)


def odd(x):
    """Of every sample the channels by their size, which is no function of channels."""
    return jnp.sort(x, axis=-1)


class Inside(nnx.Module):
    def __call__(self, x):
        return odd(x)


class OfNnx(nnx.Module):
    def __init__(self, n: int, rngs: nnx.Rngs) -> None:
        self.a, self.b = nnx.Linear(5, n, rngs=rngs), nnx.Linear(n, 2, rngs=rngs)
        self.inside = Inside()

    def __call__(self, x):
        return self.b(self.inside(self.a(x)))


class OddEquinox(eqx.Module):
    def __call__(self, x):
        return odd(x)


class OfEquinox(eqx.Module):
    layers: list
    inside: OddEquinox

    def __init__(self, n: int, seed: int) -> None:
        a, b = jax.random.split(jax.random.key(seed))
        self.layers = [eqx.nn.Linear(5, n, key=a), eqx.nn.Linear(n, 2, key=b)]
        self.inside = OddEquinox()

    def __call__(self, x):
        return self.layers[1](self.inside(self.layers[0](x)))


class OddLinen(linen.Module):
    @linen.compact
    def __call__(self, x):
        return odd(x)


class OfLinen(linen.Module):
    width: int

    @linen.compact
    def __call__(self, x):
        x = OddLinen(name="inside")(linen.Dense(self.width)(x))
        return linen.Dense(2)(x)


def of_linen(width: int, seed: int = 0):
    return OfLinen(width).init(jax.random.key(seed), POINTS)


MODELS = {
    "nnx": (lambda width, seed=0: OfNnx(width, nnx.Rngs(seed)), {}),
    "equinox": (
        lambda width, seed=0: OfEquinox(width, seed),
        {"apply": lambda model, x: jax.vmap(model)(x)},
    ),
    "linen": (
        of_linen,
        {
            "apply": lambda params, x: OfLinen(params["params"]["Dense_0"]["bias"].shape[0]).apply(
                params, x
            ),
            "layout": "linen",
        },
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_module_is_what_was_given_for_it(name: str) -> None:
    build, how = MODELS[name]
    with pytest.raises(PlanError, match="sort"):
        sw.jax.network(build, POINTS, width=16, **how)
    net = sw.jax.network(build, POINTS, width=16, given={"inside": ["tanh", sw.Dense()]}, **how)
    assert any("`inside` is what was given for it" in note for note in net.notes)
    laws = list(zip(net.C_b, net.C_W, strict=True))
    by_hand = sw.Network(
        sw.Dense(C_b=laws[0][0], C_W=laws[0][1]), "tanh", sw.Dense(C_b=laws[1][0], C_W=laws[1][1]),
        sw.Dense(2, C_b=laws[2][0], C_W=laws[2][1]), input_shape=(5,), width=16,
    )  # fmt: skip
    found, want = (
        sw.predict(n, POINTS.astype(float), observables="kernel").kernel.values
        for n in (net, by_hand)
    )
    np.testing.assert_allclose(found, want, rtol=1e-9)


def test_what_is_given_must_fit() -> None:
    build, how = MODELS["nnx"]
    with pytest.raises(PlanError, match="Give layers that make the same"):
        sw.jax.network(build, POINTS, width=16, given={"inside": sw.Dense(5)}, **how)
    with pytest.raises(PlanError, match=r"calls no \['outside'\]"):
        sw.jax.network(build, POINTS, width=16, given={"outside": sw.Dense()}, **how)


def heads(width: int, seed: int = 0) -> dict:
    keys = jax.random.split(jax.random.key(seed), 5)
    shapes = {
        "i": (3, width),
        "q": (width, width),
        "k": (width, width // 2),
        "v": (width, width // 2),
    }
    shapes["o"] = width, 1
    return {
        name: jax.random.normal(key, shape) * 1.2 / shape[0] ** 0.5
        for key, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def entering(params, x):
    x = x @ params["i"]
    return (
        (x @ params[name]).reshape(*x.shape[:2], -1, 4) for name in ("q", "k", "v")
    )  # (sample, position, head, channel)


def by_einsum(params, x):
    q, k, v = entering(params, x)
    q = q.reshape(*q.shape[:2], k.shape[2], 2, 4)
    p = jax.nn.softmax(jnp.einsum("bskgd,btkd->bkgst", q, k) / 2, axis=-1)
    out = jnp.einsum("bkgst,btkd->bskgd", p, v).reshape(*x.shape[:2], -1)
    return (out @ params["o"]).mean(axis=1)


def by_library(params, x):
    q, k, v = entering(params, x)
    out = jax.nn.dot_product_attention(q, k, v).reshape(*x.shape[:2], -1)
    return (out @ params["o"]).mean(axis=1)


def with_slopes(params, x):
    q, k, v = entering(params, x)
    k, v = (jnp.repeat(a, 2, axis=2) for a in (k, v))
    apart = jnp.abs(jnp.arange(4)[:, None] - jnp.arange(4))
    slopes = 2.0 ** (-8 * jnp.arange(1, q.shape[2] + 1) / q.shape[2])
    logits = jnp.einsum("bshd,bthd->bhst", q, k) / 2 - slopes[:, None, None] * apart
    out = jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(logits, axis=-1), v)
    return (out.reshape(*x.shape[:2], -1) @ params["o"]).mean(axis=1)


@pytest.mark.parametrize("apply", [by_einsum, by_library, with_slopes])
def test_heads_that_share_keys_are_read(apply) -> None:
    """The reader has held the network against the model; what heads have is what it has by hand."""
    net = sw.jax.network(heads, STEPS, width=16, apply=apply)
    attention = sw.Attention(size=4, group=2, alibi=4 if apply is with_slopes else None)
    by_hand = sw.Network(
        sw.Dense(), attention, sw.GlobalAvgPool(), sw.Dense(1), input_shape=(4, 3), width=16
    ).program
    node, want = (next(n for n in p.nodes if isinstance(n, Attend)) for p in (net.program, by_hand))
    assert (node.size, node.group, len(node.bias)) == (4, 2, 4 * (apply is with_slopes))
    for one, other in zip(node.bias, want.bias, strict=True):
        np.testing.assert_allclose(one.array, other.array, atol=1e-6)
