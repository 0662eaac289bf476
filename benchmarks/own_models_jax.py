"""The models of jax of `own_models.py`: of NNX, of Equinox, and trees with a call; read and drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from scalewise.jax._describe import parameters
from scalewise.jax._drawn import drawn
from scalewise.jax._reading import _Called, _How, _read
from scalewise.jax._trees import dotted
from scalewise.plan._forward import given

HEAD = 8


class JaxCase(NamedTuple):
    """A model to read.

    Args:
        build: From a width and a seed to a model.
        inputs: What it is called with.
        at: Which position of the outputs is kept.
        vertex: Whether V is told in seconds.
        apply: How it is called; as it is for ``None``.
    """

    build: Callable[..., Any]
    inputs: Any
    at: int | None = None
    vertex: bool = False
    apply: Callable[..., Any] | None = None

    @property
    def how(self) -> dict[str, Any]:
        """What `sw.jax.network` is told, too."""
        return {"apply": self.apply}


def read(case: JaxCase, width: int) -> Any:
    """The model of a width as it was read."""
    return _called(case, width)[1]


def _called(case: JaxCase, width: int, seed: int = 0) -> tuple[_Called, Any]:
    made = drawn(case.build, {"width": width}, "plain", "seed")
    at = None if case.at is None else (case.at,)
    how = _How(case.apply, "plain", "seed", at, False, {})
    return _read(made.model, {"width": width}, given(case.inputs), how, made.laws)


def values(case: JaxCase, width: int, networks: int, seed: int) -> Iterator[dict[str, np.ndarray]]:
    """Parameters by name of one model after another."""
    for k in range(networks):
        model = case.build(width, seed=10_000 * seed + k)
        yield {p.name: np.asarray(p.value, dtype=float) for p in parameters(model, "plain")}


def tangents(case: JaxCase, one: Any, width: int, networks: int, seed: int) -> Iterator[np.ndarray]:
    """NTKs of one of the outputs, (sample, sample); what constants learn is left out."""
    how = _How(case.apply, "plain", "seed", None, False, {})
    constant = set(one.seen.read.constant)
    for k in range(networks):
        model = case.build(width, seed=10_000 * seed + k)
        called = _Called(model, {"width": width}, given(case.inputs), how, double=False)
        params, others = called.parts

        def outputs(params: Any, called: Any = called, others: Any = others) -> Any:
            called.parts = params, others
            z = called._run([called.leaves[k] for k in called.arrays], mark=False)[0]
            return (z if case.at is None else z[:, case.at])[:, 0]

        J = jax.tree_util.tree_leaves_with_path(jax.jacrev(outputs)(params))
        rows = [
            np.asarray(j, dtype=float).reshape(len(j), -1)
            for path, j in J
            if dotted(path) not in constant
        ]
        yield sum(row @ row.T for row in rows)


def _numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


class Images(nnx.Module):
    """A convolutional network with a residual branch."""

    def __init__(self, n: int, rngs: nnx.Rngs) -> None:
        self.first, self.second = (nnx.Conv(k, n, (3, 3), rngs=rngs) for k in (2, n))
        self.head = nnx.Linear(n, 3, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = self.first(x)
        x = nnx.avg_pool(x + self.second(jax.nn.relu(x)), (2, 2), (2, 2))
        return self.head(jax.nn.relu(x).mean((1, 2)))


class Words(nnx.Module):
    """A causal transformer of one block."""

    def __init__(self, n: int, rngs: nnx.Rngs) -> None:
        self.tokens = nnx.Embed(7, n, embedding_init=nnx.initializers.normal(1.0), rngs=rngs)
        self.norm, self.behind = nnx.LayerNorm(n, rngs=rngs), nnx.LayerNorm(n, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(n // HEAD, n, decode=False, rngs=rngs)
        self.up, self.down = nnx.Linear(n, 2 * n, rngs=rngs), nnx.Linear(2 * n, n, rngs=rngs)
        self.head = nnx.Linear(n, 7, rngs=rngs)

    def __call__(self, tokens: Any) -> Any:
        x = self.tokens(tokens)
        x = x + self.attention(self.norm(x), mask=nnx.make_causal_mask(tokens))
        return self.head(x + self.down(jax.nn.gelu(self.up(self.behind(x)))))


class Residual(eqx.Module):
    """A branch behind LayerNorm, one sample at a time."""

    first: eqx.nn.Linear
    norm: eqx.nn.LayerNorm
    up: eqx.nn.Linear
    down: eqx.nn.Linear
    head: eqx.nn.Linear

    def __init__(self, n: int, key: Any) -> None:
        keys = jax.random.split(key, 4)
        self.norm = eqx.nn.LayerNorm(n)
        self.first, self.head = eqx.nn.Linear(5, n, key=keys[0]), eqx.nn.Linear(n, 2, key=keys[1])
        self.up = eqx.nn.Linear(n, 2 * n, key=keys[2])
        self.down = eqx.nn.Linear(2 * n, n, key=keys[3])

    def __call__(self, x: Any) -> Any:
        x = self.first(x)
        return self.head(x + self.down(jax.nn.silu(self.up(self.norm(x)))))


def grouped(width: int, seed: int = 0) -> dict[str, Any]:
    keys = jax.random.split(jax.random.key(seed), 5)
    sizes = {
        "i": (3, width),
        "q": (width, width),
        "k": (width, width // 2),
        "v": (width, width // 2),
    }
    sizes["o"] = width, 1
    pairs = zip(keys, sizes.items(), strict=True)
    return {name: jax.random.normal(key, s) * 1.5 / s[0] ** 0.5 for key, (name, s) in pairs}


def attended(params: dict[str, Any], x: Any) -> Any:
    """Two heads for each key, with ALiBi's slopes, by the library's own function."""
    h = x @ params["i"]
    q, k, v = ((h @ params[name]).reshape(*x.shape[:2], -1, HEAD) for name in "qkv")
    apart = jnp.abs(jnp.arange(x.shape[1])[:, None] - jnp.arange(x.shape[1]))
    slopes = 2.0 ** (-8 * jnp.arange(1, q.shape[2] + 1) / q.shape[2])
    bias = -slopes[:, None, None] * apart
    out = jax.nn.dot_product_attention(q, k, v, bias=bias[None])
    return out.reshape(*x.shape[:2], -1).mean(axis=1) @ params["o"]


CASES = {
    "residual convolutions (NNX)": JaxCase(
        lambda width, seed=0: Images(width, nnx.Rngs(seed)), _numbers(2, 4, 4, 2)
    ),
    "decoder (NNX)": JaxCase(
        lambda width, seed=0: Words(width, nnx.Rngs(seed)), np.array([[3, 1, 4, 1], [2, 6, 1, 5]]), -1
    ),
    "residual branch (Equinox)": JaxCase(
        lambda width, seed=0: Residual(width, jax.random.key(seed)), _numbers(3, 5),
        vertex=True, apply=lambda model, x: jax.vmap(model)(x),
    ),
    "grouped queries, ALiBi (a tree of arrays)": JaxCase(grouped, _numbers(2, 4, 3), apply=attended),
}  # fmt: skip
